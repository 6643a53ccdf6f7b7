//! Whether there is memory for one viewer more, and for the next window of those who are here.
//!
//! An allocation that fails ends a Rust program, and a control group that is full has the kernel kill it: either way every viewer is lost.
//! So the server stops short of its bounds. Part of each is kept back: new viewers are refused once only that is left, and while less than
//! half of that is left in a control group, which pays for the kernel's socket buffers too, nobody is sent more.
//!
//! A viewer's handshake takes much and gives it back, so each that is under way counts as `ENTERING_BYTES`, whatever it has taken so far.

use machine::{Bound, Headroom};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a connection may take until its handshake is over: some 40 KiB of the library's state, and what the peer sends
/// ([`crypt::HANDSHAKE_BYTES_MAX`] at worst, a hello of 2 KiB as a rule).
const ENTERING_BYTES: u64 = 64 << 10;

/// How long what was seen counts, with a bound and without one. Memory is not filled by viewers within ten milliseconds: by then some
/// hundred have come to a worker, and each is counted.
const LOOK_AGE_MAX: Duration = Duration::from_millis(10);
const LOOK_AGE_MAX_UNBOUNDED: Duration = Duration::from_secs(1);

/// What is kept back of a bound: an eighth, for what viewers who are here may still need. At least what the allocator takes at a time, at most
/// what they could take between two looks.
const RESERVE_BYTES: (u64, u64) = (4 << 20, 128 << 20);

/// A worker's view of the memory that is left.
pub struct Room {
    headroom: Arc<Headroom>,
    workers: u64,
    looked_at: Cell<Option<Instant>>,
    seen: Cell<Seen>,
    entering: Rc<Cell<u64>>,
}

/// What a look has shown.
#[derive(Clone, Copy, Default)]
struct Seen {
    is_bounded: bool,
    /// For this worker's new viewers, if there is a bound.
    free_bytes: u64,
    /// Less than half of the reserve is left in a control group.
    is_short: bool,
}

/// A connection whose handshake is under way; dropped when that is over.
pub struct Entering(Rc<Cell<u64>>);

impl Drop for Entering {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Room {
    /// The room of one of so many workers.
    pub fn new(headroom: Arc<Headroom>, workers: usize) -> Self {
        Self {
            headroom,
            workers: workers.max(1) as u64,
            looked_at: Cell::default(),
            seen: Cell::default(),
            entering: Rc::default(),
        }
    }

    /// Takes a place for a connection that has just come; `None` when memory is short.
    pub fn enter(&self) -> Option<Entering> {
        let seen = self.look();
        let wanted = (self.entering.get() + 1) * ENTERING_BYTES;
        if seen.is_bounded && wanted > seen.free_bytes {
            return None;
        }
        self.entering.set(self.entering.get() + 1);
        Some(Entering(Rc::clone(&self.entering)))
    }

    /// Whether so little is left that nothing more should be given to the kernel to send.
    pub fn is_short(&self) -> bool {
        self.look().is_short
    }

    /// What there is, as of a moment ago.
    fn look(&self) -> Seen {
        let (now, seen) = (reactor::now(), self.seen.get());
        let age_max = if seen.is_bounded { LOOK_AGE_MAX } else { LOOK_AGE_MAX_UNBOUNDED };
        let is_fresh =
            self.looked_at.get().is_some_and(|at| now.saturating_duration_since(at) < age_max);
        // Where there is little left, a moment is too long.
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

/// What is kept back of a bound.
pub fn reserve_bytes(bound: Bound) -> u64 {
    (bound.bytes / 8).clamp(RESERVE_BYTES.0, RESERVE_BYTES.1)
}

fn free_bytes(bound: Bound) -> u64 {
    bound.left_bytes.saturating_sub(reserve_bytes(bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Reactor, RingOptions};
    use std::fs;
    use std::path::Path;

    /// A control group of 64 MiB with so much of it used, as version 2 tells it.
    fn group(root: &Path, used_bytes: u64) {
        let folder = root.join("sys/fs/cgroup/box");
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::create_dir_all(&folder).unwrap();
        fs::write(root.join("proc/self/cgroup"), "0::/box\n").unwrap();
        fs::write(folder.join("memory.max"), (64 << 20).to_string()).unwrap();
        fs::write(folder.join("memory.current"), used_bytes.to_string()).unwrap();
        fs::write(folder.join("memory.stat"), "").unwrap();
    }

    fn room(used_bytes: u64) -> Room {
        let root = tempfile::tempdir().unwrap();
        group(root.path(), used_bytes);
        Room::new(Arc::new(Headroom::open_from(root.path())), 1)
    }

    fn on_a_reactor(test: impl FnOnce() + 'static) {
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        reactor.run(async move { test() }).unwrap();
    }

    #[test]
    fn handshakes_under_way_count_and_give_their_place_back() {
        on_a_reactor(|| {
            // 8 MiB are kept back of 64, so ten places are left.
            let room = room((56 << 20) - 10 * ENTERING_BYTES);
            let mut entered: Vec<_> = std::iter::from_fn(|| room.enter()).collect();
            assert_eq!(entered.len(), 10);
            assert!(room.enter().is_none());
            entered.pop();
            assert!(room.enter().is_some());
            assert!(!room.is_short());
        });
    }

    #[test]
    fn sending_pauses_when_half_of_the_reserve_is_gone() {
        on_a_reactor(|| {
            assert!(!room(60 << 20).is_short());
            assert!(room((60 << 20) + 1).is_short());
            assert!(room(60 << 20).enter().is_none());
        });
    }

    #[test]
    fn without_a_bound_everybody_enters() {
        on_a_reactor(|| {
            let root = tempfile::tempdir().unwrap();
            let room = Room::new(Arc::new(Headroom::open_from(root.path())), 1);
            let entered: Vec<_> = (0..100_000).map_while(|_| room.enter()).collect();
            assert_eq!(entered.len(), 100_000);
        });
    }
}
