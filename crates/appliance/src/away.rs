//! What a worker does while another server accepts in its place: its viewers leave one after the other, and its memory goes back to the kernel.
//!
//! The other server needs both: time for the handshakes of those who come, and memory for what they ask for. If it ends, this one comes back with
//! everything as before.

use crate::config::Config;
use crate::drain::Leaving;
use crate::worker::Worker;
use reactor::{Pool, now, sleep, spawn};
use std::iter::once;
use std::rc::Rc;
use std::time::Duration;

/// Long enough that the handshakes of a thousand viewers of a core are few among its work, and short beside the time in which upgrades are done.
const LEAVES_WITHIN: Duration = Duration::from_secs(5);

/// How often free buffers are given back.
const GIVES_BACK_EVERY: Duration = Duration::from_millis(200);

/// In what time viewers leave: a part of `drain_seconds`, because those who are served slowly need the rest.
pub(crate) fn leaves_within(config: &Config) -> Duration {
    LEAVES_WITHIN.min(Duration::from_secs(config.drain_seconds) / 4)
}

impl Worker {
    /// Has viewers leave for another server, or stay.
    pub(crate) fn set_away(self: &Rc<Self>, is_away: bool) {
        let was_away = self.drain.is_announced();
        let viewers = self.entrance.admission.connections();
        self.drain.announce(is_away.then(|| Leaving::new(viewers, now(), self.leaves_within)));
        if is_away && !was_away {
            spawn(Rc::clone(self).give_back_while_away());
        }
    }

    async fn give_back_while_away(self: Rc<Self>) {
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
        // The other server has as many registered, and needs a moment to give them back: both at once are more memory than there may be, or more
        // than one user may lock.
        sleep(self.leaves_within).await;
        if self.registers_buffers && !self.drain.is_announced() {
            Pool::register(resources.reader.pools()).await;
        }
    }
}
