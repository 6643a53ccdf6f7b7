//! Stops an ingest early: the signal thread calls it, and it ends the running ffmpeg.

use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Stops an ingest, or several at once, from another thread. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    /// The running children. Each is alive, or dead and not yet reaped, so no other process has its ID.
    children: Vec<Pid>,
}

impl Stop {
    /// Ends the running programs; programs started later end at once.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        for &child in &state.children {
            // It may have ended by itself, which is just as good.
            let _ = kill_process(child, Signal::KILL);
        }
        self.0.stopped.notify_all();
    }

    /// Whether stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Waits until stop is requested, `at_most` this long. Returns whether it was requested.
    pub fn wait(&self, at_most: Duration) -> bool {
        let wait =
            self.0.stopped.wait_timeout_while(self.state(), at_most, |state| !state.is_stopped);
        wait.unwrap_or_else(PoisonError::into_inner).0.is_stopped
    }

    /// From here until [`Self::forget`], a stop ends `child`.
    pub(crate) fn watch(&self, child: &Child) {
        let mut state = self.state();
        let child = Pid::from_child(child);
        state.children.push(child);
        if state.is_stopped {
            let _ = kill_process(child, Signal::KILL);
        }
    }

    /// Call this before waiting for the child.
    pub(crate) fn forget(&self, child: &Child) {
        let child = Pid::from_child(child);
        self.state().children.retain(|&one| one != child);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics while it holds the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
