// Whether browsers play drawn titles in step and in colour, by our page and by unmodified hls.js, dash.js and Shaka Player. This is no test. It
// measures, for docs/notes/drawn-films.md. First make the titles:
//   FULLBORE_DRAW_LIBRARY=/tmp/drawn FULLBORE_DRAWS=20 ./run test -p fullbore-ingest --test drawn at_length -- --ignored
// then FULLBORE_PROGRAM=... FULLBORE_CHROMIUM=... FULLBORE_FIREFOX=... node web/tests/drawn.mjs /tmp/drawn [BROWSER-PLAYER]
// Shaka Player is not among our packages. Install it in web/: npm install --no-save shaka-player@5.2.12

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
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

/** In the page, as early as possible: notes each frame with its time and the colour of its middle, and each loud piece of sound with its time. */
const WATCH = () => {
  const seen = (window.seen = { frames: [], sounds: [], clocks: [], waits: 0, ended: false, error: null });
  const PIECE = 512;
  const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 16 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const audio = new AudioContext({ latencyHint: "interactive" });
  const worklet = `registerProcessor("level", class extends AudioWorkletProcessor {
    process([input]) {
      let sum = 0;
      for (const channel of input) for (const value of channel) sum = Math.max(sum, Math.abs(value));
      this.port.postMessage([currentTime, sum]);
      return true;
    }
  })`;
  /** A node that notes the level of the sound. Firefox refuses worklets whose code is not from the page's server, so it gets the older kind. */
  const listening = async () => {
    try {
      await audio.audioWorklet.addModule(URL.createObjectURL(new Blob([worklet], { type: "text/javascript" })));
      const node = new AudioWorkletNode(audio, "level");
      node.port.onmessage = ({ data }) => seen.sounds.push(data);
      return node;
    } catch {
      const node = (window.listening = audio.createScriptProcessor(PIECE, 2, 2)); // else it is collected as garbage
      node.onaudioprocess = ({ inputBuffer, playbackTime }) => {
        const samples = inputBuffer.getChannelData(0);
        for (let at = 0; at < PIECE; at += 128) {
          const level = samples.subarray(at, at + 128).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
          seen.sounds.push([playbackTime + (at - PIECE) / audio.sampleRate, level]);
        }
      };
      node.connect(audio.destination);
      return node;
    }
  };
  const start = async () => {
    const video = document.querySelector("video");
    if (video === null || seen.started) return;
    seen.started = true;
    video.muted = false;
    video.volume = 1;
    const node = await listening();
    audio.resume();
    const source = audio.createMediaElementSource(video);
    source.connect(node);
    source.connect(audio.destination);
    video.addEventListener("waiting", () => (seen.waits += video.currentTime > 0.2));
    video.addEventListener("ended", () => (seen.ended = true));
    video.addEventListener("error", () => (seen.error = video.error?.message ?? "error"));
    const clock = () => {
      if (!video.paused && !video.seeking) seen.clocks.push(video.currentTime - audio.currentTime);
    };
    setInterval(clock, 50);
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

/** What a viewer saw and heard, on the clock of the film. */
function judged({ frames, sounds, clocks, ...rest }) {
  const shift = median(clocks);
  const heard = sounds.map(([at, level]) => [at + shift, level]);
  const most = Math.max(0, ...heard.map(([, level]) => level));
  const bright = ([r, g, b]) => Math.min(r, g, b) > 200;
  const dark = frames.filter(([, ...rgb]) => !bright(rgb));
  return {
    flashes: beginnings(frames, bright, 0.15),
    beeps: beginnings(heard, ([level]) => most > 0.01 && level > most / 4, 0.15),
    patch: [1, 2, 3].map((channel) => Math.round(median(dark.map((one) => one[channel])))),
    // Before it plays, and while it waits, the film's clock stands still.
    unsteady: clocks.filter((one) => Math.abs(one - shift) > STEADY_SECONDS).length / clocks.length,
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
  const viewer = await Viewer.arrive({ storage, bypassCSP: true });
  try {
    await viewer.context.addInitScript(WATCH);
    await viewer.page.goto(url);
    await viewer.page.waitForFunction(() => window.seen?.ended || window.seen?.error, null, { timeout: 60_000 });
    return await viewer.page.evaluate(() => window.seen);
  } finally {
    await viewer.leave();
  }
}

let firefox;
async function inFirefox(url, storage) {
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
const server = await new Server(LIBRARY).start();
const stock = createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://x");
  const file = join(NODE_MODULES, pathname.slice("/packages/".length));
  const [, player, title] = /^\/play\/([^/]+)\/([^/]+)$/.exec(pathname) ?? [];
  if (pathname.startsWith("/packages/") && existsSync(file)) {
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
        const late = pairs.length > 0 ? Math.round(median(pairs) * 1000) : null;
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
stock.closeAllConnections();
stock.close();
await server.remove();
