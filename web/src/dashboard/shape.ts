// The data from /events; docs/dashboard.md describes it.

/** The curves' names; the server's history has them as columns, each snapshot as a point. */
export type Column =
  | "unix_seconds"
  | "sent_gbps"
  | "connections"
  | "sending"
  | "cpu_mean"
  | "cpu_max"
  | "gbps_per_cpu_percent"
  | "first_byte_p50_ms"
  | "first_byte_p99_ms"
  | "cache_hit_ratio"
  | "disk_read_mb_per_second"
  | "nic_sent_gbps"
  | "requests_per_second"
  | "errors_per_second";

export type Point = Record<Column, number | null>;

export interface History {
  columns: Record<Column, (number | null)[]>;
}

export interface Fault {
  counter: string;
  label: string | null;
  last_minute: number;
  total: number;
  is_error: boolean;
}

/** Quantiles of a quantity that players report. */
export interface Spread {
  count: number;
  p50: number | null;
  p95: number | null;
}

export interface Experience {
  title?: string | null;
  sessions: number;
  sessions_total: number;
  stalls_total: number;
  play_delay_seconds: Spread | null;
  time_to_quality_seconds: Spread | null;
  rebuffer_ratio: (Spread & { mean: number }) | null;
  media_bytes_per_second: Spread | null;
}

/** Bytes that came from a disk or from memory, were served by a worker of a silo, and left through a network card of one. */
export interface Path {
  disk: string;
  worker: string;
  card: string;
  bytes: number;
  /** How often each byte went from one silo to another. */
  crossings: number;
}

/** Bytes in the last second, and since the start. */
export interface Flow {
  mb_per_second: number;
  bytes: number;
}

export interface Snapshot {
  fullbore: string;
  unix_seconds: number;
  uptime_seconds: number;
  draining: boolean;
  route: string;
  disk: string;
  sent_gbps: number;
  connections: number;
  sending: number;
  connections_per_second: number;
  requests_per_second: number;
  errors_per_second: number;
  cpu: { workers: number[]; mean: number; max: number };
  gbps_per_cpu_percent: number | null;
  first_byte: { count: number; p50_ms: number | null; p95_ms: number | null; p99_ms: number | null };
  cache: {
    hit_ratio: number | null;
    from_memory_mb_per_second: number;
    from_disk_mb_per_second: number;
    hot_bytes: number;
    hot_bytes_max: number;
    hot_pinned_bytes: number;
    hot_read: Flow;
    hot_filled: Flow;
    hot_evicted: Flow;
  };
  edge: {
    origin_is_down: boolean;
    waiting: number;
    fetched: Flow;
    bytes_from_cache_ratio: number | null;
    bytes_from_cache_ratio_total: number | null;
    requests_from_cache_ratio: number | null;
    requests_from_cache_ratio_total: number | null;
    lookups: Record<string, number>;
    purges: Record<string, number>;
    ahead: Record<string, number>;
    ahead_is_paused: boolean;
  } | null;
  disks: {
    name: string;
    read_mb_per_second: number;
    written_mb_per_second: number;
    reads_per_second: number;
    busy_ratio: number;
  }[];
  nics: { name: string; sent_gbps: number; received_gbps: number; faults_per_second: number }[];
  handshakes: Record<string, number>;
  handshakes_by_kind: Record<string, number>;
  handshakes_per_second: number;
  routes: Record<string, number>;
  responses: Record<string, number>;
  errors: Fault[];
  titles: { title: string; gbps: number; bytes: number }[];
  buffers: { read: number; read_free: number; send: number; send_free: number; waits_per_second: number };
  rss_bytes: number;
  /** Only where there are several silos, and something was sent. */
  paths?: { crossings_per_byte: number; paths: Path[] } | null;
  qoe?: { all: Experience; titles: Experience[] } | null;
  point: Point;
}
