//! Reading the clock. Only a gateway's shell does so; all decisions get a [`Now`].

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since the gateway started. It never jumps, so timeouts use it.
    pub uptime: Duration,
    /// The gateway's wall clock, since 1970. People and nodes see this one; an operator may set it.
    pub unix_millis: u64,
}

impl Now {
    /// Whole seconds since 1970.
    pub fn unix_seconds(&self) -> u64 {
        self.unix_millis / 1000
    }
}

/// A gateway's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The present time.
    pub fn now(&self) -> Now {
        // A clock before 1970 counts as 1970.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_millis = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        Now { uptime: self.0.elapsed(), unix_millis }
    }
}
