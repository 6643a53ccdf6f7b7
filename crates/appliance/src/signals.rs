//! What the main thread hears of: signals that end the server or make it reload, and that another server has taken its place.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::mpsc::Sender;

/// What the main thread hears of.
pub(crate) enum News {
    /// A signal.
    Signal(i32),
    /// Another server has taken this one's place for good.
    Succeeded,
}

/// Signals that have come since [`signals`] was called, and those to come.
pub struct Signals(signal_hook::iterator::Signals);

/// Begins to catch signals. Call it first, so that none is lost while the server starts. The thread that waits for signals
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
