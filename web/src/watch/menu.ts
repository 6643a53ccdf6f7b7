// Menus over the picture: captions, and the settings with a page for each choice.
//
// A menu follows the pattern of the ARIA practices: arrows move, Enter chooses, Escape closes and gives the focus back.

import { element, icon } from "../element";
import { phrase } from "../phrases";

export interface Choice {
  label: string;
  detail?: string;
  isChosen: boolean;
  choose(): void;
}

export interface Page {
  title: string;
  /** The present choice, shown next to the title in the list of pages. */
  value: string;
  choices(): Choice[];
}

export class Menu {
  readonly element = element("div", { class: "menu", role: "menu", hidden: true });
  private page: Page | null = null;

  /** A menu that `button` opens. It asks for its pages when it opens. A single page is shown at once. */
  constructor(
    private readonly button: HTMLButtonElement,
    private readonly label: string,
    private readonly pages: () => Page[],
    private readonly onToggle: (isOpen: boolean) => void,
  ) {
    button.setAttribute("aria-haspopup", "menu");
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => (this.isOpen ? this.close() : this.open()));
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusout", (event) => {
      const next = event.relatedTarget;
      if (next instanceof Node && !this.element.contains(next) && next !== button) this.close(false);
    });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  open(): void {
    const pages = this.pages();
    this.page = pages.length === 1 ? (pages[0] ?? null) : null;
    this.element.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.onToggle(true);
    this.render();
  }

  close(givesFocusBack = true): void {
    if (!this.isOpen) return;
    this.element.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    this.onToggle(false);
    if (givesFocusBack) this.button.focus();
  }

  /** Updates what has changed; the focus keeps its place in the list. */
  refresh(): void {
    if (!this.isOpen) return;
    const at = this.items().indexOf(document.activeElement as HTMLElement);
    this.render(at < 0 ? 0 : at);
  }

  private items(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>("[role^=menuitem]")];
  }

  private render(focus?: number): void {
    const { page } = this;
    this.element.setAttribute("aria-label", page?.title ?? this.label);
    const items = page === null ? this.pages().map((page) => this.pageItem(page)) : this.choiceItems(page);
    this.element.replaceChildren(...items);
    const chosen = this.items().findIndex((item) => item.getAttribute("aria-checked") === "true");
    this.items()[focus ?? Math.max(0, chosen)]?.focus();
  }

  private pageItem(page: Page): HTMLElement {
    const value = element("span", { class: "value" }, page.value);
    const open = () => {
      this.page = page;
      this.render();
    };
    const attributes = { role: "menuitem", class: "item", type: "button", "aria-haspopup": "menu", onclick: open };
    return element("button", attributes, element("span", {}, page.title), value, icon("forward"));
  }

  private choiceItems(page: Page): HTMLElement[] {
    const back = () => {
      this.page = null;
      this.render(this.pages().findIndex(({ title }) => title === page.title));
    };
    const isAlone = this.pages().length === 1;
    const head = isAlone
      ? element("div", { class: "head", role: "presentation" }, page.title)
      : element(
          "button",
          { role: "menuitem", class: "head", type: "button", "aria-label": phrase("backToSettings", { page: page.title }), onclick: back },
          icon("back"),
          page.title,
        );
    return [head, ...page.choices().map((choice) => this.choiceItem(choice))];
  }

  private choiceItem(choice: Choice): HTMLElement {
    const choose = () => {
      choice.choose();
      this.close();
    };
    const attributes = { role: "menuitemradio", class: "item", type: "button", "aria-checked": choice.isChosen ? "true" : "false", onclick: choose };
    const detail = choice.detail === undefined ? null : element("span", { class: "value" }, choice.detail);
    return element("button", attributes, icon("check"), element("span", {}, choice.label), detail);
  }

  private onKey(event: KeyboardEvent): void {
    const items = this.items();
    const at = items.indexOf(document.activeElement as HTMLElement);
    const to = (index: number) => items[(index + items.length) % items.length]?.focus();
    switch (event.key) {
      case "ArrowDown":
        to(at + 1);
        break;
      case "ArrowUp":
        to(at - 1);
        break;
      case "Home":
        to(0);
        break;
      case "End":
        to(-1);
        break;
      case "ArrowLeft":
        this.element.querySelector<HTMLElement>("button.head")?.click();
        break;
      case "ArrowRight":
        if (this.page === null) items[at]?.click();
        break;
      case "Escape":
      case "GoBack":
      case "BrowserBack":
        this.close();
        break;
      case "Tab":
        this.close(false);
        return;
      default:
        if (event.key !== "Enter" && event.key !== " ") return;
        event.stopPropagation();
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
