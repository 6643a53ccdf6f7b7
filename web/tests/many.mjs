// A library of 10,000 titles for the shelf: playlists, records and posters, without films.

import { execFileSync } from "node:child_process";
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const TITLES = 10_000;
export const FOLDERS = 40;
/** Titles in no folder. */
export const LOOSE = 400;
const YEARS = [1950, 2025];
const LANGUAGES = ["en", "de", "fr", "es", "zh", "ja", "it", "pt"];
const WORDS = [
  ..."Amber Bridge Cinder Delta Echo Forest Garden Harbour Island Journey".split(" "),
  ..."Kingdom Lantern Mountain Night Ocean Palace Quiet River Storm Tower".split(" "),
];
const WIDTHS = [[640, 360], [1280, 720], [1920, 1080], [3840, 2160]];

const pick = (list, index) => list[index % list.length];

/** The title of that number: always the same one. */
export function titleOf(index) {
  const year = YEARS[0] + ((index * 37) % (YEARS[1] - YEARS[0] + 1));
  const number = String(index).padStart(5, "0");
  const name = `${pick(WORDS, index * 7)} ${pick(WORDS, Math.floor(index / 20) * 3 + 1)} ${number} (${year})`;
  const folder = index < LOOSE ? "" : `Series ${String(1 + (index % FOLDERS)).padStart(2, "0")}`;
  const languages = [pick(LANGUAGES, index), pick(LANGUAGES, index * 3 + 1)].filter((tag, at, all) => all.indexOf(tag) === at);
  return { index, name, year, folder, path: folder === "" ? name : `${folder}/${name}`, languages };
}

function record({ index, name, languages }) {
  const [width, height] = pick(WIDTHS, index);
  return {
    version: 1,
    kind: "title",
    title: name,
    duration_seconds: 600 + ((index * 613) % 9000),
    ingested_unix_seconds: 1_700_000_000 + index * 60,
    video: [{ width, height }],
    audio: languages.map((language) => ({ language })),
    subtitles: index % 3 === 0 ? [{ language: "en" }] : [],
    // Every tenth has none, so that its card shows its letters.
    poster: index % 10 === 9 ? null : "poster.jpg",
  };
}

/** Makes the library in `folder` once; later runs find it. */
export function makeManyTitles(folder) {
  const library = join(folder, "library");
  const done = join(folder, "made-2");
  if (existsSync(done)) return library;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(library, { recursive: true });
  const poster = join(folder, "poster.jpg");
  execFileSync("ffmpeg", [..."-y -v error -f lavfi -i testsrc2=size=640x360 -frames:v 1 -q:v 4".split(" "), poster], { stdio: "inherit" });
  const manifest = '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1S"></MPD>';
  const playlist = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv/video.m3u8\n";
  for (let index = 0; index < TITLES; index += 1) {
    const title = titleOf(index);
    const at = join(library, title.path);
    mkdirSync(at, { recursive: true });
    writeFileSync(join(at, "master.m3u8"), playlist);
    writeFileSync(join(at, "manifest.mpd"), manifest);
    writeFileSync(join(at, "title.json"), JSON.stringify(record(title)));
    if (index % 10 === 9) continue;
    try {
      linkSync(poster, join(at, "poster.jpg"));
    } catch {
      // A file has a limited number of links on some filesystems.
      writeFileSync(join(at, "poster.jpg"), readFileSync(poster));
    }
  }
  writeFileSync(done, "");
  return library;
}
