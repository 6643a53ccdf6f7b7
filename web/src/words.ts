// Writes times and languages as words and figures.

/** A time as 4:05 or 1:02:03. */
export function clock(seconds: number): string {
  const whole = Number.isFinite(seconds) ? Math.max(0, Math.floor(seconds)) : 0;
  const pad = (value: number) => String(value).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(rest)}` : `${minutes}:${pad(rest)}`;
}

/** A time as "1 hour 2 minutes 3 seconds", for screen readers. */
export function spoken(seconds: number): string {
  const whole = Number.isFinite(seconds) ? Math.max(0, Math.floor(seconds)) : 0;
  const parts: [number, string][] = [
    [Math.floor(whole / 3600), "hour"],
    [Math.floor(whole / 60) % 60, "minute"],
    [whole % 60, "second"],
  ];
  const said = parts.filter(([count]) => count > 0).map(([count, unit]) => `${count} ${unit}${count === 1 ? "" : "s"}`);
  return said.join(" ") || "0 seconds";
}

/** A time as "1 h 35 min", "4 min" or "42 s". */
export function length(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function named(tag: string, inLanguage: string): string | null {
  try {
    return new Intl.DisplayNames([inLanguage], { type: "language", fallback: "none" }).of(tag) ?? null;
  } catch {
    return null;
  }
}

/** The name of a language in that language, as its speakers look for it. */
export function language(tag: string): string {
  if (tag === "" || tag === "und") return "Unknown";
  const name = named(tag, tag) ?? tag;
  return name.charAt(0).toLocaleUpperCase() + name.slice(1);
}

/** The name of a language in another language; its tag if that has no name for it. */
export function languageIn(tag: string, inLanguage: string): string {
  return named(tag, inLanguage) ?? tag;
}

/** The name of a sound or of captions: its label if that says more than the language, and than the purpose that the menu shows next to it. */
export function trackName(tag: string, label: string, hasPurpose = false): string {
  if (tag === "" || tag === "und") return label;
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
