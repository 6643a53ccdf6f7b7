//! A worker's retreat while another server accepts in its place: its viewers leave one after the other, and its memory returns to the kernel.
//!
//! The other server needs both: time for the handshakes of arriving viewers, and memory for their requests. If it ends, this one comes back with
//! everything as before.

use crate::drain::Leaving;
use crate::worker::Worker;
use config::Config;
use reactor::{Pool, now, sleep, spawn};
use std::iter::once;
use std::rc::Rc;
use std::time::Duration;

/// Long enough that the handshakes of a core's thousand viewers are a small part of its work, and short compared with the length of an upgrade.
const LEAVES_WITHIN: Duration = Duration::from_secs(5);

/// How often free buffers are given back.
const GIVES_BACK_EVERY: Duration = Duration::from_millis(200);

/// The time in which viewers leave: a part of `drain_seconds`, because slow viewers need the rest.
pub(crate) fn leaves_within(config: &Config) -> Duration {
    LEAVES_WITHIN.min(Duration::from_secs(config.drain_seconds) / 4)
}

impl Worker {
    /// Makes viewers leave for another server, or stay.
    pub(crate) fn set_standby(self: &Rc<Self>, is_standby: bool) {
        let was_standby = self.drain.is_announced();
        let viewers = self.entrance.admission.connections();
        self.drain.announce(is_standby.then(|| Leaving::new(viewers, now(), self.leaves_within)));
        if is_standby && !was_standby {
            spawn(Rc::clone(self).give_back_on_standby());
        }
    }

    async fn give_back_on_standby(self: Rc<Self>) {
        let resources = &self.resources;
        while self.drain.is_announced() {
            Pool::give_back(resources.reader.pools());
            Pool::give_back(once(&resources.send_buffers));
            if let Some(keeper) = &self.keeper {
                keeper.give_all_back().await;
            }
            sleep(GIVES_BACK_EVERY).await;
        }
        Pool::keep(resources.reader.pools().chain(once(&resources.send_buffers))).await;
        // The other server has as many registered, and needs a moment to give them back: both together may exceed the available memory, or the amount
        // that one user may lock.
        sleep(self.leaves_within).await;
        if self.registers_buffers && !self.drain.is_announced() {
            Pool::register(resources.reader.pools()).await;
        }
    }
}
