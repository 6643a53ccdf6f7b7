//! Purges.
//!
//! A purge takes effect in the order of the server's messages: a question after it finds nothing that it covers. Removing the files of many
//! objects, or saving that they are stale, takes longer than that. So another thread does it, and reports the purge as done once it is on the disk.

use super::{Helper, Known};
use crate::contract::{EdgeTold, Trouble};
use crate::purge::{Purge, PurgeScope, Purged};
use crate::store::Stored;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;
use tokio::runtime::Runtime;

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
    pub(super) fn purge(self: &Arc<Self>, ticket: u64, purge: &Purge, runtime: &Runtime) {
        if !self.purges_begun().insert(ticket) {
            // The server repeats it for a helper that has begun, which may have it from the one before. Its answer must not precede the first one's.
            return;
        }
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
                false => drop(stored.remove(*number)),
            }
        }
        drop(stored);
        let helper = Arc::clone(self);
        runtime.spawn_blocking(move || {
            match is_soft {
                true => films.iter().for_each(|film| film.save()),
                false => helper.remove_all(&films, &responses),
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

    fn remove_all(&self, films: &[Arc<Stored>], responses: &[u64]) {
        films.iter().for_each(|film| self.remove(film));
        responses.iter().for_each(|number| self.forget_response(*number));
        if let Err(error) = self.store.sync() {
            // They are removed. Only a power failure could bring them back.
            eprintln!("fullbore: the cache's disk doesn't confirm that a purge is on it: {error}");
        }
    }
}
