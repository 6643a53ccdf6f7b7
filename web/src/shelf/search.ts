// What the search knows of each title: its name, its year and its languages.

import { folderOf, shownName } from "../names";
import type { Title } from "../titles";
import { language, languageIn } from "../words";

/** A title, with what is needed for each of thousands at every key that is pressed. */
export interface Entry {
  title: Title;
  name: string;
  /** Below the library, with slashes; empty for a title in no folder. */
  folder: string;
  /** The name and then the path, without case and accents. */
  text: string;
}

/** Text for the search, without case and accents. */
export function plain(text: string): string {
  const lower = text.toLowerCase();
  // Most names have nothing to take away, and normalising 10,000 takes a while.
  return /^[\x00-\x7f]*$/.test(lower) ? lower : lower.normalize("NFD").replace(/\p{Diacritic}/gu, "");
}

/** The year that a name ends with or has in brackets: "Film (1999)", "Film.1999.1080p". A name that begins with a number is no year. */
function yearOf(name: string): number | undefined {
  const bracketed = [...name.matchAll(/[([]((?:18|19|20)\d\d)[)\]]/g)].at(-1);
  const bare = [...name.matchAll(/[\s._-]((?:18|19|20)\d\d)(?=[\s._-]|$)/g)].at(-1);
  const year = (bracketed ?? bare)?.[1];
  return year === undefined ? undefined : Number(year);
}

export function entryOf(title: Title): Entry {
  const name = shownName(title);
  return { title, name, folder: folderOf(title), text: plain(`${name} ${title.name}`) };
}

/** The names of languages by tag, each after a space: in the language itself, in the viewer's, and in English. */
const languageWords = new Map<string, string>();

function wordsOf(tag: string): string {
  let words = languageWords.get(tag);
  if (words === undefined) {
    words = plain(` ${[tag, language(tag), languageIn(tag, navigator.language), languageIn(tag, "en")].join(" ")}`);
    languageWords.set(tag, words);
  }
  return words;
}

/** Shorter words are parts of too many names of languages. */
const LANGUAGE_LETTERS_MIN = 3;

type Fits = (entry: Entry) => boolean;

/** The test for one word of a search, and whether that finds a title by its name. */
function testOf(word: string): { byName: Fits; byMore: Fits } {
  // A year is no part of a longer number.
  const year = /^\d{4}$/.test(word) ? new RegExp(`(^|\\D)${word}(\\D|$)`) : null;
  const byName: Fits = ({ text }) => (year === null ? text.includes(word) : year.test(text));
  const years = /^(\d{4})\s*[-–]\s*(\d{4})$/.exec(word);
  if (years !== null) {
    const [from, to] = [Number(years[1]), Number(years[2])];
    const fits = (year: number | undefined) => year !== undefined && from <= year && year <= to;
    return { byName, byMore: ({ name }) => fits(yearOf(name)) };
  }
  if (word.length < LANGUAGE_LETTERS_MIN) return { byName, byMore: () => false };
  const start = ` ${word}`;
  const has = (tags: string[] | undefined) => tags?.some((tag) => wordsOf(tag).includes(start)) ?? false;
  return { byName, byMore: ({ title }) => has(title.languages) || has(title.subtitle_languages) };
}

/**
 * The entries that have every word of `query` in their name, year or languages, in the given order; those that begin with the query come first,
 * and those that only have the language come last.
 */
export function find(entries: Entry[], query: string): Entry[] {
  const whole = plain(query.trim());
  const tests = whole.split(/\s+/).filter(Boolean).map(testOf);
  const ranked: [Entry[], Entry[], Entry[]] = [[], [], []];
  for (const entry of entries) {
    if (!tests.every(({ byName, byMore }) => byName(entry) || byMore(entry))) continue;
    const rank = entry.text.startsWith(whole) ? 0 : tests.every(({ byName }) => byName(entry)) ? 1 : 2;
    ranked[rank].push(entry);
  }
  return ranked.flat();
}
