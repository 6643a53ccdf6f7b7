// The answers of a gateway's API; docs/fleet-page.md describes it.

export type State = "joining" | "serving" | "draining" | "drained" | "lost" | "revoked";

/** What a node still has to copy, as it reports it. */
export interface Fill {
  title: string | null;
  done_bytes: number;
  title_bytes: number;
  missing_titles: number;
  missing_bytes: number;
  bytes_per_second: number;
  is_open: boolean;
  done_unix_seconds: number | null;
}

export interface Node {
  name: string;
  site: string;
  cluster: string;
  /** The cluster, if the site has several. */
  rack?: string | null;
  kind: string;
  host: string;
  state: State;
  /** Why it is drained, and when it comes back by itself. */
  reason: string | null;
  returns_unix_seconds: number | null;
  /** The node's own reasons to take no new viewers. */
  not_me: string[];
  /** Since the last heartbeat; null if there was none since the gateway started. */
  silent_millis: number | null;
  /** The scheme and port on which its server serves, if viewers are sent to others. */
  served_at: { scheme: string; port: number } | null;
  /** The node's clock minus the gateway's. */
  clock_off_millis: number | null;
  bits_per_second: number;
  ceiling_bits_per_second: number;
  connections: number;
  cpu_permille: number;
  free_bytes: number;
  titles: number;
  missing: number;
  receipts_waiting: number;
  /** What limits its weight, if the weight is not the node's own. Absent from gateways of older releases. */
  weight_note?: string | null;
  /** Absent from gateways of older releases; null if it has everything. */
  fill?: Fill | null;
}

export interface Move {
  from: string;
  to: string;
  viewers: number;
  why: string;
}

/** Something that is wrong in the fleet. */
export interface Issue {
  id: string;
  severity: "critical" | "warning";
  text: string;
  advice: string;
  since_unix_millis: number;
  snoozed: { until_unix_seconds: number; by: string; reason: string } | null;
}

export interface EndedIssue {
  severity: "critical" | "warning";
  text: string;
  since_unix_millis: number;
  ended_unix_millis: number;
}

export interface Fleet {
  version: number;
  fullbore: string;
  gateway: string;
  leader: string | null;
  unix_millis: number;
  epoch: number;
  snapshot: number;
  /** Why the gateway changes no node's state at present; null if it does. */
  frozen: string | null;
  store: { engine: string; problem: string | null };
  ttl_seconds: number;
  full_permille: number;
  /** Since the gateway started. */
  decisions: { total: number; first_choice: number; content: number; health: number };
  /** Of the last minute. */
  moves: Move[];
  /** The open ones, critical ones first; at most 100. Absent from gateways of older releases, as is the next field. */
  issues?: Issue[];
  /** Of all open ones. */
  issue_counts?: { critical: number; warning: number; snoozed: number };
  sites: { name: string; region: string; prefixes: number }[];
  nodes: Node[];
  titles: { published: number; withdrawn: number; incomplete: number };
}

export interface Listed {
  title: string;
  bytes: number;
  duration_seconds: number;
  state: "published" | "withdrawn";
  holders: number;
  wanted: number;
}

export interface Where {
  title: string;
  state: string;
  nodes: {
    node: string;
    site: string;
    state: State;
    holds: boolean;
    /** Why the plan puts it there: everything, pin, floor, demand, spare. */
    why: string | null;
    /** Whether the copy will be made or removed. */
    moves: "comes" | "goes" | null;
    receipt: string | null;
  }[];
  watched: { region: string; starts_a_day: number; bytes_a_day: number }[];
}

/** The result of a plan made now. */
export interface Planned {
  /** When titles were last placed; null while every node holds everything. */
  planned_unix_seconds: number | null;
  moved_bytes: number;
  buy: { text: string }[];
}

/** A count of sessions and its share of all, with the interval that holds the true one in 95 of 100 cases. */
export interface Share {
  count: number;
  share: number | null;
  low: number | null;
  high: number | null;
}

export interface Interval {
  value: number;
  low: number;
  high: number;
}

/** The sessions of a group. */
export interface ExperienceRow {
  /** Null for the total, and for sessions in groups without a name. */
  name: string | null;
  sessions: number;
  troubled: Share;
  not_started: Share;
  stalled: Share;
  play_delay_seconds: { median: Interval } | null;
  megabits_per_second: { median: Interval } | null;
}

/** What viewers experience, the worst group first. */
export interface Experience {
  by: string;
  total: ExperienceRow;
  rows: ExperienceRow[];
  row_count: number;
}

/** A purge of all edges. */
export interface Purge {
  number: number;
  ordered_unix_seconds: number;
  by: string;
  kind: string;
  soft: boolean;
  what: string;
  reason: string;
  counts: { done: number; refused: number; waiting: number; too_old: number; no_edge: number };
}

export interface Explained {
  snapshot: number;
  matched: string | null;
  label: "C" | "H" | null;
  nodes: { node: string; site: string; reason: string }[];
  text: string;
}
