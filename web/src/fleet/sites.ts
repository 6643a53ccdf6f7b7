// The nodes, by site: state, load compared with the ceiling, viewers and how they leave, and missing titles.

import { bytes, count, digits, duration, text } from "../dashboard/format";
import { node, say } from "../dashboard/node";
import { brings } from "./fill";
import type { History } from "./history";
import { Spark } from "./history";
import type { Fleet, Node } from "./shape";

const HEAD = ["Node", "State", "Load and ceiling", "Viewers' connections", "Missing", ""];

/** How long a silence is before it is shown. A heartbeat comes every five seconds, and after fifteen the node is lost. */
const QUIET_MS = 7500;

/** How far off a clock is before it is shown. */
const CLOCK_OFF_MS = 1000;

const WORDS: Record<string, string> = {
  at_ceiling: "at its ceiling",
  disk_errors: "disk errors",
  pressure: "out of breath (PSI)",
  accept_paused: "accepts no connections",
  viewers_stall: "viewers report stalls",
  hot: "too hot",
  server_silent: "its server does not answer",
};

export interface Actions {
  drain: (node: Node) => void;
  undrain: (node: Node) => void;
}

/** Load divided by the ceiling. */
function part({ bits_per_second: now, ceiling_bits_per_second: most }: Node): number {
  return most === 0 ? 0 : now / most;
}

function rate(bitsPerSecond: number): string {
  if (bitsPerSecond >= 1e9) return `${digits(bitsPerSecond / 1e9)} Gb/s`;
  return `${digits(bitsPerSecond / 1e6)} Mb/s`;
}

/** Remarks on a node in addition to its figures. */
function remarks(of: Node, nowMs: number): string[] {
  const said = of.not_me.map((reason) => WORDS[reason] ?? reason);
  if (of.reason !== null) said.push(`“${of.reason}”`);
  if (of.returns_unix_seconds !== null) said.push(`returns in ${duration(Math.max(0, of.returns_unix_seconds - nowMs / 1000))}`);
  if (of.silent_millis === null) said.push("no heartbeat since this gateway started");
  else if (of.silent_millis > QUIET_MS) said.push(`silent for ${duration(of.silent_millis / 1000)}`);
  if (of.clock_off_millis !== null && Math.abs(of.clock_off_millis) > CLOCK_OFF_MS) {
    said.push(`its clock is ${digits(Math.abs(of.clock_off_millis) / 1000)} s ${of.clock_off_millis > 0 ? "ahead" : "behind"}`);
  }
  if (of.served_at !== null) said.push(`serves ${of.served_at.scheme} at port ${of.served_at.port}, but viewers are not sent there`);
  if (of.weight_note != null) said.push(of.weight_note);
  const fill = brings(of, nowMs);
  if (fill !== null) said.push(fill);
  return said;
}

function missing(of: Node): string {
  const parts = [];
  if (of.missing > 0) parts.push(`${of.missing} of ${of.missing + of.titles} titles`);
  if (of.receipts_waiting > 0) parts.push(`${of.receipts_waiting} removal${of.receipts_waiting === 1 ? "" : "s"} not confirmed`);
  return parts.join(", ") || "nothing";
}

class Row {
  readonly element = node("tr");
  private readonly name = node("span");
  private readonly remarks = node("small");
  private readonly state = node("span", "pill");
  private readonly load = node("span");
  private readonly loadCell = node("td", "barred", this.load);
  private readonly connections = node("span");
  private readonly spark = new Spark();
  private readonly missing = node("span");
  private readonly missingCell = node("td", "", this.missing);
  private readonly button = node("button");
  private now: Node | undefined;

  constructor(private readonly actions: Actions) {
    const head = node("th", "", this.name, this.remarks);
    head.scope = "row";
    const viewers = node("td", "viewers", this.spark.element, this.connections);
    this.element.append(head, node("td", "", this.state), this.loadCell, viewers, this.missingCell, node("td", "", this.button));
    this.button.addEventListener("click", () => this.act());
  }

  private act(): void {
    if (this.now === undefined) return;
    if (this.isDraining(this.now)) this.actions.undrain(this.now);
    else this.actions.drain(this.now);
  }

  private isDraining({ state }: Node): boolean {
    return state === "draining" || state === "drained";
  }

  tell(now: Node, history: History, { unix_millis, full_permille }: Fleet): void {
    this.now = now;
    this.element.dataset["state"] = now.state;
    say(this.name, now.name);
    this.name.title = `${now.host}, ${now.kind}, cluster ${now.cluster}${now.rack == null ? "" : `, rack ${now.rack}`}, ${text(bytes(now.free_bytes))} free`;
    const said = remarks(now, unix_millis);
    say(this.remarks, said.join(" · "));
    say(this.state, now.state);
    this.state.dataset["state"] = now.state;
    this.state.classList.toggle("closed", now.not_me.length > 0);
    const full = part(now) * 1000 >= full_permille;
    say(this.load, `${rate(now.bits_per_second)} of ${rate(now.ceiling_bits_per_second)}${full ? ", full" : ""}`);
    this.loadCell.style.setProperty("--part", Math.min(1, part(now)).toFixed(3));
    this.loadCell.classList.toggle("full", full);
    say(this.connections, text(count(now.connections)));
    this.spark.draw(history.of(now.name));
    this.spark.element.classList.toggle("falling", history.isFalling(now.name));
    say(this.missing, missing(now));
    this.missingCell.classList.toggle("bad", now.missing > 0 || now.receipts_waiting > 0);
    const verb = this.isDraining(now) ? "Undrain" : "Drain";
    say(this.button, verb);
    this.button.setAttribute("aria-label", `${verb} ${now.name}`);
    this.button.hidden = now.state === "revoked" || now.state === "lost" || now.state === "joining";
  }
}

class SiteTable {
  readonly element: HTMLElement;
  private readonly title = node("h2");
  private readonly about = node("p", "about");
  private readonly caption = node("caption", "unseen");
  private readonly body = node("tbody");
  private readonly rows = new Map<string, Row>();

  constructor(private readonly actions: Actions) {
    const heads = HEAD.map((label) => {
      const cell = node("th", "", label === "" ? node("span", "unseen", "Change") : label);
      cell.scope = "col";
      return cell;
    });
    const table = node("table", "nodes", this.caption, node("thead", "", node("tr", "", ...heads)), this.body);
    this.element = node("section", "panel site", node("div", "site-head", this.title, this.about), node("div", "scroll", table));
  }

  tell(name: string, nodes: Node[], history: History, now: Fleet): void {
    const site = now.sites.find((site) => site.name === name);
    say(this.title, name);
    say(this.caption, `Nodes of ${name}`);
    const sent = nodes.reduce((sum, node) => sum + node.bits_per_second, 0);
    const most = nodes.reduce((sum, node) => sum + (node.state === "serving" ? node.ceiling_bits_per_second : 0), 0);
    const reaches = site === undefined || site.prefixes === 0 ? "announces no prefixes" : `announces ${site.prefixes} prefix${site.prefixes === 1 ? "" : "es"}`;
    say(this.about, `${site?.region ?? "unknown region"}, ${reaches}; ${rate(sent)}, room for ${rate(most)}`);
    for (const [known, row] of this.rows) {
      if (nodes.some((node) => node.name === known)) continue;
      row.element.remove();
      this.rows.delete(known);
    }
    nodes.forEach((of, index) => {
      const row = this.rows.get(of.name) ?? new Row(this.actions);
      this.rows.set(of.name, row);
      // Moved only if it is not there yet, so that a button keeps its focus.
      if (this.body.children[index] !== row.element) this.body.insertBefore(row.element, this.body.children[index] ?? null);
      row.tell(of, history, now);
    });
  }
}

export class Sites {
  readonly element = node("div", "sites");
  private readonly tables = new Map<string, SiteTable>();
  private readonly empty = node("p", "empty panel", "No node has joined yet. Invite one: fullbore control invite --cluster NAME");

  constructor(private readonly actions: Actions) {
    this.element.append(this.empty);
  }

  tell(now: Fleet, history: History): void {
    const names = [...new Set([...now.sites.map(({ name }) => name), ...now.nodes.map(({ site }) => site)])].sort();
    const used = names.filter((name) => now.nodes.some(({ site }) => site === name));
    this.empty.hidden = used.length > 0;
    for (const [known, table] of this.tables) {
      if (used.includes(known)) continue;
      table.element.remove();
      this.tables.delete(known);
    }
    used.forEach((name, index) => {
      const table = this.tables.get(name) ?? new SiteTable(this.actions);
      this.tables.set(name, table);
      const at = this.element.children[index + 1] ?? null;
      if (at !== table.element) this.element.insertBefore(table.element, at);
      const nodes = now.nodes.filter(({ site }) => site === name).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
      table.tell(name, nodes, history, now);
    });
  }
}
