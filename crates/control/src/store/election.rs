//! Who leads: one gateway at a time, by a lease in the store.
//!
//! A gateway believes that it leads until nine tenths of the lease after it *asked* for the renewal that was granted. The store counts the
//! whole lease from when it *granted* it, which is later. So two gateways never believe that they lead at the same time, as long as the
//! clocks of gateways and etcd run at rates that differ by less than a tenth over one lease. What the clocks show does not matter, nor does a
//! machine that sleeps: both count the time asleep (CLOCK_BOOTTIME).
//!
//! One thing no clock can help against: a gateway that is stopped in the middle of a step (a paused virtual machine, whose clock stands still,
//! too). So whatever a leader writes must be fenced: with `Check::At(key, term)`, the store refuses what comes too late.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{Check, Engine, StoreError, Write};

/// The key of the lease of the gateway that leads.
pub const LEADER: &str = "leader";

/// How long a lease lasts, unless tests say otherwise: so long there may be no leader after one has died.
pub const LEASE_SECONDS: u32 = 15;

/// One gateway's part in the election.
pub struct Election {
    engine: Arc<dyn Engine>,
    owner: String,
    seconds: u32,
    held: Mutex<Option<Held>>,
}

#[derive(Clone, Copy)]
struct Held {
    term: u64,
    /// By CLOCK_BOOTTIME.
    until: Duration,
}

fn now() -> Duration {
    // It begins with 0 at the start of the machine, so it is never negative.
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

impl Election {
    /// A gateway's part. `owner` is one process's: its name and something that it draws at its start.
    pub fn new(engine: Arc<dyn Engine>, owner: String, seconds: u32) -> Self {
        Self { engine, owner, seconds, held: Mutex::new(None) }
    }

    /// The term in which this gateway leads now, for the fence of what it writes; `None` if it does not lead.
    pub fn term(&self) -> Option<u64> {
        let held = *self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.filter(|held| now() < held.until).map(|held| held.term)
    }

    /// Takes or renews the lease, once.
    ///
    /// # Errors
    /// Those of the store. Until its time is over, a leader leads on.
    pub async fn tick(&self) -> Result<(), StoreError> {
        let asked = now();
        let term = self.engine.lease(LEADER, &self.owner, self.seconds).await?;
        let until = asked + Duration::from_secs(u64::from(self.seconds)) * 9 / 10;
        let held = term.map(|term| Held { term, until });
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }

    /// Takes part until the future is dropped: three tries in a lease, so that one that fails costs nothing. `failed` is told of errors.
    pub async fn run(&self, failed: impl Fn(StoreError)) {
        let mut ticks = tokio::time::interval(Duration::from_secs(u64::from(self.seconds)) / 3);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.tick().await {
                failed(error);
            }
        }
    }

    /// Stops leading, so that another gateway need not wait for the end of the lease.
    ///
    /// # Errors
    /// Those of the store; then the lease ends by itself.
    pub async fn resign(&self) -> Result<(), StoreError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Held { term, .. }) = held else { return Ok(()) };
        let fence = Check::At(LEADER.to_owned(), term);
        match self.engine.commit(&[fence], &[Write::Delete(LEADER.to_owned())]).await {
            Ok(_) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
