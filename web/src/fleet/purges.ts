// The latest purges of the fleet's edges, and how far nodes are with them.

import { node } from "../dashboard/node";
import { get } from "./api";
import type { Purge } from "./shape";

const HEADS = ["Number", "Ordered", "By", "What", "Confirmed"];

function row({ number, ordered_unix_seconds, by, kind, soft, what, reason, counts }: Purge): HTMLElement {
  const { done, refused, waiting, too_old } = counts;
  const edges = done + refused + waiting + too_old;
  const confirmed = edges === 0 ? "no node has an edge" : `${done} of ${edges} edges${refused > 0 ? `, ${refused} refused` : ""}`;
  const words = `${soft ? "soft " : ""}${kind}: ${what}${reason === "" ? "" : ` (“${reason}”)`}`;
  const ordered = new Date(ordered_unix_seconds * 1000).toLocaleString("en");
  return node("tr", "", ...[`${number}`, ordered, by, words, confirmed].map((text) => node("td", "", text)));
}

export class Purges {
  readonly element: HTMLElement;
  private readonly answer = node("div", "scroll");

  constructor() {
    this.answer.setAttribute("aria-live", "polite");
    const button = node("button", "", "Show the latest purges");
    button.addEventListener("click", () => void this.show());
    this.element = node("section", "panel", node("h2", "", "Purges of edges"), button, this.answer);
  }

  private async show(): Promise<void> {
    try {
      const { purges } = await get<{ purges: Purge[] }>("purges", { limit: "20" });
      if (purges.length === 0) {
        this.answer.replaceChildren(node("p", "empty", "None was ordered. To order one: fullbore control purge URL"));
        return;
      }
      const heads = HEADS.map((label) => {
        const cell = node("th", "", label);
        cell.scope = "col";
        return cell;
      });
      const caption = node("caption", "unseen", "The latest purges");
      this.answer.replaceChildren(node("table", "purges", caption, node("thead", "", node("tr", "", ...heads)), node("tbody", "", ...purges.map(row))));
    } catch (error) {
      this.answer.replaceChildren(node("p", "bad", error instanceof Error ? error.message : String(error)));
    }
  }
}
