//! This process's resource limits, from /proc/self/limits: reading them, raising them, and reserving room for open files.

use std::fs::File;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::root::Root;

/// A resource limit (getrlimit(2)); `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub soft: u64,
    /// How far the process may raise the soft limit by itself.
    pub hard: u64,
}

pub(crate) fn probe(root: &Root, name: &str) -> Option<Limit> {
    let text = root.read("proc/self/limits")?;
    let values = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut values = values.split_whitespace().map(parse);
    Some(Limit { soft: values.next()??, hard: values.next()?? })
}

fn parse(value: &str) -> Option<u64> {
    if value == "unlimited" { Some(u64::MAX) } else { value.parse().ok() }
}

/// Raises the limit on open files to the hard limit, and returns that.
///
/// # Errors
/// The error of setrlimit(2). The old limit then stays in force.
pub fn raise_nofile() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Makes the kernel's table of this process's open files `count` long, or as long as the limit allows. Call it before
/// starting threads. The kernel doubles the table when it is full, and if threads share the table, the thread that
/// opens the file then waits until every processor has seen the new table, some tens of milliseconds. The table takes 8
/// bytes per file.
///
/// # Errors
/// If there is no memory for it, or no descriptor is available. The table then grows when it has to.
pub fn reserve_files(count: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = i32::try_from(count.min(limit).saturating_sub(1)).unwrap_or(i32::MAX);
    rustix::io::fcntl_dupfd_cloexec(File::open("/dev/null")?, last)?;
    Ok(())
}
