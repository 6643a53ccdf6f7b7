// How requests are watched: how long one may be silent, how often one is given up, and what a refusal means. Time and requests are made up here;
// pathways.test.mjs and firefox.test.mjs show the same in browsers.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, mock, test } from "node:test";
import { transformWithEsbuild } from "vite";

/** The module's code as an address that can be imported. */
async function compiled(name, replace = (code) => code) {
  const path = new URL(`../src/watch/${name}.ts`, import.meta.url);
  const { code } = await transformWithEsbuild(readFileSync(path, "utf8"), path.pathname, { loader: "ts", sourcemap: false });
  return `data:text/javascript;base64,${Buffer.from(replace(code)).toString("base64")}`;
}

const rules = await compiled("pathways");
const { Servers } = await import(await compiled("servers", (code) => code.replace('"./pathways"', JSON.stringify(rules))));

const TICK_MS = 250;
const A = "https://a.example/film.mp4";
const B = "https://b.example/film.mp4";
const SOUND = "https://a.example/sound.mp4";
const PART = { firstByte: 0, bytes: 2_000_000, seconds: 4, bitsPerSecondMax: 8_000_000 };

let now = 0;
const looks = new Map();
globalThis.window = {
  setInterval(look, ms) {
    assert.equal(ms, TICK_MS);
    looks.set(looks.size + 1, look);
    return looks.size;
  },
};
mock.method(globalThis, "clearInterval", (timer) => looks.set(timer, () => {}));
mock.method(performance, "now", () => now);

class FakeRequest extends EventTarget {
  HEADERS_RECEIVED = 2;
  DONE = 4;
  readyState = 1;
  status = 0;
  response = null;
  isEnded = false;

  getResponseHeader = () => null;

  set timeout(_) {
    this.isEnded = true;
    this.end("timeout");
  }

  end(event, status = 0, bytes = 0) {
    Object.assign(this, { readyState: 4, status, response: new ArrayBuffer(bytes) });
    for (const name of ["readystatechange", event, "loadend"]) this.dispatchEvent(new Event(name));
  }

  receive(loaded, total) {
    this.dispatchEvent(Object.assign(new Event("progress"), { loaded, total, lengthComputable: total !== undefined }));
  }
}

let servers, told, ahead;

beforeEach(() => {
  looks.clear();
  [told, ahead, now] = [[], 60, 0];
  const video = { paused: false, seeking: false, readyState: 0, HAVE_FUTURE_DATA: 3, playbackRate: 1 };
  servers = new Servers(video, {
    ahead: () => ahead,
    connected: (isConnected) => told.push(isConnected),
    refused: (status) => told.push(status),
  });
});

const name = (...ids) => servers.name(ids.map((id) => ({ id, origin: `https://${id}.example` })));

/** Sends a request. */
function send(url, purpose = { part: PART, isNeeded: true }) {
  const request = new FakeRequest();
  servers.watch(request, url, purpose);
  request.dispatchEvent(new Event("loadstart"));
  return request;
}

function wait(ms) {
  for (const end = now + ms; now < end; ) {
    now += TICK_MS;
    for (const look of [...looks.values()]) look();
  }
}

/** How long it takes until a request is ended, if nothing arrives. */
function endsAfter(request) {
  const began = now;
  while (!request.isEnded && now - began < 60_000) wait(TICK_MS);
  return now - began;
}

test("a silent request has four seconds while another server is well, and fifteen otherwise", () => {
  name("a", "b");
  assert.equal(endsAfter(send(A)), 4000);
  assert.deepEqual(told, []);
  assert.equal(endsAfter(send(B)), 15_000);
  assert.deepEqual(told, [false]);
  send(B).end("load", 206, 1000);
  assert.deepEqual(told, [false, true]);
});

test("a request that is never sent is not silent", () => {
  name("a", "b");
  servers.watch(new FakeRequest(), A, { part: PART, isNeeded: true });
  wait(20_000);
  assert.equal(servers.addressOf(A), A);
});

test("after a sleep, a request has its whole time again", () => {
  name("a", "b");
  const request = send(A);
  wait(1000);
  now += 60_000;
  assert.equal(endsAfter(request), TICK_MS + 4000);
});

test("an engine that is gone hears nothing", () => {
  name("a", "b");
  const requests = [send(A), send(B)];
  servers.end();
  for (const request of requests) request.end("error");
  assert.deepEqual(told, []);
});

test("after three requests given up as too slow, each gets four seconds", () => {
  const ids = ["a", "b", "c", "d", "e", "f"];
  name(...ids);
  for (const id of ids) {
    const request = send(`https://${id}.example/film.mp4`);
    now += 1000;
    request.end("load", 206, 4_000_000);
  }
  ahead = 0;
  const given = ids.slice(1).map(() => {
    const request = send(servers.addressOf(A));
    const began = now;
    while (!request.isEnded && now - began < 30_000) {
      wait(TICK_MS);
      request.receive((now - began) * 2, 2_000_000);
    }
    return now - began;
  });
  assert.deepEqual(given, [1000, 1000, 1000, 4000, 4000]);
});

test("what all servers refuse is reported at once; captions that one lacks are no failure", () => {
  name("a", "b");
  send(A, { isNeeded: false }).end("load", 404);
  assert.equal(servers.addressOf(A), A);
  send(A).end("load", 404);
  send(SOUND).end("load", 404);
  assert.equal(servers.addressOf(A), B);
  assert.deepEqual(told, []);
  send(B).end("load", 404);
  assert.deepEqual(told, [false, 404]);
  told.length = 0;
  for (const url of [A, B]) send(`${url}.2`).end("load", 429);
  assert.deepEqual(told, [], "that may end by itself");
});
