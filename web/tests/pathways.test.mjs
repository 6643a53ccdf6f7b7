// The player of a gateway in a real browser: a film that two real servers have, one of which dies or goes silent.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { FILM, makeLibrary } from "./films.mjs";
import { Gateway } from "./gateway.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const ENGINES = ["hls", "dash"];
/** How many requests must go to the other server before a test is sure that the viewer uses it. */
const ELSEWHERE = 10;

let library;
let first;
let second;
let gateway;

before(async () => {
  const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "films");
  mkdirSync(folder, { recursive: true });
  library = makeLibrary(folder);
  first = await new Server(library).start();
  second = await new Server(library).start();
  const nodes = [{ id: "n1", url: first.url }, { id: "n2", url: second.url }];
  gateway = await new Gateway(library, FILM, nodes).start();
});

after(async () => {
  await closeBrowser();
  await gateway?.stop();
  await first?.remove();
  await second?.remove();
});

const isNotOfTheNetwork = (complaint) => !complaint.includes("net::ERR_") && !complaint.includes("CORS policy");
const askedOf = (viewer, server) => viewer.requests.filter((request) => request.url().startsWith(server.url)).length;

async function watch(viewer) {
  await viewer.watchAt(`${gateway.url}watch?title=${encodeURIComponent(FILM)}`);
}

/** Waits until the viewer has sent this many more requests to a server. */
async function asksOf(viewer, server, requests) {
  const until = askedOf(viewer, server) + requests;
  const patience = Date.now() + 3 * PATIENCE_MS;
  while (askedOf(viewer, server) < until) {
    assert.ok(Date.now() < patience, `${askedOf(viewer, server)} of ${until} requests`);
    await viewer.goesOn(0.5);
  }
}

for (const engine of ENGINES) {
  for (const [how, harm, mend] of [
    ["dies", () => first.kill(), () => first.start()],
    ["falls silent", () => first.pause(), () => first.resume()],
  ]) {
    test(`${engine}: a server that ${how} in the middle of a film is left, and nothing is seen of it`, async () => {
      const viewer = await Viewer.arrive({ storage: { engine } });
      await viewer.during(async () => {
        await watch(viewer);
        await viewer.isLoadedUntil(100);
        await viewer.goesOn();
        assert.equal(await viewer.page.locator(".player").getAttribute("data-engine"), engine);
        assert.equal(askedOf(viewer, second), 0, "the first server serves while it can");
        const waits = await viewer.film("waits");
        await harm();
        try {
          await asksOf(viewer, second, ELSEWHERE);
          assert.ok((await viewer.film("ahead")) > 60, "it moved long before the buffer was empty");
          assert.equal(await viewer.page.locator(".hint").isHidden(), true, "a viewer need not hear of it");
          // Steering still names the dead server first, but the page avoids it.
          const asked = gateway.asked;
          const before = askedOf(viewer, first);
          const patience = Date.now() + PATIENCE_MS;
          while (gateway.asked < asked + 2) {
            assert.ok(Date.now() < patience, `steering was asked ${gateway.asked - asked} times`);
            await viewer.goesOn(0.5);
          }
          await asksOf(viewer, second, 2);
          assert.ok(askedOf(viewer, first) - before <= 1, "it went back to a server that had just failed");
        } finally {
          await mend();
        }
        assert.equal(await viewer.film("waits"), waits, "the picture stood still");
        await viewer.assertSeesSomething();
        assert.deepEqual(viewer.complaints.filter(isNotOfTheNetwork), []);
      });
    });
  }

  test(`${engine}: when all servers are gone for a while, the viewer sees a message and continues afterwards`, async () => {
    const viewer = await Viewer.arrive({ storage: { engine } });
    await viewer.during(async () => {
      await watch(viewer);
      await viewer.isLoadedUntil(100);
      const until = (await viewer.film("seconds")) + (await viewer.film("ahead"));
      await Promise.all([first.kill(), second.kill()]);
      try {
        await viewer.page.locator(".hint:not([hidden])").waitFor();
      } finally {
        await Promise.all([first.start(), second.start()]);
      }
      await viewer.isLoadedUntil(until + 8);
      assert.equal(await viewer.page.locator(".message").isHidden(), true);
    });
  });
}

test("the page loads from the gateway and its nodes alone, and lists what there is", async () => {
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    await viewer.page.goto(`${gateway.url}watch`);
    await viewer.assertAccessible();
    await viewer.picture("fleet-films");
    await viewer.page.locator(".card", { hasText: FILM }).click();
    await viewer.page.waitForURL(/\/watch\?title=Test%20Film$/);
    await viewer.goesOn();
    const allowed = [gateway.url, first.url, second.url].map((url) => new URL(url).origin);
    const hosts = new Set(viewer.requests.map((request) => new URL(request.url())).filter(({ protocol }) => /^http/.test(protocol)).map(({ origin }) => origin));
    assert.deepEqual([...hosts].filter((host) => !allowed.includes(host)), []);
    // The browser refuses every request to another host, even from a script.
    const refused = await viewer.page.evaluate(() => fetch("https://127.0.0.9:1/").then(() => "answered", () => "refused"));
    assert.equal(refused, "refused");
    assert.ok(viewer.complaints.some((complaint) => complaint.includes("Content Security Policy")), viewer.complaints.join("\n"));
  });
});
