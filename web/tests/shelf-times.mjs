// Measures the shelf of 10,000 titles in Chromium for docs/notes/shelf.md: the processor time of the page's own thread, which hardly depends on
// other work on the machine, and the times that a viewer sees with a processor that is four times slower, which do. No test depends on either.
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

/** Milliseconds of processor time of the page's thread: until its first posters are there, and for each frame of a fast wheel. */
async function work(url) {
  const viewer = await Viewer.arrive();
  const session = await viewer.context.newCDPSession(viewer.page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;
  await viewer.page.goto(url);
  await viewer.page.waitForFunction(() => [...document.images].some((image) => image.complete && image.naturalWidth > 0));
  const load = await spent();
  await byName(viewer.page);
  await viewer.page.waitForTimeout(1000);
  const before = await spent();
  const frames = await scroll(viewer.page, PIXELS);
  const frame = ((await spent()) - before) / frames.length;
  await viewer.leave();
  return { load, frame };
}

const byName = (page) => page.locator(".top select").selectOption("name");

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
  await byName(viewer.page);
  const frames = await scroll(viewer.page, pixels);
  await viewer.leave();
  return frames;
}

/** Scrolls by this many pixels in each of many frames, and returns their lengths. */
function scroll(page, pixels) {
  return page.evaluate(
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
}

const server = await new Server(makeManyTitles(resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "many"))).start();
try {
  const works = [];
  for (let round = 0; round < ROUNDS; round += 1) works.push(await work(server.url));
  const [load, frame] = ["load", "frame"].map((name) => at(0.5, works.map((work) => work[name])));
  console.log(`processor time, medians: ${load.toFixed(0)} ms until the first posters, ${frame.toFixed(1)} ms for each frame of scrolling`);
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
