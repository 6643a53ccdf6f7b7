// The servers of a film. pathways.ts decides which of them gets the next request; this file sends it there, measures what arrives, and ends requests
// that the rules give up: silent for four seconds, or so slow that the buffer would run empty although another server is faster.
//
// An engine sends every request through `addressOf` and `watch`, and so believes that one server has the film. Steering gets the server in use.

import { Pathways, POLICY, Recent, type Progress } from "./pathways";

/** How often to look at an open request. */
const LOOKED_AT_MS = 250;

/** What each server is asked for with the first segment, to find out which ones are there: one round trip. Segments measure how fast they are. */
const GREETING_BYTES = 4096;

/** The pause before a request while all servers are failing. */
const PAUSE_MS = 1000;

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

  /** `connected` says whether any server answers. */
  constructor(
    private readonly video: HTMLVideoElement,
    private readonly connected: (isConnected: boolean) => void,
  ) {}

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

  /** Resolves when another request makes sense: at once, unless all servers are failing. */
  async turn(url: string): Promise<void> {
    if (this.indexOf(url) >= 0 && !this.isAnyWell()) await new Promise((done) => setTimeout(done, PAUSE_MS));
  }

  /** Where to send a request for `url`. */
  addressOf(url: string, part?: Part): string {
    const { rules } = this;
    if (rules === undefined) return url;
    if (this.indexOf(url) < 0) return this.report(url);
    const to = this.list[part === undefined ? rules.current : rules.choose(performance.now(), this.need(part))];
    const address = to === undefined ? url : to.origin + pathOf(url);
    if (part !== undefined) {
      this.latest = { path: pathOf(url).replace(/\?.*/, ""), firstByte: part.firstByte };
      this.greet(this.indexOf(address));
    }
    return address;
  }

  /** Watches a request that is about to be sent, or has just been sent, to `url`. */
  watch(request: XMLHttpRequest, url: string, part?: Part): void {
    const began = performance.now();
    const pathway = this.indexOf(url);
    const recent = new Recent();
    let [heardAt, firstByteMs, bytes, isOver] = [began, 0, 0, false];
    const end = (): void => {
      clearInterval(timer);
      // This time-out is already over (XMLHttpRequest, section 3.6.3), so the request ends now with a time-out event.
      request.timeout = Math.max(1, Math.floor(performance.now() - began));
    };
    const timer = setInterval(() => {
      const now = performance.now();
      if (now - heardAt >= POLICY.silenceMs) {
        this.fail(pathway, true);
        isOver = true;
        return end();
      }
      if (part !== undefined && this.isTooSlow(pathway, now - began, bytes, recent, part)) {
        isOver = true;
        return end();
      }
      this.probe();
    }, LOOKED_AT_MS);
    request.addEventListener("progress", (event) => {
      heardAt = performance.now();
      bytes = event.loaded;
    });
    // Engines send their next request when this event has the last state, so the result must be known before "load".
    request.addEventListener("readystatechange", () => {
      heardAt = performance.now();
      if (request.readyState === request.HEADERS_RECEIVED) firstByteMs = heardAt - began;
      if (request.readyState !== request.DONE || request.status === 0 || isOver) return;
      isOver = true;
      if (request.status >= 400) return this.fail(pathway, false, request);
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

  /** How long what is loaded lasts. */
  private bufferedMs(): number {
    const { buffered, currentTime, playbackRate } = this.video;
    for (let index = 0; index < buffered.length; index += 1) {
      // Engines jump over gaps of this length.
      const isHere = buffered.start(index) <= currentTime + 0.5 && currentTime <= buffered.end(index);
      if (isHere) return ((buffered.end(index) - currentTime) * 1000) / Math.max(playbackRate, 0.1);
    }
    return 0;
  }

  private need({ bytes, seconds, bitsPerSecondMax }: Part) {
    return { bufferedMs: this.bufferedMs(), bits: bytes * 8, segmentMs: seconds * 1000, bitsPerSecondMax };
  }

  private isTooSlow(pathway: number, elapsedMs: number, receivedBytes: number, recent: Recent, part: Part): boolean {
    const progress: Progress = {
      receivedBytes,
      expectedBytes: Math.max(part.bytes, receivedBytes),
      elapsedMs,
      bitsPerSecond: recent.look(elapsedMs, receivedBytes),
      bufferedMs: this.bufferedMs(),
      segmentMs: part.seconds * 1000,
    };
    return this.rules?.onProgress(performance.now(), pathway, progress) ?? false;
  }

  private finish(pathway: number, { bytes, firstByteMs, tookMs }: Ended, isPicture: boolean): void {
    if (pathway < 0) return;
    this.failing.delete(pathway);
    this.connected(true);
    if (isPicture) this.rules?.onMedia(performance.now(), pathway, bytes, firstByteMs, tookMs);
    this.probe();
  }

  private fail(pathway: number, isSilence: boolean, request?: XMLHttpRequest): void {
    if (pathway < 0) return;
    this.failing.add(pathway);
    // Pages see this field only if the server allows it.
    const seconds = Number(request?.getResponseHeader("Retry-After") ?? Number.NaN);
    this.rules?.onFailure(performance.now(), pathway, { isSilence, ...(seconds > 0 && { retryAfterMs: Math.min(seconds, 300) * 1000 }) });
    if (!this.isAnyWell()) this.connected(false);
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
    if (this.latest === undefined || this.video.paused) return;
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
      control.abort();
      this.fail(index, error instanceof DOMException && error.name === "AbortError");
      throw error;
    } finally {
      clearTimeout(timer);
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

/** HLS names a host without a port, DASH one with its port if it is not the default one; some write a whole origin. */
function originAt(base: string, host: string): string {
  if (host.includes("://")) return new URL(host).origin;
  const url = new URL(base);
  if (/:\d+$/.test(host)) url.host = host;
  else url.hostname = host;
  return url.origin;
}
