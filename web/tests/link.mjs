// A network in front of a server: it can be slow, lose everything, or be cut.

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { FILM } from "./films.mjs";
import { Gateway } from "./gateway.mjs";

/** Small enough that a slow network has no bursts: 80 ms at 200 kb/s. */
const SLICE_BYTES = 2048;

export class Link {
  #server = createServer((client) => this.#open(client));
  #target;
  #sockets = new Set();
  #port = 0;
  /** When the next bytes may leave. All connections share the network. */
  #freeAt = 0;
  /** The rate towards the viewer. */
  bitsPerSecond = Infinity;
  /** Whether everything is lost, without any sign of it. */
  isLossy = false;
  url = "";

  /** In front of the server at `url`. Bytes pass unchanged, and so does TLS. */
  async start(url) {
    this.#target = new URL(url);
    await this.mend();
    this.url = `${this.#target.protocol}//127.0.0.1:${this.#port}/`;
    return this;
  }

  #open(client) {
    const server = connect(Number(this.#target.port), "127.0.0.1");
    for (const [one, other] of [[client, server], [server, client]]) {
      this.#sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
    client.on("data", (bytes) => !this.isLossy && server.write(bytes));
    server.on("data", (bytes) => void this.#bring(bytes, server, client));
  }

  async #bring(bytes, server, client) {
    if (this.bitsPerSecond === Infinity) return void (this.isLossy || client.write(bytes));
    server.pause();
    for (let at = 0; at < bytes.length && !this.isLossy; at += SLICE_BYTES) {
      const slice = bytes.subarray(at, at + SLICE_BYTES);
      const now = performance.now();
      this.#freeAt = Math.max(now, this.#freeAt) + (slice.length * 8000) / this.bitsPerSecond;
      await new Promise((done) => setTimeout(done, this.#freeAt - now));
      client.write(slice);
    }
    server.resume();
  }

  /** Ends all connections, and refuses new ones. */
  async cut() {
    for (const socket of this.#sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, "close");
  }

  async mend() {
    Object.assign(this, { isLossy: false, bitsPerSecond: Infinity });
    if (this.#server.listening) return;
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = this.#server.address().port;
  }
}

/** Each server's way to fail. The silent one is the first: with the others in order, a viewer waits for it for only four seconds. */
export const FAULTS = [
  ["silent", (link) => (link.isLossy = true)],
  ["slow", (link) => (link.bitsPerSecond = 200_000)],
  ["dead", (link) => link.cut()],
];

/** A gateway whose viewers reach three servers, each through a network of its own. */
export class LinkedFleet {
  async start(library, servers) {
    this.links = await Promise.all(servers.map(({ url }) => new Link().start(url)));
    this.gateway = await new Gateway(library, FILM, this.links.map(({ url }, at) => ({ id: `n${at + 1}`, url }))).start();
    return this;
  }

  async mend() {
    await Promise.all(this.links.map((link) => link.mend()));
  }

  async stop() {
    await this.gateway.stop();
    await Promise.all(this.links.map((link) => link.cut()));
  }
}
