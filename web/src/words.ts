// Writes times, rates and names of languages, which are the same for every viewer. The words that are translated are in phrases.ts.

/** A time as 4:05 or 1:02:03. */
export function clock(seconds: number): string {
  const whole = Number.isFinite(seconds) ? Math.max(0, Math.floor(seconds)) : 0;
  const pad = (value: number) => String(value).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(rest)}` : `${minutes}:${pad(rest)}`;
}

function named(tag: string, inLanguage: string): string | null {
  try {
    return new Intl.DisplayNames([inLanguage], { type: "language", fallback: "none" }).of(tag) ?? null;
  } catch {
    return null;
  }
}

/** Whether a language's tag names one. */
export function isKnown(tag: string): boolean {
  return tag !== "" && tag !== "und";
}

/** The name of a language in that language, as its speakers look for it. */
export function language(tag: string): string {
  if (!isKnown(tag)) return "Unknown";
  const name = named(tag, tag) ?? tag;
  return name.charAt(0).toLocaleUpperCase() + name.slice(1);
}

/** The name of a language in another language; its tag if that has no name for it. */
export function languageIn(tag: string, inLanguage: string): string {
  return named(tag, inLanguage) ?? tag;
}

/** The name of a sound or of captions: its label if that says more than the language, and than the purpose that the menu shows next to it. */
export function trackName(tag: string, label: string, hasPurpose = false): string {
  if (!isKnown(tag)) return label;
  // Ingest names such tracks "English (commentary)".
  const bare = hasPurpose ? label.replace(/ \([^()]*\)$/, "") : label;
  const saysNoMore = bare === "" || [named(tag, "en"), named(tag, tag), tag].includes(bare);
  return saysNoMore ? language(tag) : label;
}

/** A bit rate as "3.2 Mb/s". */
export function rate(bitsPerSecond: number): string {
  if (bitsPerSecond >= 1e6) return `${(bitsPerSecond / 1e6).toFixed(1)} Mb/s`;
  return `${Math.round(bitsPerSecond / 1e3)} kb/s`;
}
