//! What this process may use, from /proc/self/limits, raising it as far as we may, and taking room for it ahead.

use std::fs::File;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::root::Root;

/// A resource limit (getrlimit(2)); `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What holds now.
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

/// Raises the number of files this process may have open to the most it may allow itself; returns that number.
///
/// # Errors
/// Those of setrlimit(2). The old limit then still holds.
pub fn raise_nofile() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Makes the kernel's table of this process's open files as long as `count`, or as the process may have. To be called
/// before there are threads: the kernel doubles the table when it is full, and if threads share it, whoever opened the
/// file waits until every processor has seen the new one, some tens of milliseconds. The table takes 8 bytes a file.
///
/// # Errors
/// When there is no memory for it, or no file to be had at all. The table then grows when it has to.
pub fn reserve_files(count: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = i32::try_from(count.min(limit).saturating_sub(1)).unwrap_or(i32::MAX);
    rustix::io::fcntl_dupfd_cloexec(File::open("/dev/null")?, last)?;
    Ok(())
}
