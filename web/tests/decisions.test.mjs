// The rules by which the page chooses a server decide as those in Rust do: 1,000 drawn sessions have the digests that
// crates/measure/player/tests/decisions.rs compares as well. That file describes a session; this one draws the same.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { transformWithEsbuild } from "vite";

const SOURCE = new URL("../src/watch/pathways.ts", import.meta.url);
const DIGESTS = new URL("../../crates/measure/player/tests/decisions.txt", import.meta.url);
const { code } = await transformWithEsbuild(readFileSync(SOURCE, "utf8"), SOURCE.pathname, { loader: "ts", sourcemap: false });
const { Pathways, Recent } = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);

const STEPS = 120;
const SEGMENT_MS = 4000;
const BUFFER_MS = 120_000;
const LOOK_MS = 500;
const LOOKS_MAX = 120;
const NAMES = ["a", "b", "c", "d", "e"];
const RATES = [200, 1000, 3000, 5000, 5500, 8000, 20_000, 60_000];
const RUNGS = [300, 1500, 4000, 8000];

class DecidingSession {
  #state;
  #pathways;
  #rates;
  #kind;
  #nowMs = 0;
  #bufferedMs = 0;
  #decisions = [];

  constructor(number) {
    this.#state = (Math.imul(number, 0x9e3779b1) ^ 0x5bd1e995) >>> 0;
    this.#pathways = new Pathways(NAMES.slice(0, 2 + this.#below(2)));
    this.#kind = ["wild", "steered", "calm", "slow"][number % 4];
    const drawn = NAMES.map(() => RATES[this.#below(8)]);
    this.#rates = this.#kind === "slow" ? NAMES.map(() => RATES[0]) : drawn;
  }

  #below(bound) {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) % bound;
  }

  run() {
    for (let step = 0; step < STEPS; step += 1) {
      this.#step(this.#below(20));
      for (let moved; (moved = this.#pathways.pollMove()) !== undefined; ) this.#decisions.push(`${moved.from}>${moved.to} ${moved.reason}`);
    }
    return this.#decisions.map((line) => `${line}\n`).join("");
  }

  #step(step) {
    switch (this.#kind) {
      case "calm":
        return step < 12 ? this.#segment() : step < 19 ? this.#probe() : this.#changeRate();
      case "slow":
        if (step < 17) return step < 16 ? this.#segment() : this.#probe();
        return (this.#nowMs += this.#below(30_000));
      default:
        return this.#wild(step);
    }
  }

  #wild(step) {
    if (step < 10) this.#segment();
    else if (step === 10) this.#failure();
    else if (step < 15) this.#probe();
    else if (step === 15) this.#changeRate();
    else if (step === 16 && this.#kind === "steered") this.#steer();
    else if (step < 18) this.#nowMs += this.#below(step === 16 ? 300_000 : 30_000);
    else if (step === 18) this.#pathways.add(NAMES[this.#below(5)]);
    else this.#bufferedMs = this.#below(BUFFER_MS + 1);
  }

  #changeRate() {
    const pathway = this.#below(5);
    this.#rates[pathway] = RATES[this.#below(8)];
  }

  #segment() {
    const rung = { slow: 0, calm: 3 }[this.#kind] ?? this.#below(4);
    const bits = RUNGS[rung] * SEGMENT_MS;
    const need = { bufferedMs: this.#bufferedMs, bits, segmentMs: SEGMENT_MS, bitsPerSecondMax: 8_000_000 };
    const pathway = this.#pathways.choose(this.#nowMs, need);
    this.#decisions.push(`choose ${pathway}`);
    const rate = Math.floor((this.#rates[pathway] * (80 + this.#below(41))) / 100);
    const evenMs = Math.max(1, Math.floor(bits / rate));
    const falls = this.#below(3) === 0 && this.#kind !== "calm";
    const fallsMs = falls ? this.#below(8000) : evenMs;
    const tookMs = evenMs + Math.max(0, evenMs - fallsMs) * 9;
    const firstMs = Math.min(this.#below(200), tookMs);
    const givenUpMs = this.#look(pathway, bits / 8, evenMs, fallsMs, tookMs);
    const spentMs = givenUpMs ?? tookMs;
    this.#nowMs += spentMs;
    this.#bufferedMs = Math.max(0, this.#bufferedMs - spentMs);
    if (givenUpMs !== undefined) return this.#decisions.push(`give up ${pathway} after ${givenUpMs}`);
    this.#pathways.onMedia(this.#nowMs, pathway, bits / 8, firstMs, tookMs);
    this.#bufferedMs = Math.min(this.#bufferedMs + SEGMENT_MS, BUFFER_MS);
    if (this.#kind === "calm") this.#nowMs += 2 * SEGMENT_MS;
  }

  #look(pathway, bytes, evenMs, fallsMs, tookMs) {
    const recent = new Recent();
    for (let number = 1; number <= LOOKS_MAX && number * LOOK_MS < tookMs; number += 1) {
      const elapsedMs = number * LOOK_MS;
      const worthMs = Math.min(elapsedMs, fallsMs) + Math.floor(Math.max(0, elapsedMs - fallsMs) / 10);
      const receivedBytes = Math.floor((bytes * worthMs) / evenMs);
      const progress = {
        receivedBytes,
        expectedBytes: bytes,
        elapsedMs,
        bitsPerSecond: recent.look(elapsedMs, receivedBytes),
        bufferedMs: Math.max(0, this.#bufferedMs - elapsedMs),
        segmentMs: SEGMENT_MS,
      };
      if (this.#pathways.onProgress(this.#nowMs + elapsedMs, pathway, progress)) return elapsedMs;
    }
    return undefined;
  }

  #failure() {
    const pathway = this.#below(5);
    const kind = this.#below(4);
    const failure = kind === 1 ? { isSilence: false, retryAfterMs: this.#below(500_000) } : { isSilence: kind === 0 };
    this.#pathways.onFailure(this.#nowMs, pathway, failure);
  }

  #probe() {
    const blocked = this.#below(8);
    const probe = this.#pathways.probe(this.#nowMs, (pathway) => pathway !== blocked);
    if (probe === undefined) return;
    const { pathway, bytes } = probe;
    this.#decisions.push(`probe ${pathway} ${bytes}`);
    const kind = this.#below(6);
    if (kind === 0) this.#pathways.onFailure(this.#nowMs, pathway, { isSilence: false });
    if (kind < 2) return;
    const firstMs = 20 + this.#below(60);
    this.#pathways.onProbe(this.#nowMs, pathway, bytes, firstMs, firstMs + Math.floor((bytes * 8) / this.#rates[pathway]));
  }

  #steer() {
    const names = Array.from({ length: this.#below(4) }, () => NAMES[this.#below(5)]);
    this.#pathways.onSteering(this.#nowMs, names);
  }
}

function digest(text) {
  let sum = 0x811c9dc5;
  for (const byte of Buffer.from(text)) sum = Math.imul(sum ^ byte, 0x01000193);
  return (sum >>> 0).toString(16).padStart(8, "0");
}

test("after a seek, when nothing is loaded, a server that is fast enough is not left for one that is a little faster", () => {
  const pathways = new Pathways(["a", "b"]);
  pathways.onSteering(0, ["a", "b"]);
  pathways.onMedia(1000, 0, 50_000_000 / 8, 0, 1000);
  pathways.onMedia(1000, 1, 65_000_000 / 8, 0, 1000);
  const need = { bufferedMs: 0, bits: 32_000_000, segmentMs: SEGMENT_MS, bitsPerSecondMax: 8_000_000 };
  assert.equal(pathways.choose(2000, need), 0);
  const progress = { receivedBytes: 500_000, expectedBytes: 4_000_000, elapsedMs: 400, bitsPerSecond: 10_000_000, bufferedMs: 0, segmentMs: SEGMENT_MS };
  assert.equal(pathways.onProgress(2400, 0, { ...progress, bitsPerSecond: 20_000_000 }), false, "the rest arrives soon");
  assert.equal(pathways.onProgress(2400, 0, progress), true, "the viewer would wait for the rest");
});

test("1,000 drawn sessions have the decisions of the players in Rust", () => {
  if (process.env.FULLBORE_SESSION) console.log(new DecidingSession(Number(process.env.FULLBORE_SESSION)).run());
  const known = readFileSync(DIGESTS, "utf8").trimEnd().split("\n");
  assert.equal(known.length, 1000);
  for (const [number, expected] of known.entries()) {
    assert.equal(digest(new DecidingSession(number).run()), expected, `session ${number} decides otherwise`);
  }
});
