//! Finds the connections that cost a NIC too much.
//!
//! A NIC seals records in order, from a state of its own. A retransmission comes out of order: the NIC has to read the record again from its
//! beginning, and a path that loses much makes it do so all the time. So does a peer that acknowledges everything except tiny holes: a few bytes are
//! sent again for each, but whole records are read. That shows in the number of segments, not in that of bytes. Hence two shares.
//!
//! Linux cannot move a live connection from a NIC to the CPU, so the verdict affects the same viewer's next connection. This one ends with its next
//! response, and for some time that viewer's connections are sealed here ([`LossyPaths`]). The share of new connections that go to NICs follows the
//! losses as well (`nic_shares`). docs/notes/card-tls.md says how that differs from the published system.
//!
//! No I/O and no clock: time is an argument.

use net::SendProgress;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// The window over which the share of retransmissions is taken, in bytes: a share of less means little.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;

/// Shares above which a connection costs too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossLimits {
    /// Retransmitted bytes, in percent of those sent.
    pub bytes_percent: f64,
    /// Retransmitted segments, in percent of those sent.
    pub segments_percent: f64,
}

impl Default for LossLimits {
    /// The published system's limit for bytes. The limit for segments is a guess, above what a lossy path reaches with full segments.
    fn default() -> Self {
        Self { bytes_percent: 1.0, segments_percent: 5.0 }
    }
}

/// Why a connection costs too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Costly {
    /// Its path loses too much.
    Bytes,
    /// Its peer makes it send many small pieces again.
    Segments,
}

impl Costly {
    /// The counter's label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Segments => "segments",
        }
    }
}

/// Watches one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// The progress at the start of its window.
    began: SendProgress,
    verdict: Option<Costly>,
}

impl Watch {
    /// Checks the progress `now`. Returns what happened since the window began, if the window is full.
    pub(crate) fn look(&mut self, now: SendProgress, limits: LossLimits) -> Option<SendProgress> {
        let window = now.since(self.began);
        if window.sent_bytes < WINDOW_BYTES {
            return None;
        }
        self.began = now;
        let is_above =
            |part: u64, all: u64, percent: f64| part as f64 * 100.0 > all as f64 * percent;
        if is_above(window.retransmitted_bytes, window.sent_bytes, limits.bytes_percent) {
            self.verdict.get_or_insert(Costly::Bytes);
        }
        let (again, all) = (window.retransmitted_segments, window.sent_segments);
        if is_above(again, all, limits.segments_percent) {
            self.verdict.get_or_insert(Costly::Segments);
        }
        Some(window)
    }

    /// Why the connection costs too much, if any of its windows did.
    pub(crate) fn verdict(&self) -> Option<Costly> {
        self.verdict
    }
}

/// How a returning viewer is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// By the number in its ticket ([`tls::SessionInfo::viewer`]).
    Viewer(u64),
    /// By its address, if it has no ticket. For IPv6 that is the 64-bit network, in which a viewer may choose any address.
    Address(IpAddr),
}

impl Whose {
    pub(crate) fn of_address(address: IpAddr) -> Self {
        Self::Address(network(address))
    }
}

/// Viewers whose paths lost too much, so that their next connections are not given to a NIC. Shared by the workers, because the kernel may give a
/// returning viewer to another one.
#[derive(Debug, Default)]
pub struct LossyPaths(BTreeMap<Whose, Instant>);

impl LossyPaths {
    /// The most entries: some hundred KiB. A viewer takes two. Beyond that, the entries that would expire next are dropped.
    const ENTRIES_MAX: usize = 8192;

    /// How long an entry counts. A guess: a film's break, or the way home.
    const FOR: Duration = Duration::from_secs(600);

    /// Adds a viewer.
    pub(crate) fn note(&mut self, whose: Whose, now: Instant) {
        if self.0.len() >= Self::ENTRIES_MAX {
            self.0.retain(|_, until| now < *until);
        }
        if self.0.len() >= Self::ENTRIES_MAX {
            let oldest = self.0.iter().min_by_key(|(_, until)| **until).map(|(whose, _)| *whose);
            oldest.map(|whose| self.0.remove(&whose));
        }
        self.0.insert(whose, now + Self::FOR);
    }

    /// Returns true if a viewer was added recently.
    pub(crate) fn has(&self, whose: Whose, now: Instant) -> bool {
        self.0.get(&whose).is_some_and(|until| now < *until)
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests;
