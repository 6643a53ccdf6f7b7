//! Ctrl-C: the first one ends a run with the figures so far, a second one ends the process.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code that shells report for a program ended by Ctrl-C: 128 plus the signal's number.
pub const EXIT_CODE: u8 = 130;

/// Records whether the user wants to end the run.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// If signals cannot be handled.
    pub fn on_signal() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal finds the flag clear and sets it; the second one finds it set and ends the process.
            flag::register_conditional_shutdown(signal, EXIT_CODE.into(), Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self(asked))
    }

    /// Returns true once the user has asked to end.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Returns an error once the user has asked to end, so that callers can use `?`.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] once the user has asked to end.
    pub fn check(&self) -> io::Result<()> {
        if self.is_asked() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_an_error_to_leave_by() {
        let interrupt = Interrupt::default();
        assert!(interrupt.check().is_ok());
        interrupt.0.store(true, Ordering::Release);
        assert_eq!(interrupt.check().unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
