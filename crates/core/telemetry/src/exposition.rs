//! The text that Prometheus reads, format version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>).
//!
//! Callers add their metrics one after the other; each is written with its help and its type.

use crate::metric::{Kind, Metric};
use std::fmt::Write;

/// The text, as it grows.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// One member of a summary.
#[derive(Clone, Debug)]
pub struct Summary<'a> {
    /// The label's value.
    pub label: &'a str,
    /// Quantiles, each with its value as it is stored; empty if there were no recent values.
    pub quantiles: Vec<(f64, u64)>,
    /// The sum of all values, as they are stored.
    pub sum: u64,
    /// The number of values.
    pub count: u64,
}

// Writing to a String cannot fail, so the results of all writes here are ignored.
impl Exposition {
    /// A metric without a label. All values are given as they are stored.
    pub fn one(&mut self, metric: &Metric, stored: u64) {
        debug_assert!(metric.label.is_none(), "{} has a label", metric.name);
        self.describe(metric);
        let _ = writeln!(self.text, "{} {}", metric.name, metric.value(stored));
    }

    /// A metric with a label: one value for each value of the label.
    pub fn labelled<L: AsRef<str>>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) {
        self.describe(metric);
        let label = label_of(metric);
        for (value_of_label, stored) in samples {
            let of = escaped(value_of_label.as_ref());
            let _ =
                writeln!(self.text, "{}{{{label}=\"{of}\"}} {}", metric.name, metric.value(stored));
        }
    }

    /// A metric with several labels, whose names are separated by commas: one value for each set of their values.
    pub fn labelled_by_several<const N: usize>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([String; N], u64)>,
    ) {
        self.describe(metric);
        for (values, stored) in samples {
            let names = label_of(metric).split(',').map(str::trim);
            let pair = |(name, value): (&str, &String)| format!("{name}=\"{}\"", escaped(value));
            let of: Vec<_> = names.zip(&values).map(pair).collect();
            let _ =
                writeln!(self.text, "{}{{{}}} {}", metric.name, of.join(","), metric.value(stored));
        }
    }

    /// A histogram: `buckets` are ascending bounds, each with the number of values up to it.
    pub fn histogram(
        &mut self,
        metric: &Metric,
        buckets: impl IntoIterator<Item = (u64, u64)>,
        count: u64,
        sum: u64,
    ) {
        debug_assert_eq!(metric.kind, Kind::Histogram, "{}", metric.name);
        self.describe(metric);
        let name = metric.name;
        for (bound, so_far) in buckets {
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{}\"}} {so_far}", metric.value(bound));
        }
        let _ = writeln!(self.text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(self.text, "{name}_sum {}\n{name}_count {count}", metric.value(sum));
    }

    /// A summary that has a label.
    pub fn summary<'a>(&mut self, metric: &Metric, members: impl IntoIterator<Item = Summary<'a>>) {
        debug_assert_eq!(metric.kind, Kind::Summary, "{}", metric.name);
        self.describe(metric);
        let (name, label) = (metric.name, label_of(metric));
        for member in members {
            let of = format!("{label}=\"{}\"", escaped(member.label));
            for (quantile, stored) in member.quantiles {
                let value = metric.value(stored);
                let _ = writeln!(self.text, "{name}{{{of},quantile=\"{quantile}\"}} {value}");
            }
            let _ = writeln!(self.text, "{name}_sum{{{of}}} {}", metric.value(member.sum));
            let _ = writeln!(self.text, "{name}_count{{{of}}} {}", member.count);
        }
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.text
    }

    fn describe(&mut self, metric: &Metric) {
        let (name, kind) = (metric.name, metric.kind.name());
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

fn label_of(metric: &Metric) -> &'static str {
    metric.label.expect("a metric with labels declares them")
}

/// A label's value, escaped as the text format requires.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::StoredUnit;

    #[test]
    fn each_kind_has_its_form() {
        let mut exposition = Exposition::default();
        let gauge = Metric::new(Kind::Gauge, "fullbore_uptime_seconds", "A \\ in help.");
        exposition.one(&gauge.stored(StoredUnit::Millionths), 2_500_000);
        let counter = Metric::new(Kind::Counter, "fullbore_ends_total", "Ends.").by("reason");
        exposition.labelled(&counter, [("a \"b\"\\\n", 7)]);
        let histogram = Metric::new(Kind::Histogram, "fullbore_wait_seconds", "Waits.");
        exposition.histogram(
            &histogram.stored(StoredUnit::Thousandths),
            [(100, 1), (250, 3)],
            4,
            5_250,
        );
        let summary = Metric::new(Kind::Summary, "fullbore_delay_seconds", "Delays.").by("title");
        let member = Summary { label: "a", quantiles: vec![(0.5, 3)], sum: 6, count: 2 };
        exposition.summary(&summary, [member]);
        let wanted = r#"# HELP fullbore_uptime_seconds A \\ in help.
# TYPE fullbore_uptime_seconds gauge
fullbore_uptime_seconds 2.5
# HELP fullbore_ends_total Ends.
# TYPE fullbore_ends_total counter
fullbore_ends_total{reason="a \"b\"\\\n"} 7
# HELP fullbore_wait_seconds Waits.
# TYPE fullbore_wait_seconds histogram
fullbore_wait_seconds_bucket{le="0.1"} 1
fullbore_wait_seconds_bucket{le="0.25"} 3
fullbore_wait_seconds_bucket{le="+Inf"} 4
fullbore_wait_seconds_sum 5.25
fullbore_wait_seconds_count 4
# HELP fullbore_delay_seconds Delays.
# TYPE fullbore_delay_seconds summary
fullbore_delay_seconds{title="a",quantile="0.5"} 3
fullbore_delay_seconds_sum{title="a"} 6
fullbore_delay_seconds_count{title="a"} 2
"#;
        assert_eq!(exposition.into_text(), wanted);
    }
}
