//! The figures written down: for Prometheus, and as JSON for people, scripts and dashboards.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::Collector;
use crate::collector::{OfTitle, WINDOW_MS};
use crate::distribution::Distribution;
use crate::session::Session;
use crate::stats::Stats;

/// One quantity: how it is called, what it is, and where it is found.
struct Quantity {
    /// With its unit.
    name: &'static str,
    help: &'static str,
    /// What a stored value is divided by.
    per_unit: f64,
    of: fn(&Stats) -> &Distribution,
    /// The value of a session that goes on, where it is known only at its end.
    live: fn(&Session) -> Option<u64>,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        name: "play_delay_seconds",
        help: "From the wish to play until something plays, per session.",
        per_unit: 1e3,
        of: |stats| &stats.play_delay,
        live: |_| None,
    },
    Quantity {
        name: "time_to_quality_seconds",
        help: "From the wish to play until 4 s in a row at 80% of the top bit rate, per session.",
        per_unit: 1e3,
        of: |stats| &stats.time_to_quality,
        live: |_| None,
    },
    Quantity {
        name: "rebuffer_ratio",
        help: "Part of the time in stalls, per session that is over.",
        per_unit: 1e6,
        of: |stats| &stats.rebuffer,
        live: |session| session.outcome().rebuffer_millionths,
    },
    Quantity {
        name: "bitrate_kbps",
        help: "Mean bit rate, per session that is over.",
        per_unit: 1.0,
        of: |stats| &stats.bitrate,
        live: |session| session.outcome().bitrate_kbps,
    },
];

/// Counters that a title has too.
struct Counter {
    name: &'static str,
    help: &'static str,
    per_unit: f64,
    of: fn(&Stats) -> u64,
}

const COUNTERS: [Counter; 6] = [
    Counter {
        name: "sessions_total",
        help: "Sessions that began.",
        per_unit: 1.0,
        of: |stats| stats.sessions_total,
    },
    Counter {
        name: "sessions_not_started_total",
        help: "Sessions that were over before anything played.",
        per_unit: 1.0,
        of: |stats| stats.not_started_total,
    },
    Counter {
        name: "sessions_quality_not_reached_total",
        help: "Sessions that were over before 4 s in a row at 80% of the top bit rate.",
        per_unit: 1.0,
        of: |stats| stats.quality_not_reached_total,
    },
    Counter {
        name: "stalls_total",
        help: "Stalls.",
        per_unit: 1.0,
        of: |stats| stats.stalls_total,
    },
    Counter {
        name: "stalled_seconds_total",
        help: "Time that viewers waited in stalls.",
        per_unit: 1e3,
        of: |stats| stats.stalled_ms_total,
    },
    Counter {
        name: "played_seconds_total",
        help: "Time that viewers watched.",
        per_unit: 1e3,
        of: |stats| stats.played_ms_total,
    },
];

/// Quantiles that are told.
const QUANTILES: [(&str, f64); 4] = [("0.5", 0.5), ("0.9", 0.9), ("0.95", 0.95), ("0.99", 0.99)];

/// What every name begins with.
const PREFIX: &str = "fullbore_qoe_";

/// The title under which those are counted that have no figures of their own. No file is called so: `:` would be an odd name.
const OTHER: &str = ":other";

/// In the form that Prometheus reads: histograms of all sessions, which can be added up over servers, and summaries by title. Some 30
/// series for each of at most [`crate::TITLES_MAX`] titles, and as many for all.
pub fn prometheus(collector: &Collector) -> String {
    let mut text = String::with_capacity(8 << 10);
    let out = &mut text;
    plain(out, "sessions", "gauge", "Sessions that go on.", collector.sessions().count());
    let evicted = collector.evicted_total;
    plain(out, "sessions_evicted_total", "counter", "Sessions ended for want of room.", evicted);
    let taken = collector.reports_total;
    plain(out, "reports_total", "counter", "Reports of players taken into account.", taken);
    let lost = collector.reports_lost_total;
    plain(out, "reports_lost_total", "counter", "Reports lost for want of room.", lost);
    let mut titles = collector.by_title();
    titles.retain(|title| title.stats.sessions_total > 0);
    for counter in &COUNTERS {
        let value = |stats| (counter.of)(stats) as f64 / counter.per_unit;
        plain(out, counter.name, "counter", counter.help, value(&collector.all));
        let name = format!("title_{}", counter.name);
        describe(out, &name, "counter", counter.help);
        for title in &titles {
            let (title, stats) = (title.name.unwrap_or(OTHER), &title.stats);
            let _ =
                writeln!(out, "{PREFIX}{name}{{title=\"{}\"}} {}", escaped(title), value(stats));
        }
    }
    for quantity in &QUANTITIES {
        histogram(out, quantity, (quantity.of)(&collector.all));
        describe(out, &format!("title_{}", quantity.name), "summary", quantity.help);
        for title in &titles {
            summary(out, quantity, title.name.unwrap_or(OTHER), (quantity.of)(&title.stats));
        }
    }
    text
}

fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
}

fn plain(text: &mut String, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
    describe(text, name, kind, help);
    let _ = writeln!(text, "{PREFIX}{name} {value}");
}

fn histogram(text: &mut String, quantity: &Quantity, distribution: &Distribution) {
    let name = quantity.name;
    describe(text, name, "histogram", quantity.help);
    for (bound, count) in distribution.up_to() {
        let bound = bound as f64 / quantity.per_unit;
        let _ = writeln!(text, "{PREFIX}{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    let count = distribution.count_total();
    let _ = writeln!(text, "{PREFIX}{name}_bucket{{le=\"+Inf\"}} {count}");
    let sum = distribution.sum_total() as f64 / quantity.per_unit;
    let _ = writeln!(text, "{PREFIX}{name}_sum {sum}\n{PREFIX}{name}_count {count}");
}

fn summary(text: &mut String, quantity: &Quantity, title: &str, distribution: &Distribution) {
    let (name, title) = (quantity.name, escaped(title));
    let window = distribution.window(std::iter::empty());
    for (label, quantile) in QUANTILES {
        if window.is_empty() {
            break;
        }
        let value = at(&window, quantile) as f64 / quantity.per_unit;
        let _ = writeln!(
            text,
            "{PREFIX}title_{name}{{title=\"{title}\",quantile=\"{label}\"}} {value}"
        );
    }
    let sum = distribution.sum_total() as f64 / quantity.per_unit;
    let _ = writeln!(text, "{PREFIX}title_{name}_sum{{title=\"{title}\"}} {sum}");
    let count = distribution.count_total();
    let _ = writeln!(text, "{PREFIX}title_{name}_count{{title=\"{title}\"}} {count}");
}

/// A label's value as Prometheus' text format wants it.
fn escaped(title: &str) -> String {
    title.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// As JSON: `all`, and in `titles` the busiest `titles_max`, with a `title` each (`null` for those without figures of their own, who
/// come last); sessions that go on are counted in. The form is documented in docs/qoe.md.
pub fn json(collector: &Collector, titles_max: usize) -> Value {
    let mut all = figures(&collector.all, &collector.sessions().collect::<Vec<_>>());
    all.insert("sessions_evicted_total".into(), collector.evicted_total.into());
    all.insert("reports_total".into(), collector.reports_total.into());
    all.insert("reports_lost_total".into(), collector.reports_lost_total.into());
    let mut titles = collector.by_title();
    titles.retain(|title| title.stats.sessions_total > 0);
    let titles: Vec<_> = titles.iter().take(titles_max).map(of_title).collect();
    json!({ "window_seconds": WINDOW_MS / 1000, "all": all, "titles": titles })
}

fn of_title(title: &OfTitle<'_>) -> Value {
    let mut figures = figures(&title.stats, &title.live);
    figures.insert("title".into(), title.name.into());
    Value::Object(figures)
}

fn figures(stats: &Stats, live: &[&Session]) -> Map<String, Value> {
    let mut figures = Map::new();
    figures.insert("sessions".into(), live.len().into());
    for counter in &COUNTERS {
        let value = (counter.of)(stats);
        // Whole numbers stay whole.
        let value = match counter.per_unit == 1.0 {
            true => value.into(),
            false => (value as f64 / counter.per_unit).into(),
        };
        figures.insert(counter.name.into(), value);
    }
    for quantity in &QUANTITIES {
        let of_live = live.iter().filter_map(|session| (quantity.live)(session));
        let window = (quantity.of)(stats).window(of_live);
        figures.insert(quantity.name.into(), quantiles(&window, quantity.per_unit));
    }
    figures
}

/// `null` if there is no value.
fn quantiles(window: &Histogram<u32>, per_unit: f64) -> Value {
    if window.is_empty() {
        return Value::Null;
    }
    let told = |quantile| at(window, quantile) as f64 / per_unit;
    let max = told(1.0);
    json!({
        "count": window.len(),
        "mean": (window.mean() / per_unit).min(max),
        "p50": told(0.5),
        "p90": told(0.9),
        "p95": told(0.95),
        "p99": told(0.99),
        "max": max,
    })
}

/// A quantile. Of the values that the histogram cannot tell apart the least, so that a ratio is 1 at most.
fn at(window: &Histogram<u32>, quantile: f64) -> u64 {
    window.lowest_equivalent(window.value_at_quantile(quantile))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cmcd, Report};

    /// Session `id` of `title`, which begins at `at_ms` and takes `delay_ms` until it plays.
    fn session(at_ms: u64, id: u64, title: &str, delay_ms: u32) -> [Report; 2] {
        let text = format!("d=4000,br=3000,tb=3000,ot=v,msd={delay_ms}");
        let mut media = Cmcd::default();
        media.read(text.as_bytes());
        let manifest = Cmcd { startup: true, ..Cmcd::default() };
        [
            Report::new(at_ms * 1000, id, format!("{title}/master.m3u8").as_bytes(), &manifest),
            Report::new((at_ms + 1000) * 1000, id, format!("{title}/1.m4s").as_bytes(), &media),
        ]
    }

    /// 100 sessions of one film that wait from 10 ms to 1 s, and one of another.
    fn collector() -> Collector {
        let mut collector = Collector::default();
        for id in 1..=100 {
            collector.take(session(id, id, "a", id as u32 * 10).to_vec());
        }
        collector.take(session(0, 1000, "b \"x\"", 5000).to_vec());
        collector.advance(10_000);
        collector
    }

    #[test]
    fn quantiles_are_told_by_title() {
        let told = json(&collector(), 9);
        let near = |value: &Value, expected: f64| {
            let value = value.as_f64().unwrap();
            assert!((value - expected).abs() <= expected / 100.0, "{value}, not {expected}");
        };
        let first = &told["titles"][0];
        assert_eq!((first["title"].as_str(), first["sessions"].as_u64()), (Some("a"), Some(100)));
        assert_eq!(first["play_delay_seconds"]["count"], 100);
        near(&first["play_delay_seconds"]["p50"], 0.5);
        near(&first["play_delay_seconds"]["p95"], 0.95);
        near(&told["titles"][1]["play_delay_seconds"]["max"], 5.0);
        near(&first["bitrate_kbps"]["p50"], 3000.0);
        near(&first["time_to_quality_seconds"]["p50"], 1.0);
        assert_eq!(first["sessions_quality_not_reached_total"], 0);
        assert_eq!(told["all"]["sessions_total"], 101);
        assert_eq!(told["titles"].as_array().map(Vec::len), Some(2));
        assert_eq!(json(&collector(), 1)["titles"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_ratio_is_never_more_than_all() {
        let mut stalled = Cmcd::default();
        stalled.read(b"ot=v,bsd=500");
        let mut collector = Collector::default();
        collector.take(vec![Report::new(0, 1, b"a/1.m4s", &stalled); 2]);
        collector.advance(10_000);
        let ratio = &json(&collector, 1)["all"]["rebuffer_ratio"];
        for figure in ["mean", "p50", "p99", "max"] {
            let ratio = ratio[figure].as_f64().unwrap();
            assert!((0.99..=1.0).contains(&ratio), "{figure}: {ratio}");
        }
    }

    #[test]
    fn prometheus_gets_histograms_of_all_and_summaries_by_title() {
        let text = prometheus(&collector());
        for line in [
            "fullbore_qoe_sessions 101",
            "# TYPE fullbore_qoe_play_delay_seconds histogram",
            "fullbore_qoe_play_delay_seconds_bucket{le=\"0.1\"} 10",
            "fullbore_qoe_play_delay_seconds_bucket{le=\"1\"} 100",
            "fullbore_qoe_play_delay_seconds_bucket{le=\"+Inf\"} 101",
            "fullbore_qoe_play_delay_seconds_count 101",
            "# TYPE fullbore_qoe_title_play_delay_seconds summary",
            "fullbore_qoe_title_play_delay_seconds_count{title=\"a\"} 100",
            "fullbore_qoe_title_play_delay_seconds_sum{title=\"a\"} 50.5",
            "fullbore_qoe_title_sessions_total{title=\"b \\\"x\\\"\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
    }
}
