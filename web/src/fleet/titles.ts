// A title, and where it is.

import { bytes, duration, text } from "../dashboard/format";
import { node } from "../dashboard/node";
import { get } from "./api";
import type { Listed, Where } from "./shape";

/** How many titles are listed; the search finds the others. */
const LISTED_MAX = 20;

/** How long after the last letter the search begins. */
const TYPED_MS = 250;

const RECEIPTS: Record<string, string> = {
  removed: "removed, confirmed",
  absent: "never had it",
  failed: "could not remove it: see the node's log",
  waiting: "has not confirmed the removal",
};

/** How much each region watches a title in a day, on average of the last days. */
function watchedADay(watched: Where["watched"]): string {
  if (watched.length === 0) return "No node has reported any viewers of it.";
  const told = watched.map(({ region, starts_a_day, bytes_a_day }) => `${region} ${text(bytes(bytes_a_day))} in ${starts_a_day} starts`);
  return `Watched a day: ${told.join(", ")}`;
}

/** The plan's reasons for a copy. */
const WHY: Record<string, string> = {
  everything: "",
  pin: "pinned here",
  floor: "one of the copies that every title has",
  demand: "watched here",
  spare: "no other title needs its space",
};

/** Whether a node has a title, what will change, and why. */
function told({ holds, why, moves, receipt }: Where["nodes"][number]): string {
  if (receipt !== null) return RECEIPTS[receipt] ?? receipt;
  if (moves === "comes") return `lacks it; it will be copied here: ${WHY[why ?? ""] ?? why}`;
  if (moves === "goes") return "has it; it will be removed here, other nodes keep it";
  const reason = why === null ? "" : (WHY[why] ?? why);
  if (!holds) return "lacks it";
  return reason === "" ? "has it" : `has it: ${reason}`;
}

/** Whether an operator has to look: a node lacks a title that it should have, or still has a withdrawn one. */
function isBad({ holds, why, receipt }: Where["nodes"][number]): boolean {
  return receipt === null ? why !== null && !holds : holds;
}

export class Titles {
  readonly element: HTMLElement;
  private readonly input = node("input");
  private readonly list = node("ul", "listed");
  private readonly where = node("div", "where");
  private readonly words = node("p", "empty");
  private wish = 0;

  constructor(private readonly explain: (title: string) => void) {
    Object.assign(this.input, { type: "search", placeholder: "Part of its path" });
    this.input.addEventListener("input", () => {
      window.clearTimeout(this.wish);
      this.wish = window.setTimeout(() => void this.search(), TYPED_MS);
    });
    this.words.setAttribute("role", "status");
    const label = node("label", "", "Title ", this.input);
    this.element = node("section", "panel", node("h2", "", "Where a title is"), label, this.words, this.list, this.where);
  }

  async search(): Promise<void> {
    const wanted = this.input.value;
    try {
      const { total, titles } = await get<{ total: number; titles: Listed[] }>("titles", { search: wanted, limit: String(LISTED_MAX) });
      if (wanted !== this.input.value) return;
      this.words.textContent = total > titles.length ? `${total} titles; the first ${titles.length}:` : total === 0 ? "No title has this text in its path." : "";
      this.list.replaceChildren(...titles.map((title) => this.entry(title)));
    } catch (error) {
      this.words.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  private entry(title: Listed): HTMLElement {
    const button = node("button", "link", title.title);
    button.addEventListener("click", () => void this.show(title));
    const state = title.state === "withdrawn" ? `withdrawn; still on ${title.holders}` : `on ${title.holders} of ${title.wanted} nodes`;
    const isWhole = title.state === "published" && title.holders >= title.wanted;
    return node("li", "", button, node("span", isWhole ? "soft" : "bad", state));
  }

  private async show({ title, bytes: size, duration_seconds }: Listed): Promise<void> {
    try {
      const { nodes, state, watched } = await get<Where>("where", { title });
      const rows = nodes.map((at) => {
        const head = node("th", "", at.node);
        head.scope = "row";
        return node("tr", "", head, node("td", "", at.site), node("td", "", at.state), node("td", isBad(at) ? "bad" : "", told(at)));
      });
      const why = node("button", "", "Who gets it from where?");
      why.addEventListener("click", () => this.explain(title));
      const facts = `${state}, ${text(bytes(size))}, ${duration(duration_seconds)}`;
      const table = node("table", "where-table", node("caption", "unseen", `Nodes with ${title}`), node("tbody", "", ...rows));
      this.where.replaceChildren(node("h3", "", title), node("p", "about", facts), node("p", "about", watchedADay(watched)), table, why);
    } catch (error) {
      this.where.replaceChildren(node("p", "bad", error instanceof Error ? error.message : String(error)));
    }
  }
}
