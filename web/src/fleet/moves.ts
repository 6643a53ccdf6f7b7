// Viewers who were sent elsewhere in the last minute.

import { count, text } from "../dashboard/format";
import { node, say } from "../dashboard/node";
import type { Fleet } from "./shape";

export class Moves {
  readonly element: HTMLElement;
  private readonly body = node("tbody");
  private readonly empty = node("p", "empty", "No viewer was moved in the last minute.");
  private readonly table: HTMLTableElement;

  constructor() {
    const heads = ["From", "To", "Viewers", "Why"].map((label) => {
      const cell = node("th", "", label);
      cell.scope = "col";
      return cell;
    });
    const caption = node("caption", "unseen", "Viewers moving");
    this.table = node("table", "moves", caption, node("thead", "", node("tr", "", ...heads)), this.body);
    this.element = node("section", "panel", node("h2", "", "Viewers moving"), this.empty, this.table);
  }

  tell({ moves }: Fleet): void {
    this.empty.hidden = moves.length > 0;
    this.table.hidden = moves.length === 0;
    const most = Math.max(...moves.map(({ viewers }) => viewers));
    while (this.body.rows.length > moves.length) this.body.deleteRow(-1);
    moves.forEach(({ from, to, viewers, why }, index) => {
      const row = this.body.rows[index] ?? this.body.insertRow();
      while (row.cells.length < 4) row.append(node(row.cells.length === 0 ? "th" : "td", "", node("span")));
      [from, to, text(count(viewers)), why].forEach((words, cell) => say(row.cells[cell]?.firstElementChild as Element, words));
      const bar = row.cells[2] as HTMLElement;
      bar.className = "barred";
      bar.style.setProperty("--part", (viewers / most).toFixed(3));
    });
  }
}
