// The shelf: all titles, those that the viewer has begun, and a search.

import "../base.css";
import "../card.css";
import "./shelf.css";
import { element, icon, mark } from "../element";
import { nameLanguage, phrase, type Phrase } from "../phrases";
import { places } from "../memory";
import { shownPath } from "../names";
import { LISTED_ANEW_MS, listTitles, Unreachable } from "../titles";
import { listenToArrows } from "./arrows";
import { entryOf } from "./search";
import { focus, Sections } from "./sections";
import { Library, wantedFolder, type Order } from "./view";

/** How often the visible page asks for the list. An unchanged answer is a few bytes. */
const LISTED_EVERY_MS = 30_000;

const root = document.querySelector<HTMLElement>("#shelf") ?? document.body;
const search = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
search.placeholder = phrase("search");
search.setAttribute("aria-label", phrase("searchTitles"));
const order = element("select", { "aria-label": phrase("order") });
const count = element("p", { class: "count", role: "status" });
const sections = new Sections();
// Screen readers announce a change of the count only if it stays in the document, and the list keeps its focus only so.
const content = element("main", {}, element("h1", { class: "unseen" }, phrase("titles")), count, sections.element);
/** In place of titles, if there are none to show. */
let notice: HTMLElement | null = null;
let library = new Library([]);
/** Of the list that is shown; null before the first one. */
let tag: string | null = null;
/** The positions in films that the page shows. */
let shownPlaces = "";
/** How many entries of the history before the present one are this page's. */
let depth = 0;
/** Where the viewer was among all titles before opening a folder. */
let whole: { top: number; focused: string | null } = { top: 0, focused: null };

function frame(): void {
  const brand = element("a", { class: "brand", href: "", "aria-label": phrase("brand") }, mark(), element("span", {}, "Fullbore"));
  brand.href = new URL("../", document.baseURI).href;
  const field = element("label", { class: "search" }, icon("search"), search);
  const licences = element("a", { href: new URL("licences.txt", document.baseURI).href }, phrase("licences"));
  root.replaceChildren(element("header", { class: "top" }, brand, field, order), content, element("footer", {}, licences));
  search.addEventListener("input", again);
  order.addEventListener("change", again);
  addEventListener("hashchange", turn);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    search.focus();
  });
  // At a change of the address it would be too late: the browser may have scrolled by then.
  sections.element.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.matches("h2 a")) whole = { top: scrollY, focused: focus() };
  });
  listenToArrows(() => sections.render(), back);
}

/** Shows another choice of titles, from its top on. */
function again(): void {
  scrollTo(0, 0);
  render();
}

/** Numbers the present entry of the history, if it is new: it comes after the one before. */
function countEntry(): void {
  const known = history.state as { depth: number } | null;
  if (known !== null) depth = known.depth;
  else history.replaceState({ depth }, "");
}

/** Opens a folder from its top on, or returns to where the viewer was among all titles. */
function turn(): void {
  depth += 1;
  countEntry();
  const isWhole = wantedFolder() === "";
  render();
  scrollTo(0, isWhole ? whole.top : 0);
  sections.render();
  if (!isWhole) sections.focus("h2");
  else if (whole.focused !== null) sections.focus(whole.focused);
}

/** Ends the search, or else leaves the folder; returns whether there was either. */
function back(): boolean {
  if (search.value !== "") {
    search.value = "";
    again();
    return true;
  }
  if (wantedFolder() === "") return false;
  if (depth > 0) history.back();
  else location.hash = "";
  return true;
}

/** Offers the orders that this library can have; the present choice stays if it can. */
function offerOrders(): void {
  const names: [Order, Phrase][] = [["name", "orderName"], ["newest", "orderNewest"], ["length", "orderLength"]];
  if (library.hasFolders) names.unshift(["folders", "orderFolders"]);
  if (order.options.length === names.length) return;
  const chosen = order.options.length > 0 ? order.value : null;
  order.replaceChildren(...names.map(([value, name]) => element("option", { value, selected: value === chosen }, phrase(name))));
}

function render(): void {
  if (tag === null) return;
  const [query, folder] = [search.value.trim(), wantedFolder()];
  const list = library.sections(order.value as Order, query, folder);
  const found = list[0]?.entries.length ?? 0;
  count.textContent = query === "" ? "" : phrase("foundOf", { found, all: library.amountIn(folder) });
  document.title = `${folder === "" ? phrase("titles") : shownPath(folder)} · Fullbore`;
  const isWhole = query === "" && folder === "";
  notify(list.length > 0 ? null : nothing(!isWhole));
  shownPlaces = JSON.stringify(places());
  sections.show(list);
}

function notify(next: HTMLElement | null): void {
  notice?.remove();
  notice = next;
  if (next !== null) sections.element.before(next);
}

/** Asks for the list again, and shows what the viewer has watched in the meantime, on another page. */
function comeBack(): void {
  if (JSON.stringify(places()) !== shownPlaces) render();
  void look();
}

function nothing(isSearch: boolean): HTMLElement {
  if (isSearch) return element("div", { class: "notice" }, element("h2", {}, phrase("nothingFound")), element("p", {}, phrase("searchLess")));
  const command = element("code", {}, "fullbore ingest film.mkv --library DIR");
  return element("div", { class: "notice" }, element("h2", {}, phrase("empty")), element("p", {}, phrase("addFilm"), " ", command));
}

function complain(what: string): void {
  const retry = element("button", { type: "button", class: "again", onclick: () => void look() }, phrase("tryAgain"));
  const advice = element("p", {}, phrase("checkConnection"));
  notify(element("div", { class: "notice", role: "alert" }, element("h2", {}, what), advice, retry));
}

/** Asks for the titles, and shows them if they have changed; returns whether the list is complete. */
async function look(): Promise<boolean> {
  try {
    const list = await listTitles(tag);
    if (list === null) return true;
    if (list.is_complete) {
      [library, tag] = [new Library(list.titles.map(entryOf)), list.tag];
      offerOrders();
      render();
    }
    return list.is_complete;
  } catch (error) {
    // The list on the screen stays, because it may well work.
    if (tag === null) complain(error instanceof Unreachable ? error.message : phrase("listUnreadable"));
    return true;
  }
}

async function main(): Promise<void> {
  nameLanguage();
  document.title = `${phrase("titles")} · Fullbore`;
  countEntry();
  frame();
  while (!(await look())) await new Promise((done) => setTimeout(done, 300));
  // The first list may be as old as the last visit; asking for it makes the server list again.
  window.setTimeout(() => void look(), LISTED_ANEW_MS);
  window.setInterval(() => {
    if (!document.hidden) void look();
  }, LISTED_EVERY_MS);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) comeBack();
  });
  // Coming back from a film, the browser scrolls before there are cards to scroll to.
  scrollTo(0, (history.state as { top?: number } | null)?.top ?? 0);
  addEventListener("pagehide", () => history.replaceState({ depth, top: scrollY }, ""));
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) comeBack();
  });
}

void main();
