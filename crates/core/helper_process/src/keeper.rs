//! The keeper: a process that only restarts the helper when it dies. The server cannot: once it runs, it may not execute programs.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The pause before a helper is restarted; doubled each time, as long as helpers die young.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// A helper that lived this long did not die young.
const OLD: Duration = Duration::from_secs(60);

/// Runs `helper`, and restarts it whenever it fails, which is logged as `whose` helper. The pauses in between grow up to `pause_max`.
/// Returns when the helper exits normally, because the server is gone, or when it fails and the server at the other end of standard input
/// is gone.
///
/// # Errors
/// If it cannot be started at all.
pub fn keep(whose: &str, helper: Command, pause_max: Duration) -> io::Result<()> {
    ignore_signals()?;
    keep_for(io::stdin(), whose, helper, pause_max)
}

fn keep_for(
    server: impl AsFd,
    whose: &str,
    mut helper: Command,
    pause_max: Duration,
) -> io::Result<()> {
    let mut pause = PAUSE_MIN;
    loop {
        let started = Instant::now();
        let ended = helper.status()?;
        if ended.success() {
            return Ok(());
        }
        // A helper that fails to start does not notice that the server is gone.
        if is_gone_within(&server, Duration::ZERO) {
            return Ok(());
        }
        if started.elapsed() > OLD {
            pause = PAUSE_MIN;
        }
        eprintln!("fullbore: {whose} helper ended ({ended}); it is restarted");
        if is_gone_within(&server, pause) {
            return Ok(());
        }
        pause = pause_max.min(2 * pause);
    }
}

/// Whether the server closes its end of the socket within `time`. Returns as soon as it does.
fn is_gone_within(server: &impl AsFd, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // The kernel always reports a hang-up; data from the server is left for the next helper.
        let mut socket = [PollFd::new(server, PollFlags::empty())];
        match poll(&mut socket, Timespec::try_from(left).ok().as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            // Without a socket there is no server.
            Err(_) => return true,
            Ok(found) => return found > 0,
        }
    }
}

/// Ignores the signals that stop the server, because they go to its whole process group. A helper continues until the server is gone, so
/// that viewers can finish.
///
/// # Errors
/// If the system does not allow it.
pub fn ignore_signals() -> io::Result<()> {
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets;

    fn failing() -> Command {
        Command::new("false")
    }

    #[test]
    fn a_keeper_whose_helper_cannot_begin_ends_with_the_server() {
        let (server, keepers) = packets::pair().unwrap();
        drop(server);
        keep_for(keepers, "a test's", failing(), OLD).unwrap();
    }

    /// Unread data from the server does not hide that it is gone.
    #[test]
    fn a_server_that_ends_in_the_pause_is_noticed() {
        let (server, keepers) = packets::pair().unwrap();
        packets::send(&server, &1, None).unwrap();
        assert!(!is_gone_within(&keepers, Duration::ZERO));
        std::thread::scope(|scope| {
            let kept = scope.spawn(|| is_gone_within(&keepers, Duration::from_secs(3600)));
            drop(server);
            assert!(kept.join().unwrap());
        });
        keep_for(keepers, "a test's", failing(), OLD).unwrap();
    }
}
