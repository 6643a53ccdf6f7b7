//! Core dumps of this process, which would have private keys, tickets' keys and each viewer's keys in them.
//!
//! Two settings forbid them, and programs that this one starts inherit both:
//! - A soft limit (`RLIMIT_CORE`) of 1 byte. The kernel writes no file that is so short, and takes 1, unlike 0, as a sign to start no program that
//!   `kernel.core_pattern` names behind a `|` either (core(5), `fs/coredump.c`).
//! - An empty filter (`/proc/PID/coredump_filter`): a dump that is made nevertheless, such as one that goes to a socket, has no memory in it.
//!
//! They cover all memory, so no mapping has to be found and marked by `MADV_DONTDUMP`: keys are all over the heap, also in libraries.
//!
//! `PR_SET_DUMPABLE` would keep other processes of the same user from reading this one's memory, too. But it gives `/proc/PID` to root, and two
//! programs of the same user need that: a node's agent looks there for the films that its server has open, and `fullbore upgrade --arguments-of`
//! for the server's command line. Where systemd hides processes (`ProtectProc=invisible`), `/proc/PID` would not even be visible to the latter.

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// See above.
const LIMIT_BYTES: u64 = 1;

const FILTER: &str = "/proc/self/coredump_filter";

/// What the kernel dumps by default (core(5)).
const DEFAULT_FILTER: &str = "0x33";

/// Forbids core dumps of this process and of those that it starts.
///
/// # Errors
/// If the kernel refuses the limit. A kernel without the filter is no error: the limit suffices for files and programs.
pub fn forbid_core_dumps() -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let current = Some(maximum.map_or(LIMIT_BYTES, |maximum| maximum.min(LIMIT_BYTES)));
    setrlimit(Resource::Core, Rlimit { current, maximum })?;
    let _ = fs::write(FILTER, "0");
    Ok(())
}

/// Allows core dumps up to the hard limit, even if the parent process had forbidden them. Returns that limit in bytes. At a hard limit of 0 the
/// filter stays empty, because the kernel then still starts a program that `kernel.core_pattern` names.
///
/// # Errors
/// If the kernel refuses the limit or the filter.
pub fn allow_core_dumps() -> io::Result<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    if maximum == Some(0) {
        return Ok(0);
    }
    setrlimit(Resource::Core, Rlimit { current: maximum, maximum })?;
    fs::write(FILTER, DEFAULT_FILTER)?;
    Ok(maximum.unwrap_or(u64::MAX))
}
