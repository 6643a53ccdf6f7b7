//! Writes the figures: for Prometheus, and as JSON for people, scripts and dashboards.

use serde_json::{Map, Value, json};
use telemetry::{Exposition, Kind, Metric, StoredUnit, Summary};

use crate::Collector;
use crate::collector::{OfTitle, WINDOW_MS};
use crate::distribution::{Distribution, Window};
use crate::session::Session;
use crate::stats::Stats;

/// One quantity: its metrics, and where its values are.
struct Quantity {
    of_all: Metric,
    of_title: Metric,
    of: fn(&Stats) -> &Distribution,
    /// The current value of a session in progress, for quantities that are final only at its end.
    live: fn(&Session) -> Option<u64>,
}

/// A counter that exists by title, too.
struct Counter {
    of_all: Metric,
    of_title: Metric,
    of: fn(&Stats) -> u64,
}

/// A metric of all sessions and the same by title.
macro_rules! of_all_and_title {
    ($of_all:ident, $of_title:ident, $name:literal, $stored:ident, $help:literal) => {
        (
            Metric::new(Kind::$of_all, concat!("fullbore_qoe_", $name), $help)
                .stored(StoredUnit::$stored),
            Metric::new(
                Kind::$of_title,
                concat!("fullbore_qoe_title_", $name),
                concat!("By title: ", $help),
            )
            .by("title")
            .stored(StoredUnit::$stored),
        )
    };
}

macro_rules! quantity {
    ($name:literal in $stored:ident, $help:literal, $of:expr, $live:expr) => {{
        const BOTH: (Metric, Metric) = of_all_and_title!(Histogram, Summary, $name, $stored, $help);
        Quantity { of_all: BOTH.0, of_title: BOTH.1, of: $of, live: $live }
    }};
}

macro_rules! counter {
    ($name:literal in $stored:ident, $help:literal, $of:expr) => {{
        const BOTH: (Metric, Metric) = of_all_and_title!(Counter, Counter, $name, $stored, $help);
        Counter { of_all: BOTH.0, of_title: BOTH.1, of: $of }
    }};
}

static QUANTITIES: [Quantity; 4] = [
    quantity!(
        "play_delay_seconds" in Thousandths,
        "Time from the request to play until playback begins, per session.",
        |stats| &stats.play_delay,
        |_| None
    ),
    quantity!(
        "time_to_quality_seconds" in Thousandths,
        "Time from the request to play until 4 s in a row at 80% of the top bit rate, per session.",
        |stats| &stats.time_to_quality,
        |_| None
    ),
    quantity!(
        "rebuffer_ratio" in Millionths,
        "Share of the time spent in stalls, per session that has ended.",
        |stats| &stats.rebuffer,
        |session| session.outcome().rebuffer_millionths
    ),
    quantity!(
        "media_bytes_per_second" in Kilobits,
        "Mean bit rate of what was watched, in bytes, per session that has ended.",
        |stats| &stats.bitrate,
        |session| session.outcome().bitrate_kbps
    ),
];

static COUNTERS: [Counter; 11] = [
    counter!("sessions_total" in Units, "Sessions that began.", |stats| stats.sessions_total),
    counter!(
        "sessions_not_started_total" in Units,
        "Sessions that ended before anything played.",
        |stats| stats.not_started_total
    ),
    counter!(
        "sessions_quality_not_reached_total" in Units,
        "Sessions that ended before 4 s in a row at 80% of the top bit rate.",
        |stats| stats.quality_not_reached_total
    ),
    counter!("stalls_total" in Units, "Stalls.", |stats| stats.stalls_total),
    counter!(
        "stalled_seconds_total" in Thousandths,
        "Time that viewers waited in stalls.",
        |stats| stats.stalled_ms_total
    ),
    counter!(
        "played_seconds_total" in Thousandths,
        "Time that viewers watched.",
        |stats| stats.played_ms_total
    ),
    counter!("errors_total" in Units, "Errors that players posted.", |stats| stats.errors_total),
    counter!(
        "sessions_with_events_total" in Units,
        "Sessions that ended and whose players posted events.",
        |stats| stats.with_events_total
    ),
    counter!(
        "sessions_failed_total" in Units,
        "Sessions with events that an error ended.",
        |stats| stats.failed_total
    ),
    counter!(
        "sessions_finished_total" in Units,
        "Sessions with events that reached the end of what they played.",
        |stats| stats.finished_total
    ),
    counter!(
        "sessions_gave_up_total" in Units,
        "Sessions with events whose viewers left while they waited.",
        |stats| stats.gave_up_total
    ),
];

static SESSIONS: Metric =
    Metric::new(Kind::Gauge, "fullbore_qoe_sessions", "Sessions in progress.");

/// Counters that exist for all sessions only.
static OF_ALL_ONLY: [Metric; 5] = [
    Metric::new(
        Kind::Counter,
        "fullbore_qoe_sessions_evicted_total",
        "Sessions evicted, because too many were in progress.",
    ),
    Metric::new(
        Kind::Counter,
        "fullbore_qoe_reports_total",
        "Reports of players that were counted.",
    ),
    Metric::new(
        Kind::Counter,
        "fullbore_qoe_reports_lost_total",
        "Reports of players dropped, because too many came at once.",
    ),
    Metric::new(Kind::Counter, "fullbore_qoe_events_total", "Events of players that were counted."),
    Metric::new(
        Kind::Counter,
        "fullbore_qoe_events_lost_total",
        "Events of players dropped, because no request of their session came from their address, or too many came at once.",
    ),
];

fn of_all_only(collector: &Collector) -> impl Iterator<Item = (Metric, u64)> {
    let values = [
        collector.evicted_total,
        collector.reports_total,
        collector.reports_lost_total,
        collector.events_total,
        collector.events_lost_total,
    ];
    OF_ALL_ONLY.into_iter().zip(values)
}

/// Every metric of this crate.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    let counters = COUNTERS.iter().flat_map(|counter| [&counter.of_all, &counter.of_title]);
    let quantities = QUANTITIES.iter().flat_map(|quantity| [&quantity.of_all, &quantity.of_title]);
    [&SESSIONS].into_iter().chain(&OF_ALL_ONLY).chain(counters).chain(quantities)
}

/// The quantiles in summaries.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// The label for all titles without figures of their own. A file is unlikely to have this name, which begins with a `:`.
const OTHER: &str = ":other";

/// Writes for Prometheus: histograms of all sessions, which can be added up over servers, and summaries by title. These are some 30
/// series for each of at most [`crate::TITLES_MAX`] titles, and as many for all sessions.
pub fn expose(collector: &Collector, to: &mut Exposition) {
    to.one(&SESSIONS, collector.sessions().count() as u64);
    for (metric, value) in of_all_only(collector) {
        to.one(&metric, value);
    }
    let mut titles = collector.by_title();
    titles.retain(|title| title.stats.sessions_total > 0);
    let name = |title: &OfTitle<'_>| title.name.unwrap_or(OTHER).to_owned();
    for counter in &COUNTERS {
        to.one(&counter.of_all, (counter.of)(&collector.all));
        let by_title = titles.iter().map(|title| (name(title), (counter.of)(&title.stats)));
        to.labelled(&counter.of_title, by_title);
    }
    for quantity in &QUANTITIES {
        let all = (quantity.of)(&collector.all);
        to.histogram(&quantity.of_all, all.up_to(), all.count_total(), all.sum_total());
        let by_title = titles
            .iter()
            .map(|title| summary(title.name.unwrap_or(OTHER), (quantity.of)(&title.stats)));
        to.summary(&quantity.of_title, by_title);
    }
}

fn summary<'a>(label: &'a str, distribution: &Distribution) -> Summary<'a> {
    let window = distribution.window(std::iter::empty());
    let told =
        QUANTILES.iter().filter_map(|of_one| Some((*of_one, window.quantile_floor(*of_one)?)));
    Summary {
        label,
        quantiles: told.collect(),
        sum: distribution.sum_total(),
        count: distribution.count_total(),
    }
}

/// A figure's name in JSON, where all figures are members of `qoe`.
fn key(metric: &Metric) -> &'static str {
    metric.key().trim_start_matches("qoe_")
}

/// The figures as JSON: `all`, and in `titles` the busiest `titles_max`, each with its `title` (`null` for the titles without figures of
/// their own, which come last). Sessions in progress are included. docs/qoe.md documents the form.
pub fn json(collector: &Collector, titles_max: usize) -> Value {
    let mut all = figures(&collector.all, &collector.sessions().collect::<Vec<_>>());
    for (metric, value) in of_all_only(collector) {
        all.insert(key(&metric).into(), value.into());
    }
    let mut titles = collector.by_title();
    titles.retain(|title| title.stats.sessions_total > 0);
    let titles: Vec<_> = titles.iter().take(titles_max).map(of_title).collect();
    let credible = &collector.credible;
    json!({
        "window_seconds": WINDOW_MS / 1000,
        "all": all,
        "credible": {
            "viewers": credible.viewers(),
            "stalling": credible.stalling(collector.now_ms),
            "stalled_seconds_total": StoredUnit::Thousandths.in_units(credible.stalled_ms_total),
            "played_seconds_total": StoredUnit::Thousandths.in_units(credible.played_ms_total),
        },
        "titles": titles,
    })
}

fn of_title(title: &OfTitle<'_>) -> Value {
    let mut figures = figures(&title.stats, &title.live);
    figures.insert("title".into(), title.name.into());
    Value::Object(figures)
}

fn figures(stats: &Stats, live: &[&Session]) -> Map<String, Value> {
    let mut figures = Map::new();
    figures.insert(key(&SESSIONS).into(), live.len().into());
    for counter in &COUNTERS {
        let value = counter.of_all.value((counter.of)(stats));
        figures.insert(key(&counter.of_all).into(), value.into());
    }
    for quantity in &QUANTITIES {
        let of_live = live.iter().filter_map(|session| (quantity.live)(session));
        let window = (quantity.of)(stats).window(of_live);
        figures.insert(key(&quantity.of_all).into(), quantiles(&window, quantity.of_all.stored));
    }
    figures
}

/// `null` if there is no value.
fn quantiles(window: &Window, stored: StoredUnit) -> Value {
    let (Some(mean), Some(max)) = (window.mean(), window.quantile_floor(1.0)) else {
        return Value::Null;
    };
    let at = |of_one| window.quantile_floor(of_one).map(|value| stored.in_units(value));
    json!({
        "count": window.count(),
        // A bucket is shown by its least value, so the mean must not exceed the largest of them.
        "mean": stored.real(mean.min(max as f64)),
        "p50": at(0.5),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "max": stored.in_units(max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cmcd, QoeReport};

    /// Session `id` of `title`, which begins at `at_ms` and takes `delay_ms` until it plays.
    fn session(at_ms: u64, id: u64, title: &str, delay_ms: u32) -> [QoeReport; 2] {
        let text = format!("d=4000,br=3000,tb=3000,ot=v,msd={delay_ms}");
        let mut media = Cmcd::default();
        media.read(text.as_bytes());
        let manifest = Cmcd { startup: true, ..Cmcd::default() };
        [
            QoeReport::new(at_ms * 1000, id, format!("{title}/master.m3u8").as_bytes(), &manifest),
            QoeReport::new((at_ms + 1000) * 1000, id, format!("{title}/1.m4s").as_bytes(), &media),
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
        near(&first["media_bytes_per_second"]["p50"], 375_000.0);
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
        collector.take(vec![QoeReport::new(0, 1, b"a/1.m4s", &stalled); 2]);
        collector.advance(10_000);
        let ratio = &json(&collector, 1)["all"]["rebuffer_ratio"];
        for figure in ["mean", "p50", "p99", "max"] {
            let ratio = ratio[figure].as_f64().unwrap();
            assert!((0.99..=1.0).contains(&ratio), "{figure}: {ratio}");
        }
    }

    #[test]
    fn every_metric_here_is_named_by_the_conventions() {
        for metric in metrics() {
            assert_eq!(metric.fault(), None, "{}", metric.name);
        }
    }

    #[test]
    fn prometheus_gets_histograms_of_all_and_summaries_by_title() {
        let mut exposition = Exposition::default();
        expose(&collector(), &mut exposition);
        let text = exposition.into_text();
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
