// `./run fleet` in a real browser: the film plays, and the fleet's page drains a node.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Newcomers, segmentsByNode } from "./newcomers.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

/** Steering answers are valid for 30 s at most, and servers close connections that are idle for 75 s; the rest is for a loaded machine. */
const LEAVES_MS = 300_000;

let fleet;

before(async () => {
  fleet = await new Newcomers().start({ name: "newcomers", minutes: 1, viewers: 12, port: 19_643 });
});

after(async () => {
  await closeBrowser();
  await fleet?.stop();
});

for (const engine of ["hls", "dash"]) {
  test(`./run fleet: its film plays from its nodes, with ${engine}`, async () => {
    const viewer = await Viewer.arrive({ storage: { engine } });
    await viewer.during(async () => {
      await viewer.watchAt(fleet.film);
      await viewer.goesOn(3);
      await viewer.assertSeesSomething();
      assert.ok(segmentsByNode(viewer).size > 0, "no segments from nodes");
      viewer.assertContent();
    });
  });
}

test("./run fleet: its page drains a node, and its viewers leave", async () => {
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    const { page } = viewer;
    await page.goto(fleet.admin);
    await page.getByLabel("Token").fill(fleet.token);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("status").filter({ hasText: "Live" }).waitFor();
    const busiest = async () => (await fleet.nodes()).sort((one, other) => other.connections - one.connections)[0];
    const patience = Date.now() + LEAVES_MS;
    while ((await busiest()).connections < 4) {
      assert.ok(Date.now() < patience, "no viewer watches");
      await page.waitForTimeout(1000);
    }
    const { name } = await busiest();
    const row = page.getByRole("row", { name: new RegExp(`^${name}`) });
    await page.getByRole("button", { name: `Drain ${name}`, exact: true }).click();
    await page.getByLabel("Why").fill("a try");
    await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
    await row.filter({ hasText: "“a try”" }).waitFor();
    await row.filter({ hasText: /draining|drained/ }).waitFor();
    // Less than half of its connections.
    await row.locator(".spark.falling").waitFor({ timeout: LEAVES_MS });
    await viewer.picture("fleet-of-newcomers");
    await page.getByRole("button", { name: `Undrain ${name}` }).click();
    await row.filter({ hasText: "serving" }).waitFor();
    viewer.complaints = viewer.complaints.filter((complaint) => !complaint.includes("401"));
    viewer.assertContent();
  });
});
