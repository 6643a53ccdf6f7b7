//! A viewer's own network, in front of its player: bytes arrive no faster than the network delivers them.
//!
//! All requests of the viewer share it. Bytes are read from the socket in sips, and each sip counts as arrived when the network would have
//! delivered it. The sockets have small receive buffers, so the server notices a slow network.

use crate::network::{Path, Profile};
use player::Time;
use std::time::Duration;

/// A sip is what the network delivers in this time. Players measure over longer times than that, and silence shows long before.
const SIP: Duration = Duration::from_millis(100);

/// The smallest and the largest sip. At the slowest rate of a network, 1 kb/s, the smallest takes a second.
const SIP_BYTES_MIN: u64 = 128;
const SIP_BYTES_MAX: u64 = 256 << 10;

/// The receive buffer of a viewer behind a network: small, so that the server's side fills up. The kernel doubles it.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 32 << 10;

/// The most that the kernel has received when a sip is read late.
const RECEIVED_BITS_MAX: f64 = (2 * RECEIVE_BUFFER_BYTES * 8) as f64;

/// A viewer's network, and the time until which it is busy.
pub(crate) struct Tap {
    path: Path,
    round_trip: Duration,
    free_at: Time,
}

impl Tap {
    /// The network of a viewer who begins at this time.
    pub(crate) fn new(network: &Profile, begins: Time) -> Self {
        Self {
            path: Path::new(network, begins),
            round_trip: network.round_trip,
            free_at: Time::ZERO,
        }
    }

    /// Round trip to the server, without the server's own time.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Begins a response. Capacity that was not used before is lost.
    pub(crate) fn begin(&mut self, now: Time) {
        self.free_at = self.free_at.max(now);
    }

    /// Number of bytes to read at once.
    pub(crate) fn sip_bytes(&mut self, now: Time) -> u64 {
        let bytes = self.path.rate_at(now) / 8.0 * SIP.as_secs_f64();
        (bytes as u64).clamp(SIP_BYTES_MIN, SIP_BYTES_MAX)
    }

    /// When the network has delivered `bytes` that were read at `now`. If a response's bytes were read late, they had arrived earlier, as
    /// far as the kernel had room for them.
    pub(crate) fn arrival(&mut self, bytes: u64, now: Time) -> Time {
        let late_max = Duration::from_secs_f64(RECEIVED_BITS_MAX / self.path.rate_at(now).max(1.0));
        let mut at = self.free_at.max(now.saturating_sub(late_max));
        let mut bits = bytes as f64 * 8.0;
        loop {
            let (rate, until) = (self.path.rate_at(at), self.path.until());
            let room = rate * until.saturating_sub(at).as_secs_f64();
            if bits <= room || until <= at {
                at += Duration::from_secs_f64((bits / rate.max(1.0)).min(3600.0));
                break;
            }
            bits -= room;
            at = until;
        }
        self.free_at = at;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tap(bits_per_second: f64) -> Tap {
        Tap {
            path: Path::constant(bits_per_second),
            round_trip: Duration::ZERO,
            free_at: Time::ZERO,
        }
    }

    #[test]
    fn bytes_come_at_the_networks_rate_whichever_of_the_viewers_requests_reads_them() {
        let (mut tap, begins) = (tap(8e6), Duration::from_secs(10));
        // 1 MB per second.
        tap.begin(begins);
        assert_eq!(tap.arrival(1_000_000, begins), begins + Duration::from_secs(1));
        assert_eq!(tap.arrival(500_000, begins), begins + Duration::from_millis(1500));
        // Capacity not used before a response does not accumulate.
        let late = Duration::from_secs(60);
        tap.begin(late);
        assert_eq!(tap.arrival(1_000_000, late), late + Duration::from_secs(1));
    }

    #[test]
    fn a_sip_that_is_read_late_counts_from_when_the_kernel_may_have_received_it() {
        let mut tap = tap(8e6);
        tap.begin(Duration::ZERO);
        tap.arrival(100_000, Duration::ZERO);
        // The network was free from 100 ms on, and 64 KiB take 65.536 ms.
        let now = Duration::from_secs(1);
        let expected = now - Duration::from_micros(65_536) + Duration::from_millis(100);
        assert_eq!(tap.arrival(100_000, now), expected);
    }

    #[test]
    fn a_sip_is_what_the_network_brings_in_a_tenth_of_a_second_within_bounds() {
        assert_eq!(tap(8e6).sip_bytes(Time::ZERO), 100_000);
        assert_eq!(tap(1e9).sip_bytes(Time::ZERO), SIP_BYTES_MAX);
        assert_eq!(tap(8e3).sip_bytes(Time::ZERO), SIP_BYTES_MIN);
    }
}
