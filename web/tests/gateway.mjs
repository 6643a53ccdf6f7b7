// A small gateway for these tests. It serves the built page with the policy that a gateway sends, and manifests with a pathway for each node. It
// never notices that a node fails, so that only the page can react to a failure.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const DIST = new URL("../dist/", import.meta.url).pathname;
const TYPES = { js: "text/javascript", css: "text/css", svg: "image/svg+xml", html: "text/html; charset=utf-8" };

/** For how many seconds a steering answer is valid. A short time, so that a test gets several. */
const TTL_SECONDS = 5;

/** As crates/core/web/src/policy.rs writes it. */
const policy = (hosts) =>
  `default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' ${hosts}; media-src 'self' ${hosts} blob: data:; ` +
  `connect-src 'self' ${hosts}; worker-src 'none'; object-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'`;

/** An HLS multivariant playlist with the pathways of `nodes`, each with its own rendition groups. */
export function hlsOf(text, title, nodes, steering) {
  const lines = text.split("\n");
  const head = lines.filter((line) => /^#EXT(M3U|-X-VERSION|-X-INDEPENDENT)/.test(line));
  head.push(`#EXT-X-CONTENT-STEERING:SERVER-URI="${steering}",PATHWAY-ID="${nodes[0].id}"`);
  const bodies = nodes.map(({ id, url }) => {
    const whole = (path) => new URL(`${encodeURIComponent(title)}/${path}`, url).href;
    const of = [];
    for (const [index, line] of lines.entries()) {
      const grouped = line.replace(/(GROUP-ID|AUDIO|SUBTITLES)="([^"]+)"/g, `$1="$2-${id}"`);
      if (line.startsWith("#EXT-X-MEDIA:")) of.push(grouped.replace(/URI="([^"]+)"/, (_, path) => `URI="${whole(path)}"`));
      if (line.startsWith("#EXT-X-STREAM-INF:")) of.push(`${grouped},PATHWAY-ID="${id}",STABLE-VARIANT-ID="${index}"`, whole(lines[index + 1]));
    }
    return of;
  });
  return [...head, ...bodies.flat(), ""].join("\n");
}

/** A DASH manifest with a base address for each node. */
export function dashOf(text, title, nodes, steering) {
  const bases = nodes.map(({ id, url }) => `<BaseURL serviceLocation="${id}">${new URL(`${encodeURIComponent(title)}/`, url).href}</BaseURL>`);
  const content = `<ContentSteering defaultServiceLocation="${nodes[0].id}" queryBeforeStart="false">${steering}</ContentSteering>`;
  return text.replace(/(<MPD [^>]*>)/, `$1\n${bases.join("\n")}\n${content}`);
}

export class Gateway {
  #server = null;
  url = "";
  /** How many steering requests players have sent. */
  asked = 0;
  /** Pages that a test adds, by their paths. */
  pages = {};

  constructor(library, title, nodes) {
    Object.assign(this, { library, title, nodes });
  }

  async start() {
    this.#server = createServer((request, response) => this.#answer(request, response));
    await new Promise((done) => this.#server.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.#server.address().port}/`;
    return this;
  }

  #answer(request, response) {
    const { pathname } = new URL(request.url, this.url);
    const found = this.#find(decodeURIComponent(pathname));
    response.writeHead(found === undefined ? 404 : 200, found?.fields ?? {});
    response.end(found?.body ?? "");
  }

  #find(path) {
    const manifest = (name) => readFileSync(join(this.library, this.title, name), "utf8");
    const steering = (kind) => `${this.url}steering/${kind}`;
    const of = (type, body, fields = {}) => ({ body, fields: { "Content-Type": type, ...fields } });
    const hosts = this.nodes.map(({ url }) => new URL(url).origin).join(" ");
    if (path === "/watch") return of(TYPES.html, readFileSync(join(DIST, "watch.html")), { "Content-Security-Policy": policy(hosts) });
    if (this.pages[path] !== undefined) return of(TYPES.html, this.pages[path]);
    if (path.startsWith("/packages/")) return of(TYPES.js, readFileSync(join(DIST, "../node_modules", path.slice(10))));
    if (path.startsWith("/-/assets/")) return of(TYPES[path.split(".").pop()], readFileSync(join(DIST, path.slice(3))));
    if (path === `/play/${this.title}/master.m3u8`) return of("application/vnd.apple.mpegurl", hlsOf(manifest("master.m3u8"), this.title, this.nodes, steering("hls")));
    if (path === `/play/${this.title}/manifest.mpd`) return of("application/dash+xml", dashOf(manifest("manifest.mpd"), this.title, this.nodes, steering("dash")));
    if (path === "/api/v1/titles") return of("application/json", JSON.stringify({ version: 1, titles: [{ title: this.title, duration_seconds: 200 }] }));
    if (path.startsWith("/steering/")) {
      this.asked += 1;
      const answer = { VERSION: 1, TTL: TTL_SECONDS, "PATHWAY-PRIORITY": this.nodes.map(({ id }) => id) };
      return of("application/json", JSON.stringify(answer));
    }
    return undefined;
  }

  async stop() {
    this.#server?.closeAllConnections();
    await new Promise((done) => this.#server?.close(done));
  }
}
