//! The figures of a gateway that receives heartbeats.

use serde_json::{Value, json};

use super::Options;
use crate::machine_json::machine_json;
use crate::populated::{StoreWritten, Tallied};

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) options: Options,
    pub(super) at_rest: Stretch,
    /// How long the gateway took to learn of all nodes, and what that cost it.
    pub(super) known_seconds: f64,
    pub(super) known_cpu_seconds: f64,
    pub(super) beating: Stretch,
    /// Nodes that are sent viewers, at the end.
    pub(super) serving: u64,
    /// Requests that the gateway refused, in all.
    pub(super) refused: u64,
    pub(super) rss_bytes_max: u64,
    pub(super) first_trouble: Option<String>,
}

/// The counts of a stretch of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    /// Resident bytes at its end.
    pub(super) rss_bytes: u64,
    /// Bytes that the gateway has written to disk.
    pub(super) disk_bytes: u64,
    pub(super) tallied: Tallied,
    /// In ascending order.
    pub(super) latencies_us: Vec<u32>,
    pub(super) store: StoreWritten,
    /// Snapshots that the gateway made.
    pub(super) snapshots: u64,
}

impl Stretch {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// Percentage of one core.
    fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu_seconds / self.seconds
    }

    /// The latency that this share of answers stays below.
    fn latency_ms(&self, share: f64) -> Option<f64> {
        let last = self.latencies_us.len().checked_sub(1)?;
        let at = (last as f64 * share) as usize;
        self.latencies_us.get(at).map(|micros| f64::from(*micros) / 1000.0)
    }

    fn to_json(&self) -> Value {
        let Tallied { answered, lost, inventories, snapshots, .. } = self.tallied;
        json!({
            "seconds": self.seconds,
            "cpu_percent": self.cpu_percent(),
            "cpu_seconds": self.cpu_seconds,
            "rss_bytes": self.rss_bytes,
            "disk_bytes_per_second": self.per_second(self.disk_bytes),
            "beats": answered,
            "beats_per_second": self.per_second(answered),
            "beats_lost": lost,
            "inventories": inventories,
            "snapshots_fetched": snapshots,
            "received_bytes_per_second": self.per_second(self.tallied.sent_bytes),
            "sent_bytes_per_second": self.per_second(self.tallied.received_bytes),
            "sent_snapshot_bytes_per_second": self.per_second(self.tallied.snapshot_bytes),
            "store_changes": self.store.revision,
            "store_writes": self.store.transactions,
            "store_writes_per_second": self.per_second(self.store.transactions),
            "snapshots_made": self.snapshots,
            "p50_ms": self.latency_ms(0.5),
            "p99_ms": self.latency_ms(0.99),
            "max_ms": self.latency_ms(1.0),
        })
    }
}

impl Outcome {
    /// CPU time per heartbeat, including all work that follows from it, less the gateway's use at rest.
    fn micros_per_beat(&self) -> Option<f64> {
        let (rest, beating) = (&self.at_rest, &self.beating);
        let cpu_seconds = beating.cpu_seconds - rest.cpu_seconds / rest.seconds * beating.seconds;
        let answered = beating.tallied.answered;
        (answered > 0).then(|| cpu_seconds * 1e6 / answered as f64)
    }

    /// As text.
    pub fn describe(&self) -> String {
        let Self { options, at_rest, beating, .. } = self;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let rate_mb = |bytes: u64| beating.per_second(bytes) / 1e6;
        let millis = |share| beating.latency_ms(share).unwrap_or(f64::NAN);
        let machine = machine_json();
        let tallied = beating.tallied;
        let mut text = format!(
            "{} nodes with {} titles each beat every {:.1} s for {:.0} s: {:.0} heartbeats a second, on {}\n",
            options.nodes,
            options.titles,
            options.interval.as_secs_f64(),
            beating.seconds,
            beating.per_second(tallied.answered),
            machine["cpu"].as_str().unwrap_or("an unknown processor"),
        );
        text += &format!(
            "the gateway took {:.1} % of a core ({:.1} % at rest), {:.0} us a heartbeat; {:.0} MiB resident, {:.0} MiB at most\n",
            beating.cpu_percent(),
            at_rest.cpu_percent(),
            self.micros_per_beat().unwrap_or(f64::NAN),
            mib(beating.rss_bytes),
            mib(self.rss_bytes_max),
        );
        text += &format!(
            "half of the answers took less than {:.2} ms, 99 % less than {:.2} ms, the slowest {:.1} ms; {} of {} heartbeats were lost\n",
            millis(0.5),
            millis(0.99),
            millis(1.0),
            tallied.lost,
            tallied.lost + tallied.answered,
        );
        text += &format!(
            "before TLS, {:.2} MB/s came from nodes and {:.2} MB/s went to them; {}\n",
            rate_mb(tallied.sent_bytes),
            rate_mb(tallied.received_bytes),
            self.describe_fetched(),
        );
        text += &format!(
            "the store: {} changes, {:.2} writes a second ({:.2} at rest: the lease); {:.2} snapshots a second were made, \
             {:.2} MB/s written to disk\n",
            beating.store.revision,
            beating.per_second(beating.store.transactions),
            at_rest.per_second(at_rest.store.transactions),
            beating.per_second(beating.snapshots),
            rate_mb(beating.disk_bytes),
        );
        text += &format!(
            "all nodes were known after {:.0} s, which took {:.1} CPU seconds; {} serve at the end\n",
            self.known_seconds, self.known_cpu_seconds, self.serving,
        );
        if let Some(trouble) = &self.first_trouble {
            text += &format!("the first problem: {trouble}\n");
        }
        text
    }

    fn describe_fetched(&self) -> String {
        let tallied = self.beating.tallied;
        match self.options.snapshots {
            None => "no node fetched snapshots (--snapshots)".to_owned(),
            Some(_) => format!(
                "{} snapshots were fetched, {:.1} MB/s",
                tallied.snapshots,
                self.beating.per_second(tallied.snapshot_bytes) / 1e6
            ),
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "version": 1,
            "kind": "heartbeats",
            "machine": machine_json(),
            "nodes": self.options.nodes,
            "titles": self.options.titles,
            "interval_seconds": self.options.interval.as_secs_f64(),
            "snapshot_interval_seconds": self.options.snapshots.map(|after| after.as_secs_f64()),
            "at_rest": self.at_rest.to_json(),
            "beating": self.beating.to_json(),
            "cpu_us_per_beat": self.micros_per_beat(),
            "rss_bytes_max": self.rss_bytes_max,
            "known_seconds": self.known_seconds,
            "known_cpu_seconds": self.known_cpu_seconds,
            "serving": self.serving,
            "refused": self.refused,
            "first_trouble": self.first_trouble,
        })
    }
}
