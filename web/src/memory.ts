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
  /** Whether the next title of a folder starts by itself. */
  autoNext: (): boolean => read("auto-next") !== "off",
};

export function remember(name: "engine" | "captions" | "sound" | "volume" | "auto-next", value: string): void {
  write(name, value);
}

/** Where the viewer stopped, and when. At 0 seconds, the title is only next: the viewer has finished the one before it in its folder. */
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

/** Whether only the end of a film is left, which is mostly credits. */
export function isFinished(seconds: number, of: number): boolean {
  return seconds >= Math.max(of * 0.97 - 5, of / 2);
}

/** Saves a position, or deletes it at either end of the film, where the viewer would start over. */
export function keepPlace(path: string, seconds: number, of: number): void {
  const all = places();
  const hasBegun = seconds > 10;
  if (!hasBegun && all[path]?.seconds === 0) return;
  delete all[path];
  if (hasBegun && !isFinished(seconds, of)) all[path] = { seconds: Math.floor(seconds), of: Math.round(of), at: Date.now() };
  writePlaces(all);
}

/** Saves a title that is next, if the viewer has not begun it. */
export function keepNext(path: string, of: number): void {
  const all = places();
  all[path] ??= { seconds: 0, of: Math.round(of), at: Date.now() };
  writePlaces(all);
}

function writePlaces(all: Record<string, Place>): void {
  const newest = Object.entries(all).sort(([, a], [, b]) => b.at - a.at);
  write("places", JSON.stringify(Object.fromEntries(newest.slice(0, PLACES_MAX))));
}
