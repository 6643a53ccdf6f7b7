//! The CPUs that tests may use.

use crate::tool;
use rustix::thread::{CpuSet, sched_getaffinity};

/// Whether there are two. If not, reports that loudly; the caller then skips its test.
pub fn are_two_here() -> bool {
    let are_two = own().nth(1).is_some();
    if !are_two {
        tool::skip("two silos take two CPUs");
    }
    are_two
}

/// The number of one of the CPUs that this process may use.
///
/// # Panics
/// If there are fewer.
pub fn cpu(nth: usize) -> usize {
    own().nth(nth).expect("the caller has asked how many there are")
}

fn own() -> impl Iterator<Item = usize> {
    let own = sched_getaffinity(None).expect("this thread");
    (0..CpuSet::MAX_CPU).filter(move |cpu| own.is_set(*cpu))
}
