// Measures the shelf of 10,000 titles in Chromium with a processor that is four times slower, and prints the times for docs/notes/shelf.md. No test
// depends on them, because they depend on the machine and its load.
//
//     FULLBORE_PROGRAM=target/debug/fullbore node web/tests/shelf-times.mjs

import { resolve } from "node:path";
import { makeManyTitles } from "./many.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

const ROUNDS = 5;
const SLOWER = 4;
/** Frames of scrolling in each round, and pixels in each: a fast wheel. */
const FRAMES = 240;
const PIXELS = 150;

function at(share, values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

async function arrive() {
  const viewer = await Viewer.arrive();
  const session = await viewer.context.newCDPSession(viewer.page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
  await viewer.page.addInitScript(() => {
    window.painted = {};
    const note = (name) => (window.painted[name] ??= performance.now());
    // A frame after the change, so that it is on the screen.
    const shown = (name) => requestAnimationFrame(() => requestAnimationFrame(() => note(name)));
    document.addEventListener("load", ({ target }) => target instanceof HTMLImageElement && shown("poster"), true);
    new MutationObserver(() => document.querySelector(".card") && shown("cards")).observe(document, { childList: true, subtree: true });
  });
  return viewer;
}

async function firstPicture(url) {
  const viewer = await arrive();
  await viewer.page.goto(url);
  await viewer.page.waitForFunction(() => window.painted.poster !== undefined && window.painted.cards !== undefined);
  const times = await viewer.page.evaluate(() => ({
    frame: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN,
    ...window.painted,
  }));
  await viewer.leave();
  return times;
}

async function scrolling(url, pixels) {
  const viewer = await arrive();
  await viewer.page.goto(url);
  await viewer.page.locator(".card").first().waitFor();
  await viewer.page.locator(".top select").selectOption("name");
  const frames = await viewer.page.evaluate(
    ([frames, pixels]) =>
      new Promise((done) => {
        const times = [];
        let before = performance.now();
        const step = () => {
          const now = performance.now();
          times.push(now - before);
          before = now;
          if (times.length > frames) done(times.slice(1));
          else {
            scrollBy(0, pixels);
            requestAnimationFrame(step);
          }
        };
        requestAnimationFrame(step);
      }),
    [FRAMES, pixels],
  );
  await viewer.leave();
  return frames;
}

const server = await new Server(makeManyTitles(resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "many"))).start();
try {
  const loads = [];
  for (let round = 0; round < ROUNDS; round += 1) loads.push(await firstPicture(server.url));
  for (const name of ["frame", "cards", "poster"]) {
    const times = loads.map((load) => load[name]);
    console.log(`${name}: median ${at(0.5, times).toFixed(0)} ms, longest ${Math.max(...times).toFixed(0)} ms`);
  }
  for (const [name, pixels] of [["wheel", PIXELS], ["jumps", 20_000]]) {
    const frames = [];
    for (let round = 0; round < ROUNDS; round += 1) frames.push(...(await scrolling(server.url, pixels)));
    const [median, most, longest] = [at(0.5, frames), at(0.95, frames), Math.max(...frames)].map((ms) => ms.toFixed(1));
    console.log(`${name}: ${frames.length} frames, median ${median} ms, 95th percentile ${most} ms, longest ${longest} ms`);
  }
} finally {
  await closeBrowser();
  await server.remove();
}
