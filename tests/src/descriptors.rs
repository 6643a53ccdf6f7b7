//! The limit on a test's descriptors.

use crate::tool;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit so that this process may open `count` more descriptors. Reports it if that is impossible.
///
/// # Panics
/// Never: the limit is within its maximum.
pub fn may_open(count: usize) -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (count + 200) as u64;
    if maximum.is_some_and(|maximum| maximum < wanted) {
        tool::skip(&format!("this takes {wanted} descriptors: ulimit -Hn {wanted}"));
        return false;
    }
    // Never lower, because other tests in this process may have raised it.
    let raised = current.map(|current| current.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: raised, maximum }).expect("it is allowed");
    true
}
