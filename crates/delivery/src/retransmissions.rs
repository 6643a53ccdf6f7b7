//! Which connections cost a card too much.
//!
//! A card seals records in order, from a state of its own. A retransmission comes out of order: the card has to read the record again from its
//! beginning, and a path that loses much makes it do so all the time. So does a peer that acknowledges everything except tiny holes, for
//! which a few bytes are sent again and whole records read: it shows in the number of segments, not in that of bytes. Hence two shares.
//!
//! Linux cannot move a live connection from a card to the CPU, so the verdict concerns the next one of the same viewer: this one ends with
//! its next response, and until some time has passed, that viewer's connections are sealed here ([`LossyPaths`]). How many of all new
//! connections go to cards follows the losses as well (`card_shares`). How that differs from the published system is in docs/notes/card-tls.md.
//!
//! No I/O and no clock: time is an argument.

use net::SendProgress;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Bytes whose share of retransmissions counts: a share of less says little.
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
    /// The published system's limit for bytes. That for segments is a guess, above what a lossy path reaches with full segments.
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
    /// A counter's label.
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
    /// Where its window began.
    began: SendProgress,
    verdict: Option<Costly>,
}

impl Watch {
    /// Looks at how far the connection is `now`. Returns what happened since the window began, if one is full.
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

/// By what a viewer is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// By the number in its ticket ([`crypt::SessionInfo::viewer`]).
    Viewer(u64),
    /// Without a ticket, by its address. Of IPv6 it is the network of 64 bits, in which a viewer may choose any.
    Address(IpAddr),
}

impl Whose {
    pub(crate) fn of_address(address: IpAddr) -> Self {
        Self::Address(network(address))
    }
}

/// Viewers whose paths lost too much, so that their next connections are not given to a card. Shared by the workers, because the kernel may give
/// a viewer who comes back to another one.
#[derive(Debug, Default)]
pub struct LossyPaths(BTreeMap<Whose, Instant>);

impl LossyPaths {
    /// The most entries: some hundred KiB. A viewer takes two. With more, those that would be forgotten next are forgotten.
    const ENTRIES_MAX: usize = 8192;

    /// How long an entry counts. A guess: a film's break, or the way home.
    const FOR: Duration = Duration::from_secs(600);

    /// Notes a viewer.
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

    /// Whether a viewer was noted lately.
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
