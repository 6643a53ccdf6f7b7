// Which group of sounds hls.js plays, without a browser: its own rules for choosing, with playlists such as ingest makes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { transformWithEsbuild } from "vite";

// hls.js expects a browser that plays the codecs in question.
globalThis.self = globalThis;
globalThis.location = new URL("http://localhost/");
Object.defineProperty(globalThis, "navigator", { value: { userAgent: "" }, configurable: true });
let isPlayed = () => true;
globalThis.MediaSource = class {
  static isTypeSupported(type) {
    return isPlayed(type);
  }
};
const Hls = createRequire(import.meta.url)("hls.js");

const file = new URL("../src/watch/tracks.ts", import.meta.url);
const { code } = await transformWithEsbuild(readFileSync(file, "utf8"), file.pathname, { loader: "ts", sourcemap: false });
const { ofAnotherGroup } = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);

/** The rates of three sizes without sound. */
const SIZES = [[180, 400_000], [360, 800_000], [720, 3_000_000]];
const STEREO = { id: "audio", codecs: "mp4a.40.2", rate: 128_000, channels: [2, 2] };
const EAC3 = { id: "audio-eac3", codecs: "ec-3,mp4a.40.2", rate: 384_000, channels: [6, 2] };
const AC3 = { id: "audio-ac3", codecs: "ac-3,mp4a.40.2", rate: 640_000, channels: [6, 2] };
/** What ingest doesn't make: surround in the codec of stereo. */
const SAME = { id: "audio-aac", codecs: "mp4a.40.2", rate: 384_000, channels: [6, 2] };

/** A multivariant playlist with these groups: a film's sound, and a commentary that is stereo in each. */
function playlist(groups) {
  const media = groups.map(({ id, channels }) =>
    channels.map((count, index) => {
      const name = ["English", "English (commentary)"][index];
      const isDefault = index === 0 ? "YES" : "NO";
      return `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="${id}",NAME="${name}",LANGUAGE="en",DEFAULT=${isDefault},AUTOSELECT=${isDefault},CHANNELS="${count}",URI="${id}-${index}.m3u8"`;
    }),
  );
  const variants = groups.flatMap(({ id, codecs, rate }) =>
    SIZES.map(([height, bits]) => {
      const attributes = `BANDWIDTH=${bits + rate},AVERAGE-BANDWIDTH=${bits + rate},CODECS="avc1.64001f,${codecs}",RESOLUTION=${(height / 9) * 16}x${height},FRAME-RATE=25.000`;
      return `#EXT-X-STREAM-INF:${attributes},AUDIO="${id}"\nvideo-${height}.m3u8`;
    }),
  );
  return ["#EXTM3U", ...media.flat(), ...variants].join("\n");
}

/** hls.js after it has read the playlist of these groups. It loads nothing else. */
function opened(groups, config = {}) {
  const text = playlist(groups);
  class Loader {
    load(context, _, { onSuccess }) {
      const now = { start: 0, first: 0, end: 0 };
      this.stats = { aborted: false, loaded: text.length, total: text.length, retry: 0, chunkCount: 0, bwEstimate: 0, loading: { ...now }, parsing: { ...now }, buffering: { ...now } };
      if (context.type === "manifest") queueMicrotask(() => onSuccess({ url: context.url, data: text, code: 200 }, this.stats, context, null));
    }
    abort() {}
    destroy() {}
    getCacheAge() {
      return null;
    }
    getResponseHeader() {
      return null;
    }
  }
  const hls = new Hls({ loader: Loader, enableWorker: false, autoStartLoad: false, ...config });
  return new Promise((done) => {
    hls.on(Hls.Events.MANIFEST_PARSED, () => done(hls));
    hls.loadSource("http://localhost/master.m3u8");
  });
}

/** The groups that hls.js plays while the bandwidth rises and falls, in order, each once. */
function groupsByBandwidth(hls) {
  const groups = new Set();
  const { abrController: abr } = hls;
  const steps = [1.1, 2, 4, 8, 40, 4, 1.5];
  for (const [index, megabits] of steps.entries()) {
    hls.bandwidthEstimate = megabits * 1e6;
    const level = index === 0 ? hls.firstAutoLevel : hls.nextAutoLevel;
    groups.add(hls.levels[level].audioGroups[0]);
    hls.loadLevel = level;
    abr.lastLoadedFragLevel = level;
  }
  return [...groups];
}

test("hls.js plays sounds of one group, whatever the bandwidth", async () => {
  for (const [groups, config, expected] of [
    [[STEREO, EAC3], {}, "audio-eac3"],
    [[STEREO, EAC3], { audioPreference: { channels: "2", audioCodec: "mp4a.40.2" } }, "audio"],
    [[STEREO, EAC3, AC3], { audioPreference: { channels: "6", audioCodec: "ac-3" } }, "audio-ac3"],
    [[STEREO, { ...EAC3, channels: [6, 6] }], {}, "audio"],
    [[STEREO, { ...EAC3, channels: [6, 6] }], { audioPreference: { channels: "6" } }, "audio-eac3"],
  ]) {
    const hls = await opened(groups, config);
    assert.deepEqual(groupsByBandwidth(hls), [expected], JSON.stringify(config));
    hls.destroy();
  }
  // Two groups of one codec: that is what must not be.
  const hls = await opened([STEREO, SAME]);
  assert.equal(groupsByBandwidth(hls).length, 2);
  hls.destroy();
});

test("hls.js leaves out groups with a codec that the browser lacks", async () => {
  isPlayed = (type) => !type.includes("ec-3");
  const hls = await opened([STEREO, EAC3]);
  isPlayed = () => true;
  assert.deepEqual(hls.levels.map((level) => level.audioGroups), [["audio"], ["audio"], ["audio"]]);
  hls.destroy();
});

/** What the page keeps, as HlsEngine does. */
function kept(hls) {
  for (let other = ofAnotherGroup(hls.levels); other >= 0; other = ofAnotherGroup(hls.levels)) hls.removeLevel(other);
  return hls.levels.map((level) => `${level.height} ${level.audioGroups[0]}`);
}

test("the page keeps each size once, with the sounds that everything plays", async () => {
  for (const groups of [[STEREO, EAC3, AC3], [STEREO, SAME], [STEREO]]) {
    const hls = await opened(groups);
    assert.deepEqual(kept(hls), ["180 audio", "360 audio", "720 audio"]);
    assert.deepEqual(groupsByBandwidth(hls), ["audio"]);
    hls.destroy();
  }
});

test("the page keeps sizes that only another group has", () => {
  const level = (uri, group) => ({ uri, videoCodec: "avc1", audioGroups: group === undefined ? undefined : [group] });
  const sound = (uri, group) => ({ ...level(uri, group), videoCodec: undefined });
  assert.equal(ofAnotherGroup([level("a", "low"), level("b", "high")]), -1);
  assert.equal(ofAnotherGroup([level("a", "low"), level("b", "low"), level("b", "high")]), 2);
  assert.equal(ofAnotherGroup([level("a"), level("b")]), -1);
  assert.equal(ofAnotherGroup([]), -1);
  // A title of sound.
  assert.equal(ofAnotherGroup([sound("a", "audio"), sound("b", "audio-eac3")]), 1);
});
