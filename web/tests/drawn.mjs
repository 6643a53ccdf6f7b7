// Whether browsers play drawn titles in step and in colour, by our page and by unmodified hls.js, dash.js and Shaka Player. This is no test. It
// measures, for docs/notes/drawn-films.md. First make the titles:
//   mkdir /tmp/drawn; FULLBORE_DRAW_LIBRARY=/tmp/drawn FULLBORE_DRAWS=20 ./run test -p fullbore-ingest --test drawn at_length -- --ignored
// then FULLBORE_PROGRAM=... FULLBORE_CHROMIUM=... FULLBORE_FIREFOX=... node web/tests/drawn.mjs /tmp/drawn [BROWSER-PLAYER]
// Shaka Player is not among our packages. Install it in web/: npm install --no-save shaka-player@5.2.12
// Firefox needs a sound device. If PULSE_SERVER names none, this starts pulseaudio with a device that discards the sound.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Firefox } from "./firefox.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

const LIBRARY = process.argv[2];
/** The measurements to make: those whose names begin with this, such as `chromium` or `firefox-our-hls`. */
const WANTED = process.argv[3] ?? "";
/** How often a film is played again if the machine was too busy to play it without a pause. */
const TRIES = 3;
/** How far the film's clock may be from that of the sound. */
const STEADY_SECONDS = 0.03;

const head = `<!doctype html><meta charset="utf-8"><video autoplay playsinline width="320"></video>`;
const PLAYERS = {
  "hls.js": (at) => `${head}<script src="/packages/hls.js/dist/hls.min.js"></script><script>
    const hls = new Hls(); hls.loadSource("${at}/master.m3u8"); hls.attachMedia(document.querySelector("video"));</script>`,
  "dash.js": (at) => `${head}<script src="/packages/dashjs/dist/modern/umd/dash.all.min.js"></script><script>
    dashjs.MediaPlayer().create().initialize(document.querySelector("video"), "${at}/manifest.mpd", true);</script>`,
  "shaka-hls": (at) => shaka(`${at}/master.m3u8`),
  "shaka-dash": (at) => shaka(`${at}/manifest.mpd`),
};

function shaka(manifest) {
  return `${head}<script src="/packages/shaka-player/dist/shaka-player.compiled.js"></script><script>
    const player = (window.player = new shaka.Player());
    player.addEventListener("error", ({ detail }) => (window.seen.error = "shaka " + detail.code + " " + detail.data));
    player.attach(document.querySelector("video")).then(() => player.load("${manifest}"))
      .catch((error) => (window.seen.error = "shaka " + error.code + " " + error.data));</script>`;
}

/** Reports how loud each piece of 128 samples is, and when it plays. It comes from the page's own address: our policy and Firefox refuse other worklets. */
const LEVEL = `registerProcessor("level", class extends AudioWorkletProcessor {
  process([input]) {
    let most = 0;
    for (const channel of input) for (const value of channel) most = Math.max(most, Math.abs(value));
    this.port.postMessage([currentTime, most]);
    return true;
  }
})`;

/** In the page, as early as possible: notes each frame with its time and the colour of its middle, and each loud piece of sound with its time. */
const WATCH = () => {
  const CLOCK_MS = 5;
  const seen = (window.seen = { frames: [], sounds: [], clocks: [], waits: 0, ended: false, error: null });
  const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 16 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const start = async () => {
    const video = document.querySelector("video");
    if (video === null || seen.started) return;
    seen.started = true;
    video.muted = false;
    video.volume = 1;
    const audio = new AudioContext({ latencyHint: "interactive" });
    await audio.audioWorklet.addModule("/level.js");
    const node = new AudioWorkletNode(audio, "level");
    node.port.onmessage = ({ data }) => seen.sounds.push(data);
    audio.resume();
    const source = audio.createMediaElementSource(video);
    source.connect(node);
    source.connect(audio.destination);
    video.addEventListener("waiting", () => (seen.waits += video.currentTime > 0.2));
    video.addEventListener("ended", () => (seen.ended = true));
    video.addEventListener("error", () => (seen.error = video.error?.message ?? "error"));
    const clock = () => {
      if (!video.paused && !video.seeking) seen.clocks.push([performance.now() / 1000, video.currentTime, audio.currentTime]);
    };
    setInterval(clock, CLOCK_MS);
    const frame = (_, { mediaTime }) => {
      const { videoWidth: w, videoHeight: h } = video;
      context.drawImage(video, w * 0.4, h * 0.4, w * 0.2, h * 0.2, 0, 0, 16, 16);
      const { data } = context.getImageData(0, 0, 16, 16);
      const mean = (channel) => data.reduce((sum, value, i) => sum + (i % 4 === channel ? value : 0), 0) / (data.length / 4);
      seen.frames.push([mediaTime, mean(0), mean(1), mean(2)]);
      video.requestVideoFrameCallback(frame);
    };
    video.requestVideoFrameCallback(frame);
  };
  const waiting = setInterval(() => {
    if (document.querySelector("video") === null) return;
    clearInterval(waiting);
    start().catch((error) => (seen.error = String(error)));
  }, 5);
};

const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];

/** When events begin: a loud or bright piece after others. */
function beginnings(pieces, isInside, pause) {
  const all = [];
  let last = -Infinity;
  for (const [at, ...values] of pieces) {
    if (!isInside(values)) continue;
    if (at - last > pause) all.push(at);
    last = at;
  }
  return all;
}

/**
 * By how much the film's clock is ahead of the sound's, in each second. A script reads both late, Firefox's clock of the film by up to 60 ms, but never
 * early. So the readings that are furthest ahead of the page's own clock are right.
 */
function shifts(clocks) {
  const seconds = new Map();
  for (const reading of clocks) {
    const second = Math.floor(reading[0]);
    seconds.set(second, [...(seconds.get(second) ?? []), reading]);
  }
  const furthest = (readings, which) => Math.max(...readings.map((one) => one[which] - one[0]));
  return [...seconds.values()].map((readings) => furthest(readings, 1) - furthest(readings, 2));
}

/** What a viewer saw and heard, on the clock of the film. */
function judged({ frames, sounds, clocks, ...rest }) {
  const all = shifts(clocks);
  const shift = median(all);
  const heard = sounds.map(([at, level]) => [at + shift, level]);
  const most = Math.max(0, ...heard.map(([, level]) => level));
  const bright = ([r, g, b]) => Math.min(r, g, b) > 200;
  const dark = frames.filter(([, ...rgb]) => !bright(rgb));
  return {
    flashes: beginnings(frames, bright, 0.15),
    beeps: beginnings(heard, ([level]) => most > 0.01 && level > most / 4, 0.15),
    patch: [1, 2, 3].map((channel) => Math.round(median(dark.map((one) => one[channel])))),
    // Before it plays, and while it waits, the film's clock stands still.
    unsteady: all.filter((one) => Math.abs(one - shift) > STEADY_SECONDS).length / all.length,
    frames: frames.length,
    ...rest,
  };
}

/** By how much the sound came late compared with the source, for each pair of flash and beep. */
function lateness(expected, got) {
  const pairs = [];
  for (const [index, flash] of expected.flashes.entries()) {
    const beep = expected.beeps.find((one) => Math.abs(one - flash) < 0.35);
    // Films begin at zero in a title, so events are matched by their distance from the last one.
    const near = (all, wanted) => all.find((one) => Math.abs(one - wanted) < 0.3);
    const [lastFlash] = got.flashes.slice(-1);
    const wanted = lastFlash - (expected.flashes.at(-1) - expected.flashes[index]);
    const [flashNow, beepNow] = [near(got.flashes, wanted), near(got.beeps, wanted)];
    if (beep === undefined || flashNow === undefined || beepNow === undefined) continue;
    pairs.push(beepNow - flashNow - (beep - flash));
  }
  return pairs;
}

async function inChromium(url, storage) {
  const viewer = await Viewer.arrive({ storage });
  try {
    await viewer.context.addInitScript(WATCH);
    await viewer.page.goto(url);
    await viewer.page.waitForFunction(() => window.seen?.ended || window.seen?.error, null, { timeout: 60_000 });
    return await viewer.page.evaluate(() => window.seen);
  } finally {
    await viewer.leave();
  }
}

/** Without a sound device, Firefox's Web Audio stands still. */
async function silentDevice() {
  const folder = mkdtempSync(join(tmpdir(), "fullbore-sound-"));
  const socket = join(folder, "pulse");
  const modules = ["module-null-sink", `module-native-protocol-unix socket=${socket} auth-anonymous=1`];
  const args = ["-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1", ...modules.flatMap((one) => ["-L", one])];
  const device = spawn("pulseaudio", args, { stdio: "ignore" });
  let error = null;
  device.once("error", (why) => (error = why));
  device.once("exit", (code) => (error ??= new Error(`pulseaudio ended with ${code}`)));
  while (!existsSync(socket)) {
    if (error) throw error;
    await sleep(50);
  }
  process.env.PULSE_SERVER = `unix:${socket}`;
  return () => {
    device.kill();
    rmSync(folder, { recursive: true });
  };
}

let firefox, removeDevice;
async function inFirefox(url, storage) {
  if (!process.env.PULSE_SERVER) removeDevice = await silentDevice();
  firefox ??= await Firefox.launch({ "media.autoplay.block-webaudio": false, "media.volume_scale": "1.0" }, WATCH);
  await firefox.goto(new URL("/", url).href);
  await firefox.evaluate((entries) => {
    localStorage.clear();
    for (const [name, value] of Object.entries(entries)) localStorage.setItem(`fullbore.${name}`, value);
  }, storage);
  await firefox.goto(url);
  await firefox.until(() => window.seen?.ended || window.seen?.error);
  return await firefox.evaluate(() => window.seen);
}

const NODE_MODULES = new URL("../node_modules/", import.meta.url).pathname;
writeFileSync(join(LIBRARY, "level.js"), LEVEL);
const server = await new Server(LIBRARY).start();
const stock = createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://x");
  const file = join(NODE_MODULES, pathname.slice("/packages/".length));
  const [, player, title] = /^\/play\/([^/]+)\/([^/]+)$/.exec(pathname) ?? [];
  if (pathname === "/level.js") {
    response.writeHead(200, { "Content-Type": "text/javascript" }).end(LEVEL);
  } else if (pathname.startsWith("/packages/") && existsSync(file)) {
    response.writeHead(200, { "Content-Type": "text/javascript" }).end(readFileSync(file));
  } else if (player) {
    response.writeHead(200, { "Content-Type": "text/html" }).end(PLAYERS[player](`${server.url}${title}`));
  } else {
    response.writeHead(200, { "Content-Type": "text/html" }).end("");
  }
});
await new Promise((done) => stock.listen(0, "127.0.0.1", done));
const stockUrl = `http://127.0.0.1:${stock.address().port}/`;

const ways = {};
for (const [browser, plays] of Object.entries({ chromium: inChromium, firefox: inFirefox })) {
  for (const engine of ["hls", "dash"]) {
    ways[`${browser}-our-${engine}`] = (title) => plays(`${server.url}-/watch/${title}`, { engine });
  }
  for (const player of Object.keys(PLAYERS)) {
    ways[`${browser}-${player}`] = (title) => plays(`${stockUrl}play/${player}/${title}`, {});
  }
}

for (const [name, plays] of Object.entries(ways).filter(([name]) => name.startsWith(WANTED))) {
  for (const title of readdirSync(LIBRARY).filter((one) => existsSync(join(LIBRARY, one, "title.json")))) {
    const expected = JSON.parse(readFileSync(join(`${LIBRARY}.expected`, `${title}.json`)));
    let result;
    for (let at = 0; at < TRIES; at += 1) {
      try {
        const got = judged(await plays(title));
        const pairs = expected.flashes && expected.beeps ? lateness(expected, got) : [];
        // A busy browser shows the first frame of a flash late or not at all, but never early.
        const late = pairs.length > 0 ? Math.round(Math.max(...pairs) * 1000) : null;
        const distances = expected.patch?.map((value, channel) => Math.abs(value - got.patch[channel]));
        const off = distances ? Math.round(Math.max(...distances)) : null;
        const { patch, waits, unsteady, error } = got;
        const counts = { pairs: pairs.length, flashes: got.flashes.length, of: expected.flashes?.length };
        result = { name, title, sound_late_ms: late, colour_off: off, patch, ...counts, waits, unsteady, error };
        if (got.unsteady < 0.1) break;
      } catch (error) {
        result = { name, title, error: error.message.split("\n")[0] };
      }
    }
    console.log(JSON.stringify(result));
  }
}
await closeBrowser();
await firefox?.close();
removeDevice?.();
stock.closeAllConnections();
stock.close();
await server.remove();
