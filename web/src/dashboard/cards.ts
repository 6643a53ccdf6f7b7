// The cards at the top, in the order in which operators need them.

import { Card, type Columns, type Curve } from "./curve";
import * as format from "./format";
import type { Snapshot } from "./shape";

interface Told {
  curve: Curve;
  tell: (now: Snapshot) => [format.Quantity, string];
}

const { text } = format;

const TOLD: Told[] = [
  {
    curve: { title: "Sent", lines: [{ column: "sent_gbps", label: "" }], format: format.gbps, least: 0.001 },
    tell: (now) => [format.gbps(now.sent_gbps), `${format.digits(now.requests_per_second)} requests/s`],
  },
  {
    curve: {
      title: "Connections",
      lines: [
        { column: "connections", label: "open" },
        { column: "sending", label: "sending", faint: true },
      ],
      format: format.count,
      least: 4,
    },
    tell: (now) => [
      format.count(now.connections),
      `${text(format.count(now.sending))} sending, ${format.digits(now.connections_per_second)} new/s`,
    ],
  },
  {
    curve: {
      title: "CPU",
      lines: [
        { column: "cpu_mean", label: "mean" },
        { column: "cpu_max", label: "busiest", faint: true },
      ],
      format: format.ratio,
      least: 0.1,
      most: 1,
    },
    tell: (now) => [format.ratio(now.cpu.mean), `${now.cpu.workers.length === 1 ? "one worker" : `of ${now.cpu.workers.length} workers`}, busiest ${text(format.ratio(now.cpu.max))}`],
  },
  {
    curve: {
      title: "Gb/s per CPU %",
      lines: [{ column: "gbps_per_cpu_percent", label: "" }],
      format: (value) => ({ number: value == null ? format.NONE : format.digits(value), unit: "" }),
      least: 0.01,
    },
    tell: (now) => [
      { number: now.gbps_per_cpu_percent == null ? format.NONE : format.digits(now.gbps_per_cpu_percent), unit: "" },
      now.gbps_per_cpu_percent == null ? "too idle to measure" : `${text(format.gbps(now.gbps_per_cpu_percent * 100))} per core`,
    ],
  },
  {
    curve: {
      title: "First byte",
      lines: [
        { column: "first_byte_p50_ms", label: "half within" },
        { column: "first_byte_p99_ms", label: "99% within", faint: true },
      ],
      format: format.milliseconds,
      least: 0.1,
    },
    tell: (now) => [
      format.milliseconds(now.first_byte.p50_ms),
      `99% within ${text(format.milliseconds(now.first_byte.p99_ms))}`,
    ],
  },
  {
    curve: { title: "From memory", lines: [{ column: "cache_hit_ratio", label: "" }], format: format.ratio, least: 1, most: 1 },
    tell: (now) => [format.ratio(now.cache.hit_ratio), `${text(format.megabytesPerSecond(now.cache.from_disk_mb_per_second))} from disk`],
  },
  {
    curve: {
      title: "Disk reads",
      lines: [{ column: "disk_read_mb_per_second", label: "" }],
      format: format.megabytesPerSecond,
      least: 1,
    },
    tell: (now) => [format.megabytesPerSecond(now.point.disk_read_mb_per_second), busiestDisk(now)],
  },
  {
    curve: {
      title: "Errors",
      lines: [{ column: "errors_per_second", label: "" }],
      format: format.perSecond,
      least: 1,
    },
    tell: (now) => {
      const minute = now.errors.reduce((sum, fault) => sum + (fault.is_error ? fault.last_minute : 0), 0);
      return [format.perSecond(now.errors_per_second), `${text(format.count(minute))} in the last minute`];
    },
  },
];

function busiestDisk(now: Snapshot): string {
  const [disk] = [...now.disks].sort((a, b) => b.busy_ratio - a.busy_ratio);
  return disk ? `${disk.name} ${text(format.ratio(disk.busy_ratio))} busy` : "no disk found";
}

export class Cards {
  readonly element = document.createElement("div");
  private readonly cards = TOLD.map(({ curve }) => new Card(curve, "dashboard"));

  constructor() {
    this.element.className = "cards";
    this.element.append(...this.cards.map((card) => card.element));
  }

  tell(now: Snapshot): void {
    TOLD.forEach(({ tell }, index) => this.cards[index]?.tell(...tell(now)));
  }

  draw(columns: Columns): void {
    for (const card of this.cards) card.draw(columns);
  }

  restyle(): void {
    for (const card of this.cards) card.restyle();
  }
}
