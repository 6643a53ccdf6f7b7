// Chooses the server of the next segment: the rules of `crates/measure/player/src/pathways`, line by line, so that this page and the players of our
// measurements decide alike. web/tests/decisions.test.mjs and crates/measure/player/tests/decisions.rs run both on the same 1,000 drawn sessions.
// Read the Rust module first: it says why. A pathway is one of the servers that have the film.
//
// Nothing here reads a clock, sends a request or knows a page. Times are milliseconds of any clock that does not go back.

/** The limits of a decision: `PathwayPolicy` in Rust, with its defaults. */
export const POLICY = {
  silenceMs: 4000,
  probeShare: 0.01,
  probeIntervalMs: 10_000,
  betterBy: 1.2,
  betterProbes: 3,
  penaltyMs: 60_000,
  penaltyMsMax: 300_000,
};

const PLENTY = 2;
const MUCH_BETTER_BY = 2;
const BETTER_PROBES_MAX = 64;
const EXPLORED_LESS = 16;
const EXPLORED_MAX = 2;
const MOVES_MAX = 64;
const KNOWN_FOR_MS = 300_000;
const FRESH_FOR_MS = 30_000;
const CRAWL = 3;
const SOON_S = 2;
const PROBE_WORTH_S = 0.25;
const PROBE_BYTES_MIN = 16 * 1024;
const PROBE_BYTES_MAX = 1024 * 1024;
const PROBE_BYTES_URGENT = 64 * 1024;
const KEPT_FOR_URGENT = 0.5;
const PROBE_OPEN_MS_MAX = 60_000;
const HALF_LIVES_S = [3, 9] as const;
const TOOK_MS_MIN = 50;
const BEFORE_FIRST_BITS_PER_SECOND = 500_000;
const RECENT_WINDOW_MS = 2000;
const RECENT_AFTER_MS = 1000;
const LOOKS_MAX = 9;
const LOOKS_APART_MS = 250;

export type Reason = "first_failure" | "silence" | "too_slow" | "better" | "steered" | "removed";

export interface Move {
  from: number;
  to: number;
  reason: Reason;
}

/** The next segment, and how much is buffered ahead of the playhead. */
export interface Need {
  bufferedMs: number;
  bits: number;
  segmentMs: number;
  /** Of the highest rung. */
  bitsPerSecondMax: number;
}

/** A request for media that is under way. */
export interface Progress {
  receivedBytes: number;
  expectedBytes: number;
  elapsedMs: number;
  /** As `Recent` has it. */
  bitsPerSecond: number | undefined;
  bufferedMs: number;
  segmentMs: number;
}

export interface Probe {
  pathway: number;
  bytes: number;
}

export interface Failure {
  isSilence: boolean;
  retryAfterMs?: number;
}

const rate = (bytes: number, tookMs: number): number => (bytes * 8) / (Math.max(tookMs, TOOK_MS_MIN) / 1000);

/** The item with the smallest key, the first one of equals. */
function least(items: number[], key: (item: number) => number): number | undefined {
  return items.length === 0 ? undefined : items.reduce((best, next) => (key(next) < key(best) ? next : best));
}

const fastest = (items: number[], rateOf: (item: number) => number): number | undefined => least(items, (item) => -rateOf(item));

class Average {
  private sum = 0;
  private past = 1;

  constructor(private readonly halfLifeS: number) {}

  add(seconds: number, value: number): void {
    const kept = 2 ** (-seconds / this.halfLifeS);
    this.sum = this.sum * kept + value * (1 - kept);
    this.past *= kept;
  }

  value(): number | undefined {
    return this.past < 1 ? this.sum / (1 - this.past) : undefined;
  }
}

class Estimate {
  private readonly averages = HALF_LIVES_S.map((halfLife) => new Average(halfLife));

  add(bytes: number, tookMs: number): void {
    const seconds = Math.max(tookMs, TOOK_MS_MIN) / 1000;
    for (const average of this.averages) average.add(seconds, (bytes * 8) / seconds);
  }

  bitsPerSecond(): number | undefined {
    const [fast, slow] = this.averages.map((average) => average.value());
    return fast === undefined || slow === undefined ? undefined : Math.min(fast, slow);
  }
}

/** The recent rate of a request: its average, or that of the last two seconds if it is lower. */
export class Recent {
  private looks: { atMs: number; bytes: number }[] = [];

  /** Adds a look at a request. Returns its bits per second, once there is enough data. */
  look(elapsedMs: number, receivedBytes: number): number | undefined {
    while (this.looks.length > 1 && elapsedMs - (this.looks[1]?.atMs ?? 0) >= RECENT_WINDOW_MS) this.looks.shift();
    const { atMs, bytes } = this.looks[0] ?? { atMs: 0, bytes: 0 };
    const tookMs = Math.max(0, elapsedMs - atMs);
    const lately = rate(Math.max(0, receivedBytes - bytes), tookMs);
    const average = rate(receivedBytes, elapsedMs);
    const hasWindow = this.looks.length > 0 && tookMs >= RECENT_WINDOW_MS && lately > 0;
    const isApart = elapsedMs - (this.looks.at(-1)?.atMs ?? 0) >= LOOKS_APART_MS;
    if (isApart && this.looks.length < LOOKS_MAX) this.looks.push({ atMs: elapsedMs, bytes: receivedBytes });
    if (elapsedMs < RECENT_AFTER_MS || receivedBytes === 0) return undefined;
    return hasWindow ? Math.min(lately, average) : average;
  }
}

/** When the next segment, or the rest of the present one, will have arrived. */
class Arrival {
  constructor(
    readonly inS: number,
    private readonly tookS: number,
    readonly bits: number,
    readonly bufferedS: number,
    private readonly segmentS: number,
  ) {}

  static ofNext({ bits, bufferedMs, segmentMs }: Need, bitsPerSecond: number): Arrival {
    const inS = bits / Math.max(bitsPerSecond, 1);
    return new Arrival(inS, inS, bits, bufferedMs / 1000, segmentMs / 1000);
  }

  static ofRest({ expectedBytes, receivedBytes, elapsedMs, bufferedMs, segmentMs }: Progress, bitsPerSecond: number): Arrival {
    const left = Math.max(0, expectedBytes - receivedBytes);
    const inS = left === 0 ? 0 : (left * 8) / bitsPerSecond;
    return new Arrival(inS, elapsedMs / 1000 + inS, expectedBytes * 8, bufferedMs / 1000, segmentMs / 1000);
  }

  isLate(): boolean {
    return this.inS > this.bufferedS && (this.inS > SOON_S || this.shrinks());
  }

  private shrinks(): boolean {
    return this.tookS > this.segmentS;
  }

  drains(spareS: number): boolean {
    return this.tookS > this.segmentS * CRAWL || (this.shrinks() && this.inS + spareS > this.bufferedS);
  }
}

class Candidate {
  /** Its position in steering's order; infinite if steering does not name it. */
  rank = Infinity;
  isTested = false;
  betterProbes = 0;
  measuredAt = -Infinity;
  private media = new Estimate();
  private latest = 0;
  private probed: number | undefined;
  private penalty: { until: number; reason: Reason } | undefined;
  private strikes = 0;

  constructor(readonly id: string) {}

  lastRate(): number | undefined {
    return this.probed ?? this.media.bitsPerSecond();
  }

  rate(now: number): number | undefined {
    return this.wasMeasuredWithin(KNOWN_FOR_MS, now) ? this.lastRate() : undefined;
  }

  wasMeasuredWithin(ms: number, now: number): boolean {
    return now - this.measuredAt <= ms;
  }

  rateToBeat(): number | undefined {
    const media = this.media.bitsPerSecond();
    return media === undefined ? undefined : Math.max(media, this.latest);
  }

  onMedia(now: number, bytes: number, firstByteMs: number, tookMs: number): void {
    this.media.add(bytes, tookMs);
    this.latest = rate(bytes, Math.max(0, tookMs - firstByteMs));
    this.probed = undefined;
    this.measuredAt = now;
  }

  onGivenUp(now: number, bitsPerSecond: number, elapsedMs: number): void {
    this.media = new Estimate();
    this.onMedia(now, Math.floor((bitsPerSecond / 8) * (elapsedMs / 1000)), 0, elapsedMs);
  }

  onProbe(now: number, bitsPerSecond: number): void {
    this.probed = ((this.probed ?? bitsPerSecond) + bitsPerSecond) / 2;
    this.measuredAt = now;
  }

  isPenalised(now: number): boolean {
    return now < this.penalisedUntil();
  }

  /** Penalised for being slow, not for failing. */
  isSlow(now: number): boolean {
    return this.isPenalised(now) && this.reason() === "too_slow";
  }

  penalisedUntil(): number {
    return this.penalty?.until ?? 0;
  }

  reason(): Reason {
    return this.penalty?.reason ?? "first_failure";
  }

  penalise(now: number, reason: Reason, leastMs: number): void {
    if (!this.isPenalised(now)) this.strikes += 1;
    const doubled = POLICY.penaltyMs * 2 ** (Math.min(16, Math.max(1, this.strikes)) - 1);
    const length = Math.max(leastMs, Math.min(doubled, POLICY.penaltyMsMax));
    this.penalty = { until: Math.max(now + length, this.penalisedUntil()), reason };
    this.isTested = true;
    this.betterProbes = 0;
  }

  pardon(now: number): void {
    if (this.penalty) this.penalty.until = Math.min(now, this.penalty.until);
  }

  forgive(now: number): void {
    this.pardon(now);
    if (now - this.penalisedUntil() <= POLICY.penaltyMsMax) return;
    this.penalty = undefined;
    this.strikes = 0;
  }
}

/** The budget for probes. */
class Probing {
  isUrgent = false;
  private mediaBytes = 0;
  private probeBytes = 0;
  private open: { probe: Probe; at: number } | undefined;
  private last = -Infinity;

  size(bitsPerSecond: number): number {
    const most = this.isUrgent ? PROBE_BYTES_URGENT : PROBE_BYTES_MAX;
    return Math.min(most, Math.max(PROBE_BYTES_MIN, Math.floor((bitsPerSecond * PROBE_WORTH_S) / 8)));
  }

  allows(now: number, bytes: number): boolean {
    const isEarly = now - this.last < POLICY.probeIntervalMs;
    const allowed = this.mediaBytes * POLICY.probeShare * (1 - (this.isUrgent ? 0 : KEPT_FOR_URGENT));
    return !this.isOpen(now, PROBE_OPEN_MS_MAX) && (this.isUrgent || !isEarly) && this.probeBytes + bytes <= allowed;
  }

  isOpen(now: number, msMax: number): boolean {
    return this.open !== undefined && now - this.open.at < msMax;
  }

  begin(now: number, probe: Probe): void {
    this.probeBytes += probe.bytes;
    this.open = { probe, at: now };
    this.last = now;
    this.isUrgent = false;
  }

  onMedia(bytes: number): void {
    this.mediaBytes += bytes;
  }

  onProbe(pathway: number, bytes: number): void {
    if (this.open?.probe.pathway === pathway) {
      this.probeBytes = Math.max(0, this.probeBytes - this.open.probe.bytes);
      this.open = undefined;
    }
    this.probeBytes += bytes;
  }

  onFailure(pathway: number): void {
    if (this.open?.probe.pathway === pathway) this.open = undefined;
  }
}

/** The pathways of one session. There is always a current one. */
export class Pathways {
  current: number;
  private readonly candidates: Candidate[];
  private isSteered = false;
  private isComparing = false;
  private betterProbesMin = POLICY.betterProbes;
  private explored = 0;
  private readonly probing = new Probing();
  private moves: Move[] = [];

  /** The pathways of a manifest, of which `first` is the current one, or else the first of the list. */
  constructor(ids: string[], first?: string) {
    this.candidates = (ids.length > 0 ? ids : ["."]).map((id) => new Candidate(id));
    this.current = Math.max(0, ids.indexOf(first ?? ""));
    this.at(this.current).isTested = true;
  }

  /** Adds a pathway, which is a clone. Call this before passing on the order that names it. */
  add(id: string): void {
    if (this.candidates.every((candidate) => candidate.id !== id)) this.candidates.push(new Candidate(id));
  }

  isPenalised(now: number, pathway: number): boolean {
    return this.candidates[pathway]?.isPenalised(now) ?? false;
  }

  /** Bits per second when it was last measured. */
  bitsPerSecond(pathway: number): number | undefined {
    return this.candidates[pathway]?.lastRate();
  }

  /** The next move to report. */
  pollMove(): Move | undefined {
    return this.moves.shift();
  }

  /** The pathway of the next segment: the current one, or one that is yet to be tested. */
  choose(now: number, need: Need): number {
    if (!this.isUsable(this.current, now)) this.flee(now, this.at(this.current).reason());
    const preferable = this.preferable(now, need);
    if (preferable) this.go(preferable.to, preferable.reason);
    this.leaveIfTooSlow(now, need);
    return this.test(now, need) ?? this.current;
  }

  /** Another pathway to ask for a few bytes now, if any. `can` says which ones can be asked. */
  probe(now: number, can: (pathway: number) => boolean): Probe | undefined {
    const present = this.at(this.current).rate(now);
    if (present === undefined) return undefined;
    const bytes = this.probing.size(present);
    if (!this.probing.allows(now, bytes)) return undefined;
    const pathway = least(this.others(now, this.current).filter(can), (index) => this.at(index).measuredAt);
    if (pathway === undefined) return undefined;
    const probe = { pathway, bytes };
    this.probing.begin(now, probe);
    return probe;
  }

  /** Call this a few times a second for each open request for media. If it returns true, end the request and choose again. */
  onProgress(now: number, pathway: number, progress: Progress): boolean {
    // The probe shares the network with the request, so its rate means nothing.
    if (this.probing.isOpen(now, POLICY.silenceMs)) return false;
    const candidate = this.candidates[pathway];
    const bitsPerSecond = this.progressRate(progress);
    if (candidate === undefined || bitsPerSecond === undefined) return false;
    const to = this.rescue(now, pathway, Arrival.ofRest(progress, bitsPerSecond));
    if (to === undefined) return false;
    candidate.onGivenUp(now, bitsPerSecond, progress.elapsedMs);
    this.probing.onMedia(progress.receivedBytes);
    candidate.penalise(now, "too_slow", 0);
    if (pathway === this.current) this.go(to, "too_slow");
    return true;
  }

  /** Zero if nothing arrived and the viewer would notice the silence. */
  private progressRate({ elapsedMs, receivedBytes, bufferedMs, bitsPerSecond }: Progress): number | undefined {
    if (receivedBytes > 0) return bitsPerSecond;
    return elapsedMs >= POLICY.silenceMs / 2 && bufferedMs + elapsedMs < POLICY.silenceMs ? 0 : undefined;
  }

  /** A segment has arrived. */
  onMedia(now: number, pathway: number, bytes: number, firstByteMs: number, tookMs: number): void {
    this.probing.onMedia(bytes);
    const candidate = this.candidates[pathway];
    if (candidate === undefined) return;
    const isTest = candidate.measuredAt === -Infinity;
    candidate.onMedia(now, bytes, firstByteMs, tookMs);
    if (pathway === this.current) candidate.forgive(now);
    else this.isComparing ||= isTest;
  }

  /** A probe has been answered. The wait for its first byte does not count: it is mostly distance. */
  onProbe(now: number, pathway: number, bytes: number, firstByteMs: number, tookMs: number): void {
    this.probing.onProbe(pathway, bytes);
    const candidate = this.candidates[pathway];
    if (pathway === this.current || candidate === undefined) return;
    const toBeat = this.at(this.current).rateToBeat();
    const bitsPerSecond = rate(bytes, Math.max(0, tookMs - firstByteMs));
    candidate.onProbe(now, bitsPerSecond);
    const isBetter = toBeat !== undefined && bitsPerSecond >= toBeat * POLICY.betterBy;
    candidate.betterProbes = isBetter ? candidate.betterProbes + 1 : 0;
  }

  /** A request of any purpose has failed. */
  onFailure(now: number, pathway: number, { isSilence, retryAfterMs = 0 }: Failure): void {
    const candidate = this.candidates[pathway];
    if (candidate === undefined) return;
    const reason = isSilence ? "silence" : "first_failure";
    this.probing.onFailure(pathway);
    candidate.penalise(now, reason, retryAfterMs);
    if (pathway === this.current) this.flee(now, reason);
  }

  /** Steering's order, best first. Unknown names are ignored, and so is an order of unknown names only. */
  onSteering(now: number, order: string[]): void {
    if (!this.candidates.some(({ id }) => order.includes(id))) return;
    for (const candidate of this.candidates) {
      const rank = order.indexOf(candidate.id);
      candidate.rank = rank < 0 ? Infinity : rank;
    }
    this.isSteered = true;
    if (!this.isNamed(this.current)) this.flee(now, "removed");
  }

  private at(index: number): Candidate {
    const candidate = this.candidates[index];
    if (candidate === undefined) throw new RangeError(`no pathway ${index}`);
    return candidate;
  }

  private all(): number[] {
    return [...this.candidates.keys()];
  }

  /** Whether steering allows it. */
  private isNamed(index: number): boolean {
    return !this.isSteered || this.at(index).rank < Infinity;
  }

  private isUsable(index: number, now: number): boolean {
    return this.isNamed(index) && !this.at(index).isPenalised(now);
  }

  private others(now: number, than: number): number[] {
    return this.all().filter((index) => index !== than && this.isUsable(index, now));
  }

  /** A pathway that is better than the current one, although that works. */
  private preferable(now: number, need: Need): { to: number; reason: Reason } | undefined {
    const wasComparing = this.isComparing;
    this.isComparing = false;
    const to = this.isSteered ? this.steered(now, need) : wasComparing ? this.bestTested(now) : this.better(now, need);
    if (to === undefined || to === this.current) return undefined;
    return { to, reason: this.isSteered ? "steered" : "better" };
  }

  /** The first usable one in steering's order that is not known to be too slow. */
  private steered(now: number, need: Need): number | undefined {
    const fit = this.all().filter((index) => this.isUsable(index, now) && !this.isTooSlow(index, now, need));
    return least(fit, (index) => this.at(index).rank);
  }

  private isTooSlow(index: number, now: number, need: Need): boolean {
    const bitsPerSecond = this.at(index).rate(now);
    const present = this.at(this.current).rateToBeat();
    if (bitsPerSecond === undefined || present === undefined || index === this.current) return false;
    const keepsUp = need.bits <= bitsPerSecond * (need.segmentMs / 1000);
    return !keepsUp && bitsPerSecond * POLICY.betterBy < present;
  }

  /** The fastest, if it is faster by the margin. After the tests at the start. */
  private bestTested(now: number): number | undefined {
    const present = this.at(this.current).rateToBeat();
    if (present === undefined) return undefined;
    const rateOf = (index: number) => this.at(index).rate(now) ?? 0;
    return fastest(this.others(now, this.current).filter((index) => rateOf(index) >= present * POLICY.betterBy), rateOf);
  }

  /** The fastest of those that enough probes in a row found better, unless the current one is good enough. */
  private better(now: number, need: Need): number | undefined {
    const present = this.at(this.current).rateToBeat();
    if (present === undefined || present >= need.bitsPerSecondMax * PLENTY) return undefined;
    const better = this.others(now, this.current).filter((index) => this.at(index).betterProbes >= this.betterProbesMin);
    const best = fastest(better, (index) => this.at(index).lastRate() ?? 0);
    if (best !== undefined) this.betterProbesMin = Math.min(this.betterProbesMin * 2, BETTER_PROBES_MAX);
    return best;
  }

  private leaveIfTooSlow(now: number, need: Need): void {
    const candidate = this.at(this.current);
    const bitsPerSecond = candidate.rate(now);
    if (bitsPerSecond === undefined) return;
    this.probing.isUrgent = false;
    const to = this.rescue(now, this.current, Arrival.ofNext(need, bitsPerSecond));
    if (to !== undefined) {
      candidate.penalise(now, "too_slow", 0);
      this.go(to, "too_slow");
    } else if (this.probing.isUrgent) this.explore(now, bitsPerSecond);
    else this.explored = 0;
  }

  /** Too slow, and what is known of the others is old: if a probe cannot be afforded, the next segment looks. */
  private explore(now: number, bitsPerSecond: number): void {
    const bytes = this.probing.size(bitsPerSecond);
    if (this.probing.isOpen(now, PROBE_OPEN_MS_MAX) || this.probing.allows(now, bytes)) return;
    const age = FRESH_FOR_MS * EXPLORED_LESS ** Math.min(this.explored, EXPLORED_MAX);
    const old = this.others(now, this.current).filter((index) => {
      const candidate = this.at(index);
      return candidate.measuredAt !== -Infinity && !candidate.wasMeasuredWithin(age, now);
    });
    const to = least(old, (index) => this.at(index).measuredAt);
    if (to === undefined) return;
    this.explored += 1;
    this.go(to, "too_slow");
  }

  /** Where to move from a pathway on which something arrives too late, if another one is better. */
  private rescue(now: number, from: number, arrival: Arrival): number | undefined {
    const spareS = (POLICY.silenceMs / 1000) * this.others(now, from).length;
    if (!arrival.isLate() && !arrival.drains(spareS)) return undefined;
    const better = this.all().filter((index) => index !== from && this.rescues(now, index, arrival));
    const rateOf = (index: number) => this.at(index).lastRate() ?? 0;
    const to = fastest(better.filter((index) => this.isUsable(index, now)), rateOf) ?? fastest(better, rateOf);
    if (to === undefined) this.probing.isUrgent = true;
    else this.at(to).pardon(now);
    return to;
  }

  private rescues(now: number, index: number, arrival: Arrival): boolean {
    const candidate = this.at(index);
    const isUsable = this.isUsable(index, now);
    if (!isUsable && !(candidate.isSlow(now) && this.isNamed(index))) return false;
    const betterBy = isUsable ? POLICY.betterBy : MUCH_BETTER_BY;
    const bitsPerSecond = candidate.lastRate();
    if (bitsPerSecond === undefined) return arrival.isLate() && arrival.inS > (POLICY.silenceMs / 1000) * 2;
    const counts = arrival.isLate() || candidate.wasMeasuredWithin(FRESH_FOR_MS, now);
    return counts && (arrival.bits / Math.max(bitsPerSecond, 1)) * betterBy < arrival.inS;
  }

  /** The next one to test with a segment: if the buffer lasts even if it is silent, or will not last anyway. */
  private test(now: number, need: Need): number | undefined {
    const bitsPerSecond = this.at(this.current).rate(now);
    if (bitsPerSecond === undefined) return undefined;
    const again = Arrival.ofNext(need, bitsPerSecond);
    if (!again.isLate() && again.inS + POLICY.silenceMs / 1000 > again.bufferedS) return undefined;
    const untested = this.all().filter((index) => !this.at(index).isTested && this.isUsable(index, now));
    const next = least(untested, (index) => this.at(index).rank);
    if (next !== undefined) this.at(next).isTested = true;
    return next;
  }

  private flee(now: number, reason: Reason): void {
    this.betterProbesMin = POLICY.betterProbes;
    const to = this.refuge(now);
    if (to !== this.current) this.go(to, reason);
  }

  /** Steering's next, or the fastest known; if all are penalised, the fastest of the slow ones, or the one whose penalty ends first. */
  private refuge(now: number): number {
    const usable = this.all().filter((index) => this.isUsable(index, now));
    const best = this.isSteered
      ? least(usable, (index) => this.at(index).rank)
      : fastest(usable, (index) => this.at(index).rate(now) ?? BEFORE_FIRST_BITS_PER_SECOND);
    const named = this.all().filter((index) => this.isNamed(index));
    const slow = named.filter((index) => this.at(index).isSlow(now));
    return (
      best ?? fastest(slow, (index) => this.at(index).lastRate() ?? 0) ?? least(named, (index) => this.at(index).penalisedUntil()) ?? this.current
    );
  }

  private go(to: number, reason: Reason): void {
    if (this.moves.length === MOVES_MAX) this.moves.shift();
    this.moves.push({ from: this.current, to, reason });
    this.current = to;
    this.at(to).isTested = true;
    this.probing.isUrgent = false;
    for (const candidate of this.candidates) candidate.betterProbes = 0;
  }
}
