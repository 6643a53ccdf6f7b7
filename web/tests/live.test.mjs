// A live stream that ffmpeg makes, through a caching edge, in hls.js and dash.js as they come. Two viewers of each play it while it is made.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, test } from "node:test";
import { Server } from "./server.mjs";
import { closeBrowser, PATIENCE_MS, Viewer } from "./viewer.mjs";

const ENGINES = ["hls", "dash"];
/** How long the stream lasts, in segments of a second. */
const STREAM_SECONDS = 24;
/** How far behind the newest segment viewers play. Less than this may come late without a stall. */
const BEHIND_SECONDS = 10;
/** What a stalled viewer may lack although the origin has it: a playlist counts for a second, and a player asks for the next one a second later. */
const ON_THE_WAY_SECONDS = 4;
/** How often a stream is played if viewers stall: on a busy machine, browsers do so by themselves. An edge that makes them stall does it each time. */
const TRIES = 3;

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".m3u8": "application/vnd.apple.mpegurl", ".mpd": "application/dash+xml", ".m4s": "video/iso.segment" };
const head = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><video muted autoplay playsinline></video>`;
const PAGES = {
  "/hls.html": `${head}<script src="/hls.js"></script><script>
    const hls = new Hls({ liveSyncDuration: ${BEHIND_SECONDS}, liveMaxLatencyDuration: Infinity });
    hls.loadSource("/master.m3u8");
    hls.attachMedia(document.querySelector("video"));</script>`,
  // Without the setting, dash.js asks a host of its own for the time.
  "/dash.html": `${head}<script src="/dash.js"></script><script>
    const player = dashjs.MediaPlayer().create();
    const delay = { liveDelay: ${BEHIND_SECONDS} };
    player.updateSettings({ streaming: { delay, utcSynchronization: { enabled: false }, liveCatchup: { enabled: false } } });
    player.initialize(document.querySelector("video"), new URL("live.mpd", location).href, true);</script>`,
};
const PACKAGES = { "/hls.js": "hls.js/dist/hls.min.js", "/dash.js": "dashjs/dist/modern/umd/dash.all.min.js" };

/** What ffmpeg has made so far, as a web server sends it: with a strong tag, and ranges. */
class Origin {
  #server = createServer((request, response) => this.#answer(request, response));
  /** Requests that got media or a playlist, by path. */
  counts = new Map();

  constructor(folder) {
    this.folder = folder;
  }

  async start() {
    await new Promise((done) => this.#server.listen(0, "127.0.0.1", done));
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  #answer(request, response) {
    const bytes = this.#read(request.url);
    if (bytes === undefined || request.method !== "GET") return response.writeHead(404).end();
    this.counts.set(request.url, (this.counts.get(request.url) ?? 0) + 1);
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
    const part = first === undefined ? bytes : bytes.subarray(Number(first), Number(last) + 1);
    const changes = /\.(m3u8|mpd)$/.test(request.url);
    const fields = {
      "Content-Type": TYPES[extname(request.url)],
      "Content-Length": part.length,
      "Cache-Control": changes ? "max-age=1" : "max-age=3600, immutable",
      ETag: `"${createHash("sha256").update(bytes).digest("hex")}"`,
    };
    if (first !== undefined) fields["Content-Range"] = `bytes ${first}-${Number(first) + part.length - 1}/${bytes.length}`;
    return response.writeHead(first === undefined ? 200 : 206, fields).end(part);
  }

  #read(path) {
    if (PAGES[path]) return Buffer.from(PAGES[path]);
    if (PACKAGES[path]) return readFileSync(new URL(`../node_modules/${PACKAGES[path]}`, import.meta.url));
    const file = join(this.folder, path);
    return existsSync(file) && /^\/[\w-]+\.\w+$/.test(path) ? readFileSync(file) : undefined;
  }

  /** How many seconds of video there are, by the playlist as it is now. */
  seconds() {
    const lines = this.#read("/media_0.m3u8")?.toString().matchAll(/#EXTINF:([\d.]+)/g) ?? [];
    return [...lines].reduce((sum, [, seconds]) => sum + Number(seconds), 0);
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}

let folder;
let making;
let origin;
let edge;

async function until(what, isSo) {
  for (const end = Date.now() + PATIENCE_MS; !isSo(); await new Promise((done) => setTimeout(done, 50))) {
    assert.ok(Date.now() < end, `${what}: not within ${PATIENCE_MS / 1000} s`);
  }
}

/** A new stream from the beginning, and an edge that has nothing of it. */
async function begin() {
  folder = mkdtempSync(join(tmpdir(), "fullbore-live-"));
  const words =
    `-nostdin -v error -re -f lavfi -i testsrc2=size=160x90:rate=25 -re -f lavfi -i sine=440 -t ${STREAM_SECONDS} -map 0 -map 1 -c:v libx264 ` +
    "-preset ultrafast -g 25 -pix_fmt yuv420p -c:a aac -f dash -seg_duration 1 -window_size 0 -hls_playlist 1";
  making = spawn("ffmpeg", [...words.split(" "), join(folder, "live.mpd")], { stdio: "inherit" });
  origin = new Origin(folder);
  edge = await new Server().start(`[edge]\norigin = "${await origin.start()}"\ncache = "${join(folder, "cache")}"\ncache_gib = 0.1\n`);
  await until("the stream begins", () => origin.seconds() >= BEHIND_SECONDS);
}

async function end() {
  making?.kill();
  await edge?.remove();
  await origin?.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
}

after(async () => {
  await closeBrowser();
  await end();
});

/** A viewer who plays the stream to its end. Returns the stalls that the origin did not have: the media were there, and the viewer had none. */
async function play(engine) {
  const viewer = await Viewer.arrive();
  const { page } = viewer;
  const stalls = [];
  const answers = new Map();
  await page.exposeFunction("stalled", (end) => {
    if (origin.seconds() > end + ON_THE_WAY_SECONDS) stalls.push(`at ${end} s of ${origin.seconds()}`);
  });
  page.on("response", (response) => answers.set(new URL(response.url()).pathname, response.status()));
  await viewer.during(async () => {
    await viewer.watchAt(`${edge.url}${engine}.html`);
    await page.evaluate(() => {
      const video = document.querySelector("video");
      video.addEventListener("playing", () => {
        video.addEventListener("waiting", () => window.ahead() < 1 && window.stalled(video.currentTime + window.ahead()));
      }, { once: true });
    });
    // Some segments before the stream's end, which dash.js and hls.js take for the end at different pictures.
    await page.waitForFunction((end) => document.querySelector("video").currentTime >= end, STREAM_SECONDS - 2);
    await viewer.assertSeesSomething();
    viewer.assertAtHome(edge.url);
    viewer.assertContent();
  });
  assert.deepEqual([...answers].filter(([, status]) => ![200, 206].includes(status)), []);
  return stalls;
}

test("viewers of hls.js and dash.js play what ffmpeg makes, without a stall of their own, from one request for each segment", async () => {
  let began;
  let stalls;
  for (let tries = 0; tries < TRIES && stalls?.length !== 0; tries += 1) {
    await end();
    await begin();
    began = Date.now();
    stalls = (await Promise.all(ENGINES.flatMap((engine) => [play(engine), play(engine)]))).flat();
  }
  assert.deepEqual(stalls, []);
  const segments = [...origin.counts].filter(([path]) => path.endsWith(".m4s"));
  assert.ok(segments.length > STREAM_SECONDS, `${segments.length} segments of pictures and sound`);
  assert.deepEqual(segments.filter(([, count]) => count !== 1), []);
  // A playlist counts for a second, however many viewers ask for it.
  const seconds = (Date.now() - began) / 1000;
  const playlists = [...origin.counts].filter(([path]) => /\.(m3u8|mpd)$/.test(path));
  assert.ok(playlists.length >= 4, `${playlists}`);
  assert.deepEqual(playlists.filter(([, count]) => count > seconds + 2), []);
});
