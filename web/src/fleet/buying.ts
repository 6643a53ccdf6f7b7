// What to buy next: which site's room or ceiling binds, by a plan that is made when somebody asks. Nothing is moved.

import { bytes, text } from "../dashboard/format";
import { node } from "../dashboard/node";
import { get } from "./api";
import type { Planned } from "./shape";

/** What nodes follow now, and what a plan of now would move. */
function about({ planned_unix_seconds: planned, moved_bytes: moved }: Planned): string {
  const now = planned === null ? "Every node holds everything." : `Nodes follow the plan of ${new Date(planned * 1000).toLocaleString("en")}.`;
  return `${now} A plan made now would bring ${text(bytes(moved))}: fullbore control plan --apply`;
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
      const told = hints.length === 0 ? node("p", "", "Nothing binds: room and ceilings are enough for what is expected.") : node("ul", "", ...hints);
      this.answer.replaceChildren(told, node("p", "about", about(plan)));
    } catch (error) {
      this.answer.replaceChildren(node("p", "bad", error instanceof Error ? error.message : String(error)));
    }
  }
}
