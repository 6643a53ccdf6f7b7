// What a player does with the title before and after the present one in its folder: the button, the keys, the offer at the end, and the setting.

import { keepNext, remember, remembered } from "../memory";
import { folderOf, type Neighbours } from "../names";
import { phrase } from "../phrases";
import type { Title } from "../titles";
import { listenToDevice } from "./device";
import type { Page } from "./menu";
import { Offer } from "./offer";
import type { Series } from "./series";

/** The player's part. */
export interface Host {
  video: HTMLVideoElement;
  title(): Title;
  open(title: Title): void;
  say(text: string): void;
  /** Whether a menu or a panel is open. */
  isBusy(): boolean;
  /** Whether the focus is in another part of the page. */
  isElsewhere(): boolean;
  focusControls(): void;
}

export class Next {
  readonly offer: Offer;
  /** Whether the title's neighbours are known. They are looked for once it plays, because nothing may delay its start. */
  private isKnown = false;
  /** Whether only the end is left. */
  private isOver = false;

  /** Without a `series`, as in a frame, there is only this title. */
  constructor(
    private readonly series: Series | null,
    private readonly button: HTMLButtonElement,
    private readonly host: Host,
  ) {
    button.hidden = true;
    button.addEventListener("click", () => this.step("next"));
    this.offer = new Offer(() => this.step("next"), host.say, host.focusControls);
    host.video.addEventListener("playing", () => {
      if (!this.isKnown) this.show();
    });
    host.video.addEventListener("ended", () => this.propose());
    for (const name of ["play", "seeking"]) host.video.addEventListener(name, () => this.offer.hide());
  }

  /** Forgets the former title. */
  reset(): void {
    this.offer.hide();
    this.isKnown = false;
    this.isOver = false;
  }

  /** Plays the title before or after this one. */
  step(side: keyof Neighbours): void {
    const { series, host } = this;
    if (series === null) return;
    const title = series.around(host.title())[side];
    if (title !== undefined) host.open(title);
    else host.say(phrase(side === "next" ? "noNext" : "noPrevious"));
  }

  private show(): void {
    if (this.series === null) return;
    this.isKnown = true;
    const { previous, next } = this.series.around(this.host.title());
    this.button.hidden = next === undefined;
    listenToDevice([
      ["nexttrack", next === undefined ? null : () => this.step("next")],
      ["previoustrack", previous === undefined ? null : () => this.step("previous")],
    ]);
  }

  /** Once only the end is left: puts the next title among those to continue with, and looks whether one was added while this one played. */
  async finish(): Promise<void> {
    const { series, host } = this;
    const title = host.title();
    if (this.isOver || series === null || folderOf(title) === "") return;
    this.isOver = true;
    const keep = () => {
      const { next } = series.around(title);
      if (next !== undefined) keepNext(next.path, next.duration_seconds ?? 0);
      return next;
    };
    const known = keep();
    await series.renew();
    if (host.title() !== title) return;
    const found = keep();
    this.show();
    if (known === undefined && found !== undefined && host.video.ended) this.propose();
  }

  private propose(): void {
    const { host } = this;
    const next = this.series?.around(host.title()).next;
    if (next === undefined) return;
    const isBusy = host.isBusy();
    this.offer.show(next, remembered.autoNext() && !isBusy, !isBusy && !host.isElsewhere());
  }

  /** The setting; without choices if the title has no neighbours. */
  page(): Page {
    const { next, previous } = (this.isKnown && this.series?.around(this.host.title())) || {};
    const current = remembered.autoNext();
    const name = (isOn: boolean) => phrase(isOn ? "autoOn" : "autoOff");
    const choose = (isOn: boolean) => remember("auto-next", isOn ? "on" : "off");
    const choices = [true, false].map((isOn) => ({ label: name(isOn), isChosen: isOn === current, choose: () => choose(isOn) }));
    return { title: phrase("autoNext"), value: name(current), choices: () => ((next ?? previous) === undefined ? [] : choices) };
  }
}
