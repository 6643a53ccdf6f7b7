// The shelf and the player in Firefox, by HLS and by DASH. pages.test.mjs and pathways.test.mjs do the same in Chromium, in more detail.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { FILM, FILM_SECONDS, makeLibrary } from "./films.mjs";
import { Firefox } from "./firefox.mjs";
import { FAULTS, LinkedFleet } from "./link.mjs";
import { Server } from "./server.mjs";

const skip = process.env.FULLBORE_FIREFOX ? false : "SKIPPED: Firefox is not installed here (apt install firefox-esr)";
let library, server, firefox;

before(async () => {
  if (skip) return;
  const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "films");
  mkdirSync(folder, { recursive: true });
  library = makeLibrary(folder);
  server = await new Server(library).start();
  firefox = await Firefox.launch();
});

after(async () => {
  await firefox?.close();
  await server?.remove();
});

/** Fails if the browser has reported errors since the last time, or has sent a request to another server. */
function assertContent() {
  assert.deepEqual(firefox.complaints.splice(0), []);
  const asked = firefox.requests.filter((url) => /^http/.test(url)).map((url) => new URL(url).origin);
  assert.deepEqual([...new Set(asked)], [new URL(server.url).origin]);
}

/** Runs `does`. If it fails, saves a picture of the page. */
async function seen(name, does) {
  try {
    await does();
  } catch (error) {
    console.log(firefox.complaints, firefox.requests.slice(-8));
    await firefox.picture(`failed-firefox-${name}`).catch(() => {});
    throw error;
  }
}

async function goesOn(seconds = 1.5) {
  await firefox.until(() => document.querySelector("video") !== null);
  const from = await firefox.evaluate(() => document.querySelector("video").currentTime);
  await firefox.until((to) => document.querySelector("video").currentTime >= to, from + seconds);
}

/** Fails if the picture is black or of one colour, by the mean and spread of its pixels. */
async function assertSeesSomething() {
  const [mean, spread] = await firefox.evaluate(() => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 64, height: 36 });
    const context = canvas.getContext("2d");
    context.drawImage(document.querySelector("video"), 0, 0, 64, 36);
    const { data } = context.getImageData(0, 0, 64, 36);
    const light = [];
    for (let i = 0; i < data.length; i += 4) light.push((data[i] + data[i + 1] + data[i + 2]) / 3);
    const mean = light.reduce((a, b) => a + b) / light.length;
    return [mean, Math.sqrt(light.reduce((sum, value) => sum + (value - mean) ** 2, 0) / light.length)];
  });
  assert.ok(mean > 16 && spread > 8, `the picture is black or blank: mean ${mean}, spread ${spread}`);
}

test("firefox: the shelf shows titles, and leads to the player", { skip }, async () => {
  await seen("shelf", async () => {
    await firefox.goto(server.url);
    await firefox.until((film) => [...document.querySelectorAll(".card")].some((card) => card.innerText.includes(film)), FILM);
    await firefox.until(() => [...document.images].every((image) => image.complete && image.naturalWidth > 0));
    await firefox.picture("firefox-shelf");
    await firefox.evaluate((film) => [...document.querySelectorAll(".card")].find((card) => card.innerText.includes(film)).click(), FILM);
    await firefox.until(() => /\/-\/watch\/Test%20Film$/.test(location.href));
    await goesOn();
    assertContent();
  });
});

for (const engine of ["hls", "dash"]) {
  test(`firefox, ${engine}: a film plays, and one can go where nothing is loaded yet`, { skip }, async () => {
    await seen(engine, async () => {
      await firefox.goto(server.url);
      // Not where the last test left the film, but at its beginning.
      await firefox.evaluate((engine) => {
        localStorage.clear();
        localStorage.setItem("fullbore.engine", engine);
      }, engine);
      await firefox.goto(`${server.url}-/watch/${encodeURIComponent(FILM)}`);
      await goesOn();
      assert.equal(await firefox.evaluate(() => document.querySelector(".player").dataset.engine), engine);
      await assertSeesSomething();
      await firefox.clickAt(".timebar", 0.9);
      await firefox.until((at) => Math.abs(document.querySelector("video").currentTime - at) < 8, FILM_SECONDS * 0.9);
      await goesOn();
      await assertSeesSomething();
      await firefox.picture(`firefox-${engine}`);
      await firefox.press("1");
      await firefox.until((at) => Math.abs(document.querySelector("video").currentTime - at) < 5, FILM_SECONDS / 10);
      await goesOn();
      assertContent();
    });
  });
}

const isNotOfTheNetwork = (complaint) => !/NetworkError|Cross-Origin Request Blocked/.test(complaint);

/** How soon a server that fails is left; with what a loaded machine needs to say so. */
const LEFT_MS = 8000;
const ELSEWHERE = 3;
/** With two minutes loaded, the next request may be a segment away. */
const SEGMENT_MS = 4000;

/** Waits until Firefox has sent this many more media requests to one of these addresses. Returns when the first was seen. */
async function asksOf(urls, from) {
  const sent = () => firefox.requests.slice(from).filter((url) => url.includes("CMCD=") && urls.some((of) => url.startsWith(of)));
  let first = 0;
  for (const end = Date.now() + 60_000; sent().length < ELSEWHERE; ) {
    assert.ok(Date.now() < end, `${sent().length} requests elsewhere`);
    await goesOn(0.1);
    if (first === 0 && sent().length > 0) first = Date.now();
  }
  return first;
}

for (const engine of ["hls", "dash"]) {
  test(`firefox, ${engine}: on three servers, of which one gets slow, one dies and one falls silent, the picture never stops`, { skip }, async () => {
    const servers = [server, await new Server(library).start(), await new Server(library).start()];
    const fleet = await new LinkedFleet().start(library, servers);
    const urls = fleet.links.map(({ url }) => url);
    const isMedia = (asked) => asked.includes("CMCD=") && urls.some((url) => asked.startsWith(url));
    const usedBy = () => fleet.links.find(({ url }) => firefox.requests.findLast(isMedia).startsWith(url));
    try {
      await seen(`fleet-${engine}`, async () => {
        await firefox.goto(`${fleet.gateway.url}watch?title=${encodeURIComponent(FILM)}`);
        await firefox.evaluate((engine) => localStorage.setItem("fullbore.engine", engine), engine);
        await firefox.goto(`${fleet.gateway.url}watch?title=${encodeURIComponent(FILM)}`);
        await goesOn();
        await firefox.until(() => document.querySelector("video").buffered.end(0) > 60);
        assert.ok(urls.every((url) => firefox.requests.some((asked) => asked.startsWith(url))), "a server was not asked");
        await firefox.evaluate(() => {
          window.waits = 0;
          const video = document.querySelector("video");
          const ahead = () => (video.buffered.length === 0 ? 0 : video.buffered.end(video.buffered.length - 1) - video.currentTime);
          video.addEventListener("waiting", () => (window.waits += ahead() < 1));
        });
        for (const [name, harm] of FAULTS) {
          if (name === "dead") await fleet.mend();
          const used = usedBy();
          const from = firefox.requests.length;
          const harmedAt = Date.now();
          await harm(used);
          const first = await asksOf(urls.filter((url) => url !== used.url), from);
          const met = firefox.requests.slice(from).some((url) => url.startsWith(used.url));
          console.log(`firefox, ${engine}: left the ${name} server ${first - harmedAt} ms after it was harmed${met ? "" : " (no request met it)"}`);
          assert.ok(first - harmedAt <= LEFT_MS + SEGMENT_MS, `left the ${name} server after ${first - harmedAt} ms`);
        }
        assert.equal(await firefox.evaluate(() => window.waits), 0, "the picture stood still");
        await assertSeesSomething();
        assert.deepEqual(firefox.complaints.splice(0).filter(isNotOfTheNetwork), []);
      });
    } finally {
      await fleet.stop();
      for (const one of servers.slice(1)) await one.remove();
      firefox.requests.splice(0);
    }
  });
}
