//! Core dumps of this process, which would contain private keys, tickets' keys and each viewer's keys.
//!
//! Two settings forbid them, and programs that this one starts inherit both:
//! - A soft limit (`RLIMIT_CORE`) of 1 byte. The kernel writes no file that is so short, and takes 1, unlike 0, as a sign not to start a program
//!   either that `kernel.core_pattern` names after a `|` (core(5), `fs/coredump.c`).
//! - An empty filter (`/proc/PID/coredump_filter`): a dump that is made nevertheless, such as one that goes to a socket, contains no memory.
//!
//! They cover all memory, so there is no need to find mappings and mark them by `MADV_DONTDUMP`: keys are all over the heap, also in libraries.
//!
//! `PR_SET_DUMPABLE` would also keep other processes of the same user from reading this one's memory. But it gives `/proc/PID` to root, and two
//! programs of the same user need that: a node's agent looks there for its server's open films, and `fullbore upgrade --arguments-of`
//! for the server's command line. Where systemd hides processes (`ProtectProc=invisible`), the latter could not even see `/proc/PID`.

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// See above.
const LIMIT_BYTES: u64 = 1;

const FILTER: &str = "/proc/self/coredump_filter";

/// The kernel's default filter (core(5)).
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

/// Allows core dumps up to the hard limit, even if the parent process had forbidden them. Returns that limit in bytes. If the hard limit is 0, the
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
