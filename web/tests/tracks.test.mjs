// Purposes of tracks, forced captions, names and chapters, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { transformWithEsbuild } from "vite";

/** A module of the pages that imports nothing but types. */
async function load(name) {
  const file = new URL(`../src/${name}.ts`, import.meta.url);
  const { code } = await transformWithEsbuild(readFileSync(file, "utf8"), file.pathname, { loader: "ts", sourcemap: false });
  return import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);
}

Object.defineProperty(globalThis, "navigator", { value: { languages: ["de-AT", "en"] }, configurable: true });
const tracks = await load("watch/tracks");
const chapters = await load("chapters");
const { trackName } = await load("words");

const track = (id, language, purposes = [], isForced = false) => ({ id, language, label: "", purposes, isForced });
const role = (value) => ({ schemeIdUri: "urn:mpeg:dash:role:2011", value });
const purpose = (value) => ({ schemeIdUri: "urn:tva:metadata:cs:AudioPurposeCS:2007", value });

test("both kinds of manifests give the same purposes", () => {
  const captions = "public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound";
  for (const [expected, characteristics, roles, accessibility] of [
    [[], undefined, [role("main")], []],
    [["commentary"], "public.auxiliary-content", [role("alternate"), role("commentary")], []],
    [["description"], "public.accessibility.describes-video", [role("alternate"), role("description")], [purpose("1")]],
    [["hearing"], captions, [role("caption")], [purpose("2")]],
    [["dub", "hearing"], "public.translation.dubbed,public.accessibility.enhances-speech-intelligibility", [role("dub")], [purpose("2")]],
  ]) {
    assert.deepEqual(tracks.purposesOfHls(characteristics), expected);
    assert.deepEqual(tracks.purposesOfDash(roles, accessibility), expected);
  }
  assert.equal(tracks.isForcedInDash([role("forced-subtitle")]), true);
  assert.equal(tracks.isForcedInDash(null), false);
});

test("forced captions follow the spoken language and are not listed", () => {
  const all = [track(0, "en", ["commentary"]), track(1, "en", [], true), track(2, "de", [], true), track(3, "en", ["hearing"]), track(4, "en")];
  assert.deepEqual(tracks.listed(all).map(({ id }) => id), [4, 3, 0]);
  assert.equal(tracks.forcedFor(all, "de")?.id, 2);
  assert.equal(tracks.forcedFor(all, "en-GB")?.id, 1);
  assert.equal(tracks.forcedFor(all, "fr"), undefined);
  assert.equal(tracks.forcedFor([track(0, "", [], true)], "fr")?.id, 0);
  assert.equal(tracks.forcedFor([track(0, "en")], "en"), undefined);
});

test("a choice is remembered by language and need, and commentary is not", () => {
  const all = [track(0, "en", ["commentary"]), track(1, "en"), track(2, "en", ["hearing"]), track(3, "de", [], true), track(4, "de", ["dub"])];
  assert.deepEqual(all.map(tracks.memoryOf), [null, "en", "en hearing", "de", "de"]);
  assert.equal(tracks.recalled(all, "en")?.id, 1);
  assert.equal(tracks.recalled(all, "en hearing")?.id, 2);
  assert.equal(tracks.recalled(all, "de hearing")?.id, 4);
  assert.equal(tracks.recalled(all, "fr"), undefined);
  assert.equal(tracks.recalled(all, ""), undefined);
  assert.equal(tracks.recalled(all, null), undefined);
});

test("a track of some purpose has the name of its language, unless it has a title", () => {
  assert.equal(trackName("de", "German (dubbed)", true), "Deutsch");
  assert.equal(trackName("en", "Director (commentary)", true), "Director (commentary)");
  assert.equal(trackName("en", "English (UK)"), "English (UK)");
});

test("chapters are read in order, and nonsense is left out", () => {
  const titles = [{ language: "en", title: "End" }, { language: "de", title: "Ende" }];
  const list = chapters.parseChapters([{ "start-time": 60, titles }, { "start-time": 0 }, { titles }, null, { "start-time": "x" }], (number) => `Chapter ${number}`);
  assert.deepEqual(list, [{ start: 0, title: "Chapter 2" }, { start: 60, title: "Ende" }]);
  assert.equal(chapters.chapterAt(list, 59.9)?.title, "Chapter 2");
  assert.equal(chapters.chapterAt(list, 60)?.title, "Ende");
  assert.deepEqual(chapters.parseChapters({ not: "a list" }, String), []);
  assert.equal(chapters.chapterAt([], 5), undefined);
});
