// The keys of a television's remote, which has arrows, OK and Back. OK shows the controls, arrows move among them, and Back returns to the picture. On
// the picture, arrows do what keyboard.ts says. A control that was clicked leaves the arrows to the film, as in well-known players.

/** Keys of remotes and keyboards that go back. */
export const BACK = new Set(["GoBack", "BrowserBack", "Escape"]);

/** The keys that move the focus in the way of a remote. */
const MOVES = new Set(["Enter", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]);

/** Whether the latest input that may move the focus was one of these keys, rather than a pointer or Tab. */
let isMoving = false;
/** Whether the focused control got its focus in that way. */
let isByKeys = false;

/** Notes how controls get their focus. */
export function watchFocus(): void {
  document.addEventListener("pointerdown", () => (isMoving = false), { capture: true });
  document.addEventListener("keydown", ({ key }) => (isMoving = MOVES.has(key) || (isMoving && key !== "Tab")), { capture: true });
  document.addEventListener("focusin", () => (isByKeys = isMoving));
}

/** The controls over the picture in lines, from top to bottom. A remote changes the volume itself. */
function lines(): HTMLElement[][] {
  const shown = (selector: string) => [...document.querySelectorAll<HTMLElement>(selector)].filter((one) => one.getClientRects().length > 0);
  const all = [shown(".player .top a"), shown(".offer button"), shown(".timebar input"), shown(".controls .row button")];
  return all.filter((line) => line.length > 0);
}

/** Moves the focus if the key is for that. Returns whether it was. */
export function moveAmongControls(key: string, on: HTMLElement): boolean {
  const all = lines();
  const at = all.findIndex((line) => line.includes(on));
  if (at < 0) return false;
  if (BACK.has(key)) {
    on.blur();
    return true;
  }
  if (!isByKeys) return false;
  const line = all[at] ?? [];
  switch (key) {
    case "ArrowUp":
      all[at - 1]?.[0]?.focus();
      return true;
    case "ArrowDown":
      if (at + 1 < all.length) all[at + 1]?.[0]?.focus();
      else on.blur();
      return true;
    case "ArrowLeft":
    case "ArrowRight":
      // The time bar moves in the film.
      if (on.matches("input")) return false;
      line[line.indexOf(on) + (key === "ArrowLeft" ? -1 : 1)]?.focus();
      return true;
    default:
      return false;
  }
}
