//! The swarm's own lag: how late its tasks woke up.
//!
//! A viewer that wakes late sees bytes late, and would report a stall that no server caused. So a run with much lag measures the swarm, and
//! its results say so.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use telemetry::Buckets;

/// A run is trusted up to this lag at the 99th percentile. A stall is noticeable from about 100 ms on; this is a fifth of that.
const LAG_MAX: Duration = Duration::from_millis(20);

/// A thread that uses more of its core than this has no time left for bursts.
const BUSY_MAX: f64 = 0.9;

/// Lags up to an hour have preallocated buckets.
const LAG_US_MAX: u64 = 3_600_000_000;

/// How late tasks woke up, in microseconds. An octave has 128 buckets, so a figure is off by less than a hundredth.
#[derive(Clone, Debug)]
pub(crate) struct Lag(Buckets<7>);

impl Default for Lag {
    fn default() -> Self {
        Self(Buckets::up_to(LAG_US_MAX))
    }
}

impl Lag {
    /// Records the lag of a task that wanted to wake at `deadline` and wakes now.
    pub(crate) fn woke(&mut self, deadline: Instant) {
        self.record(Instant::now().saturating_duration_since(deadline));
    }

    fn record(&mut self, late: Duration) {
        self.0.record(u64::try_from(late.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds another thread's lags.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
    }
}

/// The swarm's own use of the machine, and its lag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// The lag, in milliseconds, that half of all wake-ups did not exceed.
    pub lag_ms_p50: f64,
    /// The same for 99% of them.
    pub lag_ms_p99: f64,
    /// The largest lag.
    pub lag_ms_max: f64,
    /// CPU time of all threads.
    pub cpu_seconds: f64,
    /// CPU time per second of the busiest thread.
    pub busiest_thread: f64,
}

impl Own {
    pub(crate) fn new(lag: &Lag, cpu_seconds: f64, busiest_thread: f64) -> Self {
        let quantile = |share| lag.0.quantile_floor(share).unwrap_or(0) as f64 / 1e3;
        Self {
            lag_ms_p50: quantile(0.5),
            lag_ms_p99: quantile(0.99),
            lag_ms_max: quantile(1.0),
            cpu_seconds,
            busiest_thread,
        }
    }

    /// Returns true if the run measured the swarm rather than the server.
    pub fn is_too_slow(&self) -> bool {
        self.doubt().is_some()
    }

    /// Why the run's figures are the swarm's own, and what to do about it. `None` if they can be trusted.
    pub fn doubt(&self) -> Option<String> {
        let advice = "use fewer viewers, more --threads, or a machine of its own for the swarm";
        if self.busiest_thread > BUSY_MAX {
            return Some(format!(
                "The swarm was short of CPU time (its busiest thread used {:.0}% of a core): these figures show its limits, \
                 not the server's; {advice}.",
                100.0 * self.busiest_thread
            ));
        }
        (self.lag_ms_p99 > LAG_MAX.as_secs_f64() * 1e3).then(|| {
            format!(
                "The swarm woke up late (p99 {:.0} ms): some of what its viewers waited for was the swarm itself, not the \
                 server; {advice}.",
                self.lag_ms_p99
            )
        })
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "lag_ms": { "p50": self.lag_ms_p50, "p99": self.lag_ms_p99, "max": self.lag_ms_max },
            "cpu_seconds": self.cpu_seconds,
            "busiest_thread": self.busiest_thread,
            "too_slow": self.is_too_slow(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(late_ms: u64, busiest_thread: f64) -> Own {
        let mut lag = Lag::default();
        (0..95).for_each(|_| lag.record(Duration::from_micros(100)));
        (0..5).for_each(|_| lag.record(Duration::from_millis(late_ms)));
        Own::new(&lag, 1.0, busiest_thread)
    }

    #[test]
    fn a_quiet_swarm_is_not_doubted() {
        let own = own(5, 0.5);
        assert!(own.doubt().is_none(), "{own:?}");
        assert!(
            (own.lag_ms_p50 - 0.1).abs() < 0.01 && (own.lag_ms_max - 5.0).abs() < 0.1,
            "{own:?}"
        );
    }

    #[test]
    fn late_and_busy_swarms_say_that_they_measure_themselves() {
        assert!(own(50, 0.5).doubt().unwrap().contains("woke up late (p99 50 ms)"));
        assert!(own(5, 0.95).doubt().unwrap().contains("95% of a core"));
    }
}
