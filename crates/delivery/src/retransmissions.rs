//! Which connections cost a card too much.
//!
//! A card seals records in order, from a state of its own. A retransmission comes out of order: the card has to read the record again from its
//! beginning, and a path that loses much makes it do so all the time. So does a peer that acknowledges everything except tiny holes, for
//! which a few bytes are sent again and whole records read: it shows in the number of segments, not in that of bytes. Hence two shares.
//!
//! Linux cannot move a live connection from a card to the CPU, so the verdict concerns the next one of the same viewer: this one ends with
//! its next response, and until some time has passed, that viewer's connections are sealed here ([`LossyPaths`]). How many of all new
//! connections go to cards follows the losses as well ([`Share`]). How that differs from the published system is in docs/notes/card-tls.md.
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

/// Addresses of viewers whose paths lost too much, so that their next connections are not given to a card. Shared by the workers, because
/// the kernel may give a viewer who comes back to another one.
#[derive(Debug, Default)]
pub struct LossyPaths(BTreeMap<IpAddr, Instant>);

impl LossyPaths {
    /// The most addresses: some hundred KiB. With more, those that would be forgotten next are forgotten.
    const ADDRESSES_MAX: usize = 4096;

    /// How long an address counts. A guess: a film's break, or the way home.
    const FOR: Duration = Duration::from_secs(600);

    /// Notes an address. Of IPv6 it is the network of 64 bits, in which a viewer may choose any.
    pub(crate) fn note(&mut self, address: IpAddr, now: Instant) {
        if self.0.len() >= Self::ADDRESSES_MAX {
            self.0.retain(|_, until| now < *until);
        }
        if self.0.len() >= Self::ADDRESSES_MAX {
            let oldest =
                self.0.iter().min_by_key(|(_, until)| **until).map(|(address, _)| *address);
            oldest.map(|address| self.0.remove(&address));
        }
        self.0.insert(network(address), now + Self::FOR);
    }

    /// Whether an address was noted lately.
    pub(crate) fn has(&self, address: IpAddr, now: Instant) -> bool {
        self.0.get(&network(address)).is_some_and(|until| now < *until)
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// The share of new connections that cards get.
#[derive(Debug)]
pub(crate) struct Share {
    /// In 1024ths.
    share: u32,
    /// The part of a connection that is due, in 1024ths.
    due: u32,
    /// What the connections on cards have sent since the share was looked at.
    sum: SendProgress,
    looked_at: Option<Instant>,
}

impl Default for Share {
    fn default() -> Self {
        Self { share: Self::ALL, due: 0, sum: SendProgress::default(), looked_at: None }
    }
}

impl Share {
    const ALL: u32 = 1024;

    /// A card that is given nothing shows nothing either.
    const MIN: u32 = Self::ALL / 16;

    /// How often the share changes at most. A guess: long enough for a window of each of many connections.
    const EVERY: Duration = Duration::from_secs(10);

    /// Whether the next connection goes to a card.
    pub(crate) fn takes_next(&mut self) -> bool {
        self.due += self.share;
        let takes = self.due >= Self::ALL;
        if takes {
            self.due -= Self::ALL;
        }
        takes
    }

    /// Notes what a connection on a card has sent. Above the limit cards get a fifth less than before, below it a sixteenth of all more.
    pub(crate) fn note(&mut self, window: SendProgress, limits: LossLimits, now: Instant) {
        self.sum = self.sum.with(window);
        let looked_at = *self.looked_at.get_or_insert(now);
        if now.saturating_duration_since(looked_at) < Self::EVERY {
            return;
        }
        let SendProgress { sent_bytes, retransmitted_bytes, .. } = self.sum;
        let is_above =
            retransmitted_bytes as f64 * 100.0 > sent_bytes as f64 * limits.bytes_percent;
        self.share = match is_above {
            true => Self::MIN.max(self.share * 4 / 5),
            false => Self::ALL.min(self.share + Self::ALL / 16),
        };
        (self.sum, self.looked_at) = (SendProgress::default(), Some(now));
    }
}

#[cfg(test)]
mod tests;
