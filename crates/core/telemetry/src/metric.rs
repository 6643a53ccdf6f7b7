//! The definition of a metric: its name, meaning, kind and unit.
//!
//! Names follow Prometheus' conventions (<https://prometheus.io/docs/practices/naming/>): a name ends in its unit, which is a base unit, and
//! the name of a counter then ends in `_total`. So the unit is parsed from the name. [`Metric::fault`] returns the convention that a metric breaks.

use std::fmt;

/// The beginning of every name, except those that Prometheus itself defines.
const PREFIX: &str = "fullbore_";

/// The beginning of names that Prometheus defines.
const PREFIX_STANDARD: &str = "process_";

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at the start of the server.
    Counter,
    /// A current state.
    Gauge,
    /// The distribution of values since the start. Histograms of several servers can be added up.
    Histogram,
    /// Quantiles of recent values, with count and sum since the start.
    Summary,
}

impl Kind {
    /// Prometheus' name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things: connections, requests, buffers.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A part of a whole, 0 to 1.
    Ratio,
    /// Bytes per second.
    BytesPerSecond,
}

impl Unit {
    /// The unit in words; empty for things that are counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Ratio => "ratio",
            Self::BytesPerSecond => "bytes per second",
        }
    }
}

/// How a value is stored as a whole number, and so how it is converted to its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredUnit {
    /// In the unit.
    Units,
    /// In thousandths of it: milliseconds.
    Thousandths,
    /// In millionths of it: microseconds.
    Millionths,
    /// In kilobits, for a unit of bytes: Prometheus has no bits.
    Kilobits,
}

impl StoredUnit {
    /// The value in its unit. It is divided, which keeps decimal fractions short: 32 millionths are 0.000032.
    pub fn in_units(self, stored: u64) -> Value {
        match self {
            Self::Units => Value::Whole(stored),
            Self::Thousandths => Value::Real(stored as f64 / 1e3),
            Self::Millionths => Value::Real(stored as f64 / 1e6),
            Self::Kilobits => Value::Whole(stored * 125),
        }
    }

    /// The same for a value that is not a whole number, such as a mean.
    pub fn real(self, stored: f64) -> f64 {
        match self {
            Self::Units => stored,
            Self::Thousandths => stored / 1e3,
            Self::Millionths => stored / 1e6,
            Self::Kilobits => stored * 125.0,
        }
    }
}

/// A value in its metric's unit. Whole numbers stay whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Any other number.
    Real(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
        }
    }
}

impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(value) => serializer.serialize_u64(*value),
            Self::Real(value) => serializer.serialize_f64(*value),
        }
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Whole(value) => value.into(),
            Value::Real(value) => value.into(),
        }
    }
}

/// The single definition of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name for Prometheus.
    pub name: &'static str,
    /// The kind of number.
    pub kind: Kind,
    /// The label by which its samples differ; none if there is only one sample.
    pub label: Option<&'static str>,
    /// Its meaning, in a sentence or two.
    pub help: &'static str,
    /// How its values are stored.
    pub stored: StoredUnit,
}

impl Metric {
    /// A metric without a label, stored in its unit.
    pub const fn new(kind: Kind, name: &'static str, help: &'static str) -> Self {
        Self { name, kind, label: None, help, stored: StoredUnit::Units }
    }

    /// The same metric with a label.
    pub const fn by(self, label: &'static str) -> Self {
        Self { label: Some(label), ..self }
    }

    /// The same metric, stored in another way.
    pub const fn stored(self, stored: StoredUnit) -> Self {
        Self { stored, ..self }
    }

    /// The name in JSON, without the program's name in front.
    pub fn key(&self) -> &'static str {
        self.name.strip_prefix(PREFIX).unwrap_or(self.name)
    }

    /// A stored value in this metric's unit.
    pub fn value(&self, stored: u64) -> Value {
        self.stored.in_units(stored)
    }

    /// The unit, read from the end of the name.
    pub fn unit(&self) -> Unit {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let units = [Unit::BytesPerSecond, Unit::Bytes, Unit::Seconds, Unit::Ratio];
        let is_of = |unit: &Unit| name.ends_with(&format!("_{}", unit.name().replace(' ', "_")));
        units.into_iter().find(is_of).unwrap_or(Unit::Count)
    }

    /// The convention of Prometheus that it breaks, if any.
    pub fn fault(&self) -> Option<&'static str> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let words = || self.name.split('_');
        let is_total = self.name.ends_with("_total");
        let has_prefix =
            [PREFIX, PREFIX_STANDARD].iter().any(|prefix| self.name.starts_with(prefix));
        let faults = [
            (!has_prefix, "it does not begin with the program's name"),
            (!self.name.chars().all(is_plain), "it has other letters than a to z, digits and _"),
            (words().any(str::is_empty), "it has an empty word"),
            (
                is_total != (self.kind == Kind::Counter),
                "_total is the end of counters, and of them only",
            ),
            (words().any(|word| UNITS_NOT_BASE.contains(&word)), "its unit is no base unit"),
            (
                self.stored != StoredUnit::Units && self.unit() == Unit::Count,
                "it has no unit in its name",
            ),
            (!self.help.ends_with('.'), "its help is no sentence"),
        ];
        faults.into_iter().find_map(|(is_wrong, why)| is_wrong.then_some(why))
    }
}

/// Units for which Prometheus wants the base unit instead: seconds, bytes, ratios.
const UNITS_NOT_BASE: [&str; 16] = [
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "ms",
    "us",
    "ns",
    "kilobytes",
    "megabytes",
    "kb",
    "mb",
    "kbps",
    "gbps",
    "bits",
    "percent",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_here_is_named_by_the_conventions() {
        for metric in crate::metrics() {
            assert_eq!(metric.fault(), None, "{}", metric.name);
        }
    }

    #[test]
    fn what_is_against_the_conventions_is_found() {
        let fault = |kind, name, help| Metric::new(kind, name, help).fault();
        for (kind, name, help) in [
            (Kind::Counter, "fullbore_requests", "Requests."),
            (Kind::Gauge, "fullbore_open_files_total", "Files."),
            (Kind::Gauge, "open_files", "Files."),
            (Kind::Counter, "fullbore_cpu_microseconds_total", "Processor time."),
            (Kind::Gauge, "fullbore_openFiles", "Files."),
            (Kind::Gauge, "fullbore__files", "Files."),
            (Kind::Gauge, "fullbore_files", "files"),
        ] {
            assert!(fault(kind, name, help).is_some(), "{name}");
        }
        assert_eq!(fault(Kind::Counter, "fullbore_cpu_seconds_total", "Processor time."), None);
        let unitless = Metric::new(Kind::Gauge, "fullbore_uptime", "Time.");
        assert!(unitless.stored(StoredUnit::Millionths).fault().is_some());
    }

    #[test]
    fn units_are_read_from_names() {
        for (name, unit) in [
            ("fullbore_sent_bytes_total", Unit::Bytes),
            ("fullbore_first_byte_seconds", Unit::Seconds),
            ("fullbore_qoe_media_bytes_per_second", Unit::BytesPerSecond),
            ("fullbore_qoe_rebuffer_ratio", Unit::Ratio),
            ("fullbore_connections", Unit::Count),
        ] {
            assert_eq!(Metric::new(Kind::Gauge, name, "It.").unit(), unit, "{name}");
        }
    }

    #[test]
    fn stored_values_come_out_in_their_unit() {
        let told = |stored: StoredUnit, value| stored.in_units(value).to_string();
        assert_eq!(told(StoredUnit::Units, u64::MAX), u64::MAX.to_string());
        assert_eq!(told(StoredUnit::Millionths, 32), "0.000032");
        assert_eq!(told(StoredUnit::Thousandths, 1500), "1.5");
        assert_eq!(told(StoredUnit::Kilobits, 3000), "375000");
    }
}
