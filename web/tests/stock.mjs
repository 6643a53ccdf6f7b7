// What unmodified players do when a server dies or goes silent: hls.js, dash.js and Shaka Player with their defaults, with the same manifests as our
// page. This is no test. It measures, for docs/notes/players.md. FULLBORE_PROGRAM=... FULLBORE_CHROMIUM=... node web/tests/stock.mjs [PLAYER]
// Shaka Player is not among our packages. Install it in web/: npm install --no-save shaka-player@5.2.12

import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { FILM, makeLibrary } from "./films.mjs";
import { Gateway } from "./gateway.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

/** How long a viewer plays before the server fails, and how long he is watched afterwards. */
const BEFORE_MS = 20_000;
const AFTER_MS = 95_000;
/** How many bits per second a player gets: little more than the smallest size needs, so that this short film is not loaded before the server fails. */
const BOUND_BITS_PER_SECOND = 700_000;

const head = `<!doctype html><meta charset="utf-8"><video muted autoplay playsinline></video>`;
const film = encodeURIComponent(FILM);
const PAGES = {
  "/stock-hls": `${head}<script src="/packages/hls.js/dist/hls.min.js"></script><script>
    const hls = new Hls(); hls.loadSource("/play/${film}/master.m3u8"); hls.attachMedia(document.querySelector("video"));</script>`,
  "/stock-dash": `${head}<script src="/packages/dashjs/dist/modern/umd/dash.all.min.js"></script><script>
    dashjs.MediaPlayer().create().initialize(document.querySelector("video"), "/play/${film}/manifest.mpd", true);</script>`,
  "/stock-shaka-hls": `${head}${shaka("master.m3u8")}`,
  "/stock-shaka-dash": `${head}${shaka("manifest.mpd")}`,
};

function shaka(manifest) {
  return `<script src="/packages/shaka-player/dist/shaka-player.compiled.js"></script><script>
    const player = new shaka.Player();
    player.attach(document.querySelector("video")).then(() => player.load("/play/${film}/${manifest}"));</script>`;
}

/** The players to measure: those whose names begin with the argument, or all. */
const WANTED = process.argv[2] ?? "";

/** Counts how long the picture stands still. */
const WATCHED = () => {
  const video = document.querySelector("video");
  const told = (window.told = { still: 0, at: video.currentTime, since: performance.now() });
  setInterval(() => {
    const now = performance.now();
    if (video.currentTime === told.at && !video.ended) told.still += now - told.since;
    told.at = video.currentTime;
    told.since = now;
  }, 100);
};

async function measure(name, url, engine, how, { gateway, first, second }) {
  const viewer = await Viewer.arrive({ storage: { engine } });
  const { page } = viewer;
  if (url.includes("/stock-")) await viewer.bound(BOUND_BITS_PER_SECOND);
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("video")?.currentTime > 1);
  await page.waitForTimeout(BEFORE_MS);
  await page.evaluate(WATCHED);
  const ahead = await viewer.film("ahead");
  const [from, asked] = [Date.now(), gateway.asked];
  let left = null;
  page.on("request", (request) => {
    if (left === null && request.url().startsWith(second.url)) left = Date.now() - from;
  });
  await (how === "dies" ? first.kill() : first.pause());
  await page.waitForTimeout(AFTER_MS);
  const { still } = await page.evaluate(() => window.told);
  const seconds = await viewer.film("seconds");
  const told = { player: name, how, ahead_seconds: ahead, left_after_seconds: left === null ? null : left / 1000, stood_still_seconds: still / 1000, played_to: seconds, steering: gateway.asked - asked };
  console.log(JSON.stringify(told));
  await viewer.leave();
  await (how === "dies" ? first.start() : first.resume());
}

const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "films");
mkdirSync(folder, { recursive: true });
const library = makeLibrary(folder);
const [first, second] = await Promise.all([new Server(library).start(), new Server(library).start()]);
const gateway = await new Gateway(library, FILM, [{ id: "n1", url: first.url }, { id: "n2", url: second.url }]).start();
gateway.pages = PAGES;
const stock = ["hls", "dash", "shaka-hls", "shaka-dash"].map((engine) => [`${engine}, as it comes`, `${gateway.url}stock-${engine}`, engine]);
const ours = ["hls", "dash"].map((engine) => [`${engine}, our page`, `${gateway.url}watch?title=${film}`, engine]);
for (const [name, url, engine] of [...stock, ...ours].filter(([name]) => name.startsWith(WANTED))) {
  for (const how of ["dies", "falls silent"]) await measure(name, url, engine, how, { gateway, first, second });
}
await closeBrowser();
await gateway.stop();
await Promise.all([first.remove(), second.remove()]);
