// The figures at the top.

import { bitsOf, count, digits, gbps, ratio, text } from "../dashboard/format";
import { node, say } from "../dashboard/node";
import { filling } from "./fill";
import type { Fleet } from "./shape";

class Total {
  private readonly number = node("span", "number");
  private readonly unit = node("span", "unit");
  private readonly more = node("p", "more");
  readonly element: HTMLElement;

  constructor(title: string) {
    this.element = node("section", "card", node("h2", "", title), node("p", "figure", this.number, this.unit), this.more);
  }

  tell(number: string, unit: string, more: string): void {
    say(this.number, number);
    say(this.unit, unit);
    say(this.more, more);
    this.more.title = more;
  }
}

export class Totals {
  readonly element = node("div", "cards");
  private readonly nodes = new Total("Nodes serving");
  private readonly sent = new Total("Sent");
  private readonly viewers = new Total("Connections");
  private readonly choices = new Total("First choices");
  private readonly fill = new Total("Copied");
  private before: Fleet | undefined;

  constructor() {
    this.element.append(...[this.nodes, this.sent, this.viewers, this.choices, this.fill].map(({ element }) => element));
  }

  tell(now: Fleet): void {
    const serving = now.nodes.filter(({ state }) => state === "serving");
    const other = now.nodes.length - serving.length;
    const { titles } = now;
    const incomplete = titles.incomplete === 0 ? "all of them complete" : `${titles.incomplete} not everywhere yet`;
    this.nodes.tell(`${serving.length}`, `of ${now.nodes.length}`, `${titles.published} titles, ${incomplete}`);
    const sum = (of: (node: Fleet["nodes"][number]) => number, among = now.nodes): number => among.reduce((all, node) => all + of(node), 0);
    const sent = gbps(sum((node) => node.bits_per_second) / 1e9);
    const room = gbps(sum((node) => node.ceiling_bits_per_second, serving) / 1e9);
    this.sent.tell(sent.number, sent.unit, `of ${text(room)} that serving nodes may send`);
    const sites = new Set(serving.map(({ site }) => site)).size;
    this.viewers.tell(text(count(sum((node) => node.connections))), "", `at ${sites} site${sites === 1 ? "" : "s"}${other > 0 ? `; ${other} not serving` : ""}`);
    this.tellChoices(now);
    const { bytesPerSecond, more } = filling(now);
    const brought = bitsOf(bytesPerSecond);
    this.fill.tell(brought.number, brought.unit, more);
  }

  /** Shows the decisions since the last event, or since the start if there was no event before. */
  private tellChoices(now: Fleet): void {
    const { decisions: all } = now;
    const first = ratio(all.total === 0 ? null : all.first_choice / all.total);
    const before = this.before;
    const seconds = before === undefined ? 0 : (now.unix_millis - before.unix_millis) / 1000;
    const rate = before === undefined || seconds <= 0 ? "" : `${digits(Math.max(0, all.total - before.decisions.total) / seconds)} decisions/s; `;
    this.before = now;
    this.choices.tell(first.number, first.unit, `${rate}C ${text(count(all.content))}, H ${text(count(all.health))}`);
  }
}
