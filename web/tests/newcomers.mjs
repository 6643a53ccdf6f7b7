// `./run fleet`, as a newcomer starts it: a gateway, six nodes at three sites on 127.0.1.1 to .6, a film of some minutes, and viewers.

import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export class Newcomers {
  #run;
  #nodePort;

  /** Its folder stays, and with it the film. It uses four ports, from `port` on. */
  async start({ name, minutes, viewers, port }) {
    this.folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", name);
    mkdirSync(this.folder, { recursive: true });
    const environment = { ...process.env, FULLBORE: process.env.FULLBORE_PROGRAM, FLEET_FILM_MINUTES: String(minutes), FLEET_VIEWERS: String(viewers) };
    const ports = ["FLEET_NODE_PORT", "FLEET_PUBLIC_PORT", "FLEET_ADMIN_PORT", "FLEET_MACHINES_PORT"];
    for (const [at, variable] of ports.entries()) environment[variable] = String(port + at);
    this.#nodePort = port;
    this.film = `http://127.0.0.1:${port + 1}/watch?title=sample-${minutes}`;
    this.admin = `http://127.0.0.1:${port + 2}/`;
    this.#run = spawn("./run", ["fleet", this.folder], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    await new Promise((ready, failed) => {
      this.#run.stdout.on("data", (more) => {
        said = (said + more).slice(-10_000); // a word may come in two parts
        if (said.includes("ready ")) ready();
      });
      this.#run.on("exit", (code) => failed(new Error(`the fleet ended with ${code}`)));
    });
    return this;
  }

  async stop() {
    if (this.#run.exitCode !== null) return;
    const ended = new Promise((done) => this.#run.once("exit", done));
    this.#run.kill("SIGTERM");
    await ended;
  }

  get token() {
    return readFileSync(join(this.folder, "gateway/admin.token"), "utf8").trim();
  }

  /** The nodes as the gateway lists them. */
  async nodes() {
    const answer = await fetch(`${this.admin}api/v1/nodes`, { headers: { Authorization: `Bearer ${this.token}` } });
    return (await answer.json()).nodes;
  }

  /** Kills the server and the agent of the node at `host`: both have its address in their command lines. */
  kill(host) {
    const listens = `${host}:${this.#nodePort}`;
    const words = (pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      } catch {
        return [];
      }
    };
    const pids = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && words(pid).includes(listens));
    for (const pid of pids) process.kill(Number(pid), "SIGKILL");
    return pids.length;
  }
}

/** How many video segments a viewer requested from each node, by the node's host, counted from request number `from` on. Each segment is a range of
 *  its bit rate's file. */
export function segmentsByNode(viewer, from = 0) {
  const counts = new Map();
  for (const request of viewer.requests.slice(from)) {
    const { hostname, pathname } = new URL(request.url());
    const isFirst = /^bytes=0-/.test(request.headers().range ?? "");
    if (!hostname.startsWith("127.0.1.") || !/\/video-[^/]*\.mp4$/.test(pathname) || isFirst) continue;
    counts.set(hostname, (counts.get(hostname) ?? 0) + 1);
  }
  return counts;
}
