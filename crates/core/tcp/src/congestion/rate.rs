//! Delivery rate samples: how fast the path carried the bytes that an acknowledgement reports.
//!
//! A sample reaches from a send to its acknowledgement: the bytes delivered meanwhile, divided by the longer of the times that sending and
//! acknowledging took. The draft keeps a few numbers with each packet. Here they are kept for some [`DEPARTURES_PER_ROUND`] moments of a round trip,
//! because ranges in flight have their times and nothing else (`scoreboard/`). So a sample may begin that much earlier than its packet, which changes
//! its length and not its rate. Moments before the newest one that was answered are forgotten: a packet that arrives so late gives no sample.

use std::collections::VecDeque;

use crate::clock::Time;
use crate::congestion::{Acked, Sent};

/// Remembered moments: 448 bytes, two round trips. If a round trip grows beyond that, they get further apart, because a flow whose packets give no
/// samples would never learn that they take longer.
const DEPARTURES_MAX: usize = 16;

const DEPARTURES_PER_ROUND: u64 = 8;

/// The connection's state at a send. Times are in microseconds and wrap, and so do sums of bytes: only differences count, and a departure is
/// forgotten long before they get too large.
#[derive(Debug, Clone, Copy)]
struct Departure {
    at: u32,
    /// P.first_send_time: the start of the flight that was delivered last.
    first_sent_at: u32,
    delivered_at: u32,
    delivered: u32,
    lost: u32,
    in_flight: u32,
    app_limited: bool,
}

/// An acknowledgement's report about the path: RS.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    /// Bytes per second. Zero: this acknowledgement gives no rate.
    pub(super) rate: u64,
    /// The bytes delivered in all when the newest of these bytes was sent. None: not known.
    pub(super) prior_delivered: Option<u64>,
    /// Delivered since.
    pub(super) delivered: u64,
    /// Detected as lost since.
    pub(super) lost: u64,
    /// In flight at that time.
    pub(super) sent_in_flight: u64,
    /// The rate may be the application's, not the path's.
    pub(super) app_limited: bool,
}

impl Sample {
    /// IsInflightTooHigh(): the flight lost more than a path that is not full loses.
    pub(super) fn is_lossy(&self, percent_max: u64) -> bool {
        self.lost * 100 > self.sent_in_flight * percent_max
    }
}

#[derive(Debug)]
pub(super) struct Sampler {
    /// C.delivered, and when it last changed.
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    lost: u64,
    /// C.app_limited: once more than this is delivered, no gap is left in the pipe. At first nothing else is known.
    app_limited_until: Option<u64>,
    departures: VecDeque<Departure>,
    /// The least distance between them, if a part of a round trip was too short.
    apart_us: u64,
}

impl Departure {
    /// Lets this departure stand for `later` too.
    fn join(&mut self, later: &Departure) {
        self.in_flight = self.in_flight.max(later.in_flight);
        self.app_limited |= later.app_limited;
    }

    fn until_us(&self, later: &Departure) -> u64 {
        u64::from(later.at.wrapping_sub(self.at))
    }
}

impl Sampler {
    pub(super) fn new(now: Time) -> Self {
        Sampler {
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            lost: 0,
            app_limited_until: Some(0),
            departures: VecDeque::with_capacity(DEPARTURES_MAX),
            apart_us: 0,
        }
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.departures.capacity() * size_of::<Departure>()
    }

    /// Records a gap after the bytes now in flight.
    pub(super) fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered + in_flight);
    }

    pub(super) fn lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    pub(super) fn sent(&mut self, sent: &Sent) {
        if sent.in_flight <= sent.bytes {
            // The pipe was empty: time without anything in flight does not count.
            self.departures.clear();
            (self.first_sent_at, self.delivered_at) = (sent.now, sent.now);
        }
        let departure = Departure {
            at: wrapped(sent.now),
            first_sent_at: wrapped(self.first_sent_at),
            delivered_at: wrapped(self.delivered_at),
            delivered: self.delivered as u32,
            lost: self.lost as u32,
            in_flight: u32::try_from(sent.in_flight).unwrap_or(u32::MAX),
            app_limited: self.app_limited_until.is_some(),
        };
        let apart_us = self.apart_us.max(sent.srtt_us / DEPARTURES_PER_ROUND);
        match self.departures.back_mut() {
            Some(last) if last.until_us(&departure) < apart_us => last.join(&departure),
            _ => {
                if self.departures.len() == DEPARTURES_MAX {
                    self.make_room(apart_us);
                }
                self.departures.push_back(departure);
            }
        }
    }

    /// Joins departures that are near each other, until half of the room is free.
    fn make_room(&mut self, apart_us: u64) {
        self.apart_us = apart_us.max(1);
        while self.departures.len() > DEPARTURES_MAX / 2 {
            self.apart_us = self.apart_us.saturating_mul(2);
            let departures = self.departures.make_contiguous();
            let mut kept = 0;
            for index in 1..departures.len() {
                let later = departures[index];
                if departures[kept].until_us(&later) < self.apart_us {
                    departures[kept].join(&later);
                } else {
                    kept += 1;
                    departures[kept] = later;
                }
            }
            self.departures.truncate(kept + 1);
        }
    }

    /// Counts arrived and lost bytes. `least_us` is the shortest round trip: a shorter sample belongs to bytes that were sent again although they had
    /// arrived.
    pub(super) fn acked(&mut self, acked: &Acked, least_us: Option<u64>) -> Sample {
        if acked.app_limited {
            self.mark_app_limited(acked.in_flight_before);
        }
        self.lost += acked.lost_bytes;
        self.delivered += acked.arrived_bytes;
        self.app_limited_until = self.app_limited_until.filter(|until| self.delivered <= *until);
        let Some(newest_at) = acked.newest_sent_at.filter(|_| acked.arrived_bytes > 0) else {
            return Sample::default();
        };
        self.delivered_at = acked.now;
        let Some(departure) = self.departure_of(newest_at, acked.now) else {
            return Sample::default();
        };
        let send_us = wrapped(newest_at).wrapping_sub(departure.first_sent_at);
        let ack_us = wrapped(acked.now).wrapping_sub(departure.delivered_at);
        self.first_sent_at = newest_at;
        let delivered = u64::from((self.delivered as u32).wrapping_sub(departure.delivered));
        let interval_us = u64::from(send_us.max(ack_us)).max(1);
        let is_too_short = least_us.is_some_and(|least_us| interval_us < least_us);
        let rate = (u128::from(delivered) * 1_000_000 / u128::from(interval_us)) as u64;
        Sample {
            rate: if is_too_short { 0 } else { rate },
            prior_delivered: Some(self.delivered - delivered),
            delivered,
            lost: u64::from((self.lost as u32).wrapping_sub(departure.lost)),
            sent_in_flight: u64::from(departure.in_flight),
            app_limited: departure.app_limited,
        }
    }

    /// The latest departure that is not after `sent_at`. Earlier ones are forgotten.
    fn departure_of(&mut self, sent_at: Time, now: Time) -> Option<Departure> {
        let age_us = now.since_us(sent_at);
        let is_before =
            |departure: &Departure| u64::from(wrapped(now).wrapping_sub(departure.at)) >= age_us;
        let index = self.departures.iter().rposition(is_before)?;
        self.departures.drain(..index);
        if self.departures.len() < DEPARTURES_MAX / 4 {
            self.apart_us /= 2;
        }
        self.departures.front().copied()
    }
}

fn wrapped(time: Time) -> u32 {
    time.0 as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(u32::MAX as u64 - 30_000);

    fn sent(sampler: &mut Sampler, at_us: u64, bytes: u64, in_flight: u64) {
        let now = START.after_us(at_us);
        sampler.sent(&Sent { now, bytes, in_flight, srtt_us: 20_000 });
    }

    fn acked(sampler: &mut Sampler, at_us: u64, sent_at_us: u64, bytes: u64) -> Sample {
        sampler.acked(&report(at_us, sent_at_us, bytes), Some(20_000))
    }

    fn report(at_us: u64, sent_at_us: u64, bytes: u64) -> Acked {
        Acked {
            now: START.after_us(at_us),
            acknowledged: 0,
            sent_below: 0,
            advanced_bytes: bytes,
            delivered_bytes: bytes,
            arrived_bytes: bytes,
            newest_sent_at: Some(START.after_us(sent_at_us)),
            lost_bytes: 0,
            in_flight_before: 0,
            in_flight: 0,
            slack_bytes: 0,
            app_limited: false,
            rtt_us: None,
            acks: 1,
            srtt_us: 20_000,
        }
    }

    /// 1,000 bytes each millisecond, acknowledged 20 ms later: a megabyte per second, across the wrap of 32 bits.
    fn stream(sampler: &mut Sampler) -> Sample {
        let mut last = Sample::default();
        for at in 0..60 {
            if at >= 20 {
                last = acked(sampler, at * 1000, (at - 20) * 1000, 1000);
            }
            sent(sampler, at * 1000, 1000, at.min(19) * 1000 + 1000);
        }
        last
    }

    #[test]
    fn a_steady_stream_has_its_rate() {
        let mut sampler = Sampler::new(START);
        let sample = stream(&mut sampler);
        assert!((980_000..=1_020_000).contains(&sample.rate), "{sample:?}");
        assert!((20_000..=23_000).contains(&sample.delivered), "{sample:?}");
        assert!(!sample.app_limited);
        assert!(sampler.departures.len() <= DEPARTURES_MAX);
    }

    #[test]
    fn acknowledgements_that_come_in_a_bunch_do_not_make_the_path_faster() {
        let mut sampler = Sampler::new(START);
        stream(&mut sampler);
        // The next ten are held back, then come at once: the bytes sent within 10 ms took at least that long.
        let last = (0..10).map(|at| acked(&mut sampler, 70_000, (40 + at) * 1000, 1000)).last();
        let rate = last.expect("ten").rate;
        assert!(rate <= 1_100_000, "{rate}");
    }

    #[test]
    fn bytes_behind_a_gap_are_marked_until_the_gap_is_gone() {
        let mut sampler = Sampler::new(START);
        stream(&mut sampler);
        sampler.mark_app_limited(2000);
        sent(&mut sampler, 65_000, 1000, 3000);
        acked(&mut sampler, 80_000, 59_000, 2000);
        let behind = acked(&mut sampler, 85_000, 65_000, 1000);
        assert!(behind.app_limited, "{behind:?}");
        sent(&mut sampler, 90_000, 1000, 2000);
        let later = acked(&mut sampler, 110_000, 90_000, 1000);
        assert!(!later.app_limited, "{later:?}");
    }

    #[test]
    fn an_answer_sooner_than_a_round_trip_says_nothing() {
        let mut sampler = Sampler::new(START);
        stream(&mut sampler);
        sent(&mut sampler, 70_000, 1000, 21_000);
        let mut early = report(71_000, 70_000, 1000);
        early.lost_bytes = 700;
        let sample = sampler.acked(&early, Some(50_000));
        assert_eq!(sample.rate, 0);
        assert!(sample.is_lossy(2) && !sample.is_lossy(5), "700 of 21,000: {sample:?}");
    }

    /// A queue has grown, and the average follows slowly: more is in flight than moments are remembered at first. Samples reach into the first 200
    /// ms, in which nothing arrived, until a moment after these is answered.
    #[test]
    fn a_round_trip_that_has_become_ten_times_longer_still_gives_samples() {
        let mut sampler = Sampler::new(START);
        for at in 0..1000 {
            if at >= 50 {
                let sample = acked(&mut sampler, at * 4000, (at - 50) * 4000, 1000);
                assert!(sample.prior_delivered.is_some(), "at {} ms", at * 4);
                let is_right = (240_000..=260_000).contains(&sample.rate);
                assert!(is_right || at < 120, "at {} ms: {sample:?}", at * 4);
            }
            sent(&mut sampler, at * 4000, 1000, (at + 1).min(50) * 1000);
            assert!(sampler.departures.len() <= DEPARTURES_MAX);
        }
    }

    #[test]
    fn a_packet_that_arrives_after_newer_ones_gives_no_sample() {
        let mut sampler = Sampler::new(START);
        stream(&mut sampler);
        assert!(acked(&mut sampler, 80_000, 59_000, 1000).rate > 0);
        let late = acked(&mut sampler, 81_000, 45_000, 1000);
        assert_eq!((late.rate, late.prior_delivered), (0, None));
    }
}
