// The tables below the cards, with the figures in detail.

import * as format from "./format";
import { node, say } from "./node";
import type { Experience, Fault, Flow, Snapshot } from "./shape";

const { text } = format;

/** A cell of a row: a text, optionally with a bar behind it, from 0 to 1. */
interface Cell {
  text: string;
  bar?: number;
  tone?: "bad" | "soft";
}

interface Table {
  title: string;
  /** The text shown if there are no rows. */
  empty: string;
  head: string[];
  rows: (now: Snapshot) => Cell[][];
  /** The table is hidden if this returns false. */
  exists?: (now: Snapshot) => boolean;
}

const KINDS: Record<string, string> = { full: "full", resumed: "resumed by ticket" };

const plain = (value: string): Cell => ({ text: value });
const shown = (value: format.Quantity): Cell => plain(text(value));
const words = (name: string): string => name.replace(/_total$/, "").replaceAll("_", " ");

/** Shares of a whole, the largest first. */
function parts(counts: Record<string, number>): Cell[][] {
  const entries = Object.entries(counts).sort(([, a], [, b]) => b - a);
  const all = entries.reduce((sum, [, value]) => sum + value, 0);
  return entries.map(([name, value]) => [
    plain(name),
    { text: text(format.ratio(value / all)), bar: value / all },
    shown(format.count(value)),
  ]);
}

function titles(now: Snapshot): Cell[][] {
  const most = Math.max(...now.titles.map((title) => title.gbps));
  return now.titles.map(({ title, gbps, bytes }) => [
    plain(title),
    { text: text(format.gbps(gbps)), bar: gbps / most },
    shown(format.bytes(bytes)),
  ]);
}

function disks(now: Snapshot): Cell[][] {
  return now.disks.map((disk) => [
    plain(disk.name),
    shown(format.megabytesPerSecond(disk.read_mb_per_second)),
    shown(format.megabytesPerSecond(disk.written_mb_per_second)),
    { text: text(format.ratio(disk.busy_ratio)), bar: disk.busy_ratio },
  ]);
}

function nics(now: Snapshot): Cell[][] {
  return now.nics.map((nic) => [
    plain(nic.name),
    shown(format.gbps(nic.sent_gbps)),
    shown(format.gbps(nic.received_gbps)),
    { text: text(format.perSecond(nic.faults_per_second)), ...(nic.faults_per_second > 0 && { tone: "bad" as const }) },
  ]);
}

const named = ({ counter, label }: Fault): string =>
  label == null ? words(counter) : `${words(label)} (${words(counter)})`;

function errors(now: Snapshot): Cell[][] {
  return now.errors.map((fault) => {
    const recent = fault.last_minute > 0 && fault.is_error;
    return [
      { text: named(fault), ...(!fault.is_error && { tone: "soft" as const }) },
      { text: text(format.count(fault.last_minute)), ...(recent && { tone: "bad" as const }) },
      shown(format.count(fault.total)),
    ];
  });
}

function experience(name: string, told: Experience): Cell[] {
  return [
    plain(name),
    shown(format.count(told.sessions)),
    shown(format.seconds(told.play_delay_seconds?.p50)),
    shown(format.ratio(told.rebuffer_ratio?.mean)),
    shown(format.seconds(told.time_to_quality_seconds?.p50)),
    shown(format.bitsOf(told.media_bytes_per_second?.p50)),
  ];
}

function experiences(now: Snapshot): Cell[][] {
  if (!now.qoe || now.qoe.all.sessions_total === 0) return [];
  const each = now.qoe.titles.map((told) => experience(told.title ?? "all others", told));
  return [experience("All", now.qoe.all), ...each];
}

function hotSet({ cache }: Snapshot): Cell[][] {
  const flow = (name: string, { mb_per_second, bytes }: Flow) => [plain(name), shown(format.megabytesPerSecond(mb_per_second)), shown(format.bytes(bytes))];
  const held = (name: string, bytes: number) => [plain(name), plain(""), shown(format.bytes(bytes))];
  const pinned = cache.hot_pinned_bytes > 0 ? [held("Pinned", cache.hot_pinned_bytes)] : [];
  return [
    flow("Read by viewers", cache.hot_read),
    flow("Filled from disk", cache.hot_filled),
    flow("Evicted", cache.hot_evicted),
    held(`In memory (at most ${text(format.bytes(cache.hot_bytes_max))})`, cache.hot_bytes),
    ...pinned,
  ];
}

const LOOKUPS: Record<string, string> = {
  hit: "Requests: in the cache",
  asked: "Requests: the origin was asked first",
  stale: "Requests: from the cache without the origin",
  passed: "Requests: passed on to the origin",
  refused: "Requests: refused",
};

const AHEAD: Record<string, string> = {
  fetched: "Fetched ahead of viewers",
  used: "Fetched ahead, then used",
  wasted: "Fetched ahead, and wasted",
};

function edge({ edge: now }: Snapshot): Cell[][] {
  if (!now) return [];
  const ratios = (name: string, lately: number | null, total: number | null) => [
    plain(name),
    { text: text(format.ratio(lately)), ...(lately != null && { bar: lately }) },
    shown(format.ratio(total)),
  ];
  const counted = (name: string, count: number) => [plain(name), plain(""), shown(format.count(count))];
  const origin: Cell = now.origin_is_down ? { text: "does not answer, or with errors", tone: "bad" } : plain("answers");
  return [
    [plain("Origin"), origin, plain("")],
    [plain("Requests that wait for it"), shown(format.count(now.waiting)), plain("")],
    ratios("Bytes from the cache", now.bytes_from_cache_ratio, now.bytes_from_cache_ratio_total),
    ratios("Requests from the cache", now.requests_from_cache_ratio, now.requests_from_cache_ratio_total),
    [plain("Fetched"), shown(format.megabytesPerSecond(now.fetched.mb_per_second)), shown(format.bytes(now.fetched.bytes))],
    ...Object.entries(now.lookups).map(([name, count]) => counted(LOOKUPS[name] ?? `Requests: ${words(name)}`, count)),
    ...Object.entries(now.ahead).map(([name, bytes]) => [
      plain(AHEAD[name] ?? `Ahead of viewers: ${words(name)}`),
      now.ahead_is_paused && name === "wasted" ? { text: "too much: paused", tone: "bad" as const } : plain(""),
      shown(format.bytes(bytes)),
    ]),
    ...Object.entries(now.purges).map(([name, count]) => counted(`Purges: ${words(name)}`, count)),
  ];
}

/** Where bytes went in a machine with several silos, the most first. */
function paths(now: Snapshot): Cell[][] {
  if (!now.paths) return [];
  const most = [...now.paths.paths].sort((a, b) => b.bytes - a.bytes);
  const all = most.reduce((sum, path) => sum + path.bytes, 0);
  const each = most.map(({ disk, worker, card, bytes, crossings }) => [
    plain(`${disk === "memory" ? disk : `disk ${disk}`} → worker ${worker} → card ${card}`),
    plain(String(crossings)),
    { text: text(format.ratio(bytes / all)), bar: bytes / all },
    shown(format.bytes(bytes)),
  ]);
  return [[plain("All"), plain(format.digits(now.paths.crossings_per_byte)), plain(""), shown(format.bytes(all))], ...each];
}

const TABLES: Table[] = [
  { title: "Busiest titles", empty: "Nothing sent yet.", head: ["Title", "Now", "Total"], rows: titles },
  {
    title: "Quality of experience",
    empty: "No player has reported yet (CMCD).",
    head: ["Title", "Sessions", "Startup", "Stalled", "Time to quality", "Bit rate"],
    rows: experiences,
    exists: (now) => now.qoe != null,
  },
  { title: "Errors", empty: "None since the start.", head: ["What", "Last minute", "Total"], rows: errors },
  {
    title: "Caching edge",
    empty: "",
    head: ["What", "Now", "Total"],
    rows: edge,
    exists: (now) => now.edge != null,
  },
  {
    title: "Hot set",
    empty: "",
    head: ["Bytes", "Now", "Total"],
    rows: hotSet,
    exists: (now) => now.cache.hot_bytes_max > 0,
  },
  { title: "Disks", empty: "None found.", head: ["Disk", "Read", "Written", "Busy"], rows: disks },
  { title: "Network", empty: "None found.", head: ["Interface", "Sent", "Received", "Dropped"], rows: nics },
  {
    title: "Between silos",
    empty: "Nothing sent yet.",
    head: ["From disk to network card, by silo", "Crossings per byte", "Part", "Total"],
    rows: paths,
    exists: (now) => now.paths != null,
  },
  {
    title: "TLS handshakes",
    empty: "None yet.",
    head: ["Version and suite", "Part", "Total"],
    rows: (now) => [
      ...parts(now.handshakes),
      ...parts(now.handshakes_by_kind).map(([kind, ...rest]) => [plain(KINDS[kind?.text ?? ""] ?? ""), ...rest]),
    ],
  },
  { title: "Encryption, by route", empty: "No connection yet.", head: ["Route", "Part", "Connections"], rows: (now) => parts(now.routes) },
  { title: "Answers", empty: "None yet.", head: ["Status", "Part", "Total"], rows: (now) => parts(now.responses) },
];

class Panel {
  readonly element: HTMLElement;
  private readonly body = node("tbody");
  private readonly empty = node("p", "empty");
  private readonly table: HTMLTableElement;

  constructor(private readonly of: Table) {
    const heads = of.head.map((label) => {
      const cell = node("th", "", label);
      cell.scope = "col";
      return cell;
    });
    const head = node("thead", "", node("tr", "", ...heads));
    this.table = node("table", `columns-${of.head.length}`, node("caption", "unseen", of.title), head, this.body);
    say(this.empty, of.empty);
    this.element = node("section", "panel", node("h2", "", of.title), this.empty, this.table);
  }

  tell(now: Snapshot): void {
    this.element.hidden = !(this.of.exists?.(now) ?? true);
    const rows = this.of.rows(now);
    this.empty.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((cells, index) => fill(this.body.rows[index] ?? this.body.insertRow(), cells));
  }
}

function fill(row: HTMLTableRowElement, cells: Cell[]): void {
  cells.forEach((cell, index) => {
    const made = row.cells[index] ?? row.appendChild(newCell(index));
    const label = made.firstElementChild as HTMLElement;
    say(label, cell.text);
    label.title = index === 0 ? cell.text : "";
    made.className = [cell.bar == null ? "" : "barred", cell.tone ?? ""].join(" ").trim();
    if (cell.bar != null) made.style.setProperty("--part", cell.bar.toFixed(3));
  });
}

function newCell(index: number): HTMLTableCellElement {
  const cell = document.createElement(index === 0 ? "th" : "td");
  if (index === 0) cell.scope = "row";
  cell.append(node("span"));
  return cell;
}

/** Each worker as a bar, so that a saturated core is seen at a glance. */
class Workers {
  readonly element: HTMLElement;
  private readonly list = node("ul", "workers");

  constructor() {
    this.element = node("section", "panel", node("h2", "", "Workers"), this.list);
  }

  tell({ cpu, buffers }: Snapshot): void {
    const used = (all: number, free: number): number => (all === 0 ? 0 : (all - free) / all);
    const bars: [string, number][] = [
      ...cpu.workers.map((part, index): [string, number] => [`Worker ${index}`, part]),
      ["Read buffers", used(buffers.read, buffers.read_free)],
      ["Send buffers", used(buffers.send, buffers.send_free)],
    ];
    while (this.list.children.length > bars.length) this.list.lastElementChild?.remove();
    bars.forEach(([name, part], index) => this.bar(index, name, part));
  }

  private bar(index: number, name: string, part: number): void {
    const made = this.list.children[index] ?? this.list.appendChild(node("li", "", node("span"), node("span")));
    say(made.children[0] as Element, name);
    say(made.children[1] as Element, text(format.ratio(part)));
    (made as HTMLElement).style.setProperty("--part", part.toFixed(3));
  }
}

export class Panels {
  readonly element = node("div", "panels");
  private readonly panels = [new Workers(), ...TABLES.map((table) => new Panel(table))];

  constructor() {
    this.element.append(...this.panels.map((panel) => panel.element));
  }

  tell(now: Snapshot): void {
    for (const panel of this.panels) panel.tell(now);
  }
}
