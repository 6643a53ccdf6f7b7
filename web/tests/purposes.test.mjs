// Forced captions, kinds of tracks and chapters in a real browser, by HLS and by DASH; and thumbnails in dash.js as it comes.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server } from "./server.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

const TITLE = "film";
const SECONDS = 30;
let folder;
let library;
let server;

/** A film with commentary in front, a dub, captions of four kinds, and two chapters. */
function makeFilm() {
  const captions = ["ordinary", "for the deaf", "forced English", "forced German"].map((line, index) => {
    const file = join(folder, `${index}.srt`);
    writeFileSync(file, `1\n00:00:00,000 --> 00:00:${SECONDS - 1},000\n${line}\n`);
    return ["-i", file];
  });
  const chapters = join(folder, "chapters.txt");
  const chapter = (start, end, title) => `[CHAPTER]\nTIMEBASE=1/1\nSTART=${start}\nEND=${end}\ntitle=${title}\n`;
  writeFileSync(chapters, `;FFMETADATA1\n${chapter(0, 10, "Opening")}${chapter(10, SECONDS, "The end")}`);
  const source = join(folder, "source.mkv");
  execFileSync("ffmpeg", [
    ...`-y -v error -f lavfi -i testsrc2=size=320x180:rate=25:duration=${SECONDS} -f lavfi -i sine=440:duration=${SECONDS}`.split(" "),
    ...captions.flat(), "-i", chapters,
    ..."-map_metadata 6 -map 0 -map 1 -map 1 -map 1 -map 2 -map 3 -map 4 -map 5 -c:v libx264 -preset ultrafast -g 25 -pix_fmt yuv420p".split(" "),
    ..."-c:a aac -c:s srt -metadata:s:a language=eng -metadata:s:a:2 language=ger -metadata:s:s language=eng -metadata:s:s:3 language=ger".split(" "),
    ..."-disposition:a:0 comment -disposition:a:1 default -disposition:a:2 dub".split(" "),
    ..."-disposition:s:0 0 -disposition:s:1 hearing_impaired -disposition:s:2 forced -disposition:s:3 forced".split(" "), source,
  ], { stdio: "inherit" });
  library = join(folder, "library");
  execFileSync(process.env.FULLBORE_PROGRAM, ["ingest", source, "--library", library, "--title", TITLE, "--copy"], { stdio: ["ignore", "inherit", "inherit"] });
  return library;
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "fullbore-purposes-"));
  server = await new Server(makeFilm()).start();
});

after(async () => {
  await closeBrowser();
  await server?.remove();
  rmSync(folder, { recursive: true, force: true });
});

/** The lines of the open menu. */
async function lines(page) {
  return (await page.locator(".menu:not([hidden])").innerText()).split(/\n+/);
}

for (const engine of ["hls", "dash"]) {
  test(`${engine}: forced captions come with their sound, and other tracks are listed by kind`, async () => {
    const viewer = await Viewer.arrive({ storage: { engine } });
    await viewer.during(async () => {
      const { page } = viewer;
      await viewer.watch(server.url, TITLE);
      await viewer.captionMatches("^forced English$");
      await viewer.withControls(async () => {
        await page.getByRole("button", { name: "Captions", exact: true }).click();
        assert.deepEqual(await lines(page), ["Captions", "Off", "English", "English", "Hard of hearing"]);
        await page.getByRole("menuitemradio", { name: /Hard of hearing/ }).click();
      });
      await viewer.captionMatches("^for the deaf$");
      await viewer.choose("Captions", "Off");
      await viewer.captionMatches("^forced English$");
      await viewer.withControls(async () => {
        await page.getByRole("button", { name: "Settings", exact: true }).click();
        await page.getByRole("menuitem", { name: /^Language/ }).click();
        assert.deepEqual(await lines(page), ["Language", "English", "Deutsch", "Dubbed", "English", "Commentary"]);
        await page.getByRole("menuitemradio", { name: /Deutsch/ }).click();
      });
      await viewer.captionMatches("^forced German$");
      viewer.assertContent();
    });
  });

  test(`${engine}: chapters are in the time bar, next to the time and in the settings`, async () => {
    const viewer = await Viewer.arrive({ storage: { engine } });
    await viewer.during(async () => {
      const { page } = viewer;
      await viewer.watch(server.url, TITLE);
      await page.waitForFunction(() => document.querySelector(".chapter").textContent === "Opening");
      await viewer.choose("Settings", "Chapters", "The end");
      await page.waitForFunction(() => document.querySelector("video").currentTime >= 10 && document.querySelector(".chapter").textContent === "The end");
      assert.equal(await page.locator(".mark").count(), 1);
      await viewer.withControls(async () => {
        await viewer.pointAt(0.2);
        assert.equal(await page.locator(".pointed-chapter").innerText(), "Opening");
      });
      await viewer.picture(`chapters-${engine}`);
      await viewer.assertAccessible();
      viewer.assertContent();
    });
  });
}

test("dash.js, as it comes, finds the thumbnail of each moment in the manifest", async () => {
  copyFileSync(new URL("../node_modules/dashjs/dist/modern/umd/dash.all.min.js", import.meta.url), join(library, "dash.js"));
  writeFileSync(join(library, "plain.html"), `<!doctype html><meta charset="utf-8"><video muted></video><script src="dash.js"></script><script>
    const player = dashjs.MediaPlayer().create();
    player.initialize(document.querySelector("video"), "${TITLE}/manifest.mpd", false);</script>`);
  const record = JSON.parse(readFileSync(join(library, TITLE, "title.json"), "utf8"));
  const list = readFileSync(join(library, TITLE, record.thumbnails), "utf8");
  const cues = [...list.matchAll(/(\d+):(\d+):([\d.]+) --> .*\n(.*)#xywh=(\d+),(\d+),(\d+),(\d+)/g)];
  assert.ok(cues.length > 5, list);
  const expected = cues.map(([, hours, minutes, seconds, file, ...box]) => {
    const [x, y, width, height] = box.map(Number);
    return { at: Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds) + 0.5, file, x, y, width, height };
  });
  const viewer = await Viewer.arrive();
  await viewer.during(async () => {
    const { page } = viewer;
    await page.goto(`${server.url}plain.html`);
    await page.waitForFunction(() => document.querySelector("video").readyState >= 1);
    for (const { at, file, ...box } of expected) {
      const found = await page.evaluate((seconds) => new Promise((done) => player.provideThumbnail(seconds, done)), at);
      assert.ok(found, `there is no thumbnail at ${at} s`);
      const { url, x, y, width, height } = found;
      assert.equal(url, `${server.url}${TITLE}/${record.folder}/${file}`, `at ${at} s`);
      assert.deepEqual({ x, y, width, height }, box, `at ${at} s`);
    }
  });
});
