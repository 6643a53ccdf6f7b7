// Names of titles and folders for people, and the order of the titles in a folder.

import type { Title } from "./titles";

/** A name for people: that of the file or folder, without the parts that only computers need. */
export function shownName(title: Title): string {
  const last = title.name.split("/").pop() ?? title.name;
  const bare = title.file === undefined ? last : last.replace(/\.[a-z0-9]{2,4}$/i, "");
  return bare.includes(" ") ? bare : bare.replace(/[_.]+/g, " ").trim() || last;
}

/** The folder that a title is in, below the library; empty if it is in none. */
export function folderOf(title: Title): string {
  return title.name.slice(0, Math.max(0, title.name.lastIndexOf("/")));
}

/** The same for people. */
export function shownFolder(title: Title): string {
  return shownPath(folderOf(title));
}

export function shownPath(folder: string): string {
  return folder.replaceAll("/", " / ");
}

/** The order of names in the viewer's language. Numbers count as numbers: episode 2 comes before episode 10. */
export const collator = new Intl.Collator(undefined, { numeric: true });

export interface Neighbours {
  previous?: Title;
  next?: Title;
}

/** A title by its name. Names may be equal for the collator, as those in two forms of Unicode. */
interface Named {
  title: Title;
  name: string;
}

function compare(one: Named, other: Named): number {
  const [path, otherPath] = [one.title.path, other.title.path];
  return collator.compare(one.name, other.name) || (path < otherPath ? -1 : Number(path > otherPath));
}

/** The titles just before and after `title` in its folder, by name. A title in no folder has none. */
export function neighbours(title: Title, titles: Title[]): Neighbours {
  const folder = folderOf(title);
  if (folder === "") return {};
  const present = { title, name: shownName(title) };
  let [previous, next]: (Named | undefined)[] = [];
  for (const one of titles) {
    if (!one.name.startsWith(`${folder}/`) || folderOf(one) !== folder) continue;
    const named = { title: one, name: shownName(one) };
    const side = compare(named, present);
    if (side < 0 && (previous === undefined || compare(named, previous) > 0)) previous = named;
    if (side > 0 && (next === undefined || compare(named, next) < 0)) next = named;
  }
  return { ...(previous && { previous: previous.title }), ...(next && { next: next.title }) };
}
