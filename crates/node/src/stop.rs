//! Tells the agent's threads to end, and wakes them when there is something to do.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Shared by a thread and those that wake or end it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    has_rung: bool,
}

impl Bell {
    /// Wakes the thread, now or when it waits next.
    pub(crate) fn ring(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_rung = true;
        self.rung.notify_all();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_stopped = true;
        self.rung.notify_all();
    }

    /// Whether the thread is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_stopped
    }

    /// Waits until somebody rings, `most` at most.
    pub(crate) fn wait(&self, most: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |state: &mut State| !state.is_stopped && !state.has_rung;
        let waited = self.rung.wait_timeout_while(state, most, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_rung = false;
    }

    /// Waits for this time, whoever rings, unless the thread is to end.
    pub(crate) fn pause(&self, time: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.rung.wait_timeout_while(state, time, |state| !state.is_stopped));
    }
}
