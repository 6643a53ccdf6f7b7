//! Purges.
//!
//! A purge takes effect in the order of the server's messages: a question after it finds nothing that it covers. Removing the files of many
//! objects, or saving that they are stale, takes longer than that. So another thread does it, and reports the purge as done once it is on the disk.
//! Shortly after a start, not all responses have been found yet. A purge that may cover those takes effect, and is done, once they are.

use super::{Helper, Known};
use crate::contract::{EdgeTold, Trouble};
use crate::purge::{Purge, PurgeScope, Purged};
use crate::store::Stored;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;
use tokio::runtime::Handle;

impl Known {
    /// The objects that a purge covers.
    fn covered(&self, scope: &PurgeScope) -> Vec<Arc<Stored>> {
        match scope {
            PurgeScope::Url(_) | PurgeScope::Prefix(_) => {
                self.by_path.covered(scope).into_iter().cloned().collect()
            }
            PurgeScope::Tags(tags) => {
                let numbers: BTreeSet<_> =
                    tags.iter().flat_map(|tag| self.tags.find(tag)).collect();
                numbers.iter().filter_map(|number| self.by_number.get(number)).cloned().collect()
            }
        }
    }
}

impl Helper {
    /// Carries out a purge.
    pub(super) fn purge(self: &Arc<Self>, ticket: u64, purge: Purge, runtime: &Handle) {
        if !self.purges_begun().insert(ticket) {
            // The server repeats it for a helper that has begun, which may have it from the one before. Its answer must not precede the first one's.
            return;
        }
        if let PurgeScope::Url(path) = &purge.scope {
            self.restore(path);
        } else if !self.store.heads().are_read() {
            let (helper, runtime) = (Arc::clone(self), runtime.clone());
            runtime.clone().spawn_blocking(move || {
                helper.store.heads().wait_until_read();
                helper.carry_out(ticket, &purge, &runtime);
            });
            return;
        }
        self.carry_out(ticket, &purge, runtime);
    }

    fn carry_out(self: &Arc<Self>, ticket: u64, purge: &Purge, runtime: &Handle) {
        // Until it has taken effect: so nothing is stored in between.
        let mut stored = self.responses();
        let films = self.known().covered(&purge.scope);
        let responses = stored.begin_purge(purge);
        let purged = Purged { films: films.len() as u64, responses: responses.len() as u64 };
        let (is_soft, now) = (purge.is_soft, Instant::now());
        for film in &films {
            match is_soft {
                true => self.make_stale(film),
                false => drop(self.hide(film, Trouble::Purged)),
            }
        }
        for number in &responses {
            match is_soft {
                true => stored.make_stale(*number, now),
                false => {
                    if let Some(response) = stored.current(*number) {
                        self.note_removed(&response.path, Trouble::Purged);
                    }
                    stored.remove(*number);
                }
            }
        }
        drop(stored);
        let helper = Arc::clone(self);
        runtime.spawn_blocking(move || {
            match is_soft {
                true => {
                    films.iter().for_each(|film| film.save());
                    responses.iter().for_each(|number| helper.save_response(*number));
                }
                false => {
                    films.iter().for_each(|film| helper.remove(film));
                    responses.iter().for_each(|number| helper.forget_response(*number));
                }
            }
            if let Err(error) = helper.store.sync() {
                // It is done. Only a power failure could undo it.
                eprintln!(
                    "fullbore: the cache's disk doesn't confirm that a purge is on it: {error}"
                );
            }
            helper.tell(EdgeTold::Purged { ticket, purged });
            helper.purges_begun().remove(&ticket);
        });
    }

    /// The tickets of purges that are under way.
    fn purges_begun(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.purges_begun.lock().expect("no holder of this lock can panic")
    }

    fn make_stale(&self, film: &Stored) {
        film.make_stale();
        self.tell(EdgeTold::Stale { object: film.number });
    }
}
