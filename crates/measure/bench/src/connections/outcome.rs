//! The figures for each number of connections.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::peer::Habits;
use super::progress::Progress;
use super::server::Sample;
use super::{Options, Stretch};
use crate::machine_json::machine_json;

/// Figures for all numbers of connections.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) options: Options,
    pub(super) rows: Vec<Row>,
}

/// Figures for one number of connections.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    connections: u32,
    seconds: f64,
    /// The server's sending rate, without headers of TCP and below.
    gbps: f64,
    cpu_percent: f64,
    cpu_ns_per_byte: f64,
    wakeups_per_mib: f64,
    timers_per_mib: f64,
    wants_per_mib: f64,
    frames_sent_per_mib: f64,
    frames_received_per_mib: f64,
    /// Percentage of records that were encrypted more than once.
    records_again_percent: f64,
    kept_percent: f64,
    retransmitted_bytes: u64,
    /// Longest time to publish the counters.
    publish_ms_max: f64,
    /// Growth of resident memory since before the first viewer, without the viewers' own memory.
    rss_bytes: u64,
    bytes_per_connection: f64,
    /// Memory as the server itself counts it.
    counted_bytes_per_connection: f64,
    in_flight_bytes: u64,
    peer_bytes: u64,
    peer_cpu_percent: f64,
    answers: u64,
    late: u64,
    /// Jain's index over bytes per viewer.
    jain: f64,
}

/// Assembles a run's figures.
///
/// # Errors
/// If viewers saw faults of the server, or the counters do not cover the stretch.
pub(super) fn row(
    habits: &Habits,
    progress: &Progress,
    stretch: Stretch,
    resident_bytes: u64,
    before_bytes: u64,
    peer_bytes: usize,
) -> io::Result<Row> {
    progress.with(|told| {
        if told.counted.faults > 0 {
            let why = format!("viewers saw {} faults of the server", told.counted.faults);
            return Err(io::Error::other(why));
        }
        let within = |sample: &&Sample| sample.at >= stretch.from && sample.at <= stretch.to;
        let mut samples = told.samples.iter().filter(within);
        let (Some(first), Some(last)) = (samples.next(), samples.next_back()) else {
            return Err(io::Error::other("too short a time to measure: raise --seconds"));
        };
        let publish = told.samples.iter().filter(within).map(|sample| sample.publish).max();
        let shares = told.shares.take().unwrap_or_default();
        let growth = resident_bytes.saturating_sub(before_bytes);
        // The viewers' table already existed at the start, so it is not part of the growth.
        let rss_bytes = growth.saturating_sub(peer_bytes as u64 - habits.table_bytes());
        let viewers = f64::from(habits.viewers);
        let mut row = rates(first, last);
        row.connections = habits.viewers;
        row.publish_ms_max = publish.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        row.rss_bytes = rss_bytes;
        row.bytes_per_connection = rss_bytes as f64 / viewers;
        row.counted_bytes_per_connection = last.connection_bytes as f64 / viewers;
        row.in_flight_bytes = last.in_flight_bytes;
        row.peer_bytes = peer_bytes as u64;
        row.peer_cpu_percent = told.peer_cpu_percent(stretch.from, stretch.to);
        row.answers = told.counted.answers;
        row.late = told.counted.late;
        row.jain = jain(&shares);
        Ok(row)
    })
}

fn rates(first: &Sample, last: &Sample) -> Row {
    let seconds = (last.at - first.at).as_secs_f64();
    let cpu = (last.cpu - first.cpu).as_secs_f64();
    let sent = (last.sent_bytes - first.sent_bytes) as f64;
    let mib = sent / f64::from(1 << 20);
    let records = sent / (tls::PLAINTEXT_MAX as f64 + 22.0);
    let per_mib = |of: fn(&Sample) -> u64| (of(last) - of(first)) as f64 / mib;
    Row {
        seconds,
        gbps: sent * 8e-9 / seconds,
        cpu_percent: 100.0 * cpu / seconds,
        cpu_ns_per_byte: cpu * 1e9 / sent,
        wakeups_per_mib: per_mib(|sample| sample.wakeups),
        timers_per_mib: per_mib(|sample| sample.timers),
        wants_per_mib: per_mib(|sample| sample.wants),
        frames_sent_per_mib: per_mib(|sample| sample.frames_sent),
        frames_received_per_mib: per_mib(|sample| sample.frames_received),
        records_again_percent: 100.0 * (last.records_again - first.records_again) as f64 / records,
        kept_percent: 100.0 * (last.kept_bytes - first.kept_bytes) as f64 / sent,
        retransmitted_bytes: last.retransmitted_bytes - first.retransmitted_bytes,
        ..Row::default()
    }
}

/// Jain's index of fairness: 1 if all got the same, 1/n if one got everything.
fn jain(shares: &[u32]) -> f64 {
    let sum: f64 = shares.iter().map(|share| f64::from(*share)).sum();
    let squares: f64 = shares.iter().map(|share| f64::from(*share).powi(2)).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 0.0 }
}

impl Row {
    /// `None` if `value` is not the JSON of a row.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("a row has numbers only")
    }

    fn describe(&self) -> String {
        format!(
            "{:>9}  {:>7.0}  {:>7.3}  {:>6.2}  {:>6.1}  {:>8.2}  {:>8.2}  {:>8.1}  {:>7.1}  {:>8.2}  {:>6.3}  {:>6}\n",
            self.connections,
            self.bytes_per_connection,
            self.rss_bytes as f64 / f64::from(1 << 30),
            self.gbps,
            self.cpu_percent,
            self.cpu_ns_per_byte,
            self.wakeups_per_mib,
            self.timers_per_mib,
            self.records_again_percent,
            self.publish_ms_max,
            self.jain,
            self.late,
        )
    }
}

impl Outcome {
    /// Cost per byte with the most connections, relative to that with the fewest.
    fn growth(&self) -> Option<f64> {
        let (first, last) = (self.rows.first()?, self.rows.last()?);
        Some(last.cpu_ns_per_byte / first.cpu_ns_per_byte)
    }

    /// As text.
    pub fn describe(&self) -> String {
        let Options { total_bytes_per_second, link_bytes_per_second, body_bytes, .. } =
            self.options;
        let machine = machine_json();
        let mut text = format!(
            "the bypass route without a network, on {}: {:.1} Gb/s for all viewers together, in answers of {} KiB, over \
             links of {:.0} Mb/s, round trips of 10 to 80 ms\n\
             {:>9}  {:>7}  {:>7}  {:>6}  {:>6}  {:>8}  {:>8}  {:>8}  {:>7}  {:>8}  {:>6}  {:>6}\n",
            machine["cpu"].as_str().unwrap_or("an unknown processor"),
            total_bytes_per_second * 8e-9,
            body_bytes >> 10,
            link_bytes_per_second * 8e-6,
            "viewers",
            "B each",
            "GiB",
            "Gb/s",
            "CPU %",
            "ns/byte",
            "wakes/M",
            "timers/M",
            "again %",
            "publ. ms",
            "Jain",
            "late",
        );
        for row in &self.rows {
            text += &row.describe();
        }
        if let Some(growth) = self.growth().filter(|_| self.rows.len() > 1) {
            text += &format!("the last costs {growth:.2} times as much per byte as the first\n");
        }
        text
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "version": 1,
            "kind": "connections",
            "machine": machine_json(),
            "total_bits_per_second": self.options.total_bytes_per_second * 8.0,
            "link_bits_per_second": self.options.link_bytes_per_second * 8.0,
            "body_bytes": self.options.body_bytes,
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "growth": self.growth(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_tells_equal_shares_from_one_share() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[0, 8, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 0.0);
        assert_eq!(jain(&[]), 0.0);
    }

    #[test]
    fn a_row_survives_the_way_between_two_processes() {
        let row = Row { connections: 7, jain: 0.5, late: 3, ..Row::default() };
        let back = Row::from_json(&row.to_json()).unwrap();
        assert_eq!((back.connections, back.jain, back.late), (7, 0.5, 3));
        assert!(Row::from_json(&json!({"connections": "many"})).is_none());
    }
}
