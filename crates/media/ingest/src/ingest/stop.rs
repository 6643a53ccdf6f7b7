//! Stops an ingest early: the signal thread calls it, and it ends the running ffmpeg.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// Stops an ingest from another thread. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    /// The running child. It is alive, or dead and not yet reaped, so no other process has its ID.
    child: Option<Pid>,
}

impl Stop {
    /// Ends the running program; programs started later end at once.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        if let Some(child) = state.child {
            // It may have ended by itself, which is just as good.
            let _ = kill_process(child, Signal::KILL);
        }
    }

    /// Whether stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// From here until [`Self::forget`], a stop ends `child`.
    pub(crate) fn watch(&self, child: &Child) {
        let mut state = self.state();
        state.child = Some(Pid::from_child(child));
        if let (true, Some(child)) = (state.is_stopped, state.child) {
            let _ = kill_process(child, Signal::KILL);
        }
    }

    /// Call this before waiting for the child.
    pub(crate) fn forget(&self) {
        self.state().child = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
