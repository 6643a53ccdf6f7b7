// The sections of the shelf, one below the other. Only those near the window are in the document: there may be a thousand folders.

import { element } from "../element";
import { places } from "../memory";
import { Cards, heightOf, type Section } from "./cards";
import { sizesFor, type Sizes } from "./sizes";

/** How far beyond the window cards are made, in heights of the window: far enough for a key that moves the focus. */
const AROUND = 0.75;

interface Placed {
  section: Section;
  top: number;
  /** Without the space after it. */
  height: number;
}

export class Sections {
  readonly element = element("div", { class: "sections" });
  private sections: Section[] = [];
  private placed: Placed[] = [];
  private sizes: Sizes = sizesFor(1, 1, 16);
  private readonly shown = new Map<Placed, Cards>();
  /** How far each row has been scrolled, by its key: also those that are not in the document now. */
  private readonly scrolled = new Map<string, number>();
  private isDue = false;

  constructor() {
    addEventListener("scroll", () => this.soon(), { passive: true });
    new ResizeObserver(() => this.fit()).observe(this.element);
    addEventListener("resize", () => this.soon());
  }

  /** Shows these sections in place of the former ones. The focus stays on its card if that is still there, and rows stay where they are. */
  show(sections: Section[]): void {
    this.sections = sections;
    this.place();
  }

  private fit(): void {
    if (this.element.clientWidth === this.roomOf(this.sizes)) return;
    const before = this.element.clientHeight;
    this.place();
    // About the same titles stay in sight.
    if (before > 0 && scrollY > 0) scrollTo(0, (scrollY * this.element.clientHeight) / before);
  }

  private roomOf({ columns, width, gapX }: Sizes): number {
    return Math.round(columns * (width + gapX) - gapX);
  }

  private place(): void {
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.sizes = sizesFor(this.element.clientWidth, innerWidth, rem);
    let top = 0;
    this.placed = this.sections.map((section) => {
      const height = this.sizes.heading + heightOf(section, this.sizes);
      const placed = { section, top, height };
      top += height + this.sizes.space;
      return placed;
    });
    const focused = focus();
    for (const [{ section }, cards] of this.shown) this.scrolled.set(section.key, cards.scrolled);
    this.shown.clear();
    this.element.replaceChildren();
    this.element.style.height = `${top}px`;
    this.render();
    if (focused !== null) this.focus(focused);
  }

  /** Focuses what `focus()` returned earlier, if it is there. */
  focus(selector: string): void {
    this.element.querySelector<HTMLElement>(selector)?.focus({ preventScroll: true });
  }

  private soon(): void {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.render();
    });
  }

  /** Puts what is near the window into the document, and takes the rest out. */
  render(): void {
    const around = innerHeight * AROUND;
    const above = this.element.getBoundingClientRect().top;
    const [from, to] = [-above - around, innerHeight - above + around];
    const isNear = ({ top, height }: Placed) => top < to && top + height > from;
    for (const [placed, cards] of this.shown) {
      if (isNear(placed) || cards.element.contains(document.activeElement)) continue;
      this.scrolled.set(placed.section.key, cards.scrolled);
      cards.element.remove();
      this.shown.delete(placed);
    }
    let next = this.element.firstElementChild;
    for (const placed of this.placed) {
      let cards = this.shown.get(placed);
      if (cards !== undefined) next = cards.element.nextElementSibling;
      else if (!isNear(placed)) continue;
      else {
        cards = this.make(placed);
        this.element.insertBefore(cards.element, next);
        cards.scrolled = this.scrolled.get(placed.section.key) ?? 0;
      }
      const list = placed.top + this.sizes.heading;
      cards.show(from - list, to - list);
    }
  }

  private make(placed: Placed): Cards {
    const cards = new Cards(placed.section, places(), this.sizes, () => this.soon());
    cards.element.style.top = `${placed.top}px`;
    cards.element.style.height = `${placed.height}px`;
    this.shown.set(placed, cards);
    return cards;
  }
}

/** A selector of the card or the heading that has the focus. */
export function focus(): string | null {
  const focused = document.activeElement;
  const key = focused?.closest<HTMLElement>("section")?.dataset.key;
  if (!focused || key === undefined) return null;
  const section = `section[data-key="${CSS.escape(key)}"]`;
  if (focused.matches(".card")) return `${section} .card[href="${CSS.escape(focused.getAttribute("href") ?? "")}"]`;
  return `${section} ${focused.matches("a") ? "h2 a" : "h2"}`;
}
