// The shelf: all titles, those that the viewer has begun, and a search.

import "../base.css";
import "../card.css";
import "./shelf.css";
import { card } from "../card";
import { element, icon, mark } from "../element";
import { places } from "../memory";
import { LISTED_ANEW_MS, listTitles, shownName, Unreachable, type Title } from "../titles";

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
const content = element("main", {});
let titles: Title[] = [];
let shown = "";

function frame(): void {
  const brand = element("a", { class: "brand", href: "", "aria-label": "Fullbore, all titles" }, mark(), element("span", {}, "Fullbore"));
  brand.href = new URL("../", document.baseURI).href;
  const field = element("label", { class: "search" }, icon("search"), search);
  const licences = element("a", { href: new URL("licences.txt", document.baseURI).href }, "Licences");
  root.replaceChildren(element("header", { class: "top" }, brand, field, order), content, element("footer", {}, licences));
  search.addEventListener("input", render);
  order.addEventListener("change", render);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    search.focus();
  });
}

/** Text for the search, without case and accents. */
function plain(text: string): string {
  return text.normalize("NFD").replace(/\p{Diacritic}/gu, "").toLowerCase();
}

function found(): Title[] {
  const words = plain(search.value).split(/\s+/).filter(Boolean);
  const fits = titles.filter((title) => words.every((word) => plain(`${title.name} ${shownName(title)}`).includes(word)));
  const by: Record<Order, (a: Title, b: Title) => number> = {
    name: (a, b) => shownName(a).localeCompare(shownName(b), undefined, { numeric: true }),
    newest: (a, b) => (b.ingested_unix_seconds ?? 0) - (a.ingested_unix_seconds ?? 0),
    length: (a, b) => (b.duration_seconds ?? 0) - (a.duration_seconds ?? 0),
  };
  return fits.sort(by[order.value as Order]);
}

function row(heading: string, list: Title[], className: string): HTMLElement {
  const known = places();
  const cards = list.map((title) => element("li", {}, card(title, known[title.path])));
  return element("section", { class: className }, element("h2", {}, heading), element("ul", { class: "cards" }, ...cards));
}

function render(): void {
  const list = found();
  const known = places();
  const isSearch = search.value.trim() !== "";
  const begun = isSearch
    ? []
    : list.filter(({ path }) => known[path] !== undefined).sort((a, b) => (known[b.path]?.at ?? 0) - (known[a.path]?.at ?? 0));
  const sections = [];
  if (begun.length > 0) sections.push(row("Continue watching", begun.slice(0, 6), "begun"));
  if (list.length > 0) sections.push(row(isSearch ? "Found" : "All titles", list, "all"));
  count.textContent = isSearch ? `${list.length} of ${titles.length} titles` : "";
  content.replaceChildren(element("h1", { class: "unseen" }, "Titles"), count, ...(sections.length > 0 ? sections : [nothing(isSearch)]));
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
    const list = await listTitles();
    const text = JSON.stringify(list.titles);
    if (list.is_complete && text !== shown) {
      [titles, shown] = [list.titles, text];
      render();
    }
    return list.is_complete;
  } catch (error) {
    // The list on the screen stays, because it may well work.
    if (shown === "") complain(error instanceof Unreachable ? error.message : "The list of titles cannot be read.");
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
