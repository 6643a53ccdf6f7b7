//! Counts of all packets, as text and as JSON.

use fullbore_middlebox::Counters;
use serde::Serialize;

use crate::bridge::{Bridge, Lapses};

/// Counts of all packets, in both directions.
#[derive(Serialize)]
pub(crate) struct Report {
    version: u32,
    kind: &'static str,
    ways: [DirectionReport; 2],
}

#[derive(Serialize)]
struct DirectionReport {
    from: String,
    to: String,
    offered_packets: u64,
    offered_bytes: u64,
    delivered_packets: u64,
    delivered_bytes: u64,
    lost_packets: u64,
    reordered_packets: u64,
    duplicated_packets: u64,
    queue_full_packets: u64,
    held_too_much_packets: u64,
    refused_by_interface_packets: u64,
    unusable_frames: u64,
    dropped_by_kernel_frames: u64,
    queue_bytes_most: u64,
}

impl DirectionReport {
    fn new(from: &str, to: &str, (counters, lapses): (&Counters, &Lapses)) -> Self {
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            offered_packets: counters.offered_packets,
            offered_bytes: counters.offered_bytes,
            delivered_packets: counters.delivered_packets,
            delivered_bytes: counters.delivered_bytes,
            lost_packets: counters.lost_packets,
            reordered_packets: counters.reordered_packets,
            duplicated_packets: counters.duplicated_packets,
            queue_full_packets: counters.queue_full_packets,
            held_too_much_packets: counters.held_too_much_packets,
            refused_by_interface_packets: lapses.refused_by_interface_packets,
            unusable_frames: lapses.unusable_frames,
            dropped_by_kernel_frames: lapses.dropped_by_kernel_frames,
            queue_bytes_most: counters.queue_bytes_most,
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} -> {}: {} packets came, {} left ({} bytes)\n",
            self.from, self.to, self.offered_packets, self.delivered_packets, self.delivered_bytes
        );
        let reasons = [
            (self.lost_packets, "lost by chance"),
            (self.reordered_packets, "held back by chance"),
            (self.duplicated_packets, "sent twice by chance"),
            (self.queue_full_packets, "dropped: the bottleneck's queue was full (--queue)"),
            (self.held_too_much_packets, "dropped: the path held too much (--held)"),
            (
                self.refused_by_interface_packets,
                "dropped: the interface was full, or its MTU too small",
            ),
            (self.unusable_frames, "dropped: could not be cut into packets"),
            (self.dropped_by_kernel_frames, "dropped by the kernel: this process was too slow"),
        ];
        for (count, reason) in reasons.iter().filter(|(count, _)| *count > 0) {
            text += &format!("  {count:>10} {reason}\n");
        }
        text
    }
}

impl Report {
    /// The report of the middlebox between the interfaces `names`.
    pub(crate) fn new([a, b]: [&str; 2], bridge: &Bridge) -> Self {
        let ways = [
            DirectionReport::new(a, b, bridge.counters(0)),
            DirectionReport::new(b, a, bridge.counters(1)),
        ];
        Self { version: 1, kind: "middlebox", ways }
    }

    /// As text: one line per direction, and one for each reason that occurred.
    pub(crate) fn text(&self) -> String {
        self.ways.iter().map(DirectionReport::text).collect()
    }

    /// As JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and names can be written") + "\n"
    }
}
