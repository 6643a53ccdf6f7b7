// The interface to the engine that plays a title: hls.js, dash.js, or the browser itself. The player uses only this.

import type { EngineName } from "../memory";
import { phrase } from "../phrases";
import { libraryUrl } from "../titles";
import type { Servers } from "./servers";

/** One size of the picture. */
export interface Quality {
  id: number;
  width: number;
  height: number;
  bitsPerSecond: number;
  /** Whether it has a high dynamic range. */
  isHdr: boolean;
}

/** What a track is for, apart from its language. */
export type Purpose = "original" | "dub" | "hearing" | "description" | "commentary" | "songs";

/** One audio track, or one track of captions. */
export interface Track {
  id: number;
  /** BCP 47, or empty. */
  language: string;
  label: string;
  /** Usually none. */
  purposes: Purpose[];
  /** Whether it has captions only for speech in another language than the film's. */
  isForced: boolean;
}

/** What went wrong and what to do about it, in sentences. */
export interface Problem {
  what: string;
  advice: string;
}

export interface EngineEvents {
  /** Lists or choices have changed. */
  changed(): void;
  /** The server does not answer at present, and the engine keeps trying; or it answers again. */
  connected(isConnected: boolean): void;
  /** Playback has failed. The engine will do nothing more. */
  failed(problem: Problem): void;
  /** The manifest names a file of chapters. */
  chapters(url: string): void;
}

export interface Engine {
  readonly name: EngineName | "file";
  /** Smallest first. */
  qualities(): Quality[];
  /** The chosen one; null while the engine chooses. */
  chosen(): number | null;
  choose(quality: number | null): void;
  sounds(): Track[];
  sound(): number | null;
  chooseSound(id: number): void;
  captions(): Track[];
  caption(): number | null;
  chooseCaption(id: number | null): void;
  /** Where the server that sends the film takes events; undefined if it is not known yet, or if the engine's requests report nothing. */
  collector(): string | undefined;
  destroy(): void;
}

/** The parameters of an engine. */
export interface Start {
  video: HTMLVideoElement;
  url: string;
  /** Where to begin, in seconds. */
  at: number;
  /** The ids of the title and of the playback session in CMCD (CTA-5004 cid and sid). */
  contentId: string;
  sessionId: string;
  /** Whether servers on other hosts than the page's may have it. If so, CMCD goes into the query, because a header would cost a
   * preflight for each address. */
  isSpread: boolean;
  events: EngineEvents;
}

/** How much to load ahead, if memory allows it: two minutes survive most outages of a network or a server. */
export const BUFFER_SECONDS = 120;

/** How much played media to keep, so that going back a little needs no request. */
export const BEHIND_SECONDS = 30;

export const PROBLEMS = {
  missing: {
    what: phrase("missing"),
    advice: phrase("missingAdvice"),
  },
  forbidden: {
    what: phrase("forbidden"),
    advice: phrase("forbiddenAdvice"),
  },
  unreachable: {
    what: phrase("noAnswer"),
    advice: phrase("checkConnection"),
  },
  undecodable: {
    what: phrase("undecodable"),
    advice: phrase("undecodableAdvice"),
  },
  broken: {
    what: phrase("broken"),
    advice: phrase("brokenAdvice"),
  },
} satisfies Record<string, Problem>;

/** Its name in reports. */
export function problemName(problem: Problem): string {
  return Object.entries(PROBLEMS).find(([, known]) => known === problem)?.[0] ?? "unknown";
}

/** Whether the screen shows a high dynamic range. Engines choose pictures of that range only then; browsers without the query have none. */
export function hasHdrScreen(): boolean {
  return matchMedia("(dynamic-range: high)").matches;
}

/** Where to post events: to this page's server, or to the one in use. */
export function collectorOf(isSpread: boolean, servers: Servers): string | undefined {
  const origin = servers.origin;
  if (!isSpread) return libraryUrl("-/cmcd");
  return origin === undefined ? undefined : `${origin}/-/cmcd`;
}

/** The problem that an HTTP status means. */
export function problemOf(status: number): Problem {
  if (status === 403 || status === 401) return PROBLEMS.forbidden;
  if (status === 404 || status === 410) return PROBLEMS.missing;
  return PROBLEMS.unreachable;
}

/** A random UUID; `crypto.randomUUID` does not exist without TLS. */
export function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
