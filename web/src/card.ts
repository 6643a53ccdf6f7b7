// A title as a card: its picture, its playing time, and how far the viewer has watched.

import { element } from "./element";
import type { Place } from "./memory";
import { shownFolder, shownName } from "./names";
import { phrase, spoken } from "./phrases";
import { Thumbnails } from "./thumbnails";
import { libraryUrl, shownHeight, watchUrl, type Title } from "./titles";
import { clock, isKnown, language } from "./words";

/** Thumbnails appear when the pointer has rested this long. */
const LOOK_MS = 250;

/** About the width of a card in a grid that fills a page (card.css). */
const GRID_CARD = "min(20rem, 45vw)";

/** The card of a title. `shown` is how wide it is, as for `sizes` of an image. */
export function card(title: Title, place: Place | undefined, shown = GRID_CARD): HTMLElement {
  const picture = element("div", { class: "poster" }, poster(title, shown));
  if (title.duration_seconds !== undefined) {
    const label = element("span", { class: "unseen" }, `, ${spoken(title.duration_seconds)}`);
    picture.append(element("span", { class: "badge" }, element("span", { "aria-hidden": "true" }, clock(title.duration_seconds)), label));
  }
  if (place !== undefined && place.of > 0 && place.seconds > 0) {
    const done = element("div", { class: "done" });
    done.style.width = `${Math.min(100, (100 * place.seconds) / place.of)}%`;
    picture.append(element("div", { class: "progress" }, done));
  }
  const name = element("h3", { dir: "auto", title: shownName(title) }, shownName(title));
  const link = element("a", { class: "card", href: watchUrl(title) }, picture, name, element("p", {}, ...facts(title)));
  if (title.thumbnails !== undefined) leafThrough(picture, title.thumbnails, title.duration_seconds ?? 0);
  return link;
}

/** The poster of a title in the smallest width that is sharp when it is `shown` so wide; the title's initials if it has none. */
export function poster(title: Title, shown: string): HTMLElement {
  const { poster, poster_widths = [] } = title;
  if (poster === undefined) return initials(shownName(title));
  const source = (width: number, at: number) => {
    const isWhole = at === poster_widths.length - 1;
    return `${libraryUrl(isWhole ? poster : poster.replace(/\.jpg$/, `-${width}.jpg`))} ${width}w`;
  };
  const sources = poster_widths.length > 0 && { sizes: shown, srcset: poster_widths.map(source).join(", ") };
  return element("img", { ...sources, src: libraryUrl(poster), alt: "", loading: "lazy", decoding: "async" });
}

/** Replaces a missing picture: the first letters, on a colour that depends only on the name. */
export function initials(name: string): HTMLElement {
  const words = name.split(/\s+/).filter(Boolean);
  const letters = words.slice(0, 2).map((word) => [...word][0] ?? "").join("");
  const made = element("div", { class: "initials", "aria-hidden": "true" }, letters.toLocaleUpperCase());
  const hue = [...name].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 360, 7);
  made.style.setProperty("--hue", String(hue));
  return made;
}

/** Each in its own direction: a folder may be in Arabic, and a language is in its own script. */
function facts(title: Title): (Node | string)[] {
  const parts = [];
  const folder = shownFolder(title);
  if (folder !== "") parts.push(folder);
  if (title.height) parts.push(shownHeight(title.width ?? 0, title.height));
  const languages = (title.languages ?? []).filter(isKnown);
  if (languages.length > 0) parts.push(languages.map(language).join(", "));
  if ((title.subtitle_languages ?? []).length > 0) parts.push(phrase("hasCaptions"));
  if (parts.length === 0) parts.push(phrase(title.duration_seconds === undefined ? "file" : title.height === 0 ? "sound" : "film"));
  return parts.flatMap((part, at) => [...(at === 0 ? [] : [" · "]), element("bdi", {}, part)]);
}

/** Moving over the picture shows the film's thumbnails. */
function leafThrough(picture: HTMLElement, thumbnails: string, duration: number): void {
  const place = element("div", { class: "leaf", hidden: true, "aria-hidden": "true" });
  picture.append(place);
  let loaded: Promise<Thumbnails> | null = null;
  let wish = 0;
  picture.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const box = picture.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    window.clearTimeout(wish);
    wish = window.setTimeout(() => {
      loaded ??= Thumbnails.load(thumbnails);
      void loaded.then((pictures) => {
        place.hidden = !picture.matches(":hover") || !pictures.show(share * duration, place, box.width);
      });
    }, place.hidden ? LOOK_MS : 0);
  });
  picture.addEventListener("pointerleave", () => {
    window.clearTimeout(wish);
    place.hidden = true;
  });
}
