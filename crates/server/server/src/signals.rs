//! Events for the main thread: signals that stop the server or make it reload, and the takeover by another server.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::mpsc::Sender;

/// An event for the main thread.
pub(crate) enum News {
    /// A signal.
    Signal(i32),
    /// Another server has taken over for good.
    Succeeded,
}

/// Signals since [`signals`] was called, and future ones.
pub struct Signals(signal_hook::iterator::Signals);

/// Starts catching signals. Call it first, so that none is lost while the server starts. The thread that waits for signals
/// starts after the server has, so that it is confined like all others.
///
/// # Errors
/// If a handler cannot be installed.
pub fn signals() -> io::Result<Signals> {
    signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Signals)
}

impl Signals {
    /// Starts the thread that passes signals on.
    pub(crate) fn pass_on(mut self, news: Sender<News>) -> io::Result<()> {
        let pass = move || {
            for signal in self.0.forever() {
                if news.send(News::Signal(signal)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(pass).map(drop)
    }
}
