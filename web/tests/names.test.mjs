// The titles before and after one in its folder, and what the browser keeps of them, without a browser.

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

const stored = new Map();
globalThis.localStorage = { getItem: (name) => stored.get(name) ?? null, setItem: (name, value) => void stored.set(name, value) };
const { neighbours, shownName } = await load("names");
const { isFinished, keepNext, keepPlace, places } = await load("memory");

const made = (name, more = {}) => ({ name, path: encodeURI(name), ...more });
const file = (name) => made(name, { file: name });

/** Goes from title to title, and returns the names in that order. */
function walk(first, titles, side) {
  const names = [];
  for (let title = first; title !== undefined; title = neighbours(title, titles)[side]) names.push(title.name);
  return names;
}

test("the titles of a folder follow each other by number, and no title of another folder is among them", () => {
  const names = ["s/e1", "s/e2", "s/e9", "s/e10", "s/e010a", "s/E11", "s/é12", "s/第2集", "s/第10集"];
  const others = ["e3", "t/e3", "s/extra/e3", "s2/e3", "e", "sx"];
  const titles = [...names, ...others].map((name) => made(name)).sort((a, b) => (a.path < b.path ? -1 : 1));
  const first = titles.find(({ name }) => name === "s/e1");
  const forwards = walk(first, titles, "next");
  assert.deepEqual([...forwards].sort(), [...names].sort());
  assert.deepEqual(forwards.slice(0, 4), ["s/e1", "s/e2", "s/e9", "s/e10"]);
  assert.ok(forwards.indexOf("s/第2集") < forwards.indexOf("s/第10集"));
  const last = titles.find(({ name }) => name === forwards.at(-1));
  assert.deepEqual(walk(last, titles, "previous"), [...forwards].reverse());
});

test("a title in no folder has no neighbours, and neither has one that is alone", () => {
  const titles = ["a", "b", "alone/c", "alone/more/d"].map((name) => made(name));
  for (const title of titles) assert.deepEqual(neighbours(title, titles), {});
});

test("files are in the order of the names that are shown, and equal names don't go round in circles", () => {
  const titles = ["f/Part 1.mp4", "f/Part 1 extra.mp4", "f/Part 2.mkv", "f/Part 2.mp4", "f/part_2.mp4"].map(file);
  assert.equal(shownName(titles[0]), "Part 1");
  const forwards = walk(titles[0], titles, "next");
  assert.deepEqual(forwards.slice(0, 2), ["f/Part 1.mp4", "f/Part 1 extra.mp4"]);
  assert.equal(new Set(forwards).size, titles.length);
});

test("a title that was removed meanwhile still has its neighbours", () => {
  const titles = ["s/e1", "s/e3"].map((name) => made(name));
  assert.deepEqual(neighbours(made("s/e2"), titles), { previous: titles[0], next: titles[1] });
});

test("a finished film is forgotten, and the next one is kept until it has begun", () => {
  keepPlace("s/e1", 1200, 2700);
  assert.equal(places()["s/e1"].seconds, 1200);
  assert.equal(isFinished(2600, 2700), false);
  assert.equal(isFinished(2620, 2700), true);
  // Of a film of seconds, the beginning is not the end.
  assert.deepEqual([isFinished(0, 4), isFinished(1, 4), isFinished(4, 4)], [false, false, true]);
  keepPlace("s/e1", 2620, 2700);
  keepNext("s/e2", 2700.4);
  assert.deepEqual(Object.keys(places()), ["s/e2"]);
  assert.deepEqual([places()["s/e2"].seconds, places()["s/e2"].of], [0, 2700]);
  // Opened for a moment, it stays; once begun, its position counts; and another look at the first one changes nothing.
  keepPlace("s/e2", 4, 2700);
  assert.equal(places()["s/e2"].seconds, 0);
  keepPlace("s/e2", 300, 2700);
  keepNext("s/e2", 2700);
  assert.equal(places()["s/e2"].seconds, 300);
  keepPlace("s/e2", 4, 2700);
  assert.deepEqual(places(), {});
});
