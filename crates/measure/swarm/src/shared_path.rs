//! When bytes arrive: the rate of one viewer's path, shared by its open requests.
//!
//! Each flow gets an equal part of the path's rate. Anything that a flow cannot use, because the server sends it more slowly, goes to the
//! others: max-min fairness, which TCP flows with similar round trips reach on average.
//!
//! Invariant: a flow of N bytes delivers N bytes, no more and no less, whatever the steps in which time passes.

use crate::network::Path;
use std::time::Duration;

/// The flows of one viewer.
#[derive(Clone, Debug)]
pub struct SharedPath {
    path: Path,
    flows: Vec<Flow>,
    now: Duration,
    /// Set if the flows' rates are up to date.
    is_shared_out: bool,
}

#[derive(Clone, Debug)]
struct Flow {
    key: u64,
    bytes: u64,
    left: f64,
    taken: u64,
    ceiling: f64,
    bits_per_second: f64,
}

impl Flow {
    /// Whole bytes that have arrived.
    fn come(&self) -> u64 {
        // A flow has at most 2^53 bytes, so the subtraction is exact to the byte.
        self.bytes - (self.left.ceil() as u64).min(self.bytes)
    }

    fn advance(&mut self, seconds: f64) {
        let left = self.left - self.bits_per_second * seconds / 8.0;
        // The time of a flow's end is rounded up to a nanosecond, so anything below this is rounding of 64-bit floats.
        self.left = if left < 1e-3 { 0.0 } else { left };
    }

    /// Time that the rest takes; `None` if nothing arrives.
    fn remaining(&self) -> Option<Duration> {
        let seconds = self.left * 8.0 / self.bits_per_second;
        // A year counts as forever.
        (seconds < 3e7).then(|| Duration::from_secs_f64(seconds) + Duration::from_nanos(1))
    }
}

impl SharedPath {
    /// A path without flows.
    pub fn new(path: Path, now: Duration) -> Self {
        Self { path, flows: Vec::new(), now, is_shared_out: true }
    }

    /// Begins a flow of `bytes`, at most `ceiling` bits per second (infinity for no limit).
    pub fn begin(&mut self, now: Duration, key: u64, bytes: u64, ceiling: f64) {
        self.advance(now);
        let left = bytes as f64;
        self.flows.push(Flow { key, bytes, left, taken: 0, ceiling, bits_per_second: 0.0 });
        self.is_shared_out = false;
    }

    /// Changes a flow's limit. 0 stops it.
    pub fn limit(&mut self, now: Duration, key: u64, ceiling: f64) {
        self.advance(now);
        let changed = self.flows.iter_mut().find(|flow| flow.key == key && flow.ceiling != ceiling);
        if let Some(flow) = changed {
            flow.ceiling = ceiling;
            self.is_shared_out = false;
        }
    }

    /// Ends a flow, whatever is left of it.
    pub fn end(&mut self, now: Duration, key: u64) {
        self.advance(now);
        self.flows.retain(|flow| flow.key != key);
        self.is_shared_out = false;
    }

    /// The bytes of a flow that have arrived since they were last taken.
    pub fn take(&mut self, now: Duration, key: u64) -> u64 {
        self.advance(now);
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.key == key) else { return 0 };
        let come = flow.come();
        come - std::mem::replace(&mut flow.taken, come)
    }

    /// Returns true if the flow has bytes left.
    pub fn remains(&mut self, now: Duration, key: u64) -> bool {
        self.advance(now);
        self.flows.iter().any(|flow| flow.key == key && flow.left > 0.0)
    }

    /// When the first of the flows ends, or the rate changes before that; `None` if there are no flows.
    pub fn next_change(&mut self) -> Option<Duration> {
        self.share_out();
        let ends = self.flows.iter().filter_map(Flow::remaining).min()?;
        let end = self.now.saturating_add(ends);
        Some(end.min(self.path.until()))
    }

    /// Lets time pass. A time in the past changes nothing.
    pub fn advance(&mut self, now: Duration) {
        while self.now < now {
            if self.flows.is_empty() {
                self.now = now;
                return;
            }
            self.share_out();
            let until = self.path.until().min(now);
            let seconds = (until - self.now).as_secs_f64();
            for flow in &mut self.flows {
                flow.advance(seconds);
            }
            self.now = until;
            self.is_shared_out = false;
        }
    }

    /// Gives each flow its part of the current rate.
    fn share_out(&mut self) {
        if self.is_shared_out && self.now < self.path.until() {
            return;
        }
        let mut free = self.path.rate_at(self.now);
        let mut sharers = 0;
        for flow in &mut self.flows {
            flow.bits_per_second = f64::INFINITY;
            sharers += usize::from(flow.left > 0.0);
        }
        // Each pass settles the flows that cannot use an equal part, so there are at most as many passes as flows.
        loop {
            let part = free / sharers.max(1) as f64;
            let is_open = |flow: &Flow| flow.left > 0.0 && flow.bits_per_second.is_infinite();
            let slow = self.flows.iter_mut().find(|flow| is_open(flow) && flow.ceiling < part);
            let Some(flow) = slow else {
                for flow in self.flows.iter_mut().filter(|flow| flow.bits_per_second.is_infinite())
                {
                    flow.bits_per_second = part;
                }
                break;
            };
            flow.bits_per_second = flow.ceiling;
            free -= flow.ceiling;
            sharers -= 1;
        }
        self.is_shared_out = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{NetworkKind, Profile};
    use fastrand::Rng;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// 8 Mb/s: a megabyte per second.
    fn steady() -> SharedPath {
        SharedPath::new(Path::constant(8e6), Duration::ZERO)
    }

    fn near(found: Duration, seconds: f64) -> bool {
        (found.as_secs_f64() - seconds).abs() < 1e-6
    }

    #[test]
    fn one_flow_has_all_of_the_path() {
        let mut path = steady();
        path.begin(at(1.0), 1, 500_000, f64::INFINITY);
        assert!(near(path.next_change().expect("it ends"), 1.5));
        assert_eq!(path.take(at(1.25), 1), 250_000);
        let end = path.next_change().expect("it ends");
        assert!(!path.remains(end, 1));
        assert_eq!(path.take(end, 1), 250_000);
    }

    #[test]
    fn two_flows_share_and_the_second_has_all_when_the_first_is_over() {
        let mut path = steady();
        path.begin(at(0.0), 1, 500_000, f64::INFINITY);
        path.begin(at(0.0), 2, 1_500_000, f64::INFINITY);
        let first = path.next_change().expect("it ends");
        assert!(near(first, 1.0), "{first:?}");
        assert_eq!(path.take(first, 1), 500_000);
        assert!(!path.remains(first, 1) && path.remains(first, 2));
        path.end(first, 1);
        let second = path.next_change().expect("it ends");
        assert!(near(second, 2.0), "{second:?}");
        assert!(!path.remains(second, 2));
    }

    #[test]
    fn what_a_slow_server_leaves_goes_to_the_others() {
        let mut path = steady();
        path.begin(at(0.0), 1, 1_000_000, 2e6);
        path.begin(at(0.0), 2, 1_000_000, f64::INFINITY);
        path.begin(at(0.0), 3, 1_000_000, f64::INFINITY);
        assert_eq!(path.take(at(1.0), 1), 250_000);
        for key in [2, 3] {
            assert_eq!(path.take(at(1.0), key), 375_000, "half of the six that are left");
        }
        path.limit(at(1.0), 2, 0.0);
        assert_eq!(path.take(at(1.5), 2), 0);
    }

    #[test]
    fn a_flow_that_is_stopped_has_no_end() {
        let mut path = steady();
        path.begin(at(0.0), 1, 1000, 0.0);
        assert_eq!(path.next_change(), None);
        path.limit(at(5.0), 1, 8e3);
        assert!(near(path.next_change().expect("it ends"), 6.0));
        path.end(at(5.5), 1);
        assert_eq!((path.next_change(), path.take(at(6.0), 1)), (None, 0));
    }

    /// Some flows over a changing path, checked in steps of `step` seconds: the bytes of each, and the time when each was over.
    fn received(step: f64) -> Vec<(u64, Duration)> {
        let profile = Profile {
            kind: NetworkKind::Mobile,
            bits_per_second: 3e6,
            round_trip: Duration::ZERO,
            seed: 7,
        };
        let mut path = SharedPath::new(Path::new(&profile, Duration::ZERO), Duration::ZERO);
        let sizes = [3_000_001, 7, 12_345_678];
        for (key, bytes) in sizes.into_iter().enumerate() {
            path.begin(at(0.5), key as u64, bytes, 4e6);
        }
        let mut ends = vec![(0, Duration::ZERO); sizes.len()];
        let mut now = at(0.5);
        while let Some(next) = path.next_change() {
            now = next.min(now + at(step));
            for (key, end) in ends.iter_mut().enumerate() {
                end.0 += path.take(now, key as u64);
                if end.1.is_zero() && !path.remains(now, key as u64) {
                    end.1 = now;
                    path.end(now, key as u64);
                }
            }
        }
        ends
    }

    #[test]
    fn no_byte_is_lost_or_made_whatever_the_steps() {
        let coarse = received(1000.0);
        assert_eq!(coarse.iter().map(|end| end.0).collect::<Vec<_>>(), [3_000_001, 7, 12_345_678]);
        for step in [0.001, 0.37, 4.9] {
            let fine = received(step);
            for (coarse, fine) in coarse.iter().zip(&fine) {
                assert_eq!(coarse.0, fine.0);
                let apart = coarse.1.as_secs_f64() - fine.1.as_secs_f64();
                assert!(apart.abs() < 1e-5, "step {step}: {apart} s apart");
            }
        }
    }

    #[test]
    fn flows_never_have_more_than_the_path() {
        let profile = Profile {
            kind: NetworkKind::Home,
            bits_per_second: 5e6,
            round_trip: Duration::ZERO,
            seed: 1,
        };
        let mut path = Path::new(&profile, Duration::ZERO);
        let mut shared = SharedPath::new(path.clone(), Duration::ZERO);
        let mut random = Rng::with_seed(1);
        for key in 0..5 {
            shared.begin(Duration::ZERO, key, 1 << 40, random.f64() * 4e6);
        }
        let (mut now, mut carried, mut came) = (Duration::ZERO, 0.0, 0);
        while now < Duration::from_secs(600) {
            let rate = path.rate_at(now);
            let until = path.until();
            carried += rate * (until - now).as_secs_f64() / 8.0;
            now = until;
            came += (0..5).map(|key| shared.take(now, key)).sum::<u64>();
        }
        assert!(came as f64 <= carried + 5.0, "{came} bytes over {carried}");
        assert!(came as f64 >= carried * 0.5, "{came} bytes over {carried}");
    }
}
