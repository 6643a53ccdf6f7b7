//! Congestion control: how much may be in flight, and how fast it leaves. CUBIC (`loss_based.rs`) or BBR (`bbr/`, version 1 in `bbr1/`), as
//! [`Config::congestion_control`](crate::Config::congestion_control) says.
//!
//! Loss recovery detects losses; this module decides their effect on the window. Everything is in bytes.

mod aggregation;
mod bbr;
mod bbr1;
mod cubic;
mod filters;
mod loss_based;
mod pacer;
mod prr;
mod rate;
mod slow_start;
mod usage;

use bbr::Bbr;
use bbr1::Bbr1;
use loss_based::LossBased;
pub(crate) use pacer::Pacer;

use crate::CongestionControl;
use crate::clock::Time;

/// The result of an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    /// SND.UNA and SND.NXT after it, as offsets.
    pub(crate) acknowledged: u64,
    pub(crate) sent_below: u64,
    /// The bytes by which SND.UNA advanced.
    pub(crate) advanced_bytes: u64,
    /// Newly acknowledged or SACKed. Without SACKs a duplicate ACK counts as a segment.
    pub(crate) delivered_bytes: u64,
    /// The same, each byte counted once.
    pub(crate) arrived_bytes: u64,
    /// When the latest of these bytes was sent.
    pub(crate) newest_sent_at: Option<Time>,
    /// Bytes newly detected as lost.
    pub(crate) lost_bytes: u64,
    pub(crate) in_flight_before: u64,
    pub(crate) in_flight: u64,
    /// How much less than the window may be in flight while the window still counts as used: the size of one want, and a segment that does not fit.
    pub(crate) slack_bytes: u64,
    /// The window allowed more for a while, but there was nothing to send.
    pub(crate) app_limited: bool,
    pub(crate) rtt_us: Option<u64>,
    /// How many acknowledgements this one stands for.
    pub(crate) acks: u32,
    pub(crate) srtt_us: u64,
}

/// Bytes sent, for the first time or again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) now: Time,
    pub(crate) bytes: u64,
    /// Bytes in flight, including these.
    pub(crate) in_flight: u64,
    pub(crate) srtt_us: u64,
}

/// A connection's initial values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) now: Time,
    pub(crate) mss: u64,
    pub(crate) initial_segments: u64,
    pub(crate) cwnd_max: u64,
    /// Differs from connection to connection, so that they do not probe at the same times.
    pub(crate) seed: u64,
}

/// The pace of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// This many bytes in a round trip; in half of one in slow start.
    Window { bytes: u64, slow_start: bool },
    /// This many bytes per second.
    Rate(u64),
}

#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and saves an allocation"
)]
pub(crate) enum Congestion {
    LossBased(LossBased),
    Bbr(Box<Bbr>),
    Bbr1(Box<Bbr1>),
}

impl Congestion {
    pub(crate) fn new(control: CongestionControl, start: &Start) -> Self {
        match control {
            CongestionControl::Cubic => {
                Self::LossBased(LossBased::new(start.mss, start.initial_segments, start.cwnd_max))
            }
            CongestionControl::Bbr => Self::Bbr(Box::new(Bbr::new(start))),
            CongestionControl::Bbr1 => Self::Bbr1(Box::new(Bbr1::new(start))),
        }
    }

    pub(crate) fn cwnd(&self) -> u64 {
        match self {
            Self::LossBased(cubic) => cubic.cwnd(),
            Self::Bbr(bbr) => bbr.cwnd(),
            Self::Bbr1(bbr) => bbr.cwnd(),
        }
    }

    /// The slow-start threshold; with BBR the most bytes in flight that were found safe.
    pub(crate) fn ssthresh(&self) -> u64 {
        match self {
            Self::LossBased(cubic) => cubic.ssthresh(),
            Self::Bbr(bbr) => bbr.inflight_hi(),
            Self::Bbr1(_) => u64::MAX,
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        match self {
            Self::LossBased(cubic) => {
                Pace::Window { bytes: cubic.pace_bytes(), slow_start: cubic.in_slow_start() }
            }
            Self::Bbr(bbr) => bbr.pace(),
            Self::Bbr1(bbr) => bbr.pace(),
        }
    }

    /// Returns true if it needs [`Acked::app_limited`].
    pub(crate) fn measures_rate(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Bbr1(_))
    }

    /// In fast recovery or after a timeout.
    pub(crate) fn is_recovering(&self) -> bool {
        match self {
            Self::LossBased(cubic) => cubic.is_recovering(),
            Self::Bbr(bbr) => bbr.is_recovering(),
            Self::Bbr1(bbr) => bbr.is_recovering(),
        }
    }

    /// The recovery point: once this offset is acknowledged, the current recovery is over.
    pub(crate) fn point(&self) -> u64 {
        match self {
            Self::LossBased(cubic) => cubic.point(),
            Self::Bbr(bbr) => bbr.point(),
            Self::Bbr1(bbr) => bbr.point(),
        }
    }

    /// Memory outside of this struct.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::LossBased(cubic) => cubic.memory_bytes(),
            Self::Bbr(bbr) => size_of::<Bbr>() + bbr.memory_bytes(),
            Self::Bbr1(bbr) => size_of::<Bbr1>() + bbr.memory_bytes(),
        }
    }

    /// Sets another segment size. The window stays the same in bytes.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        match self {
            Self::LossBased(cubic) => cubic.set_mss(mss),
            Self::Bbr(bbr) => bbr.set_mss(mss),
            Self::Bbr1(bbr) => bbr.set_mss(mss),
        }
    }

    pub(crate) fn sent(&mut self, sent: &Sent) {
        match self {
            Self::LossBased(cubic) => cubic.sent(sent.bytes),
            Self::Bbr(bbr) => bbr.sent(sent),
            Self::Bbr1(bbr) => bbr.sent(sent),
        }
    }

    /// Processes an acknowledgement. True: it began a fast recovery.
    pub(crate) fn acked(&mut self, acked: &Acked) -> bool {
        match self {
            Self::LossBased(cubic) => cubic.acked(acked),
            Self::Bbr(bbr) => bbr.acked(acked),
            Self::Bbr1(bbr) => bbr.acked(acked),
        }
    }

    /// Handles a loss that a timer and not an acknowledgement detected, or a tail loss probe has shown. True: it began a fast recovery.
    pub(crate) fn lost(
        &mut self,
        lost_bytes: u64,
        in_flight_before: u64,
        in_flight: u64,
        sent_below: u64,
    ) -> bool {
        match self {
            Self::LossBased(cubic) => cubic.lost(in_flight_before, in_flight, sent_below),
            Self::Bbr(bbr) => bbr.lost(lost_bytes, sent_below),
            Self::Bbr1(bbr) => bbr.lost(lost_bytes, in_flight, sent_below),
        }
    }

    /// RFC 3168 section 6.1.2: a mark counts as a loss, once per window of data. False: this window was already
    /// reduced, or it does not count: with BBR, ECN is not agreed to.
    pub(crate) fn marked(&mut self, in_flight: u64, sent_below: u64) -> bool {
        match self {
            Self::LossBased(cubic) => cubic.marked(in_flight, sent_below),
            Self::Bbr(_) | Self::Bbr1(_) => false,
        }
    }

    /// Handles a retransmission timeout.
    pub(crate) fn timed_out(&mut self, lost_bytes: u64, acknowledged: u64, sent_below: u64) {
        match self {
            Self::LossBased(cubic) => cubic.timed_out(acknowledged, sent_below),
            Self::Bbr(bbr) => bbr.timed_out(lost_bytes, sent_below),
            Self::Bbr1(bbr) => bbr.timed_out(lost_bytes, sent_below),
        }
    }

    /// Nothing was lost (RFC 3522 section 3.2, RFC 2883): restores the window. False: there is nothing to undo.
    pub(crate) fn undo(&mut self) -> bool {
        match self {
            Self::LossBased(cubic) => cubic.undo(),
            Self::Bbr(bbr) => bbr.undo(),
            Self::Bbr1(bbr) => bbr.undo(),
        }
    }

    /// Records that the loss was real: it will not be undone.
    pub(crate) fn confirm(&mut self) {
        match self {
            Self::LossBased(cubic) => cubic.confirm(),
            Self::Bbr(bbr) => bbr.confirm(),
            Self::Bbr1(_) => {}
        }
    }

    /// Called when nothing was in flight for `idle_us` and sending starts again.
    pub(crate) fn idle(&mut self, now: Time, idle_us: u64, rto_us: u64) {
        match self {
            Self::LossBased(cubic) => cubic.idle(idle_us, rto_us),
            Self::Bbr(bbr) => bbr.idle(now),
            Self::Bbr1(bbr) => bbr.idle(now),
        }
    }
}

/// `percent` percent of `of`.
fn part(of: u64, percent: u64) -> u64 {
    (u128::from(of) * u128::from(percent) / 100).min(u128::from(u64::MAX)) as u64
}

/// `SplitMix64`: the same numbers for the same seed.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod reports_tests;
