// Keys, as in well-known players. They are ignored in text fields, menus and sliders, and with Ctrl, Alt or Meta.

import { phrase, type Phrase } from "../phrases";
import { moveAmongControls, watchFocus } from "./remote";

export interface Actions {
  toggle(): void;
  skip(seconds: number): void;
  goTo(share: number): void;
  louder(by: number): void;
  mute(): void;
  captions(): void;
  fullscreen(): void;
  faster(by: number): void;
  /** To the title before or after this one in its folder. */
  step(side: "previous" | "next"): void;
  help(): void;
  /** Shows the controls and gives them the focus. */
  controls(): void;
}

export const KEYS: [string, Phrase][] = [
  [phrase("keysPlay"), "playOrPause"],
  ["← →", "fiveSeconds"],
  ["J L", "tenSeconds"],
  ["↑ ↓", "louderOrQuieter"],
  ["Enter", "amongControls"],
  ["M", "soundOffOrOn"],
  ["C", "captionsOffOrOn"],
  ["F", "fullScreen"],
  ["0 – 9", "toShare"],
  ["< >", "slowerOrFaster"],
  ["Shift N, Shift P", "nextOrPrevious"],
  ["?", "theseKeys"],
];

export function listen(actions: Actions): void {
  watchFocus();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (handle(event, actions)) event.preventDefault();
  });
}

function handle({ key, shiftKey, target }: KeyboardEvent, actions: Actions): boolean {
  const on = target instanceof HTMLElement ? target : document.body;
  if (on.isContentEditable || on.matches("input:not([type=range]), select, textarea, [role^=menuitem]")) return false;
  if (moveAmongControls(key, on)) return true;
  if (key === "Enter" && on.matches("button, a, input")) return false;
  // Space presses a focused button, and up and down move a focused slider.
  if (key === " " && on.matches("button, a")) return false;
  if ((key === "ArrowUp" || key === "ArrowDown") && on.matches("input")) return false;
  if ((key === "ArrowLeft" || key === "ArrowRight") && on.matches(".volume")) return false;
  if (/^[0-9]$/.test(key)) {
    actions.goTo(Number(key) / 10);
    return true;
  }
  const does: Record<string, () => void> = {
    " ": () => actions.toggle(),
    k: () => actions.toggle(),
    ArrowLeft: () => actions.skip(-5),
    ArrowRight: () => actions.skip(5),
    j: () => actions.skip(-10),
    l: () => actions.skip(10),
    ArrowUp: () => actions.louder(0.1),
    ArrowDown: () => actions.louder(-0.1),
    m: () => actions.mute(),
    c: () => actions.captions(),
    f: () => actions.fullscreen(),
    "<": () => actions.faster(-1),
    ">": () => actions.faster(1),
    "?": () => actions.help(),
    ...(shiftKey && { n: () => actions.step("next"), p: () => actions.step("previous") }),
    Enter: () => actions.controls(),
  };
  const action = does[key.length === 1 ? key.toLowerCase() : key];
  action?.();
  return action !== undefined;
}
