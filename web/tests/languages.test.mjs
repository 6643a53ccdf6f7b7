// The words of the pages, without a browser: every language has all of them, with the same values in them, and the pages use each one.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { transformWithEsbuild } from "vite";

const SOURCES = new URL("../src/", import.meta.url);
const FOLDER = new URL("languages/", SOURCES);

async function wordsIn(language) {
  const file = new URL(`${language}.ts`, FOLDER);
  const { code } = await transformWithEsbuild(readFileSync(file, "utf8"), file.pathname, { loader: "ts", sourcemap: false });
  const module = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);
  return module[language];
}

const valuesIn = (text) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
const languages = readdirSync(FOLDER).map((name) => name.replace(/\.ts$/, ""));
const english = await wordsIn("en");

test("there are five languages", () => {
  assert.deepEqual(languages, ["de", "en", "es", "fr", "zh"]);
});

for (const language of languages) {
  test(`${language} has all words, in the order of the English ones, with the same values`, async () => {
    const words = await wordsIn(language);
    assert.deepEqual(Object.keys(words), Object.keys(english));
    for (const [key, text] of Object.entries(words)) {
      assert.equal(text, text.trim(), key);
      assert.notEqual(text, "", key);
      assert.deepEqual(valuesIn(text), valuesIn(english[key]), key);
    }
  });
}

test("the pages use every word", () => {
  const files = readdirSync(SOURCES, { recursive: true }).filter((name) => name.endsWith(".ts") && !name.startsWith("languages"));
  const source = files.map((name) => readFileSync(new URL(name, SOURCES), "utf8")).join("\n");
  const unused = Object.keys(english).filter((key) => !source.includes(`"${key}"`));
  assert.deepEqual(unused, []);
});
