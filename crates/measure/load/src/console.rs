//! A run with a user in front of it: shows progress on a terminal, and ends at Ctrl-C with the figures so far.

use crate::interrupt::Interrupt;
use crate::{Options, Outcome, Running, Snapshot};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often to check for an interrupt or the end.
const GLANCE: Duration = Duration::from_millis(20);

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Runs to the end, or to the first Ctrl-C or SIGTERM; a second one ends the process at once. On a terminal, standard
/// error shows the progress.
///
/// # Errors
/// As [`Running::start`] and [`Running::join`], and if signals cannot be handled.
pub fn run(options: Options) -> io::Result<Outcome> {
    let interrupt = Interrupt::on_signal()?;
    let running = Running::start(options)?;
    let mut progress = Progress::new();
    while !running.is_over() {
        if interrupt.is_asked() {
            running.stop();
        }
        progress.show(&running);
        std::thread::sleep(GLANCE);
    }
    progress.clear();
    running.join()
}

/// A line that is redrawn on a terminal, and not shown in a pipe.
struct Progress {
    on_terminal: bool,
    began: Instant,
    shown: Instant,
    last: Snapshot,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        let on_terminal = io::stderr().is_terminal();
        Self { on_terminal, began: now, shown: now, last: Snapshot::default() }
    }

    fn show(&mut self, running: &Running) {
        let seconds = self.shown.elapsed().as_secs_f64();
        if !self.on_terminal || seconds < PROGRESS_INTERVAL.as_secs_f64() {
            return;
        }
        let now = running.snapshot();
        let line = line(self.began.elapsed(), now, now.since(self.last), seconds);
        // If the terminal is closed, the run continues.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
        (self.shown, self.last) = (Instant::now(), now);
    }

    fn clear(&self) {
        if self.on_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(elapsed: Duration, now: Snapshot, since: Snapshot, seconds: f64) -> String {
    format!(
        "{:4.0} s  {:7.3} Gb/s  {:8.0} requests/s  {:7.0} handshakes/s  {} open  {} errors",
        elapsed.as_secs_f64(),
        since.body_bytes as f64 * 8e-9 / seconds,
        since.requests as f64 / seconds,
        since.handshakes as f64 / seconds,
        now.connections_open,
        now.errors
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_rates_of_the_last_interval_and_errors_of_all_time() {
        let now = Snapshot { connections_open: 7, errors: 2, ..Snapshot::default() };
        let since = Snapshot { body_bytes: 250_000_000, requests: 100, ..Snapshot::default() };
        let line = line(Duration::from_secs(3), now, since, 2.0);
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "3",
                "s",
                "1.000",
                "Gb/s",
                "50",
                "requests/s",
                "0",
                "handshakes/s",
                "7",
                "open",
                "2",
                "errors"
            ]
        );
    }
}
