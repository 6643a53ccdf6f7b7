// What happens to the viewer, posted to the server when it happens: CMCD version 2 (CTA-5004-B), event mode. The engines report the rest with their
// requests. docs/qoe.md has the meaning of the states.

type State = "d" | "s" | "p" | "k" | "r" | "a" | "e" | "f" | "q";

/** How often to say that nothing has changed: the standard's default. */
const STILL_MS = 30_000;

/** The most events to keep for a server that does not take them now. */
const KEPT_MAX = 20;

export class Reports {
  private sessionId = "";
  private state: State | null = null;
  private hasPlayed = false;
  /** When the viewer, or autoplay, asked for playback. */
  private requestedAt: number | null = null;
  private number = 0;
  private kept: string[] = [];
  private posts = 0;
  private isPosting = false;
  /** The server has said that it takes no events. */
  private isRefused = false;

  /** `place` is where to post, if that is known and the session's requests report, too. */
  constructor(
    video: HTMLVideoElement,
    private readonly place: () => string | undefined,
  ) {
    const on = (name: string, does: () => void) => video.addEventListener(name, does);
    on("play", () => this.onPlay());
    on("playing", () => this.onPlaying());
    // Before the start, and after a jump, waiting is not a stall.
    on("waiting", () => (this.state === "p" || this.state === "a") && this.enter("r"));
    on("seeking", () => this.hasPlayed && this.enter("k"));
    on("seeked", () => this.state === "k" && video.paused && this.enter("a"));
    // A film that is loaded again pauses without its viewer.
    on("pause", () => this.hasPlayed && !video.ended && video.readyState > video.HAVE_NOTHING && this.enter("a"));
    on("ended", () => this.enter("e"));
    addEventListener("pagehide", () => (this.leave(), void this.flush(true)));
    window.setInterval(() => (this.isOpen() ? this.post("t") : void this.flush()), STILL_MS);
  }

  /** The film is loaded, perhaps again in the same session. */
  begin(sessionId: string): void {
    if (sessionId === this.sessionId) return this.enter(this.hasPlayed ? "k" : "d");
    [this.sessionId, this.state, this.hasPlayed, this.requestedAt, this.number] = [sessionId, null, false, null, 0];
    this.enter("d");
  }

  /** Playback has failed. */
  fail(code: string): void {
    this.enter("f");
    this.post("e", [`ec=("${code}")`]);
  }

  /** The viewer leaves the film. */
  leave(): void {
    if (this.isOpen()) this.enter("q");
  }

  private isOpen(): boolean {
    return this.state !== null && !["e", "f", "q"].includes(this.state);
  }

  private onPlay(): void {
    if (this.hasPlayed) return;
    this.requestedAt ??= performance.now();
    this.enter("s");
  }

  private onPlaying(): void {
    const delay = this.hasPlayed || this.requestedAt === null ? [] : [`msd=${Math.round(performance.now() - this.requestedAt)}`];
    this.hasPlayed = true;
    this.enter("p", delay);
  }

  private enter(state: State, more: string[] = []): void {
    if (state === this.state) return;
    this.state = state;
    this.post("ps", more);
  }

  private post(event: "ps" | "e" | "t", more: string[] = []): void {
    const own = [`sid="${this.sessionId}"`, `sn=${this.number}`, `sta=${this.state}`, `ts=${Date.now()}`, "v=2"];
    this.number += 1;
    this.kept.push([`e=${event}`, ...more, ...own].join(","));
    this.kept.splice(0, this.kept.length - KEPT_MAX);
    void this.flush();
  }

  /** One post at a time, so that events arrive in order; only a page that closes does not wait. */
  private async flush(isLast = false): Promise<void> {
    const place = this.place();
    if (place === undefined || this.isRefused || this.kept.length === 0 || (this.isPosting && !isLast)) return;
    const lines = this.kept.splice(0);
    const own = (this.posts += 1);
    this.isPosting = true;
    // The browser sends it even if the page is closed meanwhile.
    const post = { method: "POST", body: lines.join("\n"), keepalive: true, headers: { "Content-Type": "application/cmcd" } };
    const status = await fetch(place, post).then((answer) => answer.status, () => 0);
    const isLater = status === 0 || status === 408 || status === 429 || status >= 500;
    // After newer ones, the server would leave them out.
    if (own !== this.posts) return;
    this.isPosting = false;
    if (isLater) return void this.kept.unshift(...lines);
    this.isRefused = status >= 400;
    void this.flush();
  }
}
