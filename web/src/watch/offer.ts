// At the end of a title: the next one of its folder. It starts by itself after a countdown, unless the viewer cancels that.

import { poster } from "../card";
import { element } from "../element";
import { shownName } from "../names";
import { phrase } from "../phrases";
import type { Title } from "../titles";
import { BACK } from "./remote";

/** Long enough to find the remote. */
const COUNTDOWN_SECONDS = 10;

export class Offer {
  private readonly picture = element("div", { class: "poster", "aria-hidden": "true" });
  private readonly name = element("p", { class: "name", dir: "auto" });
  // Screen readers announce it once, and not each second.
  private readonly countdown = element("p", { class: "countdown", "aria-hidden": "true" });
  private readonly playButton = element("button", { type: "button", class: "again", onclick: () => this.accept() }, phrase("playNow"));
  private readonly cancelButton = element("button", { type: "button", class: "again", onclick: () => this.cancel() }, phrase("cancel"));
  readonly element = element(
    "section",
    { class: "offer", "aria-label": phrase("upNext"), hidden: true },
    this.picture,
    element("h2", {}, phrase("upNext")),
    this.name,
    this.countdown,
    element("div", { class: "choices" }, this.playButton, this.cancelButton),
  );
  private ticking = 0;

  /** `accept` plays the offered title, `say` announces, and `giveFocus` takes the focus over when the offer has it and is cancelled. */
  constructor(
    private readonly accept: () => void,
    private readonly say: (text: string) => void,
    private readonly giveFocus: () => void,
  ) {
    document.addEventListener("keydown", (event) => {
      if (!this.isShown || event.defaultPrevented) return;
      const isSideways = ["ArrowLeft", "ArrowRight"].includes(event.key) && this.hasFocus;
      if (BACK.has(event.key)) this.cancel();
      else if (isSideways) (document.activeElement === this.playButton ? this.cancelButton : this.playButton).focus();
      else return;
      event.preventDefault();
    });
  }

  get isShown(): boolean {
    return !this.element.hidden;
  }

  private get hasFocus(): boolean {
    return this.element.contains(document.activeElement);
  }

  /** Offers the title; with `counts` it starts by itself, and with `takesFocus` Enter starts it. */
  show(title: Title, counts: boolean, takesFocus: boolean): void {
    const name = shownName(title);
    this.picture.replaceChildren(poster(title, "17rem"));
    this.name.textContent = name;
    this.stop();
    this.element.hidden = false;
    const starts = counts ? ` ${phrase("startsIn", { seconds: COUNTDOWN_SECONDS })}` : "";
    this.say(`${phrase("upNext")}: ${name}.${starts}`);
    if (counts) this.count(COUNTDOWN_SECONDS);
    if (takesFocus) this.playButton.focus();
  }

  private count(seconds: number): void {
    this.element.classList.add("counting");
    this.countdown.textContent = phrase("startsIn", { seconds });
    this.ticking = window.setTimeout(() => (seconds > 1 ? this.count(seconds - 1) : this.accept()), 1000);
  }

  /** Ends the countdown. The offer stays. */
  stop(): void {
    window.clearTimeout(this.ticking);
    this.element.classList.remove("counting");
    this.countdown.textContent = "";
  }

  hide(): void {
    this.stop();
    this.element.hidden = true;
  }

  cancel(): void {
    const { hasFocus } = this;
    this.hide();
    this.say(phrase("cancelled"));
    if (hasFocus) this.giveFocus();
  }
}
