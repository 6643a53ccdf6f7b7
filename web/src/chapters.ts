// Chapters of a film: a JSON file in the form of Apple's HLS players.

export interface Chapter {
  /** In seconds. */
  start: number;
  title: string;
}

/** More than any film has: a list from elsewhere must not fill the page. */
const CHAPTERS_MAX = 1000;

/** The title in one of the viewer's languages, or else the first. */
function title(titles: unknown, unnamed: string): string {
  const all = (Array.isArray(titles) ? titles : []) as { language?: unknown; title?: unknown }[];
  const texts = all.filter((one): one is { language?: unknown; title: string } => typeof one?.title === "string" && one.title !== "");
  const inLanguage = (tag: string) => texts.find(({ language }) => typeof language === "string" && tag.startsWith(language));
  const own = navigator.languages.map(inLanguage).find((one) => one !== undefined);
  return (own ?? texts[0])?.title ?? unnamed;
}

/** Reads a list; entries without a start are left out. `name` names the one of that number if it has no title. */
export function parseChapters(list: unknown, name: (number: number) => string): Chapter[] {
  const entries = (Array.isArray(list) ? list.slice(0, CHAPTERS_MAX) : []) as Record<string, unknown>[];
  return entries
    .map((entry, index) => ({ start: Number(entry?.["start-time"] ?? Number.NaN), title: title(entry?.["titles"], name(index + 1)) }))
    .filter(({ start }) => Number.isFinite(start) && start >= 0)
    .sort((a, b) => a.start - b.start);
}

/** The chapters at `url`; none if they cannot be loaded. */
export async function loadChapters(url: string, name: (number: number) => string): Promise<Chapter[]> {
  try {
    const response = await fetch(url);
    return response.ok ? parseChapters(await response.json(), name) : [];
  } catch {
    return [];
  }
}

/** The chapter at `seconds`. */
export function chapterAt(chapters: Chapter[], seconds: number): Chapter | undefined {
  return chapters.filter(({ start }) => start <= seconds).at(-1);
}
