//! Connections on the passive side whose handshake is in progress (SYN-RECEIVED), and their SYN-ACKs.

use crate::agreed::Agreed;
use crate::alarms::Armed;
use crate::clock::Time;
use crate::config::Config;
use crate::header::{Flags, Incoming, Outgoing, Timestamps};
use crate::keyed::Pair;
use crate::segment::Transmit;
use crate::seq::Seq;

/// A SYN-ACK is sent after 0, 1, 3, 7 and 15 seconds (RFC 6298 section 2.1 says one second first), then the peer has 16
/// more.
const TRIES_MAX: u8 = 5;
const WAIT_US: u64 = 1_000_000;

/// The parts of a SYN that are kept.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    pub(crate) pair: Pair,
    pub(crate) isn: Seq,
    pub(crate) peer_isn: Seq,
    pub(crate) agreed: Agreed,
    pub(crate) timestamp_offset: u32,
    /// The peer's, from its SYN.
    pub(crate) timestamp: u32,
    sent_at: Time,
    tries: u8,
    repeated: bool,
    pub(crate) armed: Armed,
}

/// The meaning of a segment for a half-open connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Nothing,
    /// A repeated SYN: the SYN-ACK was lost.
    Again,
    /// The handshake is complete.
    Completes,
    /// The peer aborts the handshake.
    Aborts,
    /// An ACK for something else (RFC 9293 section 3.10.7.4): answered with a RST.
    Wrong,
}

impl HalfOpen {
    pub(crate) fn new(
        pair: Pair,
        isn: Seq,
        segment: &Incoming<'_>,
        agreed: Agreed,
        offset: u32,
    ) -> Self {
        HalfOpen {
            pair,
            isn,
            peer_isn: segment.seq,
            agreed,
            timestamp_offset: offset,
            timestamp: segment.options.timestamps.map_or(0, |timestamps| timestamps.value),
            sent_at: Time(0),
            tries: 0,
            repeated: false,
            armed: Armed::NOT,
        }
    }

    /// The SYN-ACK, when it is due.
    pub(crate) fn answer(&mut self, now: Time, config: &Config) -> Transmit {
        self.sent_at = now;
        self.tries += 1;
        self.syn_ack(now, config)
    }

    /// Repeats the SYN-ACK out of turn. After that, the round trip cannot be measured.
    pub(crate) fn repeat(&mut self, now: Time, config: &Config) -> Transmit {
        self.repeated = true;
        self.syn_ack(now, config)
    }

    fn syn_ack(&self, now: Time, config: &Config) -> Transmit {
        let stamp = self.timestamp_offset.wrapping_add(now.milliseconds() as u32);
        syn_ack(config, &self.pair, self.isn, self.peer_isn, &self.agreed, stamp, self.timestamp)
    }

    /// When to send it again, or to give up.
    pub(crate) fn deadline(&self) -> Time {
        let doublings = self.tries.saturating_sub(1).min(TRIES_MAX);
        self.sent_at.after_us(WAIT_US << doublings)
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.tries >= TRIES_MAX
    }

    /// How long the answer took; unknown if the SYN-ACK was sent twice (Karn).
    pub(crate) fn rtt_us(&self, now: Time) -> Option<u64> {
        (self.tries == 1 && !self.repeated).then(|| now.since_us(self.sent_at))
    }

    /// RFC 9293 section 3.10.7.4 for SYN-RECEIVED.
    pub(crate) fn meaning(&self, segment: &Incoming<'_>, window: u32) -> Meaning {
        let ahead = segment.seq.ahead_of(self.peer_isn.plus(1));
        if segment.flags.has(Flags::RST) {
            return if ahead == 0 { Meaning::Aborts } else { Meaning::Nothing };
        }
        if segment.flags.has(Flags::SYN) {
            return if segment.flags.has(Flags::ACK) { Meaning::Nothing } else { Meaning::Again };
        }
        if !segment.flags.has(Flags::ACK) {
            return Meaning::Nothing;
        }
        if segment.ack != self.isn.plus(1) {
            return Meaning::Wrong;
        }
        let in_window = ahead >= 0 && i64::from(ahead) <= i64::from(window);
        if in_window { Meaning::Completes } else { Meaning::Nothing }
    }
}

/// A SYN-ACK with our timestamp and the peer's.
pub(crate) fn syn_ack(
    config: &Config,
    pair: &Pair,
    isn: Seq,
    peer_isn: Seq,
    agreed: &Agreed,
    stamp: u32,
    echo: u32,
) -> Transmit {
    let header = Outgoing {
        source: pair.local.port(),
        destination: pair.remote.port(),
        seq: isn,
        ack: peer_isn.plus(1),
        flags: Flags::SYN.with(Flags::ACK).with_if(agreed.ecn, Flags::ECE),
        window: config.receive_bytes_max.min(0xffff) as u16,
        options: agreed.syn_ack_options(config, pair, Timestamps { value: stamp, echo }),
    };
    Transmit::without_payload(pair, header.emit())
}
