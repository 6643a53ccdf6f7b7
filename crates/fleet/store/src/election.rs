//! Leader election: one gateway leads at a time, by a lease in the store.
//!
//! A gateway considers itself the leader until nine tenths of the lease after it *requested* the renewal that was granted. The store counts the
//! full lease from when it *granted* it, which is later. So two gateways never both act as leader, as long as the clocks of gateways and etcd run
//! at rates that differ by less than a tenth over one lease. Wall-clock time does not matter, and neither does suspend: both sides count the time
//! asleep (CLOCK_BOOTTIME).
//!
//! No clock helps when a gateway is paused in the middle of a step (a paused virtual machine, whose clock stops, too). So everything a leader
//! writes must be fenced: with `Check::At(key, term)`, the store rejects writes that come too late.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{Check, Engine, StoreError, Write};

/// The key of the lease of the gateway that leads.
pub const LEADER: &str = "leader";

/// How long a lease lasts, except in tests. After a leader dies, the fleet may have no leader for this long.
pub const LEASE_SECONDS: u32 = 15;

/// One gateway's part in the election.
pub struct Election {
    engine: Arc<dyn Engine>,
    owner: String,
    seconds: u32,
    held: Mutex<Option<Held>>,
    other: Mutex<Option<Other>>,
}

#[derive(Clone, Copy)]
struct Held {
    term: u64,
    /// By CLOCK_BOOTTIME.
    until: Duration,
}

/// The gateway that leads instead of this one.
struct Other {
    owner: String,
    /// By CLOCK_BOOTTIME.
    until: Duration,
}

fn now() -> Duration {
    // It begins with 0 at the start of the machine, so it is never negative.
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

impl Election {
    /// A gateway's part. `owner` identifies one process: its name plus a random part drawn at start.
    pub fn new(engine: Arc<dyn Engine>, owner: String, seconds: u32) -> Self {
        Self { engine, owner, seconds, held: Mutex::default(), other: Mutex::default() }
    }

    /// The current term if this gateway leads, used to fence its writes; `None` if it does not lead.
    pub fn term(&self) -> Option<u64> {
        let held = *self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.filter(|held| now() < held.until).map(|held| held.term)
    }

    /// The name of the gateway that leads, as far as this one knows: the first word of the lease's owner.
    pub fn leader(&self) -> Option<String> {
        let owner = match self.term() {
            Some(_) => self.owner.clone(),
            None => {
                let other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
                other.as_ref().filter(|other| now() < other.until)?.owner.clone()
            }
        };
        owner.split(' ').next().map(str::to_owned)
    }

    /// Acquires or renews the lease, once.
    ///
    /// # Errors
    /// Those of the store. A leader keeps leading until its lease runs out.
    pub async fn tick(&self) -> Result<(), StoreError> {
        let asked = now();
        let term = self.engine.lease(LEADER, &self.owner, self.seconds).await?;
        let until = asked + Duration::from_secs(u64::from(self.seconds)) * 9 / 10;
        let held = term.map(|term| Held { term, until });
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
        let other = match held {
            Some(_) => None,
            None => self.engine.get(LEADER).await?.map(|entry| Other {
                owner: String::from_utf8_lossy(&entry.value).into_owned(),
                // The next turns see it again.
                until: now() + Duration::from_secs(u64::from(self.seconds)),
            }),
        };
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = other;
        Ok(())
    }

    /// Takes part until the future is dropped. It tries three times per lease, so one failed attempt is harmless. `failed` gets the errors.
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

    /// Stops leading, so that another gateway can take over without waiting for the lease to end.
    ///
    /// # Errors
    /// Those of the store. The lease then expires by itself.
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
