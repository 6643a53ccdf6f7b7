// The server's list of titles (`titles.json`), and their addresses.

import { phrase } from "./phrases";

export interface Title {
  name: string;
  /** Below the library, percent-encoded; like every path here. */
  path: string;
  hls?: string;
  dash?: string;
  file?: string;
  duration_seconds?: number;
  ingested_unix_seconds?: number;
  width?: number;
  height?: number;
  languages?: string[];
  subtitle_languages?: string[];
  poster?: string;
  /** The widths in which the poster is there, smallest first, its own last. */
  poster_widths?: number[];
  thumbnails?: string;
  /** JSON, in the form of Apple's HLS players. */
  chapters?: string;
  /** The address of its page, if that is not below `watch/`: a fleet's gateway has one page for all titles. */
  watch?: string;
}

export interface TitleList {
  /** Whether the server has looked through the library since it started. */
  is_complete: boolean;
  titles: Title[];
  /** The list's entity tag, which changes with the list. */
  tag: string;
}

/** The page's `<base>` is the server's own folder, `/-/`; the library is above it. A token may come before both. */
const LIBRARY = new URL("../", document.baseURI);

export function libraryUrl(path: string): string {
  return new URL(path, LIBRARY).href;
}

export function watchUrl(title: Title): string {
  return title.watch ?? new URL(`watch/${title.path}`, document.baseURI).href;
}

/** The address of the page of all titles. At a gateway this is the same page, without a title in its address. */
export function shelfUrl(): string {
  return isFleet ? location.pathname : LIBRARY.href;
}

/** Whether another site shows this page in a frame. */
export const isFramed = window.top !== window;

/** For links to the page of all titles, which may not be in a frame. */
export const outsideFrame: Record<string, string> = isFramed ? { target: "_blank", rel: "noopener" } : {};

/** Whether a gateway serves this page, at `/watch?title=films/a`, and not a box, below `/-/`. */
export const isFleet = /^\/watch\/?$/.test(location.pathname);

export class Unreachable extends Error {}

/**
 * The list as the server last made it; null if it still has the tag `known`. The first list after a long time is old; ask again after
 * `LISTED_ANEW_MS`.
 */
export async function listTitles(known: null): Promise<TitleList>;
export async function listTitles(known: string | null): Promise<TitleList | null>;
export async function listTitles(known: string | null): Promise<TitleList | null> {
  let response: Response;
  try {
    response = await fetch(new URL("titles.json", document.baseURI));
  } catch {
    throw new Unreachable(phrase("noAnswer"));
  }
  if (!response.ok) throw new Unreachable(phrase("answersError", { status: String(response.status) }));
  const tag = response.headers.get("etag") ?? "";
  if (tag !== "" && tag === known) return null;
  return { ...((await response.json()) as TitleList), tag };
}

/** The server makes a new list when it is asked, but at most every two seconds. */
export const LISTED_ANEW_MS = 2500;

/** Waits until the list is complete. */
export async function listWhole(): Promise<Title[]> {
  for (;;) {
    const list = await listTitles(null);
    if (list.is_complete) return list.titles;
    await new Promise((done) => setTimeout(done, 300));
  }
}

export function shownHeight(width: number, height: number): string {
  // By the shorter side, as the sizes are made; a film as wide as 4K is 4K, however low.
  const lines = Math.min(width || height, height);
  if (lines >= 2160 || Math.max(width, height) >= 3840) return "4K";
  return `${lines}p`;
}
