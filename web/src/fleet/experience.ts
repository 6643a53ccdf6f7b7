// What viewers experience, by their players' reports: the worst titles, sites or networks, each with how sure that is.

import { node, say } from "../dashboard/node";
import { get } from "./api";
import type { Experience, ExperienceRow, Interval, Share } from "./shape";

/** How many groups are shown. */
const ROWS = 8;

/** Nodes report once a minute. */
const EVERY_MS = 60_000;

const OVER = [["now", "the last quarter of an hour"], ["day", "24 hours"], ["week", "7 days"]] as const;
const BY = [["title", "titles"], ["site", "sites"], ["network", "networks"]] as const;

const percent = (of: number): string => `${(of * 100).toFixed(1)}%`;

function shown(value: string, low: string, high: string): HTMLElement {
  return node("td", "", value, " ", node("small", "", `${low} to ${high}`));
}

function share({ share: value, low, high }: Share): HTMLElement {
  return value === null || low === null || high === null ? node("td", "", "–") : shown(percent(value), percent(low), percent(high));
}

function quantile(of: Interval | undefined, digits: number): HTMLElement {
  if (of === undefined) return node("td", "", "–");
  return shown(of.value.toFixed(digits), of.low.toFixed(digits), of.high.toFixed(digits));
}

function rowOf(name: string, row: ExperienceRow): HTMLElement {
  const head = node("th", "", name);
  head.scope = "row";
  const delay = quantile(row.play_delay_seconds?.median, 2);
  const rate = quantile(row.megabits_per_second?.median, 1);
  return node("tr", "", head, node("td", "", `${row.sessions}`), share(row.troubled), share(row.not_started), share(row.stalled), delay, rate);
}

function choice(label: string, options: readonly (readonly [string, string])[], changed: () => void): HTMLSelectElement {
  const select = node("select");
  select.setAttribute("aria-label", label);
  for (const [value, words] of options) select.append(new Option(words, value));
  select.addEventListener("change", changed);
  return select;
}

export class Viewing {
  readonly element: HTMLElement;
  private readonly over = choice("Time", OVER, () => void this.ask());
  private readonly by = choice("What", BY, () => void this.ask());
  private readonly table = node("div", "scroll");
  private readonly about = node("p", "about");
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    this.about.setAttribute("role", "status");
    const choices = node("p", "", "The worst ", this.by, " over ", this.over);
    this.element = node("section", "panel", node("h2", "", "What viewers see"), choices, this.table, this.about);
  }

  /** Asks now and once a minute. */
  begin(): void {
    void this.ask();
    this.timer ??= setInterval(() => void this.ask(), EVERY_MS);
  }

  private async ask(): Promise<void> {
    try {
      this.tell(await get<Experience>("qoe", { over: this.over.value, by: this.by.value, limit: `${ROWS}` }));
    } catch (error) {
      say(this.about, error instanceof Error ? error.message : String(error));
    }
  }

  private tell({ by, total, rows, row_count: count }: Experience): void {
    // The choice may have changed meanwhile.
    if (by !== this.by.value) return;
    if (total.sessions === 0) {
      this.table.replaceChildren();
      say(this.about, "No sessions. One counts six to sixteen minutes after it began, if its player reports (CMCD), and a group has at least ten.");
      return;
    }
    const heads = [by.charAt(0).toUpperCase() + by.slice(1), "Sessions", "Trouble", "Not started", "Stalled", "Play delay, s", "Mbit/s"].map((label) => {
      const cell = node("th", "", label);
      cell.scope = "col";
      return cell;
    });
    const body = node("tbody", "", rowOf("all", total), ...rows.map((row) => rowOf(row.name ?? "others", row)));
    const caption = node("caption", "unseen", "What viewers see, the worst first");
    this.table.replaceChildren(node("table", "ended", caption, node("thead", "", node("tr", "", ...heads)), body));
    const more = count > rows.length ? ` ${count - rows.length} more: fullbore control qoe --by ${by}` : "";
    say(this.about, `The first five minutes of each session. The true figure is within the small range in 95 of 100 cases.${more}`);
  }
}
