// What the shelf shows: everything, one folder, or what a search has found.

import { places } from "../memory";
import { phrase } from "../phrases";
import { shownPath } from "../titles";
import type { Section } from "./cards";
import { find, type Entry } from "./search";

export type Order = "folders" | "name" | "newest" | "length";

/** Titles in the row of new ones. A library with no more than these has no such row. */
const NEW_MAX = 24;

const collator = new Intl.Collator(undefined, { numeric: true });

const COMPARE: Record<Exclude<Order, "folders">, (a: Entry, b: Entry) => number> = {
  name: (a, b) => collator.compare(a.name, b.name),
  newest: (a, b) => (b.title.ingested_unix_seconds ?? 0) - (a.title.ingested_unix_seconds ?? 0),
  length: (a, b) => (b.title.duration_seconds ?? 0) - (a.title.duration_seconds ?? 0),
};

/** The titles, and what is made of them once it is needed. */
export class Library {
  readonly folders: ReadonlyMap<string, Entry[]>;
  private readonly sorted = new Map<Order, Entry[]>();

  constructor(readonly entries: Entry[]) {
    const folders = new Map<string, Entry[]>();
    for (const entry of entries) {
      const known = folders.get(entry.folder);
      if (known === undefined) folders.set(entry.folder, [entry]);
      else known.push(entry);
    }
    this.folders = folders;
  }

  get hasFolders(): boolean {
    return this.folders.size > (this.folders.has("") ? 1 : 0);
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
    const names = [...this.folders.keys()].filter((folder) => folder !== "").sort(collator.compare);
    const rows = names.map((folder): Section => ({
      key: `folder ${folder}`,
      heading: shownPath(folder),
      href: folderUrl(folder),
      form: "row",
      entries: this.folders.get(folder) ?? [],
    }));
    const loose = [...(this.folders.get("") ?? [])].sort(COMPARE.name);
    return [...sections, ...rows, { key: "loose", heading: phrase("withoutFolder"), form: "grid", entries: loose }];
  }

  private begun(): Entry[] {
    const known = places();
    const at = ({ title }: Entry) => known[title.path]?.at;
    return this.entries.filter((entry) => at(entry) !== undefined).sort((a, b) => (at(b) ?? 0) - (at(a) ?? 0));
  }

  private newest(): Entry[] {
    return this.entries.length > NEW_MAX ? this.by("newest").slice(0, NEW_MAX) : [];
  }

  /** The sections to show; none if there is nothing. */
  sections(order: Order, query: string, folder: string): Section[] {
    const isIn = (entry: Entry) => folder === "" || entry.folder === folder || entry.folder.startsWith(`${folder}/`);
    let sections: Section[];
    if (query !== "") sections = [{ key: "found", heading: phrase("found"), form: "grid", entries: find(this.by(order).filter(isIn), query) }];
    else if (folder !== "") sections = [{ key: "folder", heading: shownPath(folder), form: "grid", entries: this.by(order).filter(isIn) }];
    else sections = this.everything(order);
    return sections.filter(({ entries }) => entries.length > 0);
  }
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
