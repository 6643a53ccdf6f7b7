// What to buy next: the sites whose room or ceiling is too small, by a plan that the gateway makes on request. Nothing is moved.

import { bytes, text } from "../dashboard/format";
import { node } from "../dashboard/node";
import { get } from "./api";
import type { Planned } from "./shape";

/** The plan that nodes follow now, and the bytes that a new plan would move. */
function about({ planned_unix_seconds: planned, moved_bytes: moved }: Planned): string {
  const now = planned === null ? "Every node holds everything." : `Nodes follow the plan of ${new Date(planned * 1000).toLocaleString("en")}.`;
  return `${now} A plan made now would copy ${text(bytes(moved))}. To apply it: fullbore control plan --apply`;
}

export class Buying {
  readonly element: HTMLElement;
  private readonly answer = node("div", "bought");

  constructor() {
    this.answer.setAttribute("aria-live", "polite");
    const button = node("button", "", "Ask for a plan");
    button.addEventListener("click", () => void this.ask());
    this.element = node("section", "panel", node("h2", "", "What to buy next"), button, this.answer);
  }

  private async ask(): Promise<void> {
    try {
      const plan = await get<Planned>("plan", { moves: "0" });
      const hints = plan.buy.map(({ text: words }) => node("li", "", words));
      const told = hints.length === 0 ? node("p", "", "Nothing needs to be bought: room and ceilings are enough for the expected demand.") : node("ul", "", ...hints);
      this.answer.replaceChildren(told, node("p", "about", about(plan)));
    } catch (error) {
      this.answer.replaceChildren(node("p", "bad", error instanceof Error ? error.message : String(error)));
    }
  }
}
