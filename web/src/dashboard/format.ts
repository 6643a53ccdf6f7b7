// Formats numbers for people: three digits, the unit after them, a dash if there is no value.

export const NONE = "–";

/** A number and its unit, kept apart because the unit is set smaller. */
export interface Quantity {
  number: string;
  unit: string;
}

type Value = number | null | undefined;

/** Three digits, never more than three decimals. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  if (size >= 10) return value.toFixed(1);
  if (size >= 1 || size === 0) return size === 0 ? "0" : value.toFixed(2);
  return size < 0.0005 ? "0" : value.toFixed(3).replace(/0+$/, "");
}

function scaled(value: Value, steps: readonly (readonly [number, string])[]): Quantity {
  if (value == null) return { number: NONE, unit: "" };
  const last = steps[steps.length - 1] as readonly [number, string];
  const [factor, unit] = steps.find(([least]) => Math.abs(value) >= least) ?? last;
  return { number: digits(value / factor), unit };
}

export const gbps = (value: Value): Quantity =>
  scaled(value, value ? [[1, "Gb/s"], [1e-3, "Mb/s"], [1e-6, "kb/s"]] : [[1, "Gb/s"]]);

export const megabytesPerSecond = (value: Value): Quantity =>
  scaled(value, value ? [[1e3, "GB/s"], [1, "MB/s"], [1e-3, "kB/s"]] : [[1, "MB/s"]]);

export const bytes = (value: Value): Quantity =>
  scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);

export const milliseconds = (value: Value): Quantity =>
  scaled(value, value ? [[1e3, "s"], [1, "ms"], [1e-3, "µs"]] : [[1, "ms"]]);

export const seconds = (value: Value): Quantity => milliseconds(value == null ? null : value * 1e3);

export const ratio = (value: Value): Quantity =>
  value == null ? { number: NONE, unit: "" } : { number: digits(value * 100), unit: "%" };

export const count = (value: Value): Quantity => ({
  number: value == null ? NONE : Math.round(value).toLocaleString("en"),
  unit: "",
});

export const perSecond = (value: Value): Quantity => scaled(value, [[1, "/s"]]);

/** A rate in bytes per second, shown in bits. */
export const bitsOf = (value: Value): Quantity => gbps(value == null ? null : (value * 8) / 1e9);

/** Number and unit as one text. */
export const text = ({ number, unit }: Quantity): string =>
  unit === "" || unit === "%" ? number + unit : `${number} ${unit}`;

/** A duration, as `3 d 4 h`, `12 min 5 s`. */
export function duration(all: number): string {
  const parts: [number, string][] = [
    [Math.floor(all / 86400), "d"],
    [Math.floor(all / 3600) % 24, "h"],
    [Math.floor(all / 60) % 60, "min"],
    [Math.floor(all) % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  const shown = first < 0 ? parts.slice(3) : parts.slice(first, first + 2);
  return shown.map(([value, unit]) => `${value} ${unit}`).join(" ");
}
