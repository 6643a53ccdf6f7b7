// Data that this browser keeps between visits. None of it leaves the browser. If storage is not allowed, everything still works.

const PREFIX = "fullbore.";

function read(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

function write(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage is full or forbidden: nothing is saved.
  }
}

export type EngineName = "hls" | "dash";

export const remembered = {
  engine: (): EngineName => (read("engine") === "dash" ? "dash" : "hls"),
  /** A language, `""` for off, null if never chosen. */
  captions: (): string | null => read("captions"),
  sound: (): string | null => read("sound"),
  volume: (): number => {
    const volume = Number.parseFloat(read("volume") ?? "");
    return volume >= 0 && volume <= 1 ? volume : 1;
  },
};

export function remember(name: "engine" | "captions" | "sound" | "volume", value: string): void {
  write(name, value);
}

/** Where the viewer stopped, and when. */
export interface Place {
  seconds: number;
  of: number;
  at: number;
}

/** How many positions are kept at most, so that the browser does not record everything that the viewer watched. */
const PLACES_MAX = 50;

export function places(): Record<string, Place> {
  try {
    const parsed: unknown = JSON.parse(read("places") ?? "{}");
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, Place>) : {};
  } catch {
    return {};
  }
}

/** Saves a position, or deletes it at either end of the film, where the viewer would start over. */
export function keepPlace(path: string, seconds: number, of: number): void {
  const all = places();
  delete all[path];
  const isUnderWay = seconds > 10 && seconds < of * 0.97 - 5;
  if (isUnderWay) all[path] = { seconds: Math.floor(seconds), of: Math.round(of), at: Date.now() };
  const newest = Object.entries(all).sort(([, a], [, b]) => b.at - a.at);
  write("places", JSON.stringify(Object.fromEntries(newest.slice(0, PLACES_MAX))));
}
