// A folder of episodes in Chromium, by HLS and by DASH: at the end of one the next is offered, and starts in the same picture unless the viewer cancels that.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { Server } from "./server.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

const FOLDER = "A series";
const EPISODES = ["s01e01", "s01e02", "s01e10"];
/** Its place comes after the others; it is added while one watches. */
const LATER = "s01e11";
const SECONDS = 24;
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
/** More than the countdown. */
const COUNTDOWN_MS = 15_000;

const pathOf = (episode) => `${encodeURIComponent(FOLDER)}/${episode}`;
let library;
let server;
/** A site that shows an episode in a frame. */
const site = createServer((_, response) => {
  response.setHeader("content-type", "text/html");
  response.end(`<!doctype html><title>Blog</title><iframe src="${server.url}-/watch/${pathOf(EPISODES[0])}" width="900" height="600" allow="autoplay"></iframe>`);
});
const siteUrl = () => `http://127.0.0.1:${site.address().port}`;

/** Encodes one film, once; each episode is a copy of it. */
function makeSeries(folder) {
  const made = join(folder, "library");
  if (!existsSync(join(folder, "made-1"))) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(join(made, FOLDER), { recursive: true });
    const [source, captions, ladder] = ["source.mkv", "en.srt", "ladder.toml"].map((name) => join(folder, name));
    writeFileSync(captions, `1\n00:00:00,000 --> 00:00:${SECONDS},000\nA line\n`);
    writeFileSync(ladder, "rungs = [{ height = 144, kbps = 200 }]\n");
    execFileSync("ffmpeg", [
      ..."-y -v error -f lavfi -i testsrc2=size=256x144:rate=25 -f lavfi -i sine=440 -i".split(" "), captions,
      ...`-t ${SECONDS} -map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -g 50 -pix_fmt yuv420p -c:a aac -c:s srt`.split(" "),
      ..."-metadata:s:a:0 language=eng -metadata:s:s:0 language=eng".split(" "), source,
    ], { stdio: "inherit" });
    const args = ["ingest", source, "--library", join(made, FOLDER), "--title", EPISODES[0], "--speed", "fastest", "--ladder", ladder];
    execFileSync(process.env.FULLBORE_PROGRAM, args, { stdio: ["ignore", "inherit", "inherit"] });
    for (const episode of EPISODES.slice(1)) copyTo(made, episode);
    writeFileSync(join(folder, "made-1"), "");
  }
  return made;
}

/** Adds an episode to the library at once, as ingest does. */
function copyTo(library, episode) {
  const [first, whole] = [EPISODES[0], episode].map((name) => join(library, FOLDER, name));
  const unfinished = join(library, "..", "unfinished");
  cpSync(first, unfinished, { recursive: true, preserveTimestamps: true });
  renameSync(unfinished, whole);
}

before(async () => {
  library = makeSeries(resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "series"));
  // Of an earlier run; the last test adds it.
  rmSync(join(library, FOLDER, LATER), { recursive: true, force: true });
  site.listen(0, "127.0.0.1");
  await once(site, "listening");
  server = await new Server(library).start(`page_embedders = [${JSON.stringify(siteUrl())}]\n`);
});

after(async () => {
  await closeBrowser();
  site.close();
  await server?.remove();
});

/** Runs a test with a viewer of an episode, whose browser must not report errors. */
async function at(episode, options, does) {
  const viewer = await Viewer.arrive(options);
  await viewer.context.addInitScript(() => {
    window.device = {};
    const session = navigator.mediaSession;
    const set = session.setActionHandler.bind(session);
    session.setActionHandler = (action, handler) => (set(action, handler), (window.device[action] = handler));
  });
  // The test's clock runs like any other, and can be put forward.
  await viewer.page.clock.install();
  await viewer.during(async () => {
    await viewer.page.goto(server.url);
    await viewer.watchAt(`${server.url}-/watch/${pathOf(episode)}`);
    await viewer.goesOn(0.5);
    await does(viewer, viewer.page);
    viewer.assertContent();
    viewer.assertAtHome(server.url);
  });
}

/** Plays the film's end, and waits for the offer of the next episode. */
async function toTheEnd(viewer, episode) {
  const { page } = viewer;
  await page.evaluate(() => {
    const video = document.querySelector("video");
    video.currentTime = video.duration - 1;
    return video.play();
  });
  await page.locator(".offer:not([hidden]) .name", { hasText: episode }).waitFor();
}

const isAt = (page, episode) => page.waitForURL((url) => url.pathname.endsWith(`/-/watch/${pathOf(episode)}`));
const focused = (page) => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
const places = (page) => page.evaluate(() => JSON.parse(localStorage.getItem("fullbore.places") ?? "{}"));
const said = (page) => page.locator(".player [aria-live]").textContent();

/** Asserts that the present episode stays, however long one waits. */
async function assertStays(page, episode) {
  await page.clock.runFor(COUNTDOWN_MS);
  assert.ok(page.url().endsWith(pathOf(episode)), page.url());
  assert.equal(await page.evaluate(() => document.querySelector("video").ended), true);
}

for (const engine of ["hls", "dash"]) {
  test(`${engine}: at its end an episode is followed by the next one, by number, in the same picture`, async () => {
    await at("s01e02", { storage: { engine } }, async (viewer, page) => {
      assert.equal(viewer.requests.filter((request) => request.url().endsWith("/titles.json")).length, 2, "the shelf's, and one of the player's");
      await viewer.choose("Captions", "English");
      await viewer.captionMatches("^A line$");
      await page.keyboard.press(">");
      await page.keyboard.press("f");
      await page.waitForFunction(() => document.fullscreenElement !== null);
      await toTheEnd(viewer, "s01e10");
      assert.match(await said(page), /^Up next: s01e10\. Starts in 10 s$/);
      assert.match(await page.locator(".offer .countdown").innerText(), /^Starts in \d+ s$/);
      await viewer.picture(`next-${engine}`);
      await page.clock.runFor(COUNTDOWN_MS);
      await isAt(page, "s01e10");
      await viewer.goesOn();
      assert.equal(await page.title(), "s01e10 · Fullbore");
      assert.equal(await page.locator(".player h1").textContent(), "s01e10");
      assert.equal(await page.locator(".about h2").innerText(), "s01e10");
      assert.equal(await page.locator(".offer").isHidden(), true);
      assert.equal(await page.locator(".player").getAttribute("data-engine"), engine);
      assert.deepEqual(await page.evaluate(() => [document.fullscreenElement !== null, document.querySelector("video").playbackRate]), [true, 1.25]);
      await viewer.captionMatches("^A line$");
      assert.ok(viewer.requests.some((request) => request.url().includes(`${pathOf("s01e10")}/`)), "no request for the next episode");
      // Each episode is a session of its own for the server's figures.
      const sessions = viewer.requests.map((request) => /sid="([^"]+)"/.exec(request.headers()["cmcd-session"] ?? "")?.[1]).filter(Boolean);
      assert.equal(new Set(sessions).size, 2);
      await page.keyboard.press("f");
      await page.goBack();
      await page.waitForURL(server.url);
    });
  });
}

test("keys and a remote accept the next episode, or cancel it", async () => {
  await at("s01e01", { viewport: { width: 1920, height: 1080 } }, async (viewer, page) => {
    await toTheEnd(viewer, "s01e02");
    assert.equal(await focused(page), "Play now");
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".offer").isHidden(), true);
    assert.equal(await said(page), "Cancelled");
    await assertStays(page, "s01e01");
    assert.equal(await focused(page), "Play");
    // Again from near the end: arrows lead to the other button.
    await toTheEnd(viewer, "s01e02");
    await page.keyboard.press("ArrowRight");
    assert.equal(await focused(page), "Cancel");
    await viewer.picture("next-television");
    await page.keyboard.press("Enter");
    await assertStays(page, "s01e01");
    await toTheEnd(viewer, "s01e02");
    await page.keyboard.press("Enter");
    await isAt(page, "s01e02");
    await viewer.goesOn();
  });
});

test("a menu ends the countdown, and the choice that nothing starts by itself is kept", async () => {
  await at("s01e01", {}, async (viewer, page) => {
    await toTheEnd(viewer, "s01e02");
    await viewer.choose("Settings", "Play next automatically", "Off");
    await assertStays(page, "s01e01");
    assert.equal(await page.locator(".offer .countdown").innerText(), "");
    assert.equal(await page.evaluate(() => localStorage.getItem("fullbore.auto-next")), "off");
  });
});

test("after the choice that nothing starts by itself, the next episode is offered and waits", async () => {
  await at("s01e01", { storage: { "auto-next": "off" } }, async (viewer, page) => {
    await toTheEnd(viewer, "s01e02");
    assert.equal(await said(page), "Up next: s01e02.");
    await assertStays(page, "s01e01");
    await page.getByRole("button", { name: "Play now" }).click();
    await isAt(page, "s01e02");
  });
});

test("Shift+N, Shift+P, the button and a device's keys go from episode to episode", async () => {
  await at("s01e01", {}, async (viewer, page) => {
    const device = () => page.evaluate(() => [window.device.previoustrack, window.device.nexttrack].map((handler) => typeof handler === "function"));
    const plays = async (episode) => {
      await isAt(page, episode);
      await viewer.goesOn(0.3);
    };
    assert.deepEqual(await device(), [false, true]);
    await page.keyboard.press("Shift+P");
    assert.equal(await said(page), "This is the first title of its folder.");
    await page.keyboard.press("Shift+N");
    await plays("s01e02");
    assert.deepEqual(await device(), [true, true]);
    await viewer.withControls(() => page.getByRole("button", { name: "Next title" }).click());
    await plays("s01e10");
    assert.deepEqual(await device(), [true, false]);
    assert.equal(await page.getByRole("button", { name: "Next title" }).isHidden(), true);
    await page.keyboard.press("Shift+N");
    assert.equal(await said(page), "This is the last title of its folder.");
    await page.evaluate(() => window.device.previoustrack());
    await plays("s01e02");
    await page.keyboard.press("n");
    await page.keyboard.press("p");
    await page.keyboard.press("Shift+P");
    await plays("s01e01");
  });
});

test("on a phone the next episode is in reach, and a tap elsewhere in the picture cancels", async () => {
  await at("s01e01", PHONE, async (viewer, page) => {
    await toTheEnd(viewer, "s01e02");
    for (const button of await page.locator(".offer button").all()) {
      const { width, height } = await button.boundingBox();
      assert.ok(width >= 44 && height >= 44, `${width} by ${height}`);
    }
    const [player, offer, back] = await Promise.all([".player", ".offer", ".player .top a"].map((selector) => page.locator(selector).boundingBox()));
    assert.ok(back.y + back.height <= offer.y, JSON.stringify({ back, offer }));
    assert.ok(offer.y >= player.y && offer.y + offer.height <= player.y + player.height, JSON.stringify({ player, offer }));
    await viewer.assertFaultless();
    await viewer.picture("next-phone");
    await page.touchscreen.tap(player.x + player.width / 2, (player.y + offer.y) / 2);
    assert.equal(await page.locator(".offer").isHidden(), true);
    await assertStays(page, "s01e01");
    await toTheEnd(viewer, "s01e02");
    await page.getByRole("button", { name: "Play now" }).tap();
    await isAt(page, "s01e02");
  });
});

for (const locale of ["en-GB", "de-AT", "fr-CA", "es-MX", "zh-CN"]) {
  test(`on a phone the controls fit into a line: ${locale}`, async () => {
    await at("s01e01", { ...PHONE, viewport: { width: 360, height: 740 }, locale }, async (viewer, page) => {
      const parts = await page.locator(".controls").evaluate((controls) => [".row", ".time"].map((part) => {
        const { scrollWidth, clientWidth } = controls.querySelector(part);
        return [scrollWidth, clientWidth];
      }));
      assert.ok(parts.every(([inner, outer]) => inner <= outer), JSON.stringify(parts));
    });
  });
}

for (const colorScheme of ["dark", "light"]) {
  test(`axe finds no fault with the offer, which stands still if that is wished: ${colorScheme}`, async () => {
    await at("s01e01", { colorScheme, reducedMotion: "reduce" }, async (viewer, page) => {
      await toTheEnd(viewer, "s01e02");
      await viewer.assertFaultless();
      assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".offer"), "::after").display), "none");
    });
  });
}

test("the shelf continues with the next episode once one is finished, and it stays until it has begun", async () => {
  await at("s01e01", { storage: { "auto-next": "off" } }, async (viewer, page) => {
    await toTheEnd(viewer, "s01e02");
    assert.deepEqual(Object.entries(await places(page)).map(([path, { seconds }]) => [path, seconds]), [[pathOf("s01e02"), 0]]);
    const begun = () => page.locator('section[data-key="begun"] h3').allInnerTexts();
    for (const left of [false, true]) {
      if (left) {
        await viewer.watchAt(`${server.url}-/watch/${pathOf("s01e02")}`);
        await viewer.goesOn(0.3);
      }
      await page.goto(server.url);
      await page.getByRole("heading", { name: "Continue watching" }).waitFor();
      assert.deepEqual(await begun(), ["s01e02"]);
      assert.equal(await page.locator('section[data-key="begun"] .progress').count(), 0);
    }
  });
});

test("in another site's frame, nothing follows an episode", async () => {
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    await viewer.page.goto(siteUrl());
    const frame = viewer.page.frameLocator("iframe");
    await frame.locator("video").waitFor();
    await frame.locator("video").evaluate((video) => new Promise((done) => {
      video.muted = true;
      const skip = () => (video.currentTime = video.duration - 1);
      // A player that is about to start isn't paused either, and knows no duration yet.
      if (!video.paused && video.readyState >= HTMLMediaElement.HAVE_FUTURE_DATA) skip();
      else video.addEventListener("playing", skip, { once: true });
      video.addEventListener("ended", () => requestAnimationFrame(done));
      if (video.paused) void video.play().catch(() => {});
    }));
    assert.equal(await frame.locator(".offer").isHidden(), true);
    assert.equal(await frame.getByRole("button", { name: "Next title" }).count(), 0);
    viewer.assertContent();
  });
});

test("an episode that is added while the last one plays is offered at its end", async () => {
  await at("s01e10", {}, async (viewer, page) => {
    assert.equal(await page.getByRole("button", { name: "Next title" }).isHidden(), true);
    copyTo(library, LATER);
    await toTheEnd(viewer, LATER);
    await page.keyboard.press("Enter");
    await isAt(page, LATER);
    await viewer.goesOn(0.3);
  });
});
