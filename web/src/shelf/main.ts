// The shelf: all titles, those that the viewer has begun, and a search.

import "../base.css";
import "../card.css";
import "./shelf.css";
import { element, icon, mark } from "../element";
import { nameLanguage, phrase, type Phrase } from "../phrases";
import { LISTED_ANEW_MS, listTitles, Unreachable } from "../titles";
import { listenToArrows } from "./arrows";
import { entryOf } from "./search";
import { Sections } from "./sections";
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
const content = element("main", {});
let library = new Library([]);
let tag: string | null = null;

function frame(): void {
  const brand = element("a", { class: "brand", href: "", "aria-label": phrase("brand") }, mark(), element("span", {}, "Fullbore"));
  brand.href = new URL("../", document.baseURI).href;
  const field = element("label", { class: "search" }, icon("search"), search);
  const licences = element("a", { href: new URL("licences.txt", document.baseURI).href }, phrase("licences"));
  root.replaceChildren(element("header", { class: "top" }, brand, field, order), content, element("footer", {}, licences));
  search.addEventListener("input", again);
  order.addEventListener("change", again);
  addEventListener("hashchange", again);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    search.focus();
  });
  listenToArrows(() => sections.render(), back);
}

/** Shows another choice of titles, from its top on. */
function again(): void {
  scrollTo(0, 0);
  render();
}

function back(): void {
  if (search.value !== "") {
    search.value = "";
    again();
  } else if (wantedFolder() !== "") history.back();
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
  const [query, folder] = [search.value.trim(), wantedFolder()];
  const list = library.sections(order.value as Order, query, folder);
  const found = list[0]?.entries.length ?? 0;
  count.textContent = query === "" ? "" : phrase("foundOf", { found, all: library.entries.length });
  const isWhole = query === "" && folder === "";
  content.replaceChildren(element("h1", { class: "unseen" }, phrase("titles")), count, list.length > 0 ? sections.element : nothing(!isWhole));
  sections.show(list);
}

function nothing(isSearch: boolean): HTMLElement {
  if (isSearch) return element("div", { class: "notice" }, element("h2", {}, phrase("nothingFound")), element("p", {}, phrase("searchLess")));
  const command = element("code", {}, "fullbore ingest film.mkv --library DIR");
  return element("div", { class: "notice" }, element("h2", {}, phrase("empty")), element("p", {}, phrase("addFilm"), " ", command));
}

function complain(what: string): void {
  const retry = element("button", { type: "button", class: "again", onclick: () => void look() }, phrase("tryAgain"));
  const advice = element("p", {}, phrase("checkConnection"));
  const notice = element("div", { class: "notice", role: "alert" }, element("h2", {}, what), advice, retry);
  content.replaceChildren(element("h1", { class: "unseen" }, phrase("titles")), notice);
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
