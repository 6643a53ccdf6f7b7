// The player of a gateway in Chromium: a film that three real servers have. One gets slow, one dies, one goes silent, and the network fails. The rules
// of the player have a test without a browser: decisions.test.mjs. firefox.test.mjs has a shorter evening.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { FILM, FILM_SECONDS, makeLibrary } from "./films.mjs";
import { FAULTS, LinkedFleet } from "./link.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const ENGINES = ["hls", "dash"];
/** How many requests must go to other servers before a test is sure that the viewer has left one. */
const ELSEWHERE = 3;
/** How soon a viewer knows all servers, and how soon one that gets slow or fails is left. */
const ALL_ASKED_MS = 10_000;
const LEFT_MS = 6000;
/** How long the viewer's network is gone; less than the two minutes that are loaded. */
const GONE_MS = Number(process.env.FULLBORE_GONE_SECONDS ?? 100) * 1000;

const servers = [];
/** One for each engine. */
const fleets = {};

before(async () => {
  const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "films");
  mkdirSync(folder, { recursive: true });
  const library = makeLibrary(folder);
  for (let count = 0; count < 3; count += 1) servers.push(await new Server(library).start());
  for (const engine of ENGINES) fleets[engine] = await new LinkedFleet().start(library, servers);
});

beforeEach(() => Promise.all(Object.values(fleets).map((fleet) => fleet.mend())));

after(async () => {
  await closeBrowser();
  for (const fleet of Object.values(fleets)) await fleet.stop();
  for (const server of servers) await server.remove();
});

const isNotOfTheNetwork = (complaint) => !complaint.includes("net::ERR_") && !complaint.includes("CORS policy");

const startOf = (request) => request.timing().startTime;
const rangeOf = (request) => request.headers()["range"];

/** A viewer's requests for media, to one of the links or to all. Players add CMCD to each of theirs; probes have none. */
function mediaOf(viewer, links) {
  const isTo = (request) => [links].flat().some(({ url }) => request.url().startsWith(url));
  return viewer.requests.filter((request) => isTo(request) && request.url().includes("CMCD=") && rangeOf(request));
}

const probesOf = (viewer) => viewer.requests.filter((request) => request.resourceType() === "fetch" && rangeOf(request));

function bytesOf(requests) {
  const ranges = requests.map((request) => /bytes=(\d+)-(\d+)/.exec(rangeOf(request)) ?? [0, 0, -1]);
  return ranges.reduce((sum, [, first, last]) => sum + Number(last) + 1 - Number(first), 0);
}

async function watch(viewer, { gateway }) {
  await viewer.watchAt(`${gateway.url}watch?title=${encodeURIComponent(FILM)}`);
}

/** Waits, while the film plays on, until `holds`. */
async function until(viewer, what, holds) {
  for (const end = Date.now() + PATIENCE_MS; !holds(); ) {
    assert.ok(Date.now() < end, `waited too long: ${what}`);
    await viewer.goesOn(0.25);
  }
}

/** Waits until each server was asked for something. */
async function knowsAll(viewer, links) {
  const firstTo = ({ url }) => viewer.requests.find((request) => request.url().startsWith(url) && rangeOf(request));
  await until(viewer, "all servers are asked", () => links.every(firstTo));
  const began = startOf(mediaOf(viewer, links)[0]);
  for (const link of links) assert.ok(startOf(firstTo(link)) - began <= ALL_ASKED_MS, `asked after ${startOf(firstTo(link)) - began} ms`);
}

/** The link over which most of a viewer's latest media came. */
function usedBy(viewer, links) {
  const latest = mediaOf(viewer, links).slice(-ELSEWHERE);
  const count = (link) => latest.filter((request) => request.url().startsWith(link.url)).length;
  return links.reduce((best, link) => (count(link) > count(best) ? link : best));
}

/** Harms the server in use. Returns how long a viewer still sent requests there. */
async function leaves(viewer, links, harm) {
  const used = usedBy(viewer, links);
  const harmedAt = Date.now();
  await harm(used);
  const later = (of) => mediaOf(viewer, of).filter((request) => startOf(request) >= harmedAt);
  const others = links.filter((link) => link !== used);
  await until(viewer, "a server is left", () => later(others).length >= ELSEWHERE);
  const there = later(used).map(startOf);
  // The first request that meets the fault may be one that was open at that time.
  return Math.max(...there, ...later(others).slice(0, 1).map(startOf)) - Math.min(...there, ...later(others).map(startOf));
}

/** One viewer's evening: each server that is in use fails in its own way, and then the network does. */
async function evening(engine, viewer) {
  const fleet = fleets[engine];
  const { links } = fleet;
  await watch(viewer, fleet);
  await knowsAll(viewer, links);
  await viewer.isLoadedUntil(100);
  const waits = await viewer.film("waits");
  for (const [name, harm] of FAULTS) {
    if (name === "dead") await fleet.mend();
    const ms = await leaves(viewer, links, harm);
    console.log(`${engine}: left the ${name} server after ${Math.round(ms)} ms`);
    assert.ok(ms <= LEFT_MS, `left the ${name} server after ${ms} ms`);
  }
  assert.equal(await viewer.page.locator(".hint").isHidden(), true, "a viewer need not hear of it");
  assert.ok((await viewer.film("ahead")) + (await viewer.film("seconds")) < FILM_SECONDS - 5, "void: all is loaded");
  await fleet.mend();
  await viewer.context.setOffline(true);
  await viewer.page.waitForTimeout(GONE_MS);
  await viewer.context.setOffline(false);
  await viewer.isLoadedUntil(FILM_SECONDS - 2);
  assert.equal(await viewer.film("waits"), waits, "the picture stood still");
  await viewer.assertSeesSomething();
  assert.deepEqual(viewer.complaints.filter(isNotOfTheNetwork), []);
  const arrived = mediaOf(viewer, links).filter((request) => request.failure() === null);
  const [probes, media] = [bytesOf(probesOf(viewer)), bytesOf(arrived)];
  console.log(`${engine}: ${probesOf(viewer).length} probes, ${((probes / media) * 100).toFixed(2)}% of ${media} bytes`);
  assert.ok(probes > 0 && probes <= media / 100, `probes ${probes} of ${media} bytes`);
}

test(`two engines on three servers: one gets slow, one dies, one falls silent, the network is gone for ${GONE_MS / 1000} s, and no picture stops`, async () => {
  await Promise.all(
    ENGINES.map(async (engine) => {
      const viewer = await Viewer.arrive({ browser: engine, storage: { engine } });
      await viewer.during(() => evening(engine, viewer));
    }),
  );
});

for (const engine of ENGINES) {
  test(`${engine}: a server that has failed is left alone, although steering still names it first`, async () => {
    const viewer = await Viewer.arrive({ storage: { engine } });
    const { gateway, links } = fleets[engine];
    await viewer.during(async () => {
      await watch(viewer, fleets[engine]);
      await viewer.isLoadedUntil(100);
      assert.equal(await viewer.page.locator(".player").getAttribute("data-engine"), engine);
      assert.equal(usedBy(viewer, links), links[0], "the first server serves while it can");
      await links[0].cut();
      await until(viewer, "the server is left", () => usedBy(viewer, links) !== links[0]);
      const [asked, before] = [gateway.asked, mediaOf(viewer, links[0]).length];
      await until(viewer, "steering is asked twice", () => gateway.asked >= asked + 2);
      assert.ok(mediaOf(viewer, links[0]).length - before <= 1, "it went back to a server that had just failed");
    });
  });

  test(`${engine}: when all servers are gone for a while, the viewer sees a message and continues afterwards`, async () => {
    const viewer = await Viewer.arrive({ storage: { engine } });
    const { gateway, links } = fleets[engine];
    await viewer.during(async () => {
      await watch(viewer, fleets[engine]);
      await viewer.isLoadedUntil(100);
      const loaded = (await viewer.film("seconds")) + (await viewer.film("ahead"));
      await Promise.all(links.map((link) => link.cut()));
      await viewer.page.locator(".hint:not([hidden])").waitFor();
      await Promise.all(links.map((link) => link.mend()));
      await viewer.isLoadedUntil(loaded + 8);
      assert.equal(await viewer.page.locator(".message").isHidden(), true);
    });
  });
}

test("a film that could not be loaded begins by itself when the network is back", async () => {
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    await viewer.page.route(/master\.m3u8/, (route) => route.abort());
    await watch(viewer, fleets.hls);
    await viewer.page.locator(".message:not([hidden])").waitFor();
    assert.equal(await viewer.page.evaluate(() => document.activeElement.textContent), "Try again", "a remote has no other way to it");
    await viewer.page.unrouteAll();
    await viewer.context.setOffline(true);
    await viewer.context.setOffline(false);
    await viewer.goesOn();
    assert.equal(await viewer.page.locator(".message").isHidden(), true);
  });
});

test("dash: a film whose files all servers refuse is said to be missing at once", async () => {
  const viewer = await Viewer.arrive({ storage: { engine: "dash" } });
  await viewer.during(async () => {
    const isOfFilm = (url) => fleets.dash.links.some((link) => url.href.startsWith(link.url));
    await viewer.page.route(isOfFilm, (route) => route.fulfill({ status: 404, headers: { "Access-Control-Allow-Origin": "*" } }));
    await watch(viewer, fleets.dash);
    await viewer.page.locator(".message", { hasText: "does not exist" }).waitFor();
    const asked = viewer.requests.length;
    await viewer.page.waitForTimeout(1500);
    assert.ok(viewer.requests.length - asked <= 3, `${viewer.requests.length - asked} more requests`);
  });
});

test("the page loads from the gateway and its nodes alone, and lists what there is", async () => {
  const viewer = await Viewer.arrive();
  const { gateway, links } = fleets.hls;
  await viewer.during(async () => {
    await viewer.page.goto(`${gateway.url}watch`);
    await viewer.assertAccessible();
    await viewer.picture("fleet-films");
    await viewer.page.locator(".card", { hasText: FILM }).click();
    await viewer.page.waitForURL(/\/watch\?title=Test%20Film$/);
    await viewer.goesOn();
    const allowed = [gateway.url, ...links.map(({ url }) => url)].map((url) => new URL(url).origin);
    const hosts = new Set(viewer.requests.map((request) => new URL(request.url())).filter(({ protocol }) => /^http/.test(protocol)).map(({ origin }) => origin));
    assert.deepEqual([...hosts].filter((host) => !allowed.includes(host)), []);
    // The browser refuses every request to another host, even from a script.
    const refused = await viewer.page.evaluate(() => fetch("https://127.0.0.9:1/").then(() => "answered", () => "refused"));
    assert.equal(refused, "refused");
    assert.ok(viewer.complaints.some((complaint) => complaint.includes("Content Security Policy")), viewer.complaints.join("\n"));
  });
});
