//! Stops the agent's threads, and wakes them when there is work.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Shared by a thread and those that wake or stop it.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    state: Mutex<State>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    is_woken: bool,
}

impl Wakeup {
    /// Wakes the thread, now or when it waits next.
    pub(crate) fn wake(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_woken = true;
        self.condition.notify_all();
    }

    /// Stops the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_stopped = true;
        self.condition.notify_all();
    }

    /// Whether the thread has to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_stopped
    }

    /// Waits until it is woken, `most` at most.
    pub(crate) fn wait(&self, most: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |state: &mut State| !state.is_stopped && !state.is_woken;
        let waited = self.condition.wait_timeout_while(state, most, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_woken = false;
    }

    /// Waits for this time even if it is woken, unless the thread has to stop.
    pub(crate) fn pause(&self, time: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.condition.wait_timeout_while(state, time, |state| !state.is_stopped));
    }
}
