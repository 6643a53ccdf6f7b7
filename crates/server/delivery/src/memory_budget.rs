//! Checks whether there is memory for one more viewer, and for the next window of the connected viewers.
//!
//! A failed allocation ends a Rust program, and a full control group makes the kernel kill it. Either way every viewer is lost, so the server stops
//! short of its limits. It holds a reserve below each limit. New viewers are refused once only the reserve is left. In a control group, which pays
//! for the kernel's socket buffers too, nothing more is sent while less than half of the reserve is left.
//!
//! A viewer's handshake takes much memory and gives it back. Each handshake in progress therefore counts as
//! `ENTERING_BYTES`, whatever it has taken so far.

use machine::{Headroom, MemoryLimit};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The memory counted for a connection until its handshake is over: some 40 KiB of the library's state, and what the peer sends
/// ([`tls::HANDSHAKE_BYTES_MAX`] at worst, usually a hello of 2 KiB).
const ENTERING_BYTES: u64 = 64 << 10;

/// How long a memory reading stays valid, with a limit and without one. Viewers cannot fill memory within ten milliseconds: in that time a worker
/// gets about a hundred, and each is counted.
const LOOK_AGE_MAX: Duration = Duration::from_millis(10);
const LOOK_AGE_MAX_UNBOUNDED: Duration = Duration::from_secs(1);

/// The reserve below a limit is an eighth, for what connected viewers may still need. It is at least what the allocator takes at a time, and at most
/// what viewers could take between two readings.
const RESERVE_BYTES: (u64, u64) = (4 << 20, 128 << 20);

/// A worker's view of the memory that is left.
pub struct MemoryBudget {
    headroom: Arc<Headroom>,
    workers: u64,
    looked_at: Cell<Option<Instant>>,
    seen: Cell<Seen>,
    entering: Rc<Cell<u64>>,
}

/// One memory reading.
#[derive(Clone, Copy, Default)]
struct Seen {
    is_bounded: bool,
    /// Memory for this worker's new viewers, if there is a limit.
    free_bytes: u64,
    /// Less than half of the reserve is left in a control group.
    is_short: bool,
}

/// A connection whose handshake is in progress. Drop it when the handshake is over.
pub struct HandshakePermit(Rc<Cell<u64>>);

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl MemoryBudget {
    /// The view of one of `workers` workers.
    pub fn new(headroom: Arc<Headroom>, workers: usize) -> Self {
        Self {
            headroom,
            workers: workers.max(1) as u64,
            looked_at: Cell::default(),
            seen: Cell::default(),
            entering: Rc::default(),
        }
    }

    /// Takes a place for a new connection; `None` if memory is short.
    pub fn enter(&self) -> Option<HandshakePermit> {
        let seen = self.look();
        let wanted = (self.entering.get() + 1) * ENTERING_BYTES;
        if seen.is_bounded && wanted > seen.free_bytes {
            return None;
        }
        self.entering.set(self.entering.get() + 1);
        Some(HandshakePermit(Rc::clone(&self.entering)))
    }

    /// Returns true if so little memory is left that the kernel should get nothing more to send.
    pub fn is_short(&self) -> bool {
        self.look().is_short
    }

    /// The state of memory a moment ago.
    fn look(&self) -> Seen {
        let (now, seen) = (reactor::now(), self.seen.get());
        let age_max = if seen.is_bounded { LOOK_AGE_MAX } else { LOOK_AGE_MAX_UNBOUNDED };
        let is_fresh =
            self.looked_at.get().is_some_and(|at| now.saturating_duration_since(at) < age_max);
        // If little is left, even a moment is too old.
        if is_fresh && !seen.is_short {
            return seen;
        }
        self.looked_at.set(Some(now));
        let (group, process) = (self.headroom.of_groups(), self.headroom.of_process());
        let free = [group, process].into_iter().flatten().map(free_bytes).min();
        let seen = Seen {
            is_bounded: free.is_some(),
            free_bytes: free.unwrap_or(0) / self.workers,
            is_short: group.is_some_and(|bound| bound.left_bytes < reserve_bytes(bound) / 2),
        };
        self.seen.set(seen);
        seen
    }
}

/// The reserve below a limit.
pub fn reserve_bytes(bound: MemoryLimit) -> u64 {
    (bound.bytes / 8).clamp(RESERVE_BYTES.0, RESERVE_BYTES.1)
}

fn free_bytes(bound: MemoryLimit) -> u64 {
    bound.left_bytes.saturating_sub(reserve_bytes(bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Reactor, RingOptions};
    use std::fs;
    use std::path::Path;

    /// A control group of 64 MiB with `used_bytes` in use, in the format of version 2.
    fn group(root: &Path, used_bytes: u64) {
        let folder = root.join("sys/fs/cgroup/box");
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::create_dir_all(&folder).unwrap();
        fs::write(root.join("proc/self/cgroup"), "0::/box\n").unwrap();
        fs::write(folder.join("memory.max"), (64 << 20).to_string()).unwrap();
        fs::write(folder.join("memory.current"), used_bytes.to_string()).unwrap();
        fs::write(folder.join("memory.stat"), "").unwrap();
    }

    fn budget(used_bytes: u64) -> MemoryBudget {
        let root = tempfile::tempdir().unwrap();
        group(root.path(), used_bytes);
        MemoryBudget::new(Arc::new(Headroom::open_from(root.path())), 1)
    }

    fn on_a_reactor(test: impl FnOnce() + 'static) {
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        reactor.run(async move { test() }).unwrap();
    }

    #[test]
    fn handshakes_under_way_count_and_give_their_place_back() {
        on_a_reactor(|| {
            // The reserve is 8 of 64 MiB, so ten places are left.
            let budget = budget((56 << 20) - 10 * ENTERING_BYTES);
            let mut entered: Vec<_> = std::iter::from_fn(|| budget.enter()).collect();
            assert_eq!(entered.len(), 10);
            assert!(budget.enter().is_none());
            entered.pop();
            assert!(budget.enter().is_some());
            assert!(!budget.is_short());
        });
    }

    #[test]
    fn sending_pauses_when_half_of_the_reserve_is_gone() {
        on_a_reactor(|| {
            assert!(!budget(60 << 20).is_short());
            assert!(budget((60 << 20) + 1).is_short());
            assert!(budget(60 << 20).enter().is_none());
        });
    }

    #[test]
    fn without_a_bound_everybody_enters() {
        on_a_reactor(|| {
            let root = tempfile::tempdir().unwrap();
            let budget = MemoryBudget::new(Arc::new(Headroom::open_from(root.path())), 1);
            let entered: Vec<_> = (0..100_000).map_while(|_| budget.enter()).collect();
            assert_eq!(entered.len(), 100_000);
        });
    }
}
