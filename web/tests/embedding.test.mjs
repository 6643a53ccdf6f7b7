// Pages on other sites and on a home screen: who may show the player in a frame, and whether browsers offer to install the shelf.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { FILM, makeLibrary } from "./films.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

let server;
/** Two sites with the same page. */
const sites = [];

before(async () => {
  const folder = resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "films");
  mkdirSync(folder, { recursive: true });
  server = new Server(makeLibrary(folder));
  for (let count = 0; count < 2; count += 1) {
    const site = createServer((_, response) => {
      response.setHeader("content-type", "text/html");
      response.end(`<!doctype html><title>Blog</title><p>Look at this:</p>
        <iframe src="${server.url}-/watch/${encodeURIComponent(FILM)}" width="640" height="360" allow="autoplay; fullscreen"></iframe>`);
    });
    site.listen(0, "127.0.0.1");
    await once(site, "listening");
    sites.push(site);
  }
  await server.start(`page_embedders = [${JSON.stringify(urlOf(sites[0]))}]\n[tls]\nenabled = false\n`);
});

after(async () => {
  await closeBrowser();
  sites.forEach((site) => site.close());
  await server?.remove();
});

const urlOf = (site) => `http://127.0.0.1:${site.address().port}`;

test("another site shows the player in a frame if it is allowed", async () => {
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    await viewer.page.goto(urlOf(sites[0]));
    const frame = viewer.page.frameLocator("iframe");
    await frame.locator("video").waitFor();
    await frame.locator("video").evaluate((video) => new Promise((done) => {
      const look = () => (video.currentTime > 0.5 ? done() : setTimeout(look, 50)); // sleeps: between looks
      video.muted = true;
      video.play().catch(() => {});
      look();
    }));
    assert.equal(await frame.locator("header a.control").getAttribute("target"), "_blank");
    await frame.locator(".about h2").waitFor();
    assert.equal(await frame.locator(".others").count(), 0);
    viewer.assertContent();
  });
});

test("another site that is not allowed shows no player, and none shows the shelf", async () => {
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    for (const [site, path] of [[sites[1], null], [sites[0], "-/"]]) {
      await viewer.page.goto(urlOf(site));
      viewer.complaints.length = 0;
      await viewer.page.evaluate((src) => {
        const frame = document.querySelector("iframe");
        if (src !== null) frame.src = src;
        else frame.src = frame.getAttribute("src");
      }, path && server.url + path);
      const refused = () => viewer.complaints.find((complaint) => complaint.includes("frame-ancestors"));
      while (refused() === undefined) await viewer.page.waitForEvent("console");
      assert.equal(await viewer.page.frameLocator("iframe").locator("video, #shelf").count(), 0);
    }
  });
});

test("the shelf can be installed, also behind a token", async () => {
  const key = join(mkdtempSync(join(tmpdir(), "fullbore-key-")), "url.key");
  const sign = (...args) => execFileSync(process.env.FULLBORE_PROGRAM, ["sign", ...args], { encoding: "utf8" }).trim();
  sign("--new-key", key);
  const closed = await new Server(server.library).start(`[signing]\nkeys = [${JSON.stringify(key)}]\n[tls]\nenabled = false\n`);
  const player = sign(`${FILM}/master.m3u8`, "--key", key, "--expires", "1h", "--base", closed.url.replace(/\/$/, ""), "--page");
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    for (const shelf of [server.url, `${server.url}-/`, player.replace(/-\/watch\/.*/, "")]) {
      await viewer.page.goto(shelf);
      await viewer.page.locator(".card").first().waitFor();
      const browser = await viewer.context.newCDPSession(viewer.page);
      const { installabilityErrors } = await browser.send("Page.getInstallabilityErrors");
      // A window without a history is refused in general: "in-incognito".
      assert.deepEqual(installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito"), []);
      const { url, data } = await browser.send("Page.getAppManifest");
      const { start_url, scope } = JSON.parse(data);
      const library = shelf.replace(/-\/$/, "");
      assert.equal(new URL(start_url, url).href, `${library}-/`);
      assert.equal(new URL(scope, url).href, library);
    }
    viewer.assertContent();
  });
  await closed.remove();
  rmSync(dirname(key), { recursive: true });
});
