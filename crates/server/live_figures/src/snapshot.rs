//! The figures of one second: the difference between two [`Figures`], with units in every name.

use super::faults::{Fault, errors_total, faults};
use super::history::{COLUMNS, Past, Point};
use super::machine_rates::{DiskRate, NicRate, Rates};
use super::popular::{Popular, Title};
use super::{Constants, Figures};
use serde::Serialize;
use std::collections::BTreeMap;
use telemetry::since_1970;
use telemetry::{Counted, Family};

/// Seconds over which times to first byte are reported: a single second has few.
const WAITS_SECONDS: usize = 10;

/// One second of the server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Snapshot {
    version: u32,
    kind: &'static str,
    fullbore: &'static str,
    unix_seconds: f64,
    uptime_seconds: f64,
    route: &'static str,
    disk: String,
    sent_gbps: f64,
    connections: u64,
    sending: u64,
    connections_per_second: f64,
    requests_per_second: f64,
    errors_per_second: f64,
    cpu: Cpu,
    gbps_per_cpu_percent: Option<f64>,
    first_byte: FirstByte,
    cache: Cache,
    edge: Option<Edge>,
    disks: Vec<DiskRate>,
    nics: Vec<NicRate>,
    handshakes: BTreeMap<&'static str, u64>,
    handshakes_by_kind: BTreeMap<&'static str, u64>,
    handshakes_per_second: f64,
    routes: BTreeMap<&'static str, u64>,
    responses: BTreeMap<&'static str, u64>,
    errors: Vec<Fault>,
    titles: Vec<Title>,
    buffers: Buffers,
    rss_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Cpu {
    /// The load of each worker, 0 to 1.
    workers: Vec<f64>,
    mean: f64,
    max: f64,
}

#[derive(Clone, Debug, Serialize)]
struct FirstByte {
    count: u64,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Cache {
    hit_ratio: Option<f64>,
    from_memory_mb_per_second: f64,
    from_disk_mb_per_second: f64,
    hot_bytes: u64,
    hot_bytes_max: u64,
    hot_pinned_bytes: u64,
    hot_read: Flow,
    hot_filled: Flow,
    hot_evicted: Flow,
}

/// A caching edge. Ratios are those of the last second and since the start, of what viewers got.
#[derive(Clone, Debug, Serialize)]
struct Edge {
    origin_is_down: bool,
    waiting: u64,
    fetched: Flow,
    bytes_from_cache_ratio: Option<f64>,
    bytes_from_cache_ratio_total: Option<f64>,
    requests_from_cache_ratio: Option<f64>,
    requests_from_cache_ratio_total: Option<f64>,
    lookups: BTreeMap<&'static str, u64>,
    purges: BTreeMap<&'static str, u64>,
    ahead: BTreeMap<&'static str, u64>,
    ahead_is_paused: bool,
}

/// Bytes lately and since the start.
#[derive(Clone, Debug, Serialize)]
struct Flow {
    mb_per_second: f64,
    bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Buffers {
    read: u64,
    read_free: u64,
    send: u64,
    send_free: u64,
    waits_per_second: f64,
}

impl Snapshot {
    /// The snapshot of `now`, compared with the past.
    pub(super) fn new(
        now: &Figures,
        past: &Past,
        rates: &Rates,
        popular: &Popular,
        constants: &Constants,
    ) -> Self {
        let step = Step::new(now, past.last());
        let cpu = step.cpu();
        let sent_gbps = step.rate(|sums| sums.transport_sent_bytes_total) * 8.0 / 1e9;
        let cpu_percent = cpu.workers.iter().sum::<f64>() * 100.0;
        Self {
            version: 1,
            kind: "dashboard",
            fullbore: env!("CARGO_PKG_VERSION"),
            unix_seconds: (since_1970().as_secs_f64() * 1e3).round() / 1e3,
            uptime_seconds: constants.started.elapsed().as_secs_f64().round(),
            route: constants.route,
            disk: constants.disk.clone(),
            sent_gbps: rounded(sent_gbps),
            connections: now.totals.connections,
            sending: now.totals.sending,
            connections_per_second: rounded(step.rate(|sums| sums.connections_accepted_total)),
            requests_per_second: rounded(step.rate(|sums| sums.requests_total)),
            errors_per_second: rounded(step.growth_per_second(errors_total)),
            // Below a hundredth of a core, the server's own housekeeping would be measured.
            gbps_per_cpu_percent: (cpu_percent >= 1.0).then(|| rounded(sent_gbps / cpu_percent)),
            cpu,
            first_byte: FirstByte::new(now, past.before(WAITS_SECONDS)),
            cache: step.cache(),
            edge: step.edge(),
            disks: rates.disks.clone(),
            nics: rates.nics.clone(),
            handshakes: of_family(now, Family::Handshakes),
            handshakes_by_kind: of_family(now, Family::Resumptions),
            handshakes_per_second: rounded(step.growth_per_second(|figures| {
                figures.totals.family(Family::Handshakes).map(|(_, count)| count).sum()
            })),
            routes: of_family(now, Family::Routes),
            responses: of_family(now, Family::Responses),
            errors: faults(now, past.before(60)),
            titles: popular.busiest(),
            buffers: step.buffers(),
            rss_bytes: crate::resident_bytes(),
        }
    }

    /// The part of it that is drawn as curves.
    pub(super) fn point(&self) -> Point {
        let (waits, cache) = (&self.first_byte, &self.cache);
        let point = [
            Some(self.unix_seconds),
            Some(self.sent_gbps),
            Some(self.connections as f64),
            Some(self.sending as f64),
            Some(self.cpu.mean),
            Some(self.cpu.max),
            self.gbps_per_cpu_percent,
            waits.p50_ms,
            waits.p99_ms,
            cache.hit_ratio,
            Some(rounded(self.disks.iter().map(|disk| disk.read_mb_per_second).sum())),
            Some(rounded(self.nics.iter().map(|nic| nic.sent_gbps).sum())),
            Some(self.requests_per_second),
            Some(self.errors_per_second),
        ];
        debug_assert_eq!(point.len(), COLUMNS.len());
        point
    }

    /// The snapshot as JSON, with the point under its own name.
    pub(super) fn into_json(self) -> serde_json::Map<String, serde_json::Value> {
        let point: serde_json::Map<_, _> = COLUMNS
            .iter()
            .zip(self.point())
            .map(|(name, value)| ((*name).to_owned(), value.into()))
            .collect();
        let json = serde_json::to_value(self).expect("it is made of numbers and strings");
        let serde_json::Value::Object(mut json) = json else {
            unreachable!("a struct is an object")
        };
        json.insert("point".into(), point.into());
        json
    }
}

impl FirstByte {
    fn new(now: &Figures, before: &Figures) -> Self {
        let waits = now.totals.first_byte.since(&before.totals.first_byte);
        let ms = |of_one| waits.quantile(of_one).map(|microseconds| rounded(microseconds / 1e3));
        Self { count: waits.count(), p50_ms: ms(0.5), p95_ms: ms(0.95), p99_ms: ms(0.99) }
    }
}

/// The change between two moments.
struct Step<'a> {
    now: &'a Figures,
    before: &'a Figures,
    seconds: f64,
}

impl<'a> Step<'a> {
    fn new(now: &'a Figures, before: &'a Figures) -> Self {
        // Two snapshots at the same moment would make infinite rates.
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        Self { now, before, seconds }
    }

    fn growth_per_second(&self, of: impl Fn(&Figures) -> u64) -> f64 {
        of(self.now).saturating_sub(of(self.before)) as f64 / self.seconds
    }

    fn rate(&self, of: impl Fn(&Counted) -> u64) -> f64 {
        self.growth_per_second(|figures| of(&figures.totals))
    }

    fn cpu(&self) -> Cpu {
        let pairs = self.now.totals.by_worker().iter().zip(self.before.totals.by_worker());
        let part = |(now, before): (&Counted, &Counted)| {
            let microseconds =
                now.worker_cpu_seconds_total.saturating_sub(before.worker_cpu_seconds_total);
            rounded((microseconds as f64 / 1e6 / self.seconds).min(1.0))
        };
        let workers: Vec<f64> = pairs.map(part).collect();
        let mean = workers.iter().sum::<f64>() / workers.len().max(1) as f64;
        let max = workers.iter().copied().fold(0.0, f64::max);
        Cpu { workers, mean: rounded(mean), max }
    }

    /// A byte that the kernel sent by itself came from memory, unless it was read into the page cache for that.
    fn cache(&self) -> Cache {
        let brought = self.rate(|sums| sums.brought_bytes_total);
        let sent_from_memory = (self.rate(|sums| sums.sendfile_bytes_total) - brought).max(0.0);
        let from_memory = self.rate(|sums| sums.read_hot_bytes_total)
            + self.rate(|sums| sums.read_resident_bytes_total)
            + sent_from_memory;
        let from_disk = brought
            + self.rate(|sums| sums.read_cached_bytes_total)
            + self.rate(|sums| sums.read_once_bytes_total)
            + self.rate(|sums| sums.read_direct_bytes_total);
        let all = from_memory + from_disk;
        Cache {
            hit_ratio: (all > 0.0).then(|| rounded(from_memory / all)),
            from_memory_mb_per_second: rounded(from_memory / 1e6),
            from_disk_mb_per_second: rounded(from_disk / 1e6),
            hot_bytes: self.now.totals.hot_bytes,
            hot_bytes_max: self.now.totals.hot_bytes_max,
            hot_pinned_bytes: self.now.totals.hot_pinned_bytes,
            hot_read: self.flow(|sums| sums.read_hot_bytes_total),
            hot_filled: self.flow(|sums| sums.hot_filled_bytes_total),
            hot_evicted: self.flow(|sums| sums.hot_evicted_bytes_total),
        }
    }

    /// None on a server that has looked up nothing as an edge.
    fn edge(&self) -> Option<Edge> {
        let lookups = of_family(self.now, Family::EdgeLookups);
        if lookups.is_empty() {
            return None;
        }
        let sent = |figures: &Figures| figures.totals.transport_sent_bytes_total;
        let fetched = |figures: &Figures| figures.totals.edge_fetched_bytes_total;
        // An edge may fetch more than it sends: ahead of viewers, and for those who have left.
        let share = |all: u64, missed: u64| {
            (all > 0).then(|| rounded(all.saturating_sub(missed) as f64 / all as f64))
        };
        let grown = |of: &dyn Fn(&Figures) -> u64| of(self.now).saturating_sub(of(self.before));
        let all_lookups = |figures: &Figures| lookups_of(figures, |_| true);
        let missed_lookups =
            |figures: &Figures| lookups_of(figures, |result| !is_from_cache(result));
        Some(Edge {
            origin_is_down: self.now.totals.edge_origin_down > 0,
            waiting: self.now.totals.edge_waiting,
            fetched: self.flow(|sums| sums.edge_fetched_bytes_total),
            bytes_from_cache_ratio: share(grown(&sent), grown(&fetched)),
            bytes_from_cache_ratio_total: share(sent(self.now), fetched(self.now)),
            requests_from_cache_ratio: share(grown(&all_lookups), grown(&missed_lookups)),
            requests_from_cache_ratio_total: share(all_lookups(self.now), missed_lookups(self.now)),
            lookups,
            purges: of_family(self.now, Family::EdgePurges),
            ahead: of_family(self.now, Family::EdgeAhead),
            ahead_is_paused: self.now.totals.edge_ahead_paused > 0,
        })
    }

    fn flow(&self, of: impl Fn(&Counted) -> u64) -> Flow {
        let bytes = of(&self.now.totals);
        Flow { mb_per_second: rounded(self.rate(of) / 1e6), bytes }
    }

    fn buffers(&self) -> Buffers {
        Buffers {
            read: self.now.totals.read_buffers,
            read_free: self.now.totals.read_buffers_free,
            send: self.now.totals.send_buffers,
            send_free: self.now.totals.send_buffers_free,
            waits_per_second: rounded(self.rate(|sums| sums.buffer_waits_total)),
        }
    }
}

/// Whether a lookup with this result needed nothing of the origin. After `asked`, the origin was asked first.
fn is_from_cache(result: &str) -> bool {
    matches!(result, "hit" | "stale")
}

fn lookups_of(figures: &Figures, is_counted: impl Fn(&str) -> bool) -> u64 {
    let lookups = figures.totals.family(Family::EdgeLookups);
    lookups.filter(|(result, _)| is_counted(result)).map(|(_, count)| count).sum()
}

fn of_family(figures: &Figures, family: Family) -> BTreeMap<&'static str, u64> {
    figures.totals.family(family).collect()
}

/// Rounds to four digits: the dashboard shows no more, and the stream is a third as long.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use telemetry::Numbers;

    #[test]
    fn numbers_keep_four_digits() {
        for (value, wanted) in
            [(0.0, 0.0), (12_345.6, 12_350.0), (0.012_345_6, 0.012_35), (f64::NAN, 0.0)]
        {
            assert_eq!(rounded(value), wanted);
        }
    }

    #[test]
    fn a_second_is_told_by_what_came_in_it() {
        let workers = [Arc::new(Numbers::default()), Arc::new(Numbers::default())];
        let mut past = Past::default();
        past.push(Figures::of(&workers));
        for worker in &workers {
            worker.transport_sent_bytes_total.add(62_500_000);
            worker.read_resident_bytes_total.add(300);
            worker.read_direct_bytes_total.add(100);
            worker.hot_filled_bytes_total.add(2 << 20);
            worker.first_byte.record(2000);
        }
        workers[0].worker_cpu_seconds_total.add(500_000);
        workers[0].edge_fetched_bytes_total.set(31_250_000);
        workers[0].set(Family::EdgeLookups, "hit", 3);
        workers[0].set(Family::EdgeLookups, "asked", 1);
        let mut now = Figures::of(&workers);
        now.at = past.last().at + Duration::from_secs(1);
        let constants =
            Constants { route: "userspace", disk: "auto".into(), started: Instant::now() };
        let snapshot =
            Snapshot::new(&now, &past, &Rates::default(), &Popular::default(), &constants);
        let json = snapshot.into_json();
        assert_eq!(json["sent_gbps"], 1.0);
        assert_eq!(json["cpu"]["workers"], serde_json::json!([0.5, 0.0]));
        assert_eq!(json["gbps_per_cpu_percent"], 0.02);
        assert_eq!(json["cache"]["hit_ratio"], 0.75);
        let filled = serde_json::json!({ "mb_per_second": 4.194, "bytes": 4 << 20 });
        assert_eq!(json["cache"]["hot_filled"], filled);
        assert_eq!(json["edge"]["bytes_from_cache_ratio"], 0.75);
        assert_eq!(json["edge"]["requests_from_cache_ratio_total"], 0.75);
        assert_eq!(json["first_byte"]["count"], 2);
        assert_eq!(json["point"]["sent_gbps"], 1.0);
    }
}
