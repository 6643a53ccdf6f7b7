//! Signals that start and end what a server does.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::mpsc::{Receiver, channel};

/// Signals that have come, and will come, since [`signals`] was called.
pub struct Signals(signal_hook::iterator::Signals);

/// Begins to catch signals. To be called first, so that none is lost while the server starts; the thread that waits for
/// them starts when the server has, so that it is confined as all others are.
///
/// # Errors
/// When a handler cannot be installed.
pub fn signals() -> io::Result<Signals> {
    signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Signals)
}

impl Signals {
    /// Starts the thread that passes signals on.
    pub(crate) fn pass_on(mut self) -> io::Result<Receiver<i32>> {
        let (send, receive) = channel();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in self.0.forever() {
                if send.send(signal).is_err() {
                    return;
                }
            }
        })?;
        Ok(receive)
    }
}
