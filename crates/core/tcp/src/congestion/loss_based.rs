//! A window that losses shrink: CUBIC (RFC 9438) with HyStart++ (RFC 9406), PRR (RFC 6937) and ECN (RFC 3168).

use super::Acked;
use super::cubic::Cubic;
use super::prr::Prr;
use super::slow_start::SlowStart;
use super::usage::Usage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// After an ECN mark: the window shrinks, although nothing is lost.
    Reducing,
    /// Fast recovery (RFC 6675, RFC 8985).
    Recovery,
    /// After a retransmission timeout (RFC 5681 section 3.1).
    Loss,
}

#[derive(Debug, Clone)]
struct Before {
    cwnd: u64,
    ssthresh: u64,
    cubic: Cubic,
}

#[derive(Debug)]
pub(crate) struct LossBased {
    cwnd: u64,
    cwnd_max: u64,
    initial: u64,
    ssthresh: u64,
    mss: u64,
    phase: Phase,
    /// RecoveryPoint (RFC 6675 section 2): once this is acknowledged, the phase is over.
    point: u64,
    prr: Prr,
    cubic: Cubic,
    slow_start: SlowStart,
    usage: Usage,
    /// The state to return to if the loss turns out to be spurious.
    before: Option<Box<Before>>,
}

impl LossBased {
    pub(crate) fn new(mss: u64, initial_segments: u64, cwnd_max: u64) -> Self {
        let initial = mss * initial_segments;
        LossBased {
            cwnd: initial,
            cwnd_max: cwnd_max.max(initial),
            initial,
            ssthresh: u64::MAX,
            mss,
            phase: Phase::Open,
            point: 0,
            prr: Prr::default(),
            cubic: Cubic::default(),
            slow_start: SlowStart::new(),
            usage: Usage::default(),
            before: None,
        }
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(crate) fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// How many bytes should leave within a round trip. During recovery the window follows the bytes in flight, down to nothing; the pace uses the
    /// window's target.
    pub(crate) fn pace_bytes(&self) -> u64 {
        match self.phase {
            Phase::Open | Phase::Loss => self.cwnd.max(self.mss),
            Phase::Recovery | Phase::Reducing => self.ssthresh,
        }
    }

    /// In fast recovery or after a timeout.
    pub(crate) fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Loss)
    }

    /// The recovery point: once this offset is acknowledged, the current recovery is over.
    pub(crate) fn point(&self) -> u64 {
        self.point
    }

    /// Memory outside of this struct.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.before.as_ref().map_or(0, |_| size_of::<Before>())
    }

    /// Sets a smaller segment size. The window stays the same in bytes.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.cwnd = self.cwnd.max(mss);
    }

    pub(crate) fn sent(&mut self, bytes: u64) {
        if matches!(self.phase, Phase::Recovery | Phase::Reducing) {
            self.prr.sent(bytes);
        }
    }

    /// Processes an acknowledgement. True: it began a fast recovery.
    pub(crate) fn acked(&mut self, acked: &Acked) -> bool {
        self.leave_if_over(acked.acknowledged);
        self.usage.note(acked);
        let enters = acked.lost_bytes > 0 && matches!(self.phase, Phase::Open | Phase::Reducing);
        if enters {
            self.enter_recovery(acked);
        }
        match self.phase {
            Phase::Open | Phase::Loss => self.grow(acked),
            Phase::Recovery | Phase::Reducing => {
                let progress = acked.advanced_bytes > 0 && acked.lost_bytes == 0;
                let more = self.prr.may_send(
                    acked.delivered_bytes,
                    acked.in_flight,
                    self.ssthresh,
                    self.mss,
                    progress,
                );
                self.cwnd = acked.in_flight + more;
            }
        }
        enters
    }

    fn leave_if_over(&mut self, acknowledged: u64) {
        if self.phase == Phase::Open || acknowledged < self.point {
            return;
        }
        if matches!(self.phase, Phase::Recovery | Phase::Reducing) {
            self.cwnd = self.ssthresh.max(self.mss);
        }
        self.phase = Phase::Open;
        // The bytes in flight before show nothing about the use of the new window.
        self.usage = Usage::default();
    }

    fn reduce(&mut self) {
        self.before = Some(Box::new(Before {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            cubic: self.cubic.clone(),
        }));
        self.ssthresh = self.cubic.reduce(self.cwnd, self.mss);
    }

    fn enter_recovery(&mut self, acked: &Acked) {
        if self.phase == Phase::Open {
            self.reduce();
            self.prr = Prr::new(acked.in_flight_before);
        }
        self.phase = Phase::Recovery;
        self.point = acked.sent_below;
    }

    /// Handles a loss that a timer and not an acknowledgement detected, or a tail loss probe has shown. True: it began a fast recovery.
    pub(crate) fn lost(&mut self, in_flight_before: u64, in_flight: u64, sent_below: u64) -> bool {
        let enters = matches!(self.phase, Phase::Open | Phase::Reducing);
        if enters {
            if self.phase == Phase::Open {
                self.reduce();
                self.prr = Prr::new(in_flight_before);
            }
            self.phase = Phase::Recovery;
            self.point = sent_below;
        }
        if self.phase == Phase::Recovery {
            let more = self.prr.may_send(0, in_flight, self.ssthresh, self.mss, false);
            self.cwnd = in_flight + more;
        }
        enters
    }

    /// RFC 3168 section 6.1.2: a mark counts as a loss, once per window of data. False: this window was already reduced.
    pub(crate) fn marked(&mut self, in_flight: u64, sent_below: u64) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        self.reduce();
        self.before = None;
        self.prr = Prr::new(in_flight);
        self.phase = Phase::Reducing;
        self.point = sent_below;
        true
    }

    /// Handles a retransmission timeout (RFC 5681 section 3.1): back to one segment. The threshold is reduced once per window of data.
    pub(crate) fn timed_out(&mut self, acknowledged: u64, sent_below: u64) {
        if matches!(self.phase, Phase::Open | Phase::Reducing) || acknowledged >= self.point {
            self.reduce();
        }
        self.phase = Phase::Loss;
        self.point = sent_below;
        self.cwnd = self.mss;
        self.slow_start = SlowStart::new();
    }

    /// Nothing was lost (RFC 3522 section 3.2, RFC 2883): restores the window. False: there is nothing to undo.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(before) = self.before.take() else { return false };
        self.cwnd = self.cwnd.max(before.cwnd);
        self.ssthresh = before.ssthresh;
        self.cubic = before.cubic;
        self.cubic.restart();
        self.phase = Phase::Open;
        true
    }

    /// Records that the loss was real: it will not be undone.
    pub(crate) fn confirm(&mut self) {
        self.before = None;
    }

    /// RFC 9438 section 5.8 and RFC 7661: only a window that was used grows.
    fn grow(&mut self, acked: &Acked) {
        if acked.advanced_bytes == 0 {
            return;
        }
        if self.in_slow_start() {
            self.grow_in_slow_start(acked);
        } else if self.usage.bytes() + acked.slack_bytes >= self.cwnd {
            self.cwnd = self.cubic.grown(
                acked.now,
                acked.srtt_us,
                self.cwnd,
                self.mss,
                acked.advanced_bytes,
            );
        } else {
            self.cubic.restart();
        }
        self.cwnd = self.cwnd.min(self.cwnd_max);
    }

    fn grow_in_slow_start(&mut self, acked: &Acked) {
        let growth = self.slow_start.growth(
            acked.acknowledged,
            acked.sent_below,
            acked.rtt_us.map(|rtt_us| (rtt_us, acked.acks)),
            acked.advanced_bytes,
        );
        match growth {
            // Half used is enough here, because the window doubles within one round trip.
            Some(bytes) if 2 * self.usage.bytes() >= self.cwnd => {
                self.cwnd = (self.cwnd + bytes).min(self.ssthresh);
            }
            Some(_) => {}
            None => self.ssthresh = self.cwnd,
        }
    }

    /// Nothing was in flight for `idle_us` (RFC 5681 section 4.1): the window halves for each retransmission timeout
    /// that has passed, down to the initial window.
    pub(crate) fn idle(&mut self, idle_us: u64, rto_us: u64) {
        if self.phase != Phase::Open || idle_us < rto_us || self.cwnd <= self.initial {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let halvings = (idle_us / rto_us.max(1)).min(32);
        self.cwnd = (self.cwnd >> halvings).max(self.initial);
        self.cubic.restart();
        self.slow_start = SlowStart::new();
    }
}

#[cfg(test)]
#[path = "loss_based_tests.rs"]
mod tests;
