// Cards of which only those near the window are in the document: in a grid, or in a row that scrolls sideways.

import { card } from "../card";
import { element, icon } from "../element";
import type { Place } from "../memory";
import { number } from "../phrases";
import type { Entry } from "./search";
import type { Sizes } from "./sizes";

export interface Section {
  /** Distinguishes the section from the page's others. */
  key: string;
  heading: string;
  /** The address of all its titles, if the section is a row. */
  href?: string;
  form: "grid" | "row";
  entries: Entry[];
}

export class Cards {
  private readonly list: HTMLUListElement;
  private readonly strip: HTMLElement | null;
  private readonly shown = new Map<number, HTMLLIElement>();
  readonly element: HTMLElement;

  constructor(
    private readonly section: Section,
    private readonly places: Record<string, Place>,
    private readonly sizes: Sizes,
    onSidewaysScroll: () => void,
  ) {
    const { heading, href, form, key, entries } = section;
    this.list = element("ul", { class: "cards" });
    const name = href === undefined ? heading : element("a", { href }, heading);
    const amount = element("span", { class: "amount" }, number(entries.length));
    const head = element("div", { class: "head" }, element("h2", { dir: "auto", tabindex: href === undefined && -1 }, name), amount);
    this.strip = form === "row" ? element("div", { class: "strip", onscroll: onSidewaysScroll }, this.list) : null;
    if (this.strip !== null && entries.length > sizes.columns) head.append(this.button("back", -1), this.button("forward", 1));
    this.element = element("section", { class: form, "data-key": key }, head, this.strip ?? this.list);
    this.list.style.height = `${heightOf(section, sizes)}px`;
    if (form === "row") this.list.style.width = `${entries.length * (sizes.width + sizes.gapX) - sizes.gapX}px`;
  }

  /** For the mouse. The row itself scrolls by touch and by keys. */
  private button(shape: "back" | "forward", direction: number): HTMLElement {
    const scroll = () => this.strip?.scrollBy({ left: direction * this.strip.clientWidth * 0.9, behavior: "smooth" });
    // The focus stays where it is.
    const onmousedown = (event: Event) => event.preventDefault();
    return element("button", { type: "button", class: "sideways", tabindex: -1, "aria-hidden": "true", onclick: scroll, onmousedown }, icon(shape));
  }

  /** How many cards a row has been scrolled by. */
  get scrolled(): number {
    return (this.strip?.scrollLeft ?? 0) / (this.sizes.width + this.sizes.gapX);
  }

  set scrolled(cards: number) {
    if (this.strip !== null && cards > 0) this.strip.scrollLeft = cards * (this.sizes.width + this.sizes.gapX);
  }

  /** Puts the cards into the document whose pixels, from the top of the list on, are between `from` and `to`, and takes others out. */
  show(from: number, to: number): void {
    const wanted = this.strip === null ? this.inGrid(from, to) : this.inRow(this.strip);
    for (const [index, item] of this.shown) {
      // An element that is taken out loses the focus.
      if (wanted.has(index)) continue;
      if (item.contains(document.activeElement)) wanted.add(index);
      else {
        item.remove();
        this.shown.delete(index);
      }
    }
    let next = this.list.firstElementChild;
    for (const index of [...wanted].sort((a, b) => a - b)) {
      const item = this.shown.get(index);
      if (item === undefined) this.list.insertBefore(this.make(index), next);
      else next = item.nextElementSibling;
    }
  }

  private inGrid(from: number, to: number): Set<number> {
    const { columns, height, gapY } = this.sizes;
    const line = height + gapY;
    return numbers(Math.floor(from / line) * columns, Math.ceil(to / line) * columns, this.section.entries.length);
  }

  private inRow(strip: HTMLElement): Set<number> {
    const { columns, width, gapX } = this.sizes;
    const first = Math.floor(strip.scrollLeft / (width + gapX));
    return numbers(first - columns, first + 2 * columns + 1, this.section.entries.length);
  }

  private make(index: number): HTMLLIElement {
    const { columns, width, height, gapX, gapY } = this.sizes;
    const { entries, form } = this.section;
    const { title } = entries[index] as Entry;
    const item = element("li", { "aria-setsize": entries.length, "aria-posinset": index + 1 }, card(title, this.places[title.path], `${Math.ceil(width)}px`));
    const [column, line] = form === "row" ? [index, 0] : [index % columns, Math.floor(index / columns)];
    Object.assign(item.style, {
      left: `${column * (width + gapX)}px`,
      top: `${line * (height + gapY)}px`,
      width: `${width}px`,
      height: `${height}px`,
    });
    this.shown.set(index, item);
    return item;
  }
}

/** The height of a section's cards. */
export function heightOf({ form, entries }: Section, { columns, height, gapY }: Sizes): number {
  const lines = form === "row" ? 1 : Math.ceil(entries.length / columns);
  return lines * (height + gapY) - gapY;
}

function numbers(from: number, to: number, end: number): Set<number> {
  const all = new Set<number>();
  for (let index = Math.max(0, from); index < Math.min(to, end); index += 1) all.add(index);
  return all;
}
