// What each node carried in the last minutes while this page was open. Operators watch it to see a drained node's viewers leave.

import { node, say } from "../dashboard/node";
import type { Fleet } from "./shape";

/** How many points are kept: five minutes, a point each second. */
const POINTS_MAX = 300;

const WIDTH = 120;
const HEIGHT = 22;
const SVG = "http://www.w3.org/2000/svg";

export class History {
  private readonly connections = new Map<string, number[]>();

  push({ nodes }: Fleet): void {
    for (const { name, connections } of nodes) {
      const points = this.connections.get(name) ?? [];
      points.push(connections);
      if (points.length > POINTS_MAX) points.shift();
      this.connections.set(name, points);
    }
    const names = new Set(nodes.map(({ name }) => name));
    for (const name of this.connections.keys()) if (!names.has(name)) this.connections.delete(name);
  }

  of(name: string): readonly number[] {
    return this.connections.get(name) ?? [];
  }

  /** Whether a node has lost half of its viewers within the time that is shown. */
  isFalling(name: string): boolean {
    const points = this.of(name);
    const last = points[points.length - 1] ?? 0;
    return points.length > 1 && last * 2 < Math.max(...points);
  }
}

/** A small curve. */
export class Spark {
  readonly element = node("span", "spark");
  private readonly line = document.createElementNS(SVG, "polyline");
  private readonly words = node("span", "unseen");

  constructor() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    svg.append(this.line);
    this.element.append(svg, this.words);
  }

  draw(points: readonly number[]): void {
    const most = Math.max(1, ...points);
    const step = WIDTH / (POINTS_MAX - 1);
    const from = WIDTH - step * (points.length - 1);
    const at = (value: number, index: number): string => `${(from + index * step).toFixed(1)},${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`;
    this.line.setAttribute("points", points.map(at).join(" "));
    say(this.words, `, at most ${Math.max(0, ...points)} in the last minutes`);
  }
}
