// A viewer: Chromium with one page, the errors that the browser reports, and checks of what a person would see.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const OUT = process.env.FULLBORE_PAGES_OUT ?? "target/pages";

/** How long to wait for an expected event; far longer than it normally takes. */
export const PATIENCE_MS = 90_000;

const browsers = new Map();

/** The browser of that name: one for all viewers, unless a test wants viewers apart. As root, Chromium runs only without its sandbox; the pages opened
 *  here are ours. */
async function open(name) {
  const args = ["--autoplay-policy=no-user-gesture-required", "--mute-audio"];
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  const executablePath = process.env.FULLBORE_CHROMIUM ?? "/usr/bin/chromium";
  if (!browsers.has(name)) browsers.set(name, chromium.launch({ executablePath, args }));
  return browsers.get(name);
}

export async function closeBrowser() {
  for (const browser of browsers.values()) await (await browser).close();
  browsers.clear();
}

const inShort = ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`;

export class Viewer {
  complaints = [];
  requests = [];

  /** A new viewer, in the browser of that name; `storage` is the browser's storage after an earlier visit. */
  static async arrive({ browser = "everyone's", storage = {}, ...options } = {}) {
    const context = await (await open(browser)).newContext({
      ignoreHTTPSErrors: true,
      viewport: { width: 1280, height: 800 },
      colorScheme: "dark",
      locale: "en-GB",
      ...options,
    });
    await context.addInitScript((entries) => {
      for (const [name, value] of Object.entries(entries)) localStorage.setItem(`fullbore.${name}`, value);
    }, storage);
    await context.addInitScript(() => {
      /** Seconds of the film that are loaded ahead of the position. */
      window.ahead = () => {
        const { buffered, currentTime } = document.querySelector("video");
        for (let i = 0; i < buffered.length; i += 1) {
          if (buffered.start(i) <= currentTime && currentTime <= buffered.end(i)) return buffered.end(i) - currentTime;
        }
        return 0;
      };
    });
    const viewer = new Viewer();
    viewer.context = context;
    viewer.page = await context.newPage();
    viewer.page.setDefaultTimeout(PATIENCE_MS);
    viewer.page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) viewer.complaints.push(`${message.text()} (${message.location().url})`);
    });
    viewer.page.on("pageerror", (error) => viewer.complaints.push(error.stack ?? error.message));
    viewer.page.on("request", (request) => viewer.requests.push(request));
    return viewer;
  }

  async leave() {
    await this.context.close();
  }

  /** Runs `does`. If it fails, prints what the page showed. Always closes the page. */
  async during(does) {
    try {
      await does();
    } catch (error) {
      console.log(await this.state().catch((why) => `the page does not answer: ${why.message}`));
      await this.picture(`failed-${Date.now()}`).catch(() => {});
      throw error;
    } finally {
      await this.leave();
    }
  }

  /** The state of the film, the errors, and the requests that are not answered yet. */
  async state() {
    const open = this.requests.filter((request) => request.timing().responseEnd < 0 && !request.failure()).map((request) => request.url());
    const film = await this.page.evaluate(() => {
      const video = document.querySelector("video");
      if (video === null) return null;
      const { currentTime, readyState, networkState, paused, seeking, buffered, videoHeight, dataset } = video;
      const ranges = [...Array(buffered.length).keys()].map((i) => [buffered.start(i), buffered.end(i)]);
      const state = { ...document.querySelector(".player")?.dataset };
      return { currentTime, readyState, networkState, paused, seeking, ranges, videoHeight, dataset, state, error: video.error?.message };
    });
    return JSON.stringify({ film, complaints: this.complaints, open: open.slice(-8) });
  }

  assertContent() {
    assert.deepEqual(this.complaints, []);
  }

  /** Asserts that all requests went to this server. */
  assertAtHome(url) {
    const hosts = new Set(this.requests.map((request) => new URL(request.url())).filter(({ protocol }) => /^http/.test(protocol)).map(({ origin }) => origin));
    assert.deepEqual([...hosts], [new URL(url).origin]);
  }

  async picture(name) {
    mkdirSync(OUT, { recursive: true });
    await this.page.screenshot({ path: join(OUT, `${name}.png`) });
  }

  /** Fails if axe finds faults that keep people from using the page. */
  async assertAccessible() {
    const grave = (await this.violations()).filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(grave.map(inShort), []);
  }

  /** Fails if axe finds any fault at all. */
  async assertFaultless() {
    assert.deepEqual((await this.violations()).map(inShort), []);
  }

  async violations() {
    await this.page.evaluate(AXE);
    return (await this.page.evaluate(() => window.axe.run())).violations;
  }

  // --- watching ---------------------------------------------------------------------------------------------------------

  async watch(url, title) {
    await this.watchAt(`${url}-/watch/${encodeURIComponent(title)}`);
  }

  /** Opens a player's page. */
  async watchAt(url) {
    await this.page.goto(url);
    await this.page.waitForSelector("video");
    await this.page.evaluate(() => {
      const video = document.querySelector("video");
      // A picture waits for bytes, or for a decoder without processor time; only the first is under test.
      window.waits = 0;
      video.addEventListener("waiting", () => (window.waits += window.ahead() < 1));
    });
  }

  film(of) {
    return this.page.evaluate((of) => {
      const video = document.querySelector("video");
      return { seconds: video.currentTime, ahead: window.ahead(), height: video.videoHeight, waits: window.waits }[of];
    }, of);
  }

  /** Waits until the film has advanced this much from its present position. */
  async goesOn(seconds = 1.5) {
    await this.page.waitForSelector("video");
    const from = await this.film("seconds");
    await this.page.waitForFunction((to) => document.querySelector("video").currentTime >= to, from + seconds);
  }

  async isLoadedUntil(seconds) {
    await this.page.waitForFunction((seconds) => {
      const { buffered } = document.querySelector("video");
      return buffered.length > 0 && buffered.end(buffered.length - 1) >= seconds;
    }, seconds);
  }

  /** Fails if the picture is black or of one colour, by the mean and spread of its pixels on a canvas. */
  async assertSeesSomething() {
    const [mean, spread] = await this.page.evaluate(() => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 64, height: 36 });
      const context = canvas.getContext("2d");
      context.drawImage(document.querySelector("video"), 0, 0, 64, 36);
      const light = [];
      const { data } = context.getImageData(0, 0, 64, 36);
      for (let i = 0; i < data.length; i += 4) light.push((data[i] + data[i + 1] + data[i + 2]) / 3);
      const mean = light.reduce((a, b) => a + b) / light.length;
      return [mean, Math.sqrt(light.reduce((sum, value) => sum + (value - mean) ** 2, 0) / light.length)];
    });
    assert.ok(mean > 16 && spread > 8, `the picture is black or blank: mean ${mean}, spread ${spread}`);
  }

  /** From now on at most this many bits a second reach the page, from the first byte of a response on; null: no limit. */
  async bound(bitsPerSecond) {
    this.network ??= await this.context.newCDPSession(this.page);
    const downloadThroughput = bitsPerSecond === null ? -1 : bitsPerSecond / 8;
    await this.network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput, uploadThroughput: -1 });
  }

  /** Keeps the controls in sight during `does`. They hide when the mouse rests for three seconds, and a loaded machine may need longer than that. */
  async withControls(does) {
    const stirring = await this.page.evaluate(() => {
      const stir = () => document.querySelector(".player").dispatchEvent(new PointerEvent("pointermove"));
      stir();
      return setInterval(stir, 500);
    });
    await does();
    await this.page.evaluate((stirring) => clearInterval(stirring), stirring);
  }

  /** Opens a menu and chooses: `choose("Settings", "Quality", "360p")`. */
  async choose(button, ...entries) {
    await this.page.mouse.move(640, 300);
    await this.page.mouse.move(642, 302);
    await this.withControls(async () => {
      await this.page.getByRole("button", { name: button, exact: true }).click();
      for (const entry of entries) {
        await this.page.locator(".menu:not([hidden]) [role^=menuitem]", { hasText: entry }).first().click();
      }
    });
  }

  async seek(share) {
    await this.pointAt(share);
    await this.page.mouse.down();
    await this.page.mouse.up();
  }

  /** Moves the mouse to a share of the time bar. */
  async pointAt(share) {
    await this.page.mouse.move(640, 300);
    await this.page.mouse.move(642, 302);
    const box = await this.page.locator(".timebar").boundingBox();
    await this.page.mouse.move(box.x + box.width * share - 3, box.y + box.height / 2);
    await this.page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
  }

  /** Points at a share of the time bar until it shows a picture. Before the list of pictures is there, only the next move of the mouse shows one. */
  async previews(share) {
    for (const end = Date.now() + PATIENCE_MS; !(await this.page.locator(".preview .picture").isVisible()); ) {
      assert.ok(Date.now() < end, "the time bar shows no picture");
      await this.pointAt(share);
    }
  }

  /** The present text of the captions. */
  async captionMatches(pattern) {
    await this.page.waitForFunction((source) => {
      const shown = [...(document.querySelector("video")?.textTracks ?? [])].filter(({ mode }) => mode === "showing");
      return shown.some(({ activeCues }) => [...(activeCues ?? [])].some(({ text }) => new RegExp(source).test(text)));
    }, pattern);
  }
}
