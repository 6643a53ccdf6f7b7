// The panel that lists the keys.

import { element } from "../element";
import { phrase } from "../phrases";
import { KEYS } from "./keyboard";
import { BACK } from "./remote";

export class Help {
  private readonly button = element("button", { type: "button", class: "again", onclick: () => this.toggle() }, phrase("close"));
  readonly element: HTMLElement;
  /** What had the focus before. */
  private focused: Element | null = null;

  constructor() {
    const rows = KEYS.flatMap(([keys, does]) => [element("dt", {}, keys), element("dd", {}, phrase(does))]);
    const attributes = { class: "help", role: "dialog", "aria-label": phrase("keys"), hidden: true };
    this.element = element("div", attributes, element("h2", {}, phrase("keys")), element("dl", {}, ...rows), this.button);
    this.element.addEventListener("keydown", (event) => {
      if (!BACK.has(event.key)) return;
      event.preventDefault();
      this.toggle();
    });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  toggle(): void {
    if (!this.isOpen) this.focused = document.activeElement;
    this.element.hidden = this.isOpen;
    if (this.isOpen) this.button.focus();
    else if (this.focused instanceof HTMLElement && this.focused !== document.body) this.focused.focus();
    else this.button.blur();
  }
}
