// The dashboard in a real browser, while viewers are served.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server } from "./server.mjs";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
let library;
let server;
let leave;

/** Starts viewers of this server that request a film again and again and read all of it. Returns a function that stops them. */
function watch({ url }, viewers = 1, film = "a%20film/1.mp4") {
  let isWatched = true;
  const one = async () => {
    while (isWatched) {
      await new Promise((done) => {
        const asked = request(new URL(film, url), { rejectUnauthorized: false }, (answer) => answer.on("close", done).resume());
        asked.on("error", () => setTimeout(done, 100)).end();
      });
    }
  };
  const all = Array.from({ length: viewers }, one);
  return async () => {
    isWatched = false;
    await Promise.all(all);
  };
}

before(async () => {
  library = mkdtempSync(join(tmpdir(), "fullbore-dashboard-"));
  mkdirSync(join(library, "a film"));
  writeFileSync(join(library, "a film", "1.mp4"), Buffer.alloc(4 << 20, 7));
  server = await new Server(library).start();
  leave = watch(server);
});

after(async () => {
  await leave?.();
  await closeBrowser();
  await server?.remove();
  rmSync(library, { recursive: true });
});

/** Tries again until the condition holds; `state` says what there is instead. */
async function until(isSo, state = () => "") {
  for (const end = Date.now() + PATIENCE_MS; !(await isSo()); ) {
    assert.ok(Date.now() < end, `it does not come to that: ${state()}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const figure = (page, title) => page.locator(".card", { has: page.getByRole("heading", { name: title, exact: true }) }).locator(".number");

for (const [name, options] of Object.entries({ dark: {}, light: { colorScheme: "light" }, phone: PHONE })) {
  test(`the dashboard shows what is served and can be used by all: ${name}`, async () => {
    const viewer = await Viewer.arrive(options);
    const { page } = viewer;
    try {
      await page.goto(server.admin);
      await page.getByRole("status").filter({ hasText: "Live" }).waitFor();
      await page.getByRole("rowheader", { name: "a film/1.mp4", exact: true }).waitFor();
      // These figures are of the last second, in which a slow machine may have begun no answer, or sent nothing.
      await figure(page, "First byte").filter({ hasText: /\d/ }).waitFor();
      const answers = page.locator(".panel", { hasText: "Answers" }).locator("tbody td").last();
      const first = await answers.innerText();
      await page.waitForFunction(
        ([cell, was]) => cell.innerText !== was,
        [await answers.elementHandle(), first],
      );
      await figure(page, "Sent").filter({ hasText: /[1-9]/ }).waitFor();
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

test("the dashboard shows what was read from the hot set, filled into it and evicted from it", async () => {
  const films = mkdtempSync(join(tmpdir(), "fullbore-hot-"));
  for (const name of ["old.mp4", "new.mp4"]) writeFileSync(join(films, name), Buffer.alloc(4 << 20, 7));
  const small = await new Server(films).start("[memory]\nhot_bytes = 4194304\n");
  const viewer = await Viewer.arrive();
  const { page } = viewer;
  const told = async () => {
    const metrics = await (await fetch(`${small.admin}metrics`)).text();
    const counted = (name) => Number(new RegExp(`^fullbore_${name}_total (\\d+)$`, "m").exec(metrics)[1]);
    return ["read_hot_bytes", "hot_filled_bytes", "hot_evicted_bytes"].map(counted);
  };
  const watchUntil = async (film, isDone) => {
    const stop = watch(small, 1, film);
    try {
      await until(async () => isDone(await told()));
    } finally {
      await stop();
    }
  };
  try {
    await page.goto(small.admin);
    await watchUntil("old.mp4", ([read, filled]) => read > 0 && filled === 4 << 20);
    await watchUntil("new.mp4", ([, filled, evicted]) => filled === 8 << 20 && evicted === 4 << 20);
    const table = page.locator(".panel", { has: page.getByRole("heading", { name: "Hot set", exact: true }) });
    const [, ...others] = await told();
    assert.deepEqual(others, [8 << 20, 4 << 20]);
    // The page shows megabytes of 10^6 bytes, with three digits.
    for (const [name, total] of [["Filled from disk", "8.39 MB"], ["Evicted", "4.19 MB"]]) {
      await table.getByRole("row", { name }).getByRole("cell", { name: total, exact: true }).waitFor();
    }
    // The page hears of it once a second: what it shows now may be from before the viewer's last request.
    let [read, shown] = [0, ""];
    const isShown = async () => {
      [read] = await told();
      shown = await table.getByRole("row", { name: "Read by viewers" }).getByRole("cell").last().innerText();
      if (!/^[\d.,]+ [MG]B$/.test(shown)) return false;
      const [number, unit] = shown.replace(",", "").split(" ");
      return Math.abs(Number(number) * (unit === "GB" ? 1e9 : 1e6) - read) <= read / 100;
    };
    await until(isShown, () => `${shown} are not ${read} bytes`);
    await viewer.picture("dashboard-hot");
    viewer.assertContent();
  } finally {
    await viewer.leave();
    await small.remove();
    rmSync(films, { recursive: true });
  }
});

/** The CPUs that a program started here may use. */
function cpus() {
  const [, list] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync("/proc/self/status", "utf8"));
  return list.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}

/** The length of the curves in the picture of README.md. */
const PICTURED_MS = 60_000;

test("the dashboard shows which ways bytes took between silos", async (t) => {
  const [first, second] = cpus();
  if (second === undefined) return t.skip("two silos take two CPUs");
  const cards = `[[silos]]\ncpus = "${first}"\ncards = ["lo"]\n`;
  const disks = `[[silos]]\ncpus = "${second}"\nfolders = [${JSON.stringify(library)}]\n`;
  const silos = await new Server(library).start(`disk = "direct"\n${cards}${disks}`, 2);
  const stop = watch(silos, 8);
  const viewer = await Viewer.arrive({ viewport: { width: 1280, height: 704 }, colorScheme: "light" });
  const { page } = viewer;
  try {
    await page.goto(silos.admin);
    const ways = page.locator(".panel", { hasText: "Between silos" });
    await ways.getByRole("rowheader", { name: "All", exact: true }).waitFor();
    if (process.env.FULLBORE_WRITE_DOCS) {
      await page.waitForTimeout(PICTURED_MS);
      await page.screenshot({ path: "docs/images/dashboard.png" });
    }
    await viewer.picture("dashboard-silos");
    await stop();
    // No viewer is left, so the figures come to rest. The last bytes may be counted after they have been sent, and the page hears of it later still.
    let [told, shown] = ["", ""];
    const isShown = async () => {
      const { paths } = (await (await fetch(`${silos.admin}status.json`)).json()).paths;
      assert.ok(paths.length > 0);
      told = JSON.stringify(paths.sort((a, b) => b.bytes - a.bytes).map(({ disk, worker, card, crossings }) => {
        const from = disk === "memory" ? disk : `disk ${disk}`;
        return [`${from} → worker ${worker} → card ${card}`, String(crossings)];
      }));
      const rows = await ways.locator("tbody").evaluate((body) => [...body.rows].map(({ cells }) => [cells[0].innerText, cells[1].innerText]));
      shown = JSON.stringify(rows.slice(1));
      return shown === told;
    };
    await until(isShown, () => `${shown} instead of ${told}`);
    viewer.assertContent();
  } finally {
    await viewer.leave();
    await stop();
    await silos.remove();
  }
});

test("the dashboard of a server with one silo has no table of ways between silos", async () => {
  const viewer = await Viewer.arrive();
  try {
    await viewer.page.goto(server.admin);
    await viewer.page.getByRole("rowheader", { name: "a film/1.mp4", exact: true }).waitFor();
    assert.equal(await viewer.page.locator(".panel", { hasText: "Between silos" }).isVisible(), false);
  } finally {
    await viewer.leave();
  }
});

test("the dashboard of a caching edge shows what came from the cache, and whether the origin answers", async () => {
  const film = Buffer.alloc(3 << 20, 7);
  const origin = createServer((_, answer) => {
    const head = { "Content-Length": film.length, ETag: '"film"', "Cache-Control": "max-age=3600", "Content-Type": "video/mp4" };
    answer.writeHead(200, head).end(film);
  });
  await new Promise((done) => origin.listen(0, "127.0.0.1", done));
  const cache = mkdtempSync(join(tmpdir(), "fullbore-edge-"));
  const edge = await new Server().start(`[edge]\norigin = "http://127.0.0.1:${origin.address().port}"\ncache = "${cache}"\n`);
  const viewer = await Viewer.arrive();
  const { page } = viewer;
  const panel = page.locator(".panel", { has: page.getByRole("heading", { name: "Caching edge", exact: true }) });
  const row = (name) => panel.getByRole("row", { name });
  const watchUntil = async (film, isSeen) => {
    const stop = watch(edge, 1, film);
    try {
      await isSeen();
    } finally {
      await stop();
    }
  };
  try {
    await page.goto(edge.admin);
    await watchUntil("film.mp4", () => row("Requests: in the cache").waitFor());
    await row("Origin").getByRole("cell", { name: "answers", exact: true }).waitFor();
    await row("Fetched").getByRole("cell", { name: "3.15 MB", exact: true }).waitFor();
    await viewer.picture("dashboard-edge");
    origin.close();
    origin.closeAllConnections();
    await watchUntil("other.mp4", () => row("Origin").getByText("does not answer").waitFor());
    viewer.assertContent();
  } finally {
    await viewer.leave();
    origin.close();
    origin.closeAllConnections();
    await edge.remove();
    rmSync(cache, { recursive: true });
  }
});
