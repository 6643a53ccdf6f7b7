// What is wrong in the fleet, since when, and what to do about it; and what was wrong.

import { duration } from "../dashboard/format";
import { node, say } from "../dashboard/node";
import { get } from "./api";
import type { EndedIssue, Fleet, Issue } from "./shape";
import { snooze, wake } from "./snooze";

/** How many ended issues the history shows. */
const ENDED = 100;

class Entry {
  readonly element = node("li");
  private readonly state = node("span", "pill");
  private readonly text = node("strong");
  private readonly since = node("small");
  private readonly advice = node("p", "about");
  private readonly snoozed = node("p", "about");
  private readonly button = node("button");
  private now: Issue | undefined;

  constructor(warn: (error: unknown) => void) {
    this.element.append(node("div", "", this.state, this.text, this.since), this.button, this.advice, this.snoozed);
    this.button.addEventListener("click", () => {
      if (this.now === undefined) return;
      if (this.now.snoozed === null) snooze(this.now);
      else wake(this.now).catch(warn);
    });
  }

  tell(now: Issue, nowMs: number): void {
    this.now = now;
    const state = now.snoozed === null ? now.severity : "snoozed";
    this.element.dataset["state"] = state;
    say(this.state, state);
    say(this.text, now.text);
    say(this.since, `for ${duration(Math.max(0, (nowMs - now.since_unix_millis) / 1000))}`);
    say(this.advice, now.advice);
    this.snoozed.hidden = now.snoozed === null;
    if (now.snoozed !== null) {
      const left = duration(Math.max(0, now.snoozed.until_unix_seconds - nowMs / 1000));
      say(this.snoozed, `Snoozed by ${now.snoozed.by} for ${left} more: ${now.snoozed.reason}`);
    }
    say(this.button, now.snoozed === null ? "Snooze" : "Wake");
    this.button.setAttribute("aria-label", `${now.snoozed === null ? "Snooze" : "Wake"}: ${now.text}`);
  }
}

/** A row of the history. */
function past(of: EndedIssue): HTMLElement {
  const lasted = duration(Math.max(0, (of.ended_unix_millis - of.since_unix_millis) / 1000));
  const ended = new Date(of.ended_unix_millis).toLocaleString("en");
  return node("tr", "", node("td", "", ended), node("td", "", lasted), node("td", "", of.severity), node("td", "", of.text));
}

export class Issues {
  readonly element: HTMLElement;
  private readonly counts = node("p", "about");
  private readonly none = node("p", "empty", "Nothing is wrong.");
  private readonly list = node("ul", "issues");
  private readonly more = node("p", "about");
  private readonly history = node("div", "scroll");
  private readonly entries = new Map<string, Entry>();

  constructor(private readonly warn: (error: unknown) => void) {
    this.counts.setAttribute("role", "status");
    const button = node("button", "", "Show what was wrong");
    button.addEventListener("click", () => void this.showHistory());
    const head = node("div", "site-head", node("h2", "", "Issues"), this.counts);
    this.element = node("section", "panel", head, this.none, this.list, this.more, button, this.history);
  }

  tell({ issues, issue_counts: counts, unix_millis: nowMs }: Fleet): void {
    // A gateway of an older release has no list.
    this.element.hidden = issues === undefined || counts === undefined;
    if (issues === undefined || counts === undefined) return;
    const { critical, warning, snoozed } = counts;
    const parts = [[critical, "critical"], [warning, warning === 1 ? "warning" : "warnings"], [snoozed, "snoozed"]] as const;
    say(this.counts, parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`).join(", "));
    const total = critical + warning + snoozed;
    this.none.hidden = total > 0;
    this.more.hidden = total <= issues.length;
    say(this.more, `${total - issues.length} more: fullbore control issues`);
    const open = new Set(issues.map(({ id }) => id));
    for (const [id, entry] of this.entries) {
      if (open.has(id)) continue;
      entry.element.remove();
      this.entries.delete(id);
    }
    issues.forEach((issue, index) => {
      const entry = this.entries.get(issue.id) ?? new Entry(this.warn);
      this.entries.set(issue.id, entry);
      // Moved only if it is not there yet, so that a button keeps its focus.
      if (this.list.children[index] !== entry.element) this.list.insertBefore(entry.element, this.list.children[index] ?? null);
      entry.tell(issue, nowMs);
    });
  }

  private async showHistory(): Promise<void> {
    try {
      const { ended } = await get<{ ended: EndedIssue[] }>("issues", { ended: `${ENDED}` });
      if (ended.length === 0) {
        this.history.replaceChildren(node("p", "empty", "No issue has ended since this gateway began its list."));
        return;
      }
      const heads = ["Ended", "Lasted", "Severity", "What"].map((label) => {
        const cell = node("th", "", label);
        cell.scope = "col";
        return cell;
      });
      const caption = node("caption", "unseen", "Issues that have ended");
      this.history.replaceChildren(node("table", "ended", caption, node("thead", "", node("tr", "", ...heads)), node("tbody", "", ...ended.map(past))));
    } catch (error) {
      this.warn(error);
    }
  }
}
