// Two viewers, each in its own Chromium, one with hls.js and one with dash.js, watch a film from a real fleet (./run fleet), while the node
// that both play from is killed. The picture of neither may stop, and each must get ten segments from other nodes. The same film is first
// watched without a fault. If the picture stops in that run, too, the machine is too slow, and the run does not count.
//
// Takes twice the film's length and some minutes; ./run fleet-lab runs it. It first makes a film of FULLBORE_LAB_MINUTES (15; at least 4), once.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Newcomers, segmentsByNode } from "./newcomers.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

const MINUTES = Number(process.env.FULLBORE_LAB_MINUTES ?? 15);
/** How much the page loads ahead. */
const AHEAD_SECONDS = 120;
/** How long both play before a node dies. At least a minute of the film must not be loaded by then. */
const BEFORE_SECONDS = Math.min(240, MINUTES * 60 - AHEAD_SECONDS - 60);
/** How many segments each viewer must get from other nodes. */
const ELSEWHERE = 10;
/** The three nodes of each viewer have their own order, so two play from the same one in a third of all cases. */
const ATTEMPTS = 20;

let fleet;

before(async () => {
  assert.ok(BEFORE_SECONDS >= 30, "a film of four minutes at least: FULLBORE_LAB_MINUTES");
  fleet = await new Newcomers().start({ name: "fleet-lab", minutes: MINUTES, viewers: 2, port: 19_543 });
});

after(async () => {
  await closeBrowser();
  await fleet?.stop();
});

async function arrives(engine) {
  const viewer = await Viewer.arrive({ browser: engine, storage: { engine } });
  await viewer.watchAt(fleet.film);
  await viewer.goesOn(4);
  return viewer;
}

/** The node that most of a viewer's segments came from. */
function nodeOf(viewer) {
  const counts = [...segmentsByNode(viewer)].sort(([, one], [, other]) => other - one);
  assert.ok(counts.length > 0, "no segments from nodes");
  return counts[0][0];
}

/** Opens one viewer with each engine. Both play from the same node. */
async function pair() {
  const hls = await arrives("hls");
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const dash = await arrives("dash");
    if (nodeOf(dash) === nodeOf(hls)) return [hls, dash];
    await dash.leave();
  }
  assert.fail(`${ATTEMPTS} viewers came, and none played from ${nodeOf(hls)}`);
}

/** Both watch to the end. `happens` runs in between, with the node that both play from. Returns for each how often the picture stopped after that,
 *  and its later segments. */
async function evening(happens) {
  const viewers = await pair();
  try {
    await viewers[0].page.waitForTimeout(BEFORE_SECONDS * 1000);
    // A picture that has just begun may stop while two browsers start on few cores. Stops count only once enough is loaded.
    for (const viewer of viewers) assert.ok((await viewer.film("ahead")) > AHEAD_SECONDS / 2, "void: too little is loaded");
    const before = await Promise.all(viewers.map((viewer) => viewer.film("waits")));
    const requests = viewers.map((viewer) => viewer.requests.length);
    const node = nodeOf(viewers[0]);
    assert.equal(nodeOf(viewers[1]), node, "void: they are no longer on the same node");
    await happens(node);
    const seen = [];
    for (const [at, viewer] of viewers.entries()) {
      const end = MINUTES * 60 - 3;
      await viewer.page.waitForFunction((end) => document.querySelector("video").currentTime >= end, end, { timeout: MINUTES * 60_000, polling: 1000 });
      seen.push({ waits: (await viewer.film("waits")) - before[at], segments: segmentsByNode(viewer, requests[at]), state: await viewer.state() });
    }
    return { node, seen };
  } finally {
    for (const viewer of viewers) await viewer.leave();
  }
}

const elsewhere = ({ segments }, node) => [...segments].filter(([host]) => host !== node).reduce((sum, [, count]) => sum + count, 0);

test("two browsers watch a film to its end while a node of the fleet dies, and see nothing of it", async () => {
  const quiet = await evening(() => {});
  for (const one of quiet.seen) assert.equal(one.waits, 0, `void: the picture stands still without a fault, too: ${one.state}`);
  const loud = await evening((node) => assert.equal(fleet.kill(node), 2, `${node} has an agent and a server`));
  for (const [engine, one] of Object.entries({ hls: loud.seen[0], dash: loud.seen[1] })) {
    console.log(`${engine}: ${elsewhere(one, loud.node)} segments elsewhere after ${loud.node} died`);
    assert.equal(one.waits, 0, `${engine}: the picture stood still: ${one.state}`);
    assert.ok(elsewhere(one, loud.node) >= ELSEWHERE, `${engine}: ${elsewhere(one, loud.node)} segments elsewhere: ${one.state}`);
  }
});
