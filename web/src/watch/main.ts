// The page of one title: the player, and below it facts about the title and other titles.

import "../base.css";
import "../card.css";
import "./watch.css";
import { card } from "../card";
import { element, icon } from "../element";
import { places } from "../memory";
import { shownFolder, shownName } from "../names";
import { length, nameLanguage, phrase } from "../phrases";
import { fleetTitles, isFleet, wantedOfFleet } from "./fleet";
import { isFramed, LISTED_ANEW_MS, listWhole, outsideFrame, shelfUrl, shownHeight, Unreachable, watchUrl, type Title } from "../titles";
import { isKnown, language } from "../words";
import { Player } from "./player";
import { Series } from "./series";

/** The most other titles shown. */
const OTHERS_MAX = 12;

const root = document.querySelector<HTMLElement>("#watch") ?? document.body;

/** The path after `watch/` in the address, in the form of the list of titles. Several slashes are one, as for the server. */
function wantedPath(): string {
  const below = location.pathname.slice(new URL("watch/", document.baseURI).pathname.length);
  return below.replace(/\/+/g, "/").replace(/^\/|\/$/g, "");
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** The title of this page of a gateway. It plays even if the list cannot be loaded, because the list only offers other titles. */
async function findInFleet(): Promise<[Title | undefined, Title[]]> {
  const wanted = wantedOfFleet();
  const titles = await fleetTitles().catch((error: unknown) => {
    if (wanted === undefined) throw error;
    return [];
  });
  return [titles.find(({ name }) => name === wanted?.name) ?? wanted, titles];
}

/** The title of this page. The first list that arrives does not yet have a title that was made a moment ago. */
async function find(): Promise<[Title | undefined, Title[]]> {
  if (isFleet) return findInFleet();
  // A name may be composed in the address and decomposed on the server's disk, or the reverse.
  const path = decoded(wantedPath()).normalize();
  const among = (titles: Title[]) => titles.find((title) => decoded(title.path).normalize() === path);
  let titles = await listWhole();
  if (among(titles) === undefined) titles = await listAnew();
  return [among(titles), titles];
}

/** The titles as they are now. A first list may be old; the server makes a new one then. */
async function listAnew(): Promise<Title[]> {
  if (isFleet) return fleetTitles();
  await listWhole();
  await new Promise((done) => setTimeout(done, LISTED_ANEW_MS));
  return listWhole();
}

function fact(text: string, label?: string): HTMLElement {
  return element("li", label === undefined ? {} : { title: label }, text);
}

function about(title: Title): HTMLElement {
  const facts = [];
  if (title.duration_seconds !== undefined) facts.push(fact(length(title.duration_seconds)));
  if (title.height) facts.push(fact(shownHeight(title.width ?? 0, title.height)));
  const sounds = (title.languages ?? []).filter(isKnown).map(language);
  if (sounds.length > 0) facts.push(fact(sounds.join(", "), phrase("languages")));
  const captions = title.subtitle_languages ?? [];
  const named = captions.filter(isKnown).map(language);
  if (captions.length > 0) facts.push(fact(named.length > 0 ? phrase("captionsIn", { languages: named.join(", ") }) : phrase("captions")));
  const folder = shownFolder(title);
  return element(
    "section",
    { class: "about" },
    folder === "" ? null : element("p", { class: "folder" }, folder),
    element("h2", {}, shownName(title)),
    element("ul", { class: "facts" }, ...facts),
  );
}

function others(title: Title, titles: Title[]): HTMLElement | null {
  // A new list has other objects.
  const at = titles.findIndex(({ path }) => path === title.path);
  const rest = [...titles.slice(at + 1), ...titles.slice(0, Math.max(0, at))].slice(0, OTHERS_MAX);
  // A site that shows one film hasn't chosen the others.
  if (rest.length === 0 || isFramed) return null;
  const known = places();
  const cards = rest.map((other) => element("li", {}, card(other, known[other.path])));
  return element("section", { class: "others" }, element("h2", {}, phrase("moreTitles")), element("ul", { class: "cards" }, ...cards));
}

function header(heading: HTMLElement): HTMLElement {
  const label = phrase("allTitles");
  const back = element("a", { href: shelfUrl(), class: "control", "aria-label": label, title: label, ...outsideFrame }, icon("back"));
  return element("header", { class: "top" }, back, heading);
}

function show(title: Title, titles: Title[]): void {
  const heading = element("h1");
  const below = element("div", { class: "below" });
  const describe = (title: Title) => {
    document.title = `${shownName(title)} · Fullbore`;
    heading.textContent = shownName(title);
    below.replaceChildren(about(title), others(title, titles) ?? "");
  };
  // A site that shows one film in a frame hasn't chosen the others.
  const series = isFramed ? null : new Series(titles, listAnew);
  const player = new Player(title, header(heading), series, (next) => {
    // The browser's way back leads to where the viewer came from, and not through each episode.
    history.replaceState(null, "", watchUrl(next));
    describe(next);
  });
  describe(title);
  root.replaceChildren(element("main", {}, player.element, below));
  void player.load(places()[title.path]?.seconds ?? 0);
}

/** All titles of a fleet. A box has the shelf for that. */
function showAll(titles: Title[]): void {
  document.title = `${phrase("films")} · Fullbore`;
  const known = places();
  const cards = titles.map((title) => element("li", {}, card(title, known[title.path])));
  const none = titles.length === 0 ? element("p", {}, phrase("noFilm")) : null;
  root.replaceChildren(element("main", { class: "below all" }, element("h1", {}, phrase("films")), none, element("ul", { class: "cards" }, ...cards)));
}

function complain(what: string, advice: string): void {
  const again = element("button", { type: "button", class: "again", onclick: () => location.reload() }, phrase("tryAgain"));
  const back = element("a", { href: shelfUrl(), ...outsideFrame }, phrase("allTitles"));
  root.replaceChildren(element("main", { class: "notice" }, element("h1", {}, what), element("p", {}, advice), again, back));
}

async function main(): Promise<void> {
  nameLanguage();
  document.title = `${phrase("watch")} · Fullbore`;
  try {
    const [title, titles] = await find();
    if (title !== undefined) show(title, titles);
    else if (isFleet && wantedOfFleet() === undefined) showAll(titles);
    else complain(phrase("noTitle"), phrase("noTitleAdvice"));
  } catch (error) {
    const what = error instanceof Unreachable ? error.message : phrase("pageFailed");
    complain(what, phrase("checkConnection"));
  }
}

void main();
