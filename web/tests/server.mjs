// A TLS server on a port of its own, using the program that ./run has built.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const PROGRAM = process.env.FULLBORE_PROGRAM;
if (!PROGRAM) throw new Error("FULLBORE_PROGRAM names no program; run this by ./run pages");

/** Long enough for a loaded machine; normally nothing takes this long. */
const START_MS = 90_000;

/**
 * A port that is still free when a server comes back to it. A port that the kernel chooses would not be: while the server is away, the kernel gives
 * such a port (from 32768 on, ip_local_port_range) to any connection of the machine.
 */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const probe = createServer();
    const free = await new Promise((done) => probe.once("error", () => done(false)).listen(port, "127.0.0.1", () => done(true)));
    if (!free) continue;
    await new Promise((done) => probe.close(done));
    return port;
  }
}

export class Server {
  #process = null;
  #state = mkdtempSync(join(tmpdir(), "fullbore-pages-"));
  #address = null;
  #adminAddress = null;
  url = "";
  /** The address of the admin listener, which has the dashboard. */
  admin = "";

  /** Of a library; without one, the settings name an origin, and it is a caching edge. */
  constructor(library) {
    this.library = library;
  }

  /** Starts the server, on its previous port if there was one. Settings are lines of TOML. */
  async start(settings = "", workers = 1) {
    this.#address ??= `127.0.0.1:${await freePort()}`;
    this.#adminAddress ??= `127.0.0.1:${await freePort()}`;
    const config = join(this.#state, "fullbore.toml");
    writeFileSync(config, settings);
    const args = ["serve", ...(this.library ? [this.library] : []), "--listen", this.#address, "--admin", this.#adminAddress, "--state", this.#state];
    args.push("--workers", String(workers), "--config", config);
    this.#process = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "inherit"] });
    [this.url, this.admin] = await this.#ready(this.#process);
    return this;
  }

  #ready(process) {
    return new Promise((done, fail) => {
      let url;
      const timer = setTimeout(() => fail(new Error("the server does not get ready")), START_MS);
      process.once("exit", (code) => fail(new Error(`the server ended with ${code}`)));
      createInterface({ input: process.stdout }).on("line", (line) => {
        url ??= /^ready (\S+)$/.exec(line)?.[1];
        const admin = /^admin\s+(http:\/\/[^/]+\/)/.exec(line)?.[1];
        if (!url || !admin) return;
        clearTimeout(timer);
        done([url, admin]);
      });
    });
  }

  /** Kills it at once, like a power failure. */
  async kill() {
    const process = this.#process;
    if (process === null || process.exitCode !== null || process.signalCode !== null) return;
    const ended = once(process, "exit");
    process.kill("SIGKILL");
    await ended;
  }

  /** From now on the server accepts data but sends no answer, like a machine whose packets are lost. */
  pause() {
    this.#process.kill("SIGSTOP");
  }

  resume() {
    this.#process.kill("SIGCONT");
  }

  async remove() {
    await this.kill();
    rmSync(this.#state, { recursive: true });
  }
}
