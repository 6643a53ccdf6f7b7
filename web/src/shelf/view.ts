// What the shelf shows: everything, one folder, or what a search has found.

import { places } from "../memory";
import { collator, shownPath } from "../names";
import { phrase } from "../phrases";
import type { Section } from "./cards";
import { find, type Entry } from "./search";

export type Order = "folders" | "name" | "newest" | "length";

/** Titles in the row of new ones. A library with no more than these has no such row. */
const NEW_MAX = 24;

const COMPARE: Record<Exclude<Order, "folders">, (a: Entry, b: Entry) => number> = {
  name: (a, b) => collator.compare(a.name, b.name),
  newest: (a, b) => (b.title.ingested_unix_seconds ?? 0) - (a.title.ingested_unix_seconds ?? 0),
  length: (a, b) => (b.title.duration_seconds ?? 0) - (a.title.duration_seconds ?? 0),
};

/** The titles, and what is made of them once it is needed. */
export class Library {
  /** How many titles are in each folder and in the folders in it. */
  private readonly within = new Map<string, number>();
  private readonly sorted = new Map<Order, Entry[]>();
  private grouped: Map<string, Entry[]> | null = null;

  constructor(readonly entries: Entry[]) {
    for (const { folder } of entries) {
      for (const one of upwards(folder)) this.within.set(one, (this.within.get(one) ?? 0) + 1);
    }
  }

  /** Whether there are rows for folders. */
  get hasFolders(): boolean {
    return [...this.within.values()].some((titles) => titles > 1);
  }

  /**
   * The titles of each folder's row, by name; those in no row are under "". A folder with a single title has no row of its own, because many
   * libraries keep each film in a folder: `Films/Name (1999)/Name.mp4` is in the row of `Films`.
   */
  private rows(): Map<string, Entry[]> {
    if (this.grouped !== null) return this.grouped;
    this.grouped = new Map();
    for (const entry of this.by("name")) {
      const row = upwards(entry.folder).find((folder) => (this.within.get(folder) ?? 0) > 1) ?? "";
      const known = this.grouped.get(row);
      if (known === undefined) this.grouped.set(row, [entry]);
      else known.push(entry);
    }
    return this.grouped;
  }

  private by(order: Order): Entry[] {
    // A search among folders lists titles by name.
    const key = order === "folders" ? "name" : order;
    let sorted = this.sorted.get(key);
    if (sorted === undefined) {
      sorted = [...this.entries].sort(COMPARE[key]);
      this.sorted.set(key, sorted);
    }
    return sorted;
  }

  /** All that the page shows if nothing is searched. */
  private everything(order: Order): Section[] {
    const sections: Section[] = [
      { key: "begun", heading: phrase("begun"), form: "row", entries: this.begun() },
      { key: "new", heading: phrase("new"), form: "row", entries: order === "newest" ? [] : this.newest() },
    ];
    if (order !== "folders") return [...sections, { key: "all", heading: phrase("allTitles"), form: "grid", entries: this.by(order) }];
    const titles = this.rows();
    const names = [...titles.keys()].filter((folder) => folder !== "").sort(collator.compare);
    const rows = names.map((folder): Section => ({
      key: `folder ${folder}`,
      heading: shownPath(folder),
      href: folderUrl(folder),
      form: "row",
      entries: titles.get(folder) ?? [],
    }));
    return [...sections, ...rows, { key: "loose", heading: phrase("withoutFolder"), form: "grid", entries: titles.get("") ?? [] }];
  }

  private begun(): Entry[] {
    const known = places();
    const at = ({ title }: Entry) => known[title.path]?.at;
    return this.entries.filter((entry) => at(entry) !== undefined).sort((a, b) => (at(b) ?? 0) - (at(a) ?? 0));
  }

  private newest(): Entry[] {
    if (this.entries.length <= NEW_MAX) return [];
    // Plain files have no time of ingest.
    const newest = this.by("newest").slice(0, NEW_MAX);
    return newest.filter(({ title }) => (title.ingested_unix_seconds ?? 0) > 0);
  }

  /** The titles of a folder and of the folders in it; "" has all. */
  private in(folder: string, order: Order): Entry[] {
    const all = this.by(order);
    return folder === "" ? all : all.filter((entry) => entry.folder === folder || entry.folder.startsWith(`${folder}/`));
  }

  /** How many titles a search in this folder looks through. */
  amountIn(folder: string): number {
    return folder === "" ? this.entries.length : (this.within.get(folder) ?? 0);
  }

  /** The sections to show; none if there is nothing. */
  sections(order: Order, query: string, folder: string): Section[] {
    const heading = [...(query === "" ? [] : [phrase("found")]), ...(folder === "" ? [] : [shownPath(folder)])].join(" · ");
    let sections: Section[];
    if (query !== "") sections = [{ key: "found", heading, form: "grid", entries: find(this.in(folder, order), query) }];
    else if (folder !== "") sections = [{ key: "folder", heading, form: "grid", entries: this.in(folder, order) }];
    else sections = this.everything(order);
    return sections.filter(({ entries }) => entries.length > 0);
  }
}

/** The folder and those that it is in, from the inside out. */
function upwards(folder: string): string[] {
  const parts = folder === "" ? [] : folder.split("/");
  return parts.map((_, at) => parts.slice(0, parts.length - at).join("/"));
}

/** The address of a folder's titles: this page, with the folder after the `#`. Relative ones would go from the page's base. */
export function folderUrl(folder: string): string {
  return `${location.pathname}${location.search}#${folder.split("/").map(encodeURIComponent).join("/")}`;
}

/** The folder that the address names; empty for all. */
export function wantedFolder(): string {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}
