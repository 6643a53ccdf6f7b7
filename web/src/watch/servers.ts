// The servers of a film. pathways.ts decides which of them gets the next request; this file sends it there, measures what arrives, and ends requests
// that the rules give up: silent for too long, or so slow that the buffer would run empty although another server is faster.
//
// An engine sends every request through `addressOf` and `watch`, and so believes that one server has the film. Steering gets the server in use.

import { Pathways, POLICY, Recent, type Progress } from "./pathways";

/** How often to look at an open request. */
const LOOKED_AT_MS = 250;

/** What each server is asked for with the first segment, to find out which ones are there: one round trip. Segments measure how fast they are. */
const GREETING_BYTES = 4096;

/** How long a request may be silent if there is no other server to ask: a slow answer is better than none. */
export const PATIENCE_MS = 15_000;

/** A look that is this much later than due says nothing about the server: the browser or the machine was asleep. */
const LATE_MS = 2000;

/** How many requests in a row may be given up as too slow. After that, each gets at least the time of a silence, as in the player in Rust. */
const GIVEN_UP_MAX = 3;

/** How many refused files to remember; a film has a few. */
const REFUSED_MAX = 100;

/** Statuses that may end by themselves although they are of the 400s: Request Timeout, Too Early, Too Many Requests. */
const TEMPORARY = [408, 425, 429];

/** Query parameters by which players report to steering servers (HLS: draft-pantos-hls-rfc8216bis 7.2; DASH: ETSI TS 103 998 clause 6). */
const REPORTS = [
  ["_HLS_pathway", "_HLS_throughput", ""],
  ["_DASH_pathway", "_DASH_throughput", '"'],
] as const;

export interface Server {
  id: string;
  /** All servers have a film at the same path, so this is all that differs. */
  origin: string;
}

/** A part of the film's picture that is about to be requested. */
export interface Part {
  firstByte: number;
  bytes: number;
  seconds: number;
  /** Of the largest size. */
  bitsPerSecondMax: number;
}

/** The fields of a steering answer that are used here. */
export interface Clone {
  id: string;
  baseId: string;
  host: string | undefined;
}

/** What a request is for. */
export interface Purpose {
  /** The part of the picture, if it is for one. */
  part?: Part | undefined;
  /** Whether the film cannot be played without the answer. */
  isNeeded: boolean;
}

/** What an engine tells the servers, and what it learns from them. */
export interface Events {
  /** Seconds of the picture that are loaded ahead of the position. The video element knows only how much has both picture and sound. */
  ahead(): number;
  /** Whether any server answers; called when that changes. */
  connected(isConnected: boolean): void;
  /** All servers have refused the same file with a status of the 400s. */
  refused(status: number): void;
}

interface Ended {
  bytes: number;
  firstByteMs: number;
  tookMs: number;
}

export class Servers {
  private list: Server[] = [];
  private rules: Pathways | undefined;
  /** The latest part of the picture: probes ask other servers for its beginning. */
  private latest: { path: string; firstByte: number } | undefined;
  private hasGreeted = false;
  /** Those that have not answered since they failed. */
  private readonly failing = new Set<number>();
  private isConnected = true;
  /** Requests given up as too slow since the last one that ended. */
  private givenUp = 0;
  /** Files that were refused, and by which servers. */
  private readonly refused = new Map<string, Set<number>>();
  private readonly life = new AbortController();

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly events: Events,
  ) {}

  /** Ends all requests of this object, and ignores what others still report. */
  end(): void {
    this.life.abort();
  }

  /** Those that a manifest names, and the one to begin with. A manifest that is loaded again changes nothing. */
  name(servers: Server[], first?: string): void {
    const isNew = (server: Server, at: number) => servers.findIndex(({ id, origin }) => id === server.id || origin === server.origin) === at;
    if (this.rules !== undefined) return;
    this.list = servers.filter(isNew);
    if (this.list.length > 0) this.rules = new Pathways(this.list.map(({ id }) => id), first);
  }

  /** A steering server's answer. */
  steer(order: string[], clones: Clone[]): void {
    for (const { id, baseId, host } of clones) {
      const base = this.list.find((server) => server.id === baseId);
      if (base === undefined || host === undefined || this.list.some((server) => server.id === id)) continue;
      this.list.push({ id, origin: originAt(base.origin, host) });
      this.rules?.add(id);
    }
    this.rules?.onSteering(performance.now(), order);
  }

  /** The server in use, if several are known. */
  get origin(): string | undefined {
    return this.rules === undefined ? undefined : this.list[this.rules.current]?.origin;
  }

  /** Where to send a request for `url`. */
  addressOf(url: string, part?: Part): string {
    const { rules } = this;
    if (rules === undefined) return url;
    if (this.indexOf(url) < 0) return this.report(url);
    const to = this.list[part === undefined ? rules.current : rules.choose(performance.now(), this.need(part))];
    const address = to === undefined ? url : to.origin + pathOf(url);
    if (part !== undefined) {
      this.latest = { path: fileOf(url), firstByte: part.firstByte };
      this.greet(this.indexOf(address));
    }
    return address;
  }

  /** Watches a request to `url` that is about to be sent, or has just been sent. */
  watch(request: XMLHttpRequest, url: string, { part, isNeeded }: Purpose, isSent = false): void {
    let began = performance.now();
    const pathway = this.indexOf(url);
    const recent = new Recent();
    let [heardAt, lookedAt, firstByteMs, bytes, total, timer, isOver] = [began, began, 0, 0, 0, 0, false];
    const look = (): void => {
      const now = performance.now();
      if (now - lookedAt > LOOKED_AT_MS + LATE_MS) heardAt = now;
      lookedAt = now;
      const isSilent = now - heardAt >= this.silenceMs(pathway);
      if (isSilent) this.fail(pathway, true);
      isOver = isSilent || (part !== undefined && this.isTooSlow(pathway, now - began, bytes, total, recent, part));
      if (!isOver) return this.probe();
      clearInterval(timer);
      // This time-out is already over (XMLHttpRequest, section 3.6.3), so the request ends now with a time-out event.
      request.timeout = Math.max(1, Math.floor(now - began));
    };
    const begin = (): void => {
      began = heardAt = lookedAt = performance.now();
      timer = window.setInterval(look, LOOKED_AT_MS);
    };
    if (isSent) begin();
    // Engines may drop a request before they send it.
    else request.addEventListener("loadstart", begin);
    request.addEventListener("progress", (event) => {
      heardAt = performance.now();
      bytes = event.loaded;
      if (event.lengthComputable) total = event.total;
    });
    // Engines send their next request when this event has the last state, so the result must be known before "load".
    request.addEventListener("readystatechange", () => {
      heardAt = performance.now();
      if (request.readyState === request.HEADERS_RECEIVED) firstByteMs = heardAt - began;
      if (request.readyState !== request.DONE || request.status === 0 || isOver) return;
      isOver = true;
      if (request.status >= 400) return this.refuse(pathway, url, isNeeded, request);
      if (pathway >= 0) this.refused.delete(fileOf(url));
      const all = request.response instanceof ArrayBuffer ? request.response.byteLength : bytes;
      this.finish(pathway, { bytes: all, firstByteMs, tookMs: heardAt - began }, part !== undefined);
    });
    for (const name of ["error", "timeout"]) {
      request.addEventListener(name, () => {
        if (!isOver) this.fail(pathway, name === "timeout");
        isOver = true;
      });
    }
    request.addEventListener("loadend", () => clearInterval(timer));
  }

  private indexOf(url: string): number {
    return this.list.findIndex(({ origin }) => url.startsWith(`${origin}/`));
  }

  private isAnyWell(): boolean {
    const now = performance.now();
    const isWell = (index: number) => !this.failing.has(index) || this.rules?.isPenalised(now, index) === false;
    return [...this.list.keys()].some(isWell);
  }

  /** How long a request may be silent: not long if another server may have the bytes. */
  private silenceMs(pathway: number): number {
    const now = performance.now();
    const isOpen = (index: number) => index !== pathway && this.rules?.isPenalised(now, index) === false;
    return pathway >= 0 && [...this.list.keys()].some(isOpen) ? POLICY.silenceMs : PATIENCE_MS;
  }

  /** How long what is loaded of the picture lasts. */
  private bufferedMs(): number {
    return (this.events.ahead() * 1000) / Math.max(this.video.playbackRate, 0.1);
  }

  private need({ bytes, seconds, bitsPerSecondMax }: Part) {
    return { bufferedMs: this.bufferedMs(), bits: bytes * 8, segmentMs: seconds * 1000, bitsPerSecondMax };
  }

  private isTooSlow(pathway: number, elapsedMs: number, receivedBytes: number, total: number, recent: Recent, part: Part): boolean {
    const bitsPerSecond = recent.look(elapsedMs, receivedBytes);
    if (this.givenUp >= GIVEN_UP_MAX && elapsedMs < POLICY.silenceMs) return false;
    const guess = Math.max(part.bytes, receivedBytes * 1.25);
    const progress: Progress = {
      receivedBytes,
      expectedBytes: Math.max(total > 0 ? total : guess, receivedBytes),
      elapsedMs,
      bitsPerSecond,
      bufferedMs: this.bufferedMs(),
      segmentMs: part.seconds * 1000,
    };
    const isTooSlow = this.rules?.onProgress(performance.now(), pathway, progress) ?? false;
    if (isTooSlow) this.givenUp += 1;
    return isTooSlow;
  }

  private finish(pathway: number, { bytes, firstByteMs, tookMs }: Ended, isPicture: boolean): void {
    if (pathway < 0 || this.life.signal.aborted) return;
    this.failing.delete(pathway);
    this.connected(true);
    if (isPicture) {
      this.givenUp = 0;
      this.rules?.onMedia(performance.now(), pathway, bytes, firstByteMs, tookMs);
    }
    this.probe();
  }

  private fail(pathway: number, isSilence: boolean, request?: XMLHttpRequest): void {
    if (pathway < 0 || this.life.signal.aborted) return;
    this.failing.add(pathway);
    // Pages see this field only if the server allows it.
    const seconds = Number(request?.getResponseHeader("Retry-After") ?? Number.NaN);
    this.rules?.onFailure(performance.now(), pathway, { isSilence, ...(seconds > 0 && { retryAfterMs: Math.min(seconds, 300) * 1000 }) });
    if (!this.isAnyWell()) this.connected(false);
  }

  /** A status of 400 or more. A server without some captions still has the film, and a film that no server has fails at once. */
  private refuse(pathway: number, url: string, isNeeded: boolean, request: XMLHttpRequest): void {
    const { status } = request;
    const isFinal = status < 500 && !TEMPORARY.includes(status);
    if (isFinal && !isNeeded) return;
    this.fail(pathway, false, request);
    if (!isFinal || pathway < 0 || this.life.signal.aborted) return;
    const path = fileOf(url);
    const by = (this.refused.get(path) ?? new Set()).add(pathway);
    if (this.refused.size >= REFUSED_MAX) this.refused.clear();
    this.refused.set(path, by);
    if (by.size === this.list.length) this.events.refused(status);
  }

  private connected(isConnected: boolean): void {
    if (isConnected === this.isConnected) return;
    this.isConnected = isConnected;
    this.events.connected(isConnected);
  }

  /** With the first segment, asks the other servers for a few bytes, all at once. One that is not there is avoided from the beginning. */
  private greet(present: number): void {
    if (this.hasGreeted) return;
    this.hasGreeted = true;
    for (const index of this.list.keys()) {
      if (index !== present) void this.ask(index, GREETING_BYTES).catch(() => {});
    }
  }

  private probe(): void {
    const { paused, seeking, readyState, HAVE_FUTURE_DATA } = this.video;
    // A viewer who waits needs the whole network.
    if (this.latest === undefined || paused || seeking || readyState < HAVE_FUTURE_DATA || this.life.signal.aborted) return;
    const probe = this.rules?.probe(performance.now(), (index) => index < this.list.length);
    if (probe === undefined) return;
    const answer = ({ bytes, firstByteMs, tookMs }: Ended) => this.rules?.onProbe(performance.now(), probe.pathway, bytes, firstByteMs, tookMs);
    void this.ask(probe.pathway, probe.bytes).then(answer, () => {});
  }

  /** Asks a server for the first bytes of the latest part. If it does not answer, it has failed. */
  private async ask(index: number, bytes: number): Promise<Ended> {
    const began = performance.now();
    const { path, firstByte } = this.latest ?? { path: "", firstByte: 0 };
    const control = new AbortController();
    this.life.signal.addEventListener("abort", () => control.abort(), { signal: control.signal });
    const silence = () => setTimeout(() => control.abort(), POLICY.silenceMs);
    let [timer, received, firstByteMs] = [silence(), 0, 0];
    try {
      const headers = { Range: `bytes=${firstByte}-${firstByte + bytes - 1}` };
      // Bytes from the browser's cache would measure nothing.
      const { body, status } = await fetch((this.list[index]?.origin ?? "") + path, { headers, cache: "no-store", signal: control.signal });
      firstByteMs = performance.now() - began;
      if (status !== 206 || body === null) throw new Error(`status ${status}`);
      for (const reader = body.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) this.failing.delete(index);
        if (done) return { bytes: received, firstByteMs, tookMs: performance.now() - began };
        received += value.length;
        clearTimeout(timer);
        timer = silence();
      }
    } catch (error) {
      this.fail(index, error instanceof DOMException && error.name === "AbortError");
      throw error;
    } finally {
      clearTimeout(timer);
      control.abort();
    }
  }

  /** A request to the steering server, with the server that is in use in place of the engine's. */
  private report(url: string): string {
    const { rules } = this;
    const { searchParams, href } = new URL(url);
    const report = REPORTS.find(([pathway]) => searchParams.has(pathway));
    const id = rules === undefined ? undefined : this.list[rules.current]?.id;
    if (rules === undefined || report === undefined || id === undefined) return url;
    const [pathway, throughput, quote] = report;
    const reported = new URL(href);
    reported.searchParams.set(pathway, quote + id + quote);
    const bitsPerSecond = rules.bitsPerSecond(rules.current);
    if (bitsPerSecond !== undefined) reported.searchParams.set(throughput, String(Math.round(bitsPerSecond)));
    return reported.href;
  }
}

const pathOf = (url: string): string => url.slice(new URL(url).origin.length);

/** The path without the query, which may have CMCD. */
const fileOf = (url: string): string => pathOf(url).replace(/\?.*/, "");

/** HLS names a host without a port, DASH one with its port if it is not the default one; some write a whole origin. */
function originAt(base: string, host: string): string {
  if (host.includes("://")) return new URL(host).origin;
  const url = new URL(base);
  if (/:\d+$/.test(host)) url.host = host;
  else url.hostname = host;
  return url.origin;
}
