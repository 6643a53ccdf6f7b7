//! The keeper: a process that does nothing but start the helper again when it dies. The server cannot: once it runs, it may start no program.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Before a helper is started again; doubled each time, as long as helpers die young.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause of an edge, for which viewers wait.
pub const EDGE_PAUSE_MAX: Duration = Duration::from_secs(10);

/// A helper that lived so long did not die young.
const OLD: Duration = Duration::from_secs(60);

/// Runs `helper`, and runs it again whenever it fails, which is told of `whose` helper. Pauses in between grow up to `pause_max`. Returns when it
/// ends in order, because the server is gone.
///
/// # Errors
/// If it cannot be started at all.
pub fn keep(whose: &str, mut helper: Command, pause_max: Duration) -> io::Result<()> {
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
        eprintln!("fullbore: {whose} helper ended ({ended}); it is started again");
        sleep(pause);
        pause = pause_max.min(2 * pause);
    }
}

/// Signals that end the server come to its whole group. A helper goes on until the server is gone: viewers may finish.
///
/// # Errors
/// If the system does not allow that.
pub fn ignore_signals() -> io::Result<()> {
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
