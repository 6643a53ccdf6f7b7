//! Ending early: a signal's thread says stop, and the ffmpeg that runs just then is ended.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// Ends an ingest from another thread. Copies are of one and the same.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    /// Alive, or dead and not yet waited for: so the number is nobody else's.
    child: Option<Pid>,
}

impl Stop {
    /// Ends what runs now, and whatever is begun later ends at once.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        if let Some(child) = state.child {
            // It may have ended by itself, which is as good.
            let _ = kill_process(child, Signal::KILL);
        }
    }

    /// Whether it was said.
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

    /// To be called before the child is waited for.
    pub(crate) fn forget(&self) {
        self.state().child = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
