//! A connection's figures, and its next deadline.

use super::Connection;
use super::state::Stage;
use crate::clock::{Time, micros};
use crate::time_wait::Remembrance;
use crate::{Config, Info};

impl Connection {
    /// Bytes of memory that a peer can make a connection hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.board.memory_bytes()
            + self.congestion.memory_bytes()
            + self.receive.memory_bytes()
            + self.declined.memory_bytes()
    }

    pub(crate) fn segment_bytes(&self) -> u16 {
        self.segment_bytes as u16
    }

    pub(crate) fn info(&self) -> Info {
        let duration = std::time::Duration::from_micros;
        Info {
            srtt: duration(self.rtt.srtt_us()),
            rttvar: duration(self.rtt.rttvar_us()),
            rtt_min: duration(self.rtt.minimum_us()),
            rto: duration(self.rtt.rto_us()),
            cwnd_bytes: self.congestion.cwnd(),
            ssthresh_bytes: self.congestion.ssthresh(),
            in_flight_bytes: self.in_flight(),
            peer_window_bytes: self.window.right.saturating_sub(self.sent_below),
            segment_bytes: self.segment_bytes(),
            sent_below: self.sent_below.min(self.written),
            acknowledged_below: self.acknowledged.min(self.written),
            retransmitted_bytes: self.retransmitted_bytes,
            delivery_rate_bytes_per_second: self.delivery.per_second,
            pacing_rate_bytes_per_second: self.pacer.rate().unwrap_or(0),
            memory_bytes: self.memory_bytes(),
            ranges: self.board.ranges(),
            recovering: self.congestion.is_recovering(),
        }
    }

    /// The state that TIME-WAIT needs.
    pub(crate) fn remembrance(&self, config: &Config) -> Remembrance {
        Remembrance {
            pair: self.pair,
            next: self.seq_of(self.sent_below),
            expected: self.peer_seq_of(self.receive.next_with_fin()),
            timestamps: self.agreed.timestamps.then_some((self.stamps.offset, self.stamps.recent)),
            window: (self.receive.window() >> self.agreed.receive_shift(config)).min(0xffff) as u16,
        }
    }

    /// The next deadline.
    pub(crate) fn deadline(&self, config: &Config) -> Time {
        if self.ended.is_some() {
            return Time::NEVER;
        }
        let timers = &self.timers;
        [
            timers.retransmit,
            timers.probe,
            timers.reorder,
            timers.persist,
            timers.delayed_ack,
            timers.pace,
            timers.fin_wait,
            self.stall_at(config),
            self.keep_alive_at(config),
        ]
        .into_iter()
        .min()
        .unwrap_or(Time::NEVER)
    }

    /// The time at which the peer has made us wait for too long.
    pub(super) fn stall_at(&self, config: &Config) -> Time {
        let waits = self.stage == Stage::Open && (self.peer_owes() || self.timers.persist.is_set());
        if waits { self.progress_at.after_us(micros(config.stall)) } else { Time::NEVER }
    }

    /// When to probe a silent peer (RFC 9293 section 3.8.4): only if nothing else would detect its absence.
    pub(super) fn keep_alive_at(&self, config: &Config) -> Time {
        let Some(keep_alive) = config.keep_alive else { return Time::NEVER };
        let idle = self.stage == Stage::Open
            && !self.peer_owes()
            && !self.timers.persist.is_set()
            && !self.timers.fin_wait.is_set();
        if !idle {
            return Time::NEVER;
        }
        let interval = micros(keep_alive.interval) * u64::from(self.silent_probes);
        self.heard_at.after_us(micros(keep_alive.idle) + interval)
    }
}
