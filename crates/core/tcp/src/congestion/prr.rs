//! Proportional rate reduction (RFC 6937 and RFC 9937, which replaces it): during recovery the window shrinks in
//! proportion to what is delivered.

/// The state of section 3 of RFC 6937, in bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prr {
    /// RecoverFS: the bytes in flight when recovery began.
    in_flight_at_start: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    pub(crate) fn new(in_flight: u64) -> Self {
        Prr { in_flight_at_start: in_flight.max(1), delivered: 0, out: 0 }
    }

    pub(crate) fn sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// How many bytes may be sent after an ACK that delivered `delivered`, while `pipe` are in flight.
    /// `progress` means that the ACK advances the left edge and detects no new loss. Only then is the pipe refilled as in slow start (SSRB);
    /// otherwise as many bytes leave as were delivered (CRB). RFC 9937 has settled on this, after Linux.
    pub(crate) fn may_send(
        &mut self,
        delivered: u64,
        pipe: u64,
        ssthresh: u64,
        mss: u64,
        progress: bool,
    ) -> u64 {
        self.delivered += delivered;
        // At least one segment is sent at the beginning: the retransmission that started recovery.
        let least = if self.out == 0 { mss } else { 0 };
        if pipe > ssthresh {
            let share = (self.delivered as u128 * ssthresh as u128)
                .div_ceil(self.in_flight_at_start as u128);
            return (share as u64).saturating_sub(self.out).max(least);
        }
        let conservation = self.delivered.saturating_sub(self.out);
        let limit = if progress { conservation.max(delivered) + mss } else { conservation };
        limit.min(ssthresh - pipe).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_comes_down_in_proportion() {
        // RFC 6937 section 4: 20 segments, one lost, halving: seven of ten ACKs allow a segment.
        let mut prr = Prr::new(20);
        let mut pipe = 19;
        let mut sent = 0;
        for _ in 0..10 {
            pipe -= 1;
            let now = prr.may_send(1, pipe, 14, 1, false);
            prr.sent(now);
            pipe += now;
            sent += now;
        }
        assert_eq!(sent, 7);
    }

    #[test]
    fn a_pipe_that_ran_empty_is_refilled_up_to_the_threshold_only() {
        let mut prr = Prr::new(100);
        assert_eq!(prr.may_send(10, 5, 50, 1, true), 11);
        prr.sent(11);
        assert_eq!(prr.may_send(1, 49, 50, 1, true), 1);
    }

    #[test]
    fn the_first_retransmission_leaves_in_any_case() {
        assert_eq!(Prr::new(10).may_send(0, 10, 10, 3, false), 3);
    }
}
