//! The keeper: a process that does nothing but start the helper again when it dies. The server cannot: once it runs, it may start no program.

use crate::fetcher::ignore_signals;
use std::io;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Before a helper is started again; doubled each time, as long as helpers die young.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A helper that lived so long did not die young.
const OLD: Duration = Duration::from_secs(60);

/// Runs `helper`, and runs it again whenever it fails. Returns when it ends in order, because the server is gone.
///
/// # Errors
/// If it cannot be started at all.
pub fn keep(mut helper: Command) -> io::Result<()> {
    ignore_signals()?;
    let mut pause = PAUSE_MIN;
    loop {
        let started = Instant::now();
        let ended = helper.status()?;
        if ended.success() {
            return Ok(());
        }
        if started.elapsed() > OLD {
            pause = PAUSE_MIN;
        }
        eprintln!("fullbore: the edge's helper ended ({ended}); it is started again");
        sleep(pause);
        pause = PAUSE_MAX.min(2 * pause);
    }
}
