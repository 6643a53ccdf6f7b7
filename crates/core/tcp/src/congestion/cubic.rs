//! CUBIC (RFC 9438): the window as a cubic function of the time since the last reduction.
//!
//! Windows are in bytes outside; inside, in segments, as in the RFC's formulas.

use crate::clock::Time;

/// RFC 9438 section 5: C, in segments per second cubed.
const C: f64 = 0.4;

/// RFC 9438 section 4.6: the multiplicative decrease.
const BETA: f64 = 0.7;

/// RFC 9438 section 4.3: how fast the Reno-friendly estimate grows.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Debug, Clone, Default)]
pub(crate) struct Cubic {
    /// W_max: the window before the last reduction.
    w_max: f64,
    /// K: seconds from the beginning of the epoch until the window is back at W_max.
    k_seconds: f64,
    /// t_epoch: when this stage of congestion avoidance began.
    epoch: Option<Time>,
    /// W_est: the window that Reno would have.
    w_est: f64,
    /// cwnd_prior: the window that the last reduction started from.
    prior: f64,
}

impl Cubic {
    /// RFC 9438 sections 4.6 and 4.7: a loss or a mark. Returns the slow-start threshold in bytes.
    pub(crate) fn reduce(&mut self, cwnd_bytes: u64, mss: u64) -> u64 {
        let cwnd = cwnd_bytes as f64 / mss as f64;
        // Fast convergence: a flow whose windows shrink leaves room for a new one.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.prior = cwnd;
        self.epoch = None;
        ((cwnd_bytes as f64 * BETA) as u64).max(2 * mss)
    }

    /// Call it after a time that was idle or limited by the application (RFC 9438 section 5.8): a new epoch begins with the next acknowledgement.
    pub(crate) fn restart(&mut self) {
        self.epoch = None;
    }

    fn begin(&mut self, now: Time, cwnd: f64) {
        self.epoch = Some(now);
        self.w_est = cwnd;
        if self.w_max > cwnd {
            // RFC 9438 section 4.2, figure 2.
            self.k_seconds = cube_root((self.w_max - cwnd) / C);
        } else {
            self.k_seconds = 0.0;
            self.w_max = cwnd;
        }
    }

    /// RFC 9438 sections 4.2 to 4.5: the window after `acked_bytes` more were acknowledged in congestion avoidance.
    pub(crate) fn grown(
        &mut self,
        now: Time,
        srtt_us: u64,
        cwnd_bytes: u64,
        mss: u64,
        acked_bytes: u64,
    ) -> u64 {
        let (cwnd, acked) = (cwnd_bytes as f64 / mss as f64, acked_bytes as f64 / mss as f64);
        if self.epoch.is_none() {
            self.begin(now, cwnd);
        }
        let elapsed_us = self.epoch.map_or(0, |epoch| now.since_us(epoch));
        let seconds = elapsed_us as f64 / 1e6;
        self.grow_estimate(cwnd, acked);
        let grown = if self.cubic(seconds) < self.w_est {
            // Section 4.3: the Reno-friendly region.
            self.w_est.max(cwnd)
        } else {
            // Sections 4.4 and 4.5: towards the function's value one round trip from now, but by no more than half.
            let target = self.cubic(seconds + srtt_us as f64 / 1e6).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd * acked
        };
        (grown * mss as f64) as u64
    }

    /// Section 4.2, figure 1.
    fn cubic(&self, seconds: f64) -> f64 {
        let from_k = seconds - self.k_seconds;
        C * from_k * from_k * from_k + self.w_max
    }

    /// Section 4.3, figure 4.
    fn grow_estimate(&mut self, cwnd: f64, acked: f64) {
        let alpha = if self.w_est >= self.prior { 1.0 } else { ALPHA };
        self.w_est += alpha * acked / cwnd;
    }
}

/// Newton's method with operations that give the same bits on every machine, which a library's `cbrt` does not promise.
fn cube_root(of: f64) -> f64 {
    if of <= 0.0 {
        return 0.0;
    }
    let mut root = of.max(1.0);
    // Starting from above, it falls by at least a third until it is close, then the digits double: enough for 10^20.
    for _ in 0..64 {
        root -= (root - of / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Acknowledges a full window each round trip, for `seconds`.
    fn run(cubic: &mut Cubic, mut cwnd: u64, from_us: u64, rtt_us: u64, seconds: u64) -> u64 {
        let mut now = from_us;
        while now < from_us + seconds * 1_000_000 {
            let step = rtt_us * MSS / cwnd;
            now += step.max(1);
            cwnd = cubic.grown(Time(now), rtt_us, cwnd, MSS, MSS);
        }
        cwnd
    }

    #[test]
    fn a_loss_takes_three_tenths() {
        assert_eq!(Cubic::default().reduce(100 * MSS, MSS), 70 * MSS);
        assert_eq!(Cubic::default().reduce(2 * MSS, MSS), 2 * MSS, "never below two segments");
    }

    #[test]
    fn the_window_is_back_after_k_seconds() {
        // RFC 9438 section 4.2: K = cbrt(W_max (1 - beta) / C); for 1000 segments that is 9.1 s. A long round trip
        // keeps Reno behind.
        let mut cubic = Cubic::default();
        let cwnd = cubic.reduce(1000 * MSS, MSS);
        let at_eight = run(&mut cubic, cwnd, 0, 500_000, 8);
        assert!((960 * MSS..1000 * MSS).contains(&at_eight), "{at_eight}");
        let at_ten = run(&mut cubic, at_eight, 8_000_000, 500_000, 2);
        assert!((998 * MSS..1010 * MSS).contains(&at_ten), "{at_ten}");
    }

    #[test]
    fn short_round_trips_grow_as_reno_does() {
        // After a loss at 20 segments, Reno-friendly growth is ALPHA = 0.53 segments per round trip: 20 round trips, 10 segments.
        let mut cubic = Cubic::default();
        let cwnd = cubic.reduce(20 * MSS, MSS);
        let grown = run(&mut cubic, cwnd, 0, 10_000, 1);
        assert!(grown > cwnd + 40 * MSS, "{cwnd} to {grown} in a hundred round trips");
    }

    #[test]
    fn cube_roots_are_close() {
        for of in [1e-9, 0.001, 0.3, 1.0, 27.0, 750.0, 1e6, 1e12] {
            let root = cube_root(of);
            assert!((root * root * root / of - 1.0).abs() < 1e-9, "{of}: {root}");
        }
        assert_eq!(cube_root(0.0), 0.0);
    }

    #[test]
    fn windows_that_shrink_make_room() {
        let mut cubic = Cubic::default();
        cubic.reduce(100 * MSS, MSS);
        cubic.reduce(80 * MSS, MSS);
        assert!((cubic.w_max - 80.0 * 0.85).abs() < 1e-9);
    }
}
