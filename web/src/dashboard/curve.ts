// A card: a figure, a note on it, and its last five minutes as a curve.

import uPlot from "uplot";
import { type Quantity, text } from "./format";
import { node, say } from "./node";
import type { Column } from "./shape";

/** Seconds that a curve shows. */
export const SPAN_SECONDS = 300;

export interface Line {
  column: Column;
  label: string;
  /** Drawn faintly under the others. */
  faint?: boolean;
}

export interface Curve {
  title: string;
  lines: Line[];
  format: (value: number | null) => Quantity;
  /** The least height of the scale, so that noise around zero is not drawn as mountains. */
  least: number;
  /** The greatest height of the scale, for bounded values. */
  most?: number;
}

export type Columns = Record<Column, (number | null)[]>;

/** Lower on a phone, where cards are stacked. */
const height = (): number => (matchMedia("(max-width: 32rem)").matches ? 60 : 92);

const color = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Card {
  readonly element: HTMLElement;
  private readonly number = node("span", "number");
  private readonly unit = node("span", "unit");
  private readonly more = node("p", "more");
  private readonly plot = node("div", "plot");
  private readonly reading = node("p", "reading");
  private chart: uPlot | undefined;
  private data: uPlot.AlignedData = [[]];

  constructor(
    private readonly curve: Curve,
    private readonly sync: string,
  ) {
    const title = node("h2", "", curve.title);
    const figure = node("p", "figure", this.number, this.unit);
    this.plot.setAttribute("role", "img");
    this.reading.setAttribute("aria-hidden", "true");
    this.element = node("section", "card", title, figure, this.more, this.plot, this.reading);
    new ResizeObserver(() => this.fit()).observe(this.plot);
  }

  /** Shows the present value. */
  tell(now: Quantity, more: string): void {
    say(this.number, now.number);
    say(this.unit, now.unit);
    say(this.more, more);
  }

  /** Draws the curve. */
  draw(columns: Columns): void {
    const { lines, title, format } = this.curve;
    this.data = [columns.unix_seconds, ...lines.map((line) => columns[line.column])] as uPlot.AlignedData;
    if (!this.chart) this.build();
    this.chart?.setData(this.data);
    const first = (columns[(lines[0] as Line).column] ?? []).filter((value) => value != null);
    const most = first.length ? format(Math.max(...first)) : undefined;
    const told = most ? `${title}, the last five minutes; at most ${text(most)}` : `${title}: nothing yet`;
    this.plot.setAttribute("aria-label", told);
  }

  /** Redraws after the colours have changed. */
  restyle(): void {
    this.chart?.destroy();
    this.chart = undefined;
    this.build();
  }

  private fit(): void {
    const width = this.plot.clientWidth;
    if (this.chart && width > 0 && width !== this.chart.width) this.chart.setSize({ width, height: height() });
  }

  private build(): void {
    const width = this.plot.clientWidth;
    if (width === 0) return;
    this.chart = new uPlot(this.options(width), this.data, this.plot);
  }

  private options(width: number): uPlot.Options {
    const { least, most, lines, format } = this.curve;
    const soft = color("--text-soft");
    const grid = { stroke: color("--line"), width: 1 };
    const font = `10px ${color("--font")}`;
    return {
      width,
      height: height(),
      legend: { show: false },
      padding: [6, 14, 0, 0],
      cursor: { sync: { key: this.sync }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: {
        x: { time: true, range: (_, __, end) => [end - SPAN_SECONDS, end] },
        y: { range: (_, __, end) => [0, Math.min(Math.max(least, (end ?? 0) * 1.1), most ?? Infinity)] },
      },
      axes: [
        {
          stroke: soft, font, size: 18, gap: 2, grid: { show: false }, ticks: { show: false },
          splits: (_, __, ___, end) => [end - 240, end - 120, end],
          values: () => ["−4 min", "−2 min", "now"],
        },
        {
          stroke: soft, font, size: 58, gap: 4, grid, ticks: { show: false },
          splits: (_, __, ___, end) => [0, end / 2, end],
          values: (_, splits) => splits.map((value) => (value === 0 ? "0" : text(format(value)))),
        },
      ],
      series: [{}, ...lines.map((line, index) => this.series(line, index))],
      hooks: { setCursor: [(chart) => this.read(chart)] },
    };
  }

  private series(line: Line, index: number): uPlot.Series {
    const stroke = color(line.faint ? "--curve-faint" : "--curve");
    const fill = index === 0 ? color("--curve-fill") : undefined;
    return { label: line.label, stroke, width: line.faint ? 1 : 1.75, points: { show: false }, ...(fill && { fill }) };
  }

  /** Shows the value under the pointer, on this card or another. */
  private read(chart: uPlot): void {
    const index = chart.cursor.idx;
    const at = index == null ? undefined : chart.data[0][index];
    if (index == null || at == null) {
      say(this.reading, "");
      return;
    }
    const told = this.curve.lines.map((line, series) => {
      const value = text(this.curve.format(chart.data[series + 1]?.[index] ?? null));
      return line.label ? `${line.label} ${value}` : value;
    });
    say(this.reading, `${new Date(at * 1000).toLocaleTimeString()}  ${told.join(", ")}`);
  }
}
