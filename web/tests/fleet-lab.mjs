// Two viewers in Chromium, one with hls.js and one with dash.js, watch a film of 15 minutes from a real fleet (./run fleet), while the node that most of
// it comes from is killed. Each must see nothing of it, and have ten segments from elsewhere.
//
// Takes some twenty minutes; run by ./run fleet-lab. A film of FULLBORE_LAB_MINUTES (15) is made first, once.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { closeBrowser, Viewer } from "./viewer.mjs";

const MINUTES = Number(process.env.FULLBORE_LAB_MINUTES ?? 15);
/** How long both play before a node dies. */
const BEFORE_SECONDS = Math.min(240, MINUTES * 20);
/** Requests of each viewer that must have gone elsewhere. */
const ELSEWHERE = 10;
const PORTS = { FLEET_NODE_PORT: 19543, FLEET_PUBLIC_PORT: 19544, FLEET_ADMIN_PORT: 19545, FLEET_MACHINES_PORT: 19546 };
const GATEWAY = `http://127.0.0.1:${PORTS.FLEET_PUBLIC_PORT}`;

let fleet;

before(async () => {
  const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "fleet-lab");
  mkdirSync(folder, { recursive: true });
  const environment = { ...process.env, FULLBORE: process.env.FULLBORE_PROGRAM, FLEET_FILM_MINUTES: String(MINUTES), FLEET_VIEWERS: "2" };
  for (const [name, port] of Object.entries(PORTS)) environment[name] = String(port);
  fleet = spawn("./run", ["fleet", folder], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((ready, failed) => {
    fleet.stdout.on("data", (said) => String(said).includes("ready ") && ready());
    fleet.on("exit", (code) => failed(new Error(`the fleet ended with ${code}`)));
  });
});

after(async () => {
  await closeBrowser();
  const ended = new Promise((done) => fleet.once("exit", done));
  fleet.kill("SIGTERM");
  await ended;
});

/** Processes of the node at `host`: its server and its agent, which both have the address in their command line. */
function processesOf(host) {
  const listens = `${host}:${PORTS.FLEET_NODE_PORT}`;
  const words = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    } catch {
      return [];
    }
  };
  return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && words(pid).includes(listens));
}

const hostOf = (request) => new URL(request.url()).hostname;
/** Requests that went to a node, by its host. */
function byNode(viewer, from = 0) {
  const counts = new Map();
  for (const request of viewer.requests.slice(from)) {
    const host = hostOf(request);
    if (host.startsWith("127.0.1.")) counts.set(host, (counts.get(host) ?? 0) + 1);
  }
  return counts;
}

async function watches(engine) {
  const viewer = await Viewer.arrive({ storage: { engine } });
  await viewer.watchAt(`${GATEWAY}/watch?title=sample-${MINUTES}`);
  await viewer.goesOn();
  return viewer;
}

test("two browsers watch a film to its end while a node of the fleet dies, and see nothing of it", async () => {
  const viewers = [await watches("hls"), await watches("dash")];
  await viewers[0].page.waitForTimeout(BEFORE_SECONDS * 1000);
  const [[dead]] = [...byNode(viewers[0])].sort((one, other) => other[1] - one[1]);
  const killed = viewers.map((viewer) => viewer.requests.length);
  const waits = await Promise.all(viewers.map((viewer) => viewer.film("waits")));
  assert.ok(processesOf(dead).length >= 2, `${dead} has no processes`);
  for (const pid of processesOf(dead)) process.kill(Number(pid), "SIGKILL");
  const until = Date.now() + (MINUTES * 60 - BEFORE_SECONDS - 30) * 1000;
  while (Date.now() < until) await viewers[0].page.waitForTimeout(5000);
  for (const [at, viewer] of viewers.entries()) {
    await viewer.goesOn(0.5);
    assert.equal(await viewer.film("waits"), waits[at], "the picture stood still");
    const later = byNode(viewer, killed[at]);
    const elsewhere = [...later].filter(([host]) => host !== dead).reduce((sum, [, count]) => sum + count, 0);
    assert.ok(elsewhere >= ELSEWHERE, `${elsewhere} requests elsewhere`);
    await viewer.leave();
  }
});
