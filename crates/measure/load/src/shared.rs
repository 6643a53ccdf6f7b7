//! The state that all threads of a run share.

use crate::connection::ServerEndpoint;
use crate::film::Film;
use crate::options::Options;
use crate::popularity::Chooser;
use crate::tally::Counters;
use crate::verify::Verifier;
use reactor::Remote;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// How many failures without any success make a run give up; fewer if there are fewer viewers.
const FAILURES_BEFORE_GIVING_UP: u64 = 50;

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) films: Vec<Film>,
    pub(crate) endpoints: Vec<ServerEndpoint>,
    pub(crate) chooser: Chooser,
    pub(crate) verifier: Verifier,
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) remotes: Vec<Remote>,
    pub(crate) began: Instant,
    pub(crate) standing: Standing,
}

/// The state of the run, visible to all threads.
#[derive(Default)]
pub(crate) struct Standing {
    stopping: AtomicBool,
    interrupted: AtomicBool,
    gave_up: AtomicBool,
    has_succeeded: AtomicBool,
    failures: AtomicU64,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.standing.stopping.load(Ordering::Acquire)
    }

    /// Ends the run early.
    pub(crate) fn interrupt(&self) {
        self.standing.interrupted.store(true, Ordering::Release);
        self.stop();
    }

    fn stop(&self) {
        self.standing.stopping.store(true, Ordering::Release);
        self.remotes.iter().for_each(Remote::wake);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.standing.interrupted.load(Ordering::Acquire)
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.standing.gave_up.load(Ordering::Acquire)
    }

    /// Notes a correct answer: from now on the run continues whatever fails.
    pub(crate) fn succeeded(&self) {
        if !self.standing.has_succeeded.load(Ordering::Relaxed) {
            self.standing.has_succeeded.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a failure. If everything fails, the run has no point.
    pub(crate) fn failed(&self) {
        let failures = 1 + self.standing.failures.fetch_add(1, Ordering::Relaxed);
        let patience = FAILURES_BEFORE_GIVING_UP.min(self.options.connections as u64);
        if failures >= patience && !self.standing.has_succeeded.load(Ordering::Relaxed) {
            self.standing.gave_up.store(true, Ordering::Release);
            self.stop();
        }
    }
}
