// An unmodified Firefox, controlled by WebDriver BiDi (https://w3c.github.io/webdriver-bidi/): one tab, its errors and its requests.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import WebSocket from "ws";

const PROGRAM = process.env.FULLBORE_FIREFOX;
const OUT = process.env.FULLBORE_PAGES_OUT ?? "target/pages";

/** How long to wait for an expected event; far longer than it normally takes. */
const PATIENCE_MS = 60_000;

/** Films start by themselves, without sound, and the browser sends requests only to the server under test. */
const PREFERENCES = {
  "app.normandy.enabled": false,
  "app.update.disabledForTesting": true,
  "browser.shell.checkDefaultBrowser": false,
  "browser.startup.homepage_override.mstone": "ignore",
  "datareporting.policy.dataSubmissionEnabled": false,
  "media.autoplay.default": 0,
  "media.volume_scale": "0",
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "services.settings.server": "data:,#remote-settings-dummy/v1",
  "toolkit.telemetry.enabled": false,
};

async function within(what, promise) {
  let timer;
  const late = new Promise((_, fail) => (timer = setTimeout(() => fail(new Error(`waited too long for ${what}`)), PATIENCE_MS)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export class Firefox {
  #profile = mkdtempSync(join(tmpdir(), "fullbore-firefox-"));
  #process;
  #socket;
  #asked = new Map();
  #last = 0;
  #context;
  complaints = [];
  /** The addresses that the pages have requested. */
  requests = [];

  /** Preferences are in addition to ours; `early` runs in each page before its own scripts. */
  static async launch(preferences = {}, early = null) {
    const firefox = new Firefox();
    await within("Firefox", firefox.#launch(preferences, early));
    return firefox;
  }

  async #launch(preferences, early) {
    const lines = Object.entries({ ...PREFERENCES, ...preferences }).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`);
    writeFileSync(join(this.#profile, "user.js"), lines.join(""));
    const args = ["--headless", "--no-remote", "--profile", this.#profile, "--remote-debugging-port", "0"];
    this.#process = spawn(PROGRAM, args, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: this.#profile } });
    const url = await new Promise((done, fail) => {
      this.#process.once("error", fail);
      this.#process.once("exit", (code) => fail(new Error(`Firefox ended with ${code}`)));
      createInterface({ input: this.#process.stderr }).on("line", (line) => {
        const found = /^WebDriver BiDi listening on (\S+)/.exec(line);
        if (found) done(found[1]);
      });
    });
    this.#socket = new WebSocket(`${url}/session`);
    await once(this.#socket, "open");
    this.#socket.on("message", (data) => this.#hear(JSON.parse(data)));
    await this.#ask("session.new", { capabilities: { alwaysMatch: { acceptInsecureCerts: true } } });
    await this.#ask("session.subscribe", { events: ["log.entryAdded", "network.beforeRequestSent"] });
    if (early) await this.#ask("script.addPreloadScript", { functionDeclaration: String(early) });
    ({ context: this.#context } = await this.#ask("browsingContext.create", { type: "tab" }));
    await this.#ask("browsingContext.setViewport", { context: this.#context, viewport: { width: 1280, height: 800 } });
  }

  #hear({ id, method, params, result, error, message }) {
    if (method === "log.entryAdded" && ["error", "warn"].includes(params.level)) this.complaints.push(`${params.text} (${params.source?.context})`);
    if (method === "network.beforeRequestSent") this.requests.push(params.request.url);
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    if (error) asked?.fail(new Error(`${error}: ${message}`));
    else asked?.done(result);
  }

  #ask(method, params) {
    const id = (this.#last += 1);
    this.#socket.send(JSON.stringify({ id, method, params }));
    return within(method, new Promise((done, fail) => this.#asked.set(id, { done, fail })));
  }

  goto(url) {
    return this.#ask("browsingContext.navigate", { context: this.#context, url, wait: "complete" });
  }

  /** Runs `does(...args)` in the page and returns its result. Arguments and result are passed as JSON. */
  async evaluate(does, ...args) {
    const expression = `(async () => JSON.stringify(await (${does})(...${JSON.stringify(args)})))()`;
    const { result, exceptionDetails } = await this.#ask("script.evaluate", { expression, target: { context: this.#context }, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.text);
    return result.value === undefined ? undefined : JSON.parse(result.value);
  }

  /** Waits until `holds(...args)` is true in the page. */
  async until(holds, ...args) {
    for (const end = Date.now() + PATIENCE_MS; !(await this.evaluate(holds, ...args)); await sleep(100)) {
      if (Date.now() > end) throw new Error(`waited too long for ${holds} with ${JSON.stringify(args)}`);
    }
  }

  /** Moves the mouse to a share of an element's width, and presses it there. */
  async clickAt(selector, share) {
    const box = await this.evaluate((selector) => document.querySelector(selector).getBoundingClientRect(), selector);
    const [x, y] = [Math.round(box.left + box.width * share), Math.round(box.top + box.height / 2)];
    const move = (x, y) => ({ type: "pointerMove", x, y });
    const actions = [move(640, 300), move(642, 302), move(x - 3, y), move(x, y), { type: "pointerDown", button: 0 }, { type: "pointerUp", button: 0 }];
    await this.#ask("input.performActions", { context: this.#context, actions: [{ type: "pointer", id: "mouse", actions }] });
  }

  async press(key) {
    const actions = [{ type: "keyDown", value: key }, { type: "keyUp", value: key }];
    await this.#ask("input.performActions", { context: this.#context, actions: [{ type: "key", id: "keyboard", actions }] });
  }

  async picture(name) {
    const { data } = await this.#ask("browsingContext.captureScreenshot", { context: this.#context });
    mkdirSync(OUT, { recursive: true });
    writeFileSync(join(OUT, `${name}.png`), Buffer.from(data, "base64"));
  }

  async close() {
    this.#socket?.close();
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const ended = once(this.#process, "exit");
      this.#process.kill();
      await ended;
    }
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
