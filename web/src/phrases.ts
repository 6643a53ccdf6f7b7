// The words of the shelf and the player in the viewer's language. Each language is a file of `languages/`.

import { de } from "./languages/de";
import { en } from "./languages/en";
import { es } from "./languages/es";
import { fr } from "./languages/fr";
import { zh } from "./languages/zh";

export type Phrases = Record<keyof typeof en, string>;
export type Phrase = keyof Phrases;

/** By primary subtag, as browsers name them. */
const LANGUAGES: Record<string, Phrases> = { en, de, fr, es, zh };

function primary(tag: string): string {
  return tag.toLowerCase().split("-")[0] ?? "";
}

/** The first of the browser's languages that there are words in. */
const wanted = navigator.languages.find((tag) => LANGUAGES[primary(tag)] !== undefined) ?? "en";
const phrases = LANGUAGES[primary(wanted)] ?? en;

/** The language of these words, for the document: the Chinese ones are in simplified script, whichever the browser asks for. */
const LANGUAGE = primary(wanted) === "zh" ? "zh-Hans" : primary(wanted);

/** For numbers, the browser's own region counts: English of India, say, or German of Switzerland. */
const numbers = numberFormat(wanted);

/** Some systems name languages as no standard does: `en-US@posix`. */
function numberFormat(tag: string): Intl.NumberFormat {
  try {
    return new Intl.NumberFormat(tag);
  } catch {
    return new Intl.NumberFormat(LANGUAGE);
  }
}

/** Says in the document which language it is in. */
export function nameLanguage(): void {
  document.documentElement.lang = LANGUAGE;
}

/** The words for `key`, with values in place of their names in braces. */
export function phrase(key: Phrase, values: Record<string, string | number> = {}): string {
  return phrases[key].replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? number(value) : value;
  });
}

export function number(value: number): string {
  return numbers.format(value);
}

/** A length as "1 h 35 min" or "12 min", for a list of facts. */
export function length(seconds: number): string {
  if (seconds < 60) return phrase("seconds", { seconds: Math.max(1, Math.round(seconds)) });
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return phrase("minutes", { minutes });
  return phrase("hoursMinutes", { hours: Math.floor(minutes / 60), minutes: minutes % 60 });
}

const units = new Map<string, Intl.NumberFormat>();

function inUnits(count: number, unit: string): string {
  let format = units.get(unit);
  if (format === undefined) {
    format = new Intl.NumberFormat(LANGUAGE, { style: "unit", unit, unitDisplay: "long" });
    units.set(unit, format);
  }
  return format.format(count);
}

/** A time as "1 hour 2 minutes 3 seconds", for screen readers. */
export function spoken(seconds: number): string {
  const whole = Number.isFinite(seconds) ? Math.max(0, Math.floor(seconds)) : 0;
  const parts: [number, string][] = [
    [Math.floor(whole / 3600), "hour"],
    [Math.floor(whole / 60) % 60, "minute"],
    [whole % 60, "second"],
  ];
  const said = parts.filter(([count]) => count > 0).map(([count, unit]) => inUnits(count, unit));
  return said.join(" ") || inUnits(0, "second");
}
