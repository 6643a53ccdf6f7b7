// The films of these tests: one that is made here and has two languages and captions, and Big Buck Bunny if it can be downloaded.

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Longer than the player's buffer of two minutes, so that some of it is not loaded. */
export const FILM_SECONDS = 200;
export const FILM = "Test Film";
export const BUNNY = "Big Buck Bunny";
export const FILE = "plain_file.mp4";

/** Two sizes of different heights, whose bit rates are far enough apart for a limit between them. */
export const HEIGHTS = [144, 288];
export const BETWEEN_BITS_PER_SECOND = 900_000;
const LADDER = `rungs = [{ height = ${HEIGHTS[0]}, kbps = 200 }, { height = ${HEIGHTS[1]}, kbps = 1800 }]\n`;

function stamp(seconds) {
  const two = (value) => String(value).padStart(2, "0");
  return `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)},000`;
}

/** Captions without gaps, so that there is always one. */
function captions(line) {
  const blocks = [];
  for (let at = 0; at < FILM_SECONDS; at += 4) blocks.push(`${blocks.length + 1}\n${stamp(at)} --> ${stamp(at + 4)}\n${line} ${at}\n`);
  return blocks.join("\n");
}

/** Longer than it takes to make the library on a loaded machine: an older lock belongs to a run that has ended. */
const MADE_MS = 600_000;

/** Makes the library once; later runs find it, and tests of another file that run meanwhile wait for it. */
export function makeLibrary(folder) {
  const library = join(folder, "library");
  const done = join(folder, "made-4");
  const lock = join(folder, "making");
  while (!existsSync(done)) {
    try {
      mkdirSync(lock);
    } catch {
      if (existsSync(lock) && Date.now() - statSync(lock).mtimeMs > MADE_MS) rmdirSync(lock);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
      continue;
    }
    try {
      if (!existsSync(done)) make(folder, library, done);
    } finally {
      rmdirSync(lock);
    }
  }
  return library;
}

function make(folder, library, done) {
  mkdirSync(library, { recursive: true });
  const source = join(folder, "source.mkv");
  for (const [name, line] of [["en", "A line at"], ["de", "Eine Zeile bei"]]) writeFileSync(join(folder, `${name}.srt`), captions(line));
  const size = `${(HEIGHTS[1] * 16) / 9}x${HEIGHTS[1]}`;
  // Noise uses all available bits, so each size uses what the ladder gives it.
  const picture = `testsrc2=size=${size}:rate=25,noise=alls=24:allf=t`;
  execFileSync("ffmpeg", [
    ..."-y -v error -f lavfi -i".split(" "), picture,
    ..."-f lavfi -i sine=440 -f lavfi -i sine=660 -i".split(" "), join(folder, "en.srt"), "-i", join(folder, "de.srt"),
    ...`-t ${FILM_SECONDS} -map 0:v -map 1:a -map 2:a -map 3 -map 4 -c:v libx264 -preset ultrafast -crf 18 -g 50 -pix_fmt yuv420p`.split(" "),
    ..."-c:a aac -c:s srt -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu".split(" "),
    ..."-metadata:s:s:0 language=eng -metadata:s:s:1 language=deu".split(" "), source,
  ], { stdio: "inherit" });
  const ladder = join(folder, "ladder.toml");
  writeFileSync(ladder, LADDER);
  ingest(source, library, FILM, "--ladder", ladder);
  const bunny = process.env.FULLBORE_BUNNY;
  if (bunny) {
    ingest(bunny, library, BUNNY);
    copyFileSync(bunny, join(library, FILE));
  }
  writeFileSync(done, "");
}

function ingest(source, library, title, ...rest) {
  const args = ["ingest", source, "--library", library, "--title", title, "--speed", "fastest", ...rest];
  execFileSync(process.env.FULLBORE_PROGRAM, args, { stdio: ["ignore", "inherit", "inherit"] });
}
