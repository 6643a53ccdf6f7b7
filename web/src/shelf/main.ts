// The shelf: all titles, those that the viewer has begun, and a search.

import "../base.css";
import "../card.css";
import "./shelf.css";
import { element, icon, mark } from "../element";
import { places } from "../memory";
import { LISTED_ANEW_MS, listTitles, Unreachable } from "../titles";
import type { Section } from "./cards";
import { entryOf, find, type Entry } from "./search";
import { Sections } from "./sections";

/** How often the visible page asks for the list. An unchanged answer is a few bytes. */
const LISTED_EVERY_MS = 30_000;

type Order = "name" | "newest" | "length";

const root = document.querySelector<HTMLElement>("#shelf") ?? document.body;
const search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search titles", autocomplete: "off", spellcheck: "false" });
const order = element(
  "select",
  { "aria-label": "Order" },
  element("option", { value: "name" }, "A – Z"),
  element("option", { value: "newest" }, "Newest"),
  element("option", { value: "length" }, "Longest"),
);
const count = element("p", { class: "count", role: "status" });
const sections = new Sections();
const content = element("main", {});
/** In the order of the list. */
let entries: Entry[] = [];
/** The same in the chosen order, once it is needed. */
let sorted: { by: Order; entries: Entry[] } | null = null;
let tag: string | null = null;

function frame(): void {
  const brand = element("a", { class: "brand", href: "", "aria-label": "Fullbore, all titles" }, mark(), element("span", {}, "Fullbore"));
  brand.href = new URL("../", document.baseURI).href;
  const field = element("label", { class: "search" }, icon("search"), search);
  const licences = element("a", { href: new URL("licences.txt", document.baseURI).href }, "Licences");
  root.replaceChildren(element("header", { class: "top" }, brand, field, order), content, element("footer", {}, licences));
  search.addEventListener("input", () => {
    scrollTo(0, 0);
    render();
  });
  order.addEventListener("change", render);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    search.focus();
  });
}

const collator = new Intl.Collator(undefined, { numeric: true });

const COMPARE: Record<Order, (a: Entry, b: Entry) => number> = {
  name: (a, b) => collator.compare(a.name, b.name),
  newest: (a, b) => (b.title.ingested_unix_seconds ?? 0) - (a.title.ingested_unix_seconds ?? 0),
  length: (a, b) => (b.title.duration_seconds ?? 0) - (a.title.duration_seconds ?? 0),
};

function inOrder(): Entry[] {
  const by = order.value as Order;
  if (sorted?.by !== by) sorted = { by, entries: [...entries].sort(COMPARE[by]) };
  return sorted.entries;
}

function begun(): Entry[] {
  const known = places();
  const at = ({ title }: Entry) => known[title.path]?.at;
  return entries.filter((entry) => at(entry) !== undefined).sort((a, b) => (at(b) ?? 0) - (at(a) ?? 0));
}

function sectionsNow(): Section[] {
  const query = search.value.trim();
  if (query !== "") return [{ key: "found", heading: "Found", form: "grid", entries: find(inOrder(), query) }];
  return [
    { key: "begun", heading: "Continue watching", form: "row", entries: begun() },
    { key: "all", heading: "All titles", form: "grid", entries: inOrder() },
  ];
}

function render(): void {
  const list = sectionsNow().filter((section) => section.entries.length > 0);
  const isSearch = search.value.trim() !== "";
  const found = list[0]?.entries.length ?? 0;
  count.textContent = isSearch ? `${found.toLocaleString()} of ${entries.length.toLocaleString()} titles` : "";
  content.replaceChildren(element("h1", { class: "unseen" }, "Titles"), count, list.length > 0 ? sections.element : nothing(isSearch));
  sections.show(list);
}

function nothing(isSearch: boolean): HTMLElement {
  if (isSearch) return element("div", { class: "notice" }, element("h2", {}, "No title has that name."), element("p", {}, "Search for fewer letters."));
  const command = element("code", {}, "fullbore ingest film.mkv --library DIR");
  return element("div", { class: "notice" }, element("h2", {}, "The shelf is empty."), element("p", {}, "Add a film: ", command));
}

function complain(what: string): void {
  const again = element("button", { type: "button", class: "again", onclick: () => void look() }, "Try again");
  const notice = element("div", { class: "notice", role: "alert" }, element("h2", {}, what), element("p", {}, "Check your connection, then try again."), again);
  content.replaceChildren(element("h1", { class: "unseen" }, "Titles"), notice);
}

/** Asks for the titles, and shows them if they have changed; returns whether the list is complete. */
async function look(): Promise<boolean> {
  try {
    const list = await listTitles(tag);
    if (list === null) return true;
    if (list.is_complete) {
      [entries, sorted, tag] = [list.titles.map(entryOf), null, list.tag];
      render();
    }
    return list.is_complete;
  } catch (error) {
    // The list on the screen stays, because it may well work.
    if (tag === null) complain(error instanceof Unreachable ? error.message : "The list of titles cannot be read.");
    return true;
  }
}

async function main(): Promise<void> {
  frame();
  while (!(await look())) await new Promise((done) => setTimeout(done, 300));
  // The first list may be as old as the last visit; asking for it makes the server list again.
  window.setTimeout(() => void look(), LISTED_ANEW_MS);
  window.setInterval(() => {
    if (!document.hidden) void look();
  }, LISTED_EVERY_MS);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void look();
  });
}

void main();
