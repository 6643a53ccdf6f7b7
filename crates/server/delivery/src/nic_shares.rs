//! The share of new connections that a NIC gets.
//!
//! A NIC has to read records again for bytes that it seals out of order. The watch on single connections ends those that cost too much. This module
//! handles the case where all paths together lose more than the NIC can bear. In the published system, the limit on single connections alone left
//! about a third of them in software.
//!
//! A NIC's share follows its own counters, if its driver has them, and otherwise the bytes that the kernel retransmitted for the connections on it.
//! The counters are read from time to time, outside the byte path, and passed to [`NicShares::adapt`].
//!
//! No I/O and no clock.

use crate::retransmissions::LossLimits;
use net::SendProgress;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// All new connections. Shares are in 1024ths.
const ALL: u32 = 1024;

/// The smallest share: a NIC without connections would never show that its losses are over.
const MIN: u32 = ALL / 16;

/// Packets that a NIC has encrypted so far, by its own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounts {
    /// Packets encrypted in order.
    pub in_order: u64,
    /// Packets encrypted out of order.
    pub out_of_order: u64,
}

/// A NIC's work over an interval, and how much of it came out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    all: u64,
    out_of_order: u64,
}

impl Load {
    /// The difference between two readings of the counters. They go backwards when a driver is reloaded, and then the difference is 0.
    fn since(now: NicCounts, before: NicCounts) -> Self {
        let out_of_order = now.out_of_order.saturating_sub(before.out_of_order);
        Self { all: now.in_order.saturating_sub(before.in_order) + out_of_order, out_of_order }
    }

    fn of_progress(sent: SendProgress) -> Self {
        Self { all: sent.sent_bytes, out_of_order: sent.retransmitted_bytes }
    }

    fn is_above(self, percent: f64) -> bool {
        self.out_of_order as f64 * 100.0 > self.all as f64 * percent
    }
}

/// The next share: a fifth less than before if the load is above the limit, else a sixteenth of all connections more. So it falls fast and rises
/// slowly, and around the limit it swings within a fifth.
fn next_share(share: u32, load: Load, percent: f64) -> u32 {
    if load.is_above(percent) { MIN.max(share * 4 / 5) } else { ALL.min(share + ALL / 16) }
}

/// The shares of all NICs, for all workers.
#[derive(Debug, Default)]
pub struct NicShares(Mutex<BTreeMap<u32, NicShare>>);

#[derive(Debug)]
struct NicShare {
    share: u32,
    /// The accumulated share of connections that the NIC does not get, in 1024ths.
    others: u32,
    /// The counters at the last reading, if there are any.
    before: Option<NicCounts>,
    /// Bytes and segments that connections on the NIC have sent since the last reading.
    sent: SendProgress,
}

impl Default for NicShare {
    fn default() -> Self {
        Self { share: ALL, others: 0, before: None, sent: SendProgress::default() }
    }
}

impl NicShares {
    /// How often to adapt the shares. A guess: long enough for many connections to have sent a MiB.
    pub const EVERY: Duration = Duration::from_secs(10);

    /// Adapts the share of a NIC whose counters are `counts`, if its driver has them. Returns the share in percent.
    pub fn adapt(&self, nic: u32, counts: Option<NicCounts>, limits: LossLimits) -> u32 {
        let mut nics = self.nics();
        let nic = nics.entry(nic).or_default();
        let sent = std::mem::take(&mut nic.sent);
        let load = match (counts, nic.before) {
            (Some(now), Some(before)) => Load::since(now, before),
            (Some(_), None) => Load::default(),
            (None, _) => Load::of_progress(sent),
        };
        nic.before = counts;
        nic.share = next_share(nic.share, load, limits.bytes_percent);
        nic.share * 100 / ALL
    }

    /// Adds the bytes and segments that a connection on a NIC has sent.
    pub(crate) fn note(&self, nic: u32, sent: SendProgress) {
        let mut nics = self.nics();
        let nic = nics.entry(nic).or_default();
        nic.sent = nic.sent.with(sent);
    }

    /// Returns true if the next connection goes to the NIC.
    pub(crate) fn takes_next(&self, nic: u32) -> bool {
        let mut nics = self.nics();
        let nic = nics.entry(nic).or_default();
        nic.others += ALL - nic.share;
        let takes = nic.others < ALL;
        if !takes {
            nic.others -= ALL;
        }
        takes
    }

    fn nics(&self) -> MutexGuard<'_, BTreeMap<u32, NicShare>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LossLimits = LossLimits { bytes_percent: 1.0, segments_percent: 5.0 };

    #[test]
    fn the_next_share_falls_by_a_fifth_above_the_limit_and_rises_by_a_sixteenth_below() {
        let load = |out_of_order| Load { all: 1000, out_of_order };
        let table = [
            (ALL, 0, ALL),
            (ALL, 10, ALL),
            (ALL, 11, 819),
            (819, 500, 655),
            (655, 10, 719),
            (1000, 0, ALL),
            (MIN, 1000, MIN),
            (70, 1000, MIN),
        ];
        for (share, out_of_order, next) in table {
            assert_eq!(next_share(share, load(out_of_order), 1.0), next, "{share} {out_of_order}");
        }
        assert_eq!(next_share(MIN, Load::default(), 1.0), 2 * MIN, "nothing was sent");
    }

    #[test]
    fn a_share_follows_the_cards_counters_and_each_card_has_its_own() {
        let shares = NicShares::default();
        let counts = |in_order, out_of_order| Some(NicCounts { in_order, out_of_order });
        assert_eq!(
            shares.adapt(2, counts(1000, 900), LIMITS),
            100,
            "counted before the server started"
        );
        assert_eq!(shares.adapt(2, counts(2000, 1000), LIMITS), 79);
        assert_eq!(shares.adapt(2, counts(3000, 1100), LIMITS), 63);
        assert_eq!(shares.adapt(3, counts(0, 0), LIMITS), 100);
        let taken = |nic| (0..1000).filter(|_| shares.takes_next(nic)).count();
        assert!(taken(2).abs_diff(639) <= 1, "{}", taken(2));
        assert_eq!(taken(3), 1000);
        assert_eq!(shares.adapt(2, counts(5000, 1110), LIMITS), 70);
        for _ in 0..5 {
            shares.adapt(2, counts(5000, 1110), LIMITS);
        }
        assert_eq!(taken(2), 1000);
        assert_eq!(shares.adapt(2, counts(10, 0), LIMITS), 100, "the driver was reloaded");
    }

    #[test]
    fn without_counters_it_follows_what_was_sent_again() {
        let shares = NicShares::default();
        let sent = |retransmitted_bytes| SendProgress {
            sent_bytes: 1 << 20,
            retransmitted_bytes,
            ..SendProgress::default()
        };
        shares.note(2, sent(1 << 16));
        shares.note(2, sent(0));
        assert_eq!(shares.adapt(2, None, LIMITS), 79);
        shares.note(2, sent(1 << 10));
        assert_eq!(shares.adapt(2, None, LIMITS), 86);
    }
}
