// The fleet's page in a real browser, against a small HTTP server that answers like a gateway.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const DIST = new URL("../dist/", import.meta.url).pathname;
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const TYPES = { js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
const TOKEN = "an-operators-token";
/** As `POLICY` in crates/core/web/src/policy.rs. */
const POLICY =
  "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob: data:; connect-src 'self'; " +
  "worker-src 'none'; object-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";
/** Milliseconds between events: less than a gateway's second, so that a drain takes less than a minute here. */
const EVERY_MS = 100;

/** An issue that began with the gateway's clock. */
const issue = (id, severity) => {
  const subject = id.split("/")[1];
  return { id, severity, subject, text: `${subject} has a fault.`, advice: "Look at the machine.", since_unix_millis: 1_790_000_000_000, snoozed: null };
};

/** A gateway of six nodes in three sites, whose drained nodes lose a fifth of their viewers with each event. */
class Gateway {
  #server = null;
  #streams = new Set();
  #second = 0;
  wantsToken = false;
  isSilent = false;
  /** So many viewers stay at a draining node. */
  staying = 0;
  posts = [];
  changes = {};
  issues = [];

  reset() {
    Object.assign(this, { wantsToken: false, isSilent: false, staying: 0, posts: [], changes: {}, issues: [] });
    this.nodes = ["ams", "ber", "cph"].flatMap((site, at) =>
      [1, 2].map((number) => ({
        name: `${site}-${number}`, site, cluster: `${site}-a`, rack: null, kind: "flash", host: `${site}-${number}.cdn.example`, state: "serving",
        reason: null, returns_unix_seconds: null, not_me: [], silent_millis: 1200, clock_off_millis: 4, bits_per_second: (at + number) * 1.5e9,
        ceiling_bits_per_second: 10e9, connections: 1000 + 100 * at + number, cpu_permille: 210, free_bytes: 4e12, titles: 40, missing: 0, receipts_waiting: 0, fill: null, served_at: null,
      })),
    );
  }

  async start() {
    this.reset();
    this.#server = createServer((request, response) => void this.#answer(request, response));
    await new Promise((done) => this.#server.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.#server.address().port}/`;
    this.timer = setInterval(() => this.#tick(), EVERY_MS);
    return this;
  }

  async stop() {
    clearInterval(this.timer);
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  #tick() {
    if (this.isSilent) return;
    this.#second += 1;
    const left = this.nodes.filter(({ state }) => state === "draining");
    const moves = left.filter(({ connections }) => connections > 0).map(({ name, connections }) => ({ from: name, to: "ams-2", viewers: Math.ceil(connections / 5), why: "draining" }));
    for (const node of left) {
      node.connections = Math.max(this.staying, Math.floor(node.connections * 0.8));
      node.bits_per_second = Math.floor(node.bits_per_second * 0.8);
      if (node.connections === 0) node.state = "drained";
    }
    const now = {
      version: 1, fullbore: "0.1.0", gateway: "g1", leader: "g1", unix_millis: 1_790_000_000_000 + 1000 * this.#second, epoch: 1, snapshot: this.#second, frozen: null,
      store: { engine: "sqlite", problem: null }, ttl_seconds: 30, full_permille: 900,
      issues: this.issues, issue_counts: this.#counts(),
      decisions: { total: 40 * this.#second, first_choice: 39 * this.#second, content: this.#second, health: 0 }, moves,
      sites: ["ams", "ber", "cph"].map((name) => ({ name, region: "eu", prefixes: 12 })), nodes: this.nodes, titles: { published: 40, withdrawn: 1, incomplete: 1 }, ...this.changes,
    };
    for (const stream of this.#streams) stream.write(`event: fleet\ndata: ${JSON.stringify(now)}\n\n`);
  }

  #counts() {
    const open = this.issues.filter(({ snoozed }) => snoozed === null);
    const of = (wanted) => open.filter(({ severity }) => severity === wanted).length;
    return { critical: of("critical"), warning: of("warning"), snoozed: this.issues.length - open.length };
  }

  async #answer(request, response) {
    const { pathname, searchParams } = new URL(request.url, this.url);
    const say = (status, body, fields = {}) => response.writeHead(status, { "Content-Type": "application/json", ...fields }).end(typeof body === "string" ? body : JSON.stringify(body));
    if (pathname === "/") return say(200, readFileSync(join(DIST, "fleet.html"), "utf8"), { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY });
    if (pathname.startsWith("/-/assets/")) return say(200, readFileSync(join(DIST, pathname.slice(3)), "utf8"), { "Content-Type": TYPES[pathname.split(".").pop()] });
    if (this.wantsToken && request.headers.authorization !== `Bearer ${TOKEN}`) return say(401, { error: "This needs an operator's token." });
    if (request.method === "POST") {
      const parts = [];
      for await (const part of request) parts.push(part);
      return this.#change(pathname, JSON.parse(Buffer.concat(parts).toString()), say);
    }
    switch (pathname) {
      case "/api/v1/fleet":
        response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
        this.#streams.add(response);
        return response.on("close", () => this.#streams.delete(response));
      case "/api/v1/titles": {
        const all = ["films/a", "films/b", "series/one"].map((title) => ({ title, digest: "0a".repeat(32), bytes: 4e9, duration_seconds: 900, state: "published", holders: title === "films/b" ? 5 : 6, wanted: 6 }));
        const titles = all.filter(({ title }) => title.includes(searchParams.get("search")));
        return say(200, { version: 1, total: titles.length, titles });
      }
      case "/api/v1/plan":
        return say(200, { version: 1, planned_unix_seconds: 1_790_000_000, moved_bytes: 24e9, buy: [{ text: "Room binds at ams: 2.0 TB more room." }] });
      case "/api/v1/where": {
        const lacks = searchParams.get("title") === "films/b" ? "cph-2" : "";
        const nodes = this.nodes.map(({ name, site, state }) => ({
          node: name, site, state, holds: name !== lacks, receipt: null, why: name === "ber-1" ? null : "floor",
          moves: name === lacks ? "comes" : name === "ber-1" ? "goes" : null,
        }));
        const watched = [{ region: "north", starts_a_day: 12, bytes_a_day: 3e9 }];
        return say(200, { version: 1, title: searchParams.get("title"), state: "published", nodes, watched });
      }
      case "/api/v1/purges":
        return say(200, { version: 1, purges: [{
          number: 12, ordered_unix_seconds: 1_790_000_000, by: "anna", kind: "prefix", soft: true, what: "/films/", reason: "a new cut",
          counts: { done: 2, refused: 0, waiting: 1, too_old: 0, no_edge: 3 },
        }] });
      case "/api/v1/issues":
        return say(200, { version: 1, counts: this.#counts(), issues: this.issues, ended: [{ ...issue("node_lost/cph-1", "critical"), ended_unix_millis: 1_790_000_090_000 }] });
      case "/api/v1/qoe": {
        const [over, by] = [searchParams.get("over"), searchParams.get("by")];
        const sessions = over === "week" ? 9000 : 0;
        const share = (of) => ({ count: sessions * of, share: of, low: of / 2, high: of * 2 });
        const median = (value) => ({ median: { value, low: value - 0.1, high: value + 0.1 } });
        const row = (name, of) => ({
          name, sessions, troubled: share(of), not_started: share(of / 4), stalled: share(of / 2), play_delay_seconds: median(0.7), megabits_per_second: null,
        });
        const rows = [row(by === "site" ? "cph" : "films/<b>", 0.08), row(null, 0.02)];
        return say(200, { version: 1, over, by, total: row(null, 0.04), row_count: 11, rows });
      }
      case "/api/v1/explain":
        if (!/^[0-9a-f.:]+$/.test(searchParams.get("address"))) return say(400, { error: `“${searchParams.get("address")}” is no address.` });
        return say(200, {
          version: 1, title: searchParams.get("title"), snapshot: 7, matched: "192.0.2.0/24", label: "C",
          nodes: [{ node: "ber-1", site: "ber", reason: "prefix" }], text: "1. ams announces 192.0.2.0/24\n   ams-1: lacks films/b\n2. ber ...",
        });
      default:
        return say(404, { error: "There is no such thing." });
    }
  }

  #change(pathname, body, say) {
    const [, what] = /^\/api\/v1\/issues\/(snooze|wake)$/.exec(pathname) ?? [];
    if (what !== undefined) {
      if (body.reason === "no") return say(404, { error: `There is no open issue ${body.id}.` });
      this.posts.push({ what, body });
      const snoozed = what === "wake" ? null : { until_unix_seconds: 1_790_000_000 + body.seconds, by: "anna", reason: body.reason };
      this.issues.find(({ id }) => id === body.id).snoozed = snoozed;
      return say(200, { version: 1, id: body.id, snoozed });
    }
    const [, name, verb] = /^\/api\/v1\/nodes\/([^/]+)\/(drain|undrain)$/.exec(pathname) ?? [];
    const node = this.nodes.find((node) => node.name === name);
    if (node === undefined) return say(404, { error: `There is no node ${name}.` });
    if (body.reason === "no") return say(409, { error: "It is the last node that serves films/b." });
    this.posts.push({ name, verb, body });
    Object.assign(node, verb === "drain" ? { state: "draining", reason: body.reason, returns_unix_seconds: body.returns_unix_seconds } : { state: "serving", reason: null, returns_unix_seconds: null });
    return say(200, {});
  }
}

let gateway;
before(async () => (gateway = await new Gateway().start()));
beforeEach(() => gateway.reset());
after(async () => {
  await closeBrowser();
  await gateway?.stop();
});

/** Opens the page in a browser that must not report errors. */
async function as(options, does) {
  const viewer = await Viewer.arrive(options);
  await viewer.during(async () => {
    await viewer.page.goto(gateway.url);
    await does(viewer, viewer.page);
    viewer.assertContent();
    viewer.assertAtHome(gateway.url);
  });
}

const isLive = (page) => page.getByRole("status").filter({ hasText: "Live" }).waitFor();
const row = (page, name) => page.getByRole("row", { name: new RegExp(`^${name}`) });

for (const [name, options] of Object.entries({ dark: {}, light: { colorScheme: "light" }, phone: PHONE })) {
  test(`the fleet's page shows nodes by site and can be used by all: ${name}`, async () => {
    gateway.nodes[1].not_me = ["at_ceiling"];
    gateway.nodes[1].bits_per_second = 9.4e9;
    Object.assign(gateway.nodes[3], { state: "lost", silent_millis: 61_000 });
    const done_unix_seconds = 1_790_003_000; // By the gateway's clock, 50 minutes from its start.
    const fill = { title: "films/a", done_bytes: 25, title_bytes: 100, missing_titles: 1, missing_bytes: 7e9, bytes_per_second: 1e8, is_open: true, done_unix_seconds };
    gateway.nodes[4].served_at = { scheme: "http", port: 8080 };
    Object.assign(gateway.nodes[5], { missing: 1, titles: 39, clock_off_millis: -95_000, fill });
    await as(options, async (viewer, page) => {
      await isLive(page);
      assert.deepEqual(await page.locator(".site h2").allInnerTexts(), ["ams", "ber", "cph"]);
      assert.match(await row(page, "ams-1").innerText(), /serving\s+1.50 Gb\/s of 10.0 Gb\/s/);
      assert.match(await row(page, "ams-2").innerText(), /at its ceiling[^]*full/);
      assert.match(await row(page, "ber-2").innerText(), /silent for 1 min 1 s[^]*lost/);
      assert.match(await row(page, "cph-1").innerText(), /serves http at port 8080, but viewers are not sent there/);
      assert.match(await row(page, "cph-2").innerText(), /its clock is 95.0 s behind · copies films\/a \(25%\), 7.00 GB left, done in \d+ min[^]*1 of 40 titles/);
      assert.match(await page.locator(".card", { hasText: "Copied" }).innerText(), /800\s*Mb\/s[^]*% of the bytes sent; 7.00 GB left on 1 node, done in/);
      assert.match(await page.locator(".card", { hasText: "Nodes serving" }).innerText(), /5\s*of 6[^]*40 titles, 1 not everywhere yet/);
      await page.locator(".card", { hasText: "First choices" }).filter({ hasText: "decisions/s" }).waitFor();
      const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(width <= 0, `it is ${width} pixels too wide`);
      await viewer.picture(`fleet-${name}`);
      await viewer.assertAccessible();
    });
  });
}

test("a drained node's viewers are seen leaving, and it comes back", async () => {
  await as({}, async (viewer, page) => {
    await isLive(page);
    await page.getByRole("button", { name: "Drain ber-1", exact: true }).click();
    await page.getByLabel("Why").fill("no");
    await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
    await page.getByRole("alert").filter({ hasText: "the last node that serves films/b" }).waitFor();
    await page.getByLabel("Why").fill("disk swap");
    await page.getByLabel("Back by itself").fill("2");
    await viewer.assertAccessible();
    gateway.staying = 100; // until the page has been seen to show that others leave
    await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
    await row(page, "ber-1").filter({ hasText: "“disk swap” · returns in" }).waitFor();
    await page.locator(".moves").getByRole("row", { name: /ber-1\s+ams-2\s+\d+\s+draining/ }).waitFor();
    await row(page, "ber-1").locator(".spark.falling").waitFor();
    await viewer.picture("fleet-draining");
    gateway.staying = 0;
    await row(page, "ber-1").filter({ hasText: "drained" }).waitFor();
    await page.getByText("No viewer was moved in the last minute.").waitFor();
    await page.getByRole("button", { name: "Undrain ber-1" }).click();
    await row(page, "ber-1").filter({ hasText: "serving" }).waitFor();
    const [drained, undrained] = gateway.posts;
    assert.deepEqual([drained.name, drained.verb, drained.body.reason, undrained.verb], ["ber-1", "drain", "disk swap", "undrain"]);
    assert.ok(drained.body.returns_unix_seconds > Date.now() / 1000 + 7000);
    viewer.complaints = viewer.complaints.filter((complaint) => !complaint.includes("409"));
  });
});

test("what is wrong is listed with the next step, and can be snoozed", async () => {
  gateway.issues = [issue("node_disk_errors/ber-1", "critical"), issue("node_hot/cph-2", "warning")];
  await as({}, async (viewer, page) => {
    await isLive(page);
    const panel = page.locator("section", { has: page.getByRole("heading", { name: "Issues" }) });
    const item = (name) => panel.getByRole("listitem").filter({ hasText: name });
    await panel.getByText("1 critical, 1 warning", { exact: true }).waitFor();
    assert.match(await page.title(), /^1 critical, 6 of 6 nodes/);
    assert.match(await item("ber-1").innerText(), /critical\s*ber-1 has a fault\.\s*for [^]*Look at the machine\./);
    await viewer.assertAccessible();
    await page.getByRole("button", { name: "Snooze: ber-1 has a fault." }).click();
    await page.getByLabel("Why").fill("no");
    await page.getByRole("dialog").getByRole("button", { name: "Snooze" }).click();
    await page.getByRole("dialog").getByText("There is no open issue node_disk_errors/ber-1.").waitFor();
    await page.getByLabel("Why").fill("the disk comes on Monday");
    await page.getByLabel("For hours").fill("48");
    await viewer.assertAccessible();
    await page.getByRole("dialog").getByRole("button", { name: "Snooze" }).click();
    await panel.getByText("1 warning, 1 snoozed", { exact: true }).waitFor();
    assert.match(await item("ber-1").innerText(), /snoozed[^]*Snoozed by anna for 1 d 23 h more: the disk comes on Monday/);
    assert.deepEqual(gateway.posts[0].body, { id: "node_disk_errors/ber-1", seconds: 172_800, reason: "the disk comes on Monday" });
    await viewer.picture("fleet-issues");
    await page.getByRole("button", { name: "Wake: ber-1 has a fault." }).click();
    await panel.getByText("1 critical, 1 warning", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Show what was wrong" }).click();
    await panel.getByRole("row", { name: /1 min 30 s critical cph-1 has a fault/ }).waitFor();
    await viewer.assertAccessible();
    gateway.issues = [];
    await panel.getByText("Nothing is wrong.").waitFor();
    viewer.complaints = viewer.complaints.filter((complaint) => !complaint.includes("404"));
  });
});

test("what viewers see is listed, the worst first, with how sure it is", async () => {
  await as({}, async (viewer, page) => {
    await isLive(page);
    const panel = page.locator("section", { has: page.getByRole("heading", { name: "What viewers see" }) });
    await panel.getByText("No sessions.").waitFor();
    await panel.getByLabel("Time").selectOption("week");
    await panel.getByRole("row", { name: /^films\/<b> 9000 8.0% 4.0% to 16.0% 2.0% 1.0% to 4.0% 4.0% 2.0% to 8.0% 0.70 0.60 to 0.80 –/ }).waitFor();
    await panel.getByRole("row", { name: /^others 9000 2.0%/ }).waitFor();
    await panel.getByText("9 more: fullbore control qoe --by title").waitFor();
    await panel.getByLabel("What").selectOption("site");
    await panel.getByRole("row", { name: /^cph 9000/ }).waitFor();
    await viewer.picture("fleet-experience");
    await viewer.assertAccessible();
  });
});

test("a title is found, with where it is and why a viewer gets it from there", async () => {
  await as({}, async (viewer, page) => {
    await isLive(page);
    await page.getByRole("searchbox").fill("films");
    await page.locator(".listed li").filter({ hasText: "films/b" }).filter({ hasText: "on 5 of 6 nodes" }).waitFor();
    await page.locator(".listed li").filter({ hasText: "series" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "films/b" }).click();
    assert.match(await page.locator(".where").getByRole("row", { name: /^cph-2/ }).innerText(), /lacks it/);
    assert.match(await page.locator(".where").getByRole("row", { name: /^ams-1/ }).innerText(), /has it: one of the copies/);
    assert.match(await page.locator(".where").getByRole("row", { name: /^ber-1/ }).innerText(), /it will be removed here, other nodes keep it/);
    await page.getByText("Watched a day: north 3.00 GB in 12 starts").waitFor();
    await page.getByRole("button", { name: "Who gets it from where?" }).click();
    await page.getByLabel("Viewer's address").fill("<b>me</b>");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText("“<b>me</b>” is no address.").waitFor();
    await page.getByLabel("Viewer's address").fill("192.0.2.7");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText("Matched 192.0.2.0/24. No node of the best site has the title (C). Snapshot 7.").waitFor();
    await page.getByText("ber-1 at ber: its site announces the viewer's prefix").waitFor();
    await page.getByText("ams-1: lacks films/b").waitFor();
    await page.getByRole("button", { name: "Show the latest purges" }).click();
    await page.getByRole("row", { name: /^12 .* anna soft prefix: \/films\/ \(“a new cut”\) 2 of 3 edges/ }).waitFor();
    await page.getByRole("button", { name: "Ask for a plan" }).click();
    await page.getByText("Room binds at ams: 2.0 TB more room.").waitFor();
    await page.getByText("A plan made now would copy 24.0 GB").waitFor();
    await viewer.picture("fleet-explained");
    await viewer.assertAccessible();
    viewer.complaints = viewer.complaints.filter((complaint) => !complaint.includes("400"));
  });
});

test("a gateway that doubts itself, or whose store is ill, is shown in one line", async () => {
  gateway.changes = { frozen: "A third of the nodes fell silent at once: nothing is changed until they are heard.", store: { engine: "etcd", problem: "etcd has no quorum" } };
  await as({}, async (viewer, page) => {
    await page.getByRole("status").filter({ hasText: "Frozen" }).waitFor();
    const alarm = page.getByRole("alert");
    assert.match(await alarm.innerText(), /A third of the nodes fell silent at once[^]*accepts no changes: etcd has no quorum/);
    await viewer.picture("fleet-frozen");
    gateway.changes = {};
    await isLive(page);
    await alarm.waitFor({ state: "hidden" });
  });
});

test("a gateway that wants to know who asks gets the operator's token, once", async () => {
  gateway.wantsToken = true;
  await as({}, async (viewer, page) => {
    await page.getByLabel("Token").fill("a wrong one");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByText("This token is not valid here").waitFor();
    await viewer.assertAccessible();
    await page.getByLabel("Token").fill(TOKEN);
    await page.getByRole("button", { name: "Open" }).click();
    await isLive(page);
    await page.reload();
    await isLive(page);
    assert.equal(await page.getByRole("dialog").count(), 0);
    viewer.complaints = viewer.complaints.filter((complaint) => !complaint.includes("401"));
  });
});

test("the page says when figures are old, and goes on when the gateway is heard again", async () => {
  await as({}, async (viewer, page) => {
    await isLive(page);
    gateway.isSilent = true;
    await page.getByRole("status").filter({ hasText: "No data" }).waitFor();
    assert.ok(await page.evaluate(() => document.body.classList.contains("stale")));
    gateway.isSilent = false;
    await page.getByRole("status").filter({ hasText: "Live" }).waitFor({ timeout: PATIENCE_MS });
  });
});
