//! Watches a running program: reads its output, checks its resource usage, and ends it if it exceeds a limit.
//!
//! Between two checks the kernel's own limits apply (`resource_limits` in `mod.rs`). They are higher than the limits in the documentation,
//! because the kernel counts memory that is requested and not used, and counts files one by one.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::session::SessionPriority;
use super::{Bound, Limits};

/// The time between checks. Programs fill memory at some gigabytes a second, so the limit may be exceeded by some hundred megabytes.
const LOOK: Duration = Duration::from_millis(50);
/// How much of its error output is kept: the first lines name the cause, the consequences come after.
const SAID_BYTES_MAX: usize = 8 << 10;
const BLOCK_BYTES: usize = 16 << 10;

/// Reads from and watches `child` until it has ended; the caller still has to wait for it. Returns the beginning of its standard error, and
/// the limit for which it was ended.
pub(super) fn to_the_end(
    child: &mut Child,
    limits: &Limits<'_>,
    hear: &mut dyn FnMut(&[u8]),
) -> io::Result<(Vec<u8>, Option<Bound>)> {
    let pid = Pid::from_child(child);
    let life = pidfd_open(pid, PidfdFlags::empty())?;
    let mut output = Pipe::new(child.stdout.take())?;
    let mut errors = Pipe::new(child.stderr.take())?;
    let (mut said, mut passed, begun) = (Vec::new(), None, Instant::now());
    let (mut looked, mut priority) = (begun, SessionPriority::of_this_thread());
    priority.set(pid);
    loop {
        let has_ended = wait(&life, &output, &errors)?;
        output.read(hear)?;
        errors.read(&mut |bytes| {
            let room = SAID_BYTES_MAX - said.len();
            said.extend_from_slice(&bytes[..bytes.len().min(room)]);
        })?;
        // Its last output may be more than one block.
        if has_ended && output.is_read() && errors.is_read() {
            return Ok((said, passed.or_else(|| too_large(limits))));
        }
        if !has_ended && passed.is_none() && looked.elapsed() >= LOOK {
            looked = Instant::now();
            priority.set(pid);
            passed = too_much(pid, begun, limits);
            if passed.is_some() {
                // It has not been waited for, so the process id is still its own.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Waits for output, for its end (then it returns true), or until it is time for a check.
fn wait<O: Read + AsFd, E: Read + AsFd>(
    life: &impl AsFd,
    output: &Pipe<O>,
    errors: &Pipe<E>,
) -> io::Result<bool> {
    let mut awaited = vec![PollFd::new(life, PollFlags::IN)];
    awaited.extend(output.0.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    awaited.extend(errors.0.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    let at_most = Timespec::try_from(LOOK).map_err(io::Error::other)?;
    match poll(&mut awaited, Some(&at_most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!awaited[0].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// The reading end of a pipe, read without waiting; `None` once all writers are gone.
struct Pipe<R>(Option<R>);

impl<R: Read + AsFd> Pipe<R> {
    fn new(pipe: Option<R>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(Self(pipe))
    }

    /// Reads one block at most, so that the other pipe and the limits get their turn.
    fn read(&mut self, hear: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let Some(pipe) = &mut self.0 else { return Ok(()) };
        let mut block = [0; BLOCK_BYTES];
        match pipe.read(&mut block) {
            Ok(0) => self.0 = None,
            Ok(count) => hear(&block[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_read(&self) -> bool {
        self.0.is_none()
    }
}

fn too_much(pid: Pid, begun: Instant, limits: &Limits<'_>) -> Option<Bound> {
    if begun.elapsed().as_secs() >= limits.time.value() {
        return Some(limits.time);
    }
    if resident_bytes(pid).is_some_and(|bytes| bytes > limits.memory_bytes_max) {
        return Some(Bound::MemoryBytes(limits.memory_bytes_max));
    }
    too_large(limits)
}

fn too_large(limits: &Limits<'_>) -> Option<Bound> {
    let (root, bytes_max) = limits.output?;
    (tree_bytes(root) > bytes_max).then_some(Bound::OutputBytes(bytes_max))
}

/// A process's resident memory (proc_pid_statm(5): pages, the second number).
fn resident_bytes(pid: Pid) -> Option<u64> {
    let pages = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero())).ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes of all files in a folder and below it. Files that disappear meanwhile do not count.
pub(super) fn tree_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => tree_bytes(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.len()),
    });
    bytes.sum()
}
