// The shelf and the player in Firefox, by HLS and by DASH. pages.test.mjs does the same in Chromium, in more detail.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { FILM, FILM_SECONDS, makeLibrary } from "./films.mjs";
import { Firefox } from "./firefox.mjs";
import { Server } from "./server.mjs";

const skip = process.env.FULLBORE_FIREFOX ? false : "SKIPPED: Firefox is not installed here (apt install firefox-esr)";
let server, firefox;

before(async () => {
  if (skip) return;
  const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "films");
  mkdirSync(folder, { recursive: true });
  server = await new Server(makeLibrary(folder)).start();
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
