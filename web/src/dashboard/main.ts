// The dashboard: live figures of a server.

import "uplot/dist/uPlot.min.css";
import "../base.css";
import "./dashboard.css";
import { Cards } from "./cards";
import { type Columns, SPAN_SECONDS } from "./curve";
import { Feed } from "./feed";
import { bytes, digits, duration, text } from "./format";
import { node, say } from "./node";
import { Panels } from "./panels";
import type { Column, Snapshot } from "./shape";

const state = node("p", "state", "Connecting");
state.setAttribute("role", "status");
const about = node("p", "about");
const cards = new Cards();
const panels = new Panels();
const body = node("main", "", cards.element, panels.element);
const links = node("nav", "", link("status.json"), link("metrics"));
links.setAttribute("aria-label", "The same figures for programs");
const brand = node("h1", "", "Fullbore", node("span", "unseen", ": dashboard"));
document.getElementById("dashboard")?.replaceChildren(node("header", "", brand, state, about, links), body);

let columns: Columns | undefined;

function link(name: string): HTMLAnchorElement {
  const made = node("a", "", name);
  made.href = `../${name}`;
  return made;
}

/** Adds a second to the curves, and drops the oldest. */
function push({ point }: Snapshot): void {
  if (!columns) return;
  const times = columns.unix_seconds;
  const isNewer = (point.unix_seconds ?? 0) > (times[times.length - 1] ?? 0);
  if (!isNewer) return;
  for (const name of Object.keys(columns) as Column[]) columns[name].push(point[name]);
  while ((times[0] ?? 0) < (point.unix_seconds ?? 0) - SPAN_SECONDS) {
    for (const column of Object.values(columns)) column.shift();
  }
}

function tell(now: Snapshot): void {
  push(now);
  cards.tell(now);
  panels.tell(now);
  if (columns && !document.hidden) cards.draw(columns);
  say(
    about,
    `${now.fullbore}, route ${now.route}, disk ${now.disk}, up ${duration(now.uptime_seconds)}, ${text(bytes(now.rss_bytes))} of memory`,
  );
  document.title = `${digits(now.sent_gbps)} Gb/s – Fullbore`;
  if (now.draining) show("draining", "Draining: no new viewers are accepted");
  else show("live", "Live");
}

function show(kind: string, words: string): void {
  state.dataset["kind"] = kind;
  say(state, words);
}

new Feed(new URL("../events", document.baseURI), {
  history: (history) => {
    columns = history.columns;
  },
  snapshot: tell,
  stale: (forMs) => {
    document.body.classList.toggle("stale", forMs != null);
    // Updated in steps of five seconds, so that screen readers do not announce it every second.
    const steps = forMs == null ? 0 : Math.max(1, Math.floor(forMs / 5000));
    if (forMs != null) show("stale", `No data for ${steps === 1 && forMs < 5000 ? 3 : steps * 5} s; reconnecting`);
  },
});

matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => cards.restyle());
