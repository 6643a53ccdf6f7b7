// What nodes are copying and when they will have everything, as they report it.

import { bytes, duration, text } from "../dashboard/format";
import type { Fleet, Node } from "./shape";

/** The time until something is done. */
function until(unixSeconds: number | null, nowMs: number): string {
  return unixSeconds === null ? "no end in sight" : `done in ${duration(Math.max(0, unixSeconds - nowMs / 1000))}`;
}

/** What a node is copying now; null if it has everything. */
export function brings({ fill }: Node, nowMs: number): string | null {
  if (fill == null) return null;
  const left = `${text(bytes(fill.missing_bytes))} left, ${until(fill.done_unix_seconds, nowMs)}`;
  if (fill.title === null) return `${fill.is_open ? "waits for its turn" : "waits for its window"}, ${left}`;
  const share = fill.title_bytes === 0 ? 0 : Math.floor((100 * fill.done_bytes) / fill.title_bytes);
  return `copies ${fill.title} (${share}%), ${left}`;
}

/** For all nodes: bytes copied in a second, and a text that compares them with the bytes sent and says when the last node is done. */
export function filling({ nodes, unix_millis }: Fleet): { bytesPerSecond: number; more: string } {
  const fills = nodes.filter(({ state }) => state !== "revoked" && state !== "lost").flatMap(({ fill }) => (fill == null ? [] : [fill]));
  if (fills.length === 0) return { bytesPerSecond: 0, more: "every node has everything" };
  const brought = fills.reduce((sum, { bytes_per_second }) => sum + bytes_per_second, 0);
  const left = fills.reduce((sum, { missing_bytes }) => sum + missing_bytes, 0);
  const sent = nodes.reduce((sum, { bits_per_second }) => sum + bits_per_second, 0);
  const ends = fills.map(({ done_unix_seconds }) => done_unix_seconds);
  const end = ends.some((at) => at === null) ? null : Math.max(...ends.map((at) => at ?? 0));
  const beside = sent === 0 ? "" : `${((100 * brought * 8) / sent).toFixed(1)}% of the bytes sent; `;
  const many = `${fills.length} node${fills.length === 1 ? "" : "s"}`;
  return { bytesPerSecond: brought, more: `${beside}${text(bytes(left))} left on ${many}, ${until(end, unix_millis)}` };
}
