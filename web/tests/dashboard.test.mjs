// The dashboard in a real browser, while viewers are served.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server } from "./server.mjs";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
let library;
let server;
let isLoaded = true;
let load;

/** A viewer that sends request after request, and reads everything. */
async function watch() {
  while (isLoaded) {
    await new Promise((done) => {
      const asked = request(new URL("a%20film/1.mp4", server.url), { rejectUnauthorized: false }, (answer) => answer.on("close", done).resume());
      asked.on("error", () => setTimeout(done, 100)).end();
    });
  }
}

before(async () => {
  library = mkdtempSync(join(tmpdir(), "fullbore-dashboard-"));
  mkdirSync(join(library, "a film"));
  writeFileSync(join(library, "a film", "1.mp4"), Buffer.alloc(4 << 20, 7));
  server = await new Server(library).start();
  load = watch();
});

after(async () => {
  isLoaded = false;
  await load;
  await closeBrowser();
  await server?.remove();
  rmSync(library, { recursive: true });
});

const figure = (page, title) => page.locator(".card", { has: page.getByRole("heading", { name: title, exact: true }) }).locator(".number");

for (const [name, options] of Object.entries({ dark: {}, light: { colorScheme: "light" }, phone: PHONE })) {
  test(`the dashboard shows what is served and can be used by all: ${name}`, async () => {
    const viewer = await Viewer.arrive(options);
    const { page } = viewer;
    try {
      await page.goto(server.admin);
      await page.getByRole("status").filter({ hasText: "Live" }).waitFor();
      await page.getByRole("rowheader", { name: "a film/1.mp4", exact: true }).waitFor();
      const before = await figure(page, "First byte").innerText();
      assert.match(before, /\d/);
      const answers = page.locator(".panel", { hasText: "Answers" }).locator("tbody td").last();
      const first = await answers.innerText();
      await page.waitForFunction(
        ([cell, was]) => cell.innerText !== was,
        [await answers.elementHandle(), first],
      );
      assert.match(await figure(page, "Sent").innerText(), /[1-9]/);
      assert.equal(await page.locator(".card canvas").count(), 8);
      const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(width <= 0, `it is ${width} pixels too wide`);
      await viewer.picture(`dashboard-${name}`);
      await viewer.assertAccessible();
      viewer.assertContent();
      viewer.assertAtHome(server.admin);
    } finally {
      await viewer.leave();
    }
  });
}

test("the dashboard says when figures are old, and goes on when the server is back", async () => {
  const viewer = await Viewer.arrive();
  const { page } = viewer;
  try {
    await page.goto(server.admin);
    const state = page.getByRole("status");
    await state.filter({ hasText: "Live" }).waitFor();
    await server.kill();
    await state.filter({ hasText: "No data" }).waitFor();
    assert.ok(await page.evaluate(() => document.body.classList.contains("stale")));
    await viewer.picture("dashboard-stale");
    await server.start();
    await state.filter({ hasText: "Live" }).waitFor({ timeout: PATIENCE_MS });
  } finally {
    await viewer.leave();
  }
});
