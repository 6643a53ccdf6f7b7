// Arrow keys move the focus to the next card or control in their direction, so that a television's remote can use the page.

const DIRECTIONS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Keys of remotes and keyboards that go back. */
const BACK = new Set(["GoBack", "BrowserBack", "Escape"]);

/** Listens to the page's keys. `moved` runs after each move, and `back` for a key that goes back; it returns whether it did anything. */
export function listenToArrows(moved: () => void, back: () => boolean): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
    // The key belongs to an input method, which composes a word with it. Some browsers only say so by this code.
    if (event.isComposing || event.keyCode === 229) return;
    if (BACK.has(event.key)) {
      // A key that is held would leave the page; a key without use here is the browser's.
      if (!event.repeat && back()) event.preventDefault();
      return;
    }
    const direction = DIRECTIONS[event.key];
    if (direction === undefined || isTaken(event)) return;
    const next = nextIn(...direction);
    // Sideways, too, a list of choices would take the next one.
    if (next !== undefined || event.target instanceof HTMLSelectElement) event.preventDefault();
    if (next === undefined) return;
    next.focus();
    moved();
  });
}

/** Whether the focused control uses the key itself: left and right in a text, up and down in a list of choices. */
function isTaken({ key, target }: KeyboardEvent): boolean {
  const isUpOrDown = key === "ArrowUp" || key === "ArrowDown";
  if (target instanceof HTMLInputElement) return !isUpOrDown && target.value !== "";
  return target instanceof HTMLSelectElement && isUpOrDown;
}

/** Where the focus is by these keys, and the middle of the column that it keeps while it moves up and down past headings. */
let last: { one: HTMLElement; middle: number } | null = null;

function nextIn(right: number, down: number): HTMLElement | undefined {
  const all = [...document.querySelectorAll<HTMLElement>("a[href], button, input, select")].filter((one) => one.tabIndex >= 0);
  const focused = document.activeElement;
  if (!(focused instanceof HTMLElement) || !all.includes(focused)) return firstInWindow(all) ?? all[0];
  const from = placeOf(focused);
  const middle = last?.one === focused && down !== 0 ? last.middle : middleOf(from);
  const next = beyond(focused, from, all, right, down, middle);
  // After a move sideways, the column is that of the new card, once the row has scrolled.
  last = next !== undefined && down !== 0 ? { one: next, middle } : null;
  return next;
}

/** The first card that begins in the window, below the header; the first of all if none does. */
function firstInWindow(all: HTMLElement[]): HTMLElement | undefined {
  const cards = all.filter((one) => one.matches(".card"));
  const header = document.querySelector("header")?.getBoundingClientRect().bottom ?? 0;
  const isInWindow = ({ left, top }: DOMRect) => left >= 0 && left < innerWidth && top >= header && top < innerHeight;
  return cards.find((card) => isInWindow(card.getBoundingClientRect())) ?? cards[0];
}

/** Where an element is on the page. The header, which stays in the window, is at the top. */
function placeOf(one: HTMLElement): DOMRect {
  const { x, y, width, height } = one.getBoundingClientRect();
  return new DOMRect(x, one.closest("header") === null ? y + scrollY : y, width, height);
}

function middleOf({ left, width }: DOMRect): number {
  return left + width / 2;
}

function beyond(focused: HTMLElement, from: DOMRect, all: HTMLElement[], right: number, down: number, middle: number): HTMLElement | undefined {
  const others = all.filter((one) => one !== focused).map((one) => ({ one, box: placeOf(one) }));
  if (right !== 0) {
    // Only in the same line, so that the end of a row is an end.
    const inLine = others.filter(({ box }) => box.top < from.bottom && from.top < box.bottom && right * (box.left - from.left) > 1);
    const next = nearest(inLine, ({ box }) => Math.abs(box.left - from.left));
    // Left of its first card, a row has its heading, which leads to the whole folder.
    const heading = focused.matches(".card") ? focused.closest("section")?.querySelector<HTMLElement>("h2 a") : null;
    return next ?? (right < 0 ? (heading ?? undefined) : undefined);
  }
  // Headings are left of the cards, and the list of orders, which uses these keys itself, is right of the search.
  const far = others.filter(({ one, box }) => !one.matches("h2 a, select") && (down > 0 ? box.top >= from.bottom - 1 : box.bottom <= from.top + 1));
  const distance = (box: DOMRect) => (down > 0 ? box.top - from.bottom : from.top - box.bottom);
  const least = Math.min(...far.map(({ box }) => distance(box)));
  // Those of the next line, whose tops may differ a little.
  const line = far.filter(({ box }) => distance(box) <= least + from.height / 4);
  return nearest(line, ({ box }) => Math.abs(middleOf(box) - middle));
}

function nearest<T extends { one: HTMLElement }>(list: T[], distance: (one: T) => number): HTMLElement | undefined {
  let best: T | undefined;
  for (const candidate of list) if (best === undefined || distance(candidate) < distance(best)) best = candidate;
  return best?.one;
}
