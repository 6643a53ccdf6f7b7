//! Divides a process's file descriptors, so that one listener's connections never prevent another listener from accepting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::process::{Resource, getrlimit};

/// Descriptors reserved for the process itself: its store, logs, and outgoing connections. A sixteenth of the limit, but at least and at
/// most these numbers.
const OWN_MIN: usize = 64;
const OWN_MAX: usize = 512;

/// The descriptors that a process has for the connections of its listeners.
#[derive(Debug)]
pub struct Descriptors {
    max: usize,
    taken: AtomicUsize,
}

impl Descriptors {
    /// The number that the process's current limit on open files allows, minus the process's own. Raise the limit first.
    pub fn of_process() -> Arc<Self> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self::of_limit(limit)
    }

    /// The number that a limit on open files allows.
    pub fn of_limit(limit: usize) -> Arc<Self> {
        // A limit below 128 leaves half of it.
        let own = (limit / 16).clamp(OWN_MIN, OWN_MAX).min(limit / 2);
        Arc::new(Self { max: limit - own, taken: AtomicUsize::new(0) })
    }

    /// The number for connections.
    pub fn max(&self) -> usize {
        self.max
    }

    /// The share of a listener that leaves `reserved` descriptors to other listeners.
    pub fn share(self: &Arc<Self>, reserved: usize) -> Share {
        Share { all: Arc::clone(self), max: self.max.saturating_sub(reserved) }
    }
}

/// The share of one listener: it may take descriptors as long as all listeners together have taken fewer than its maximum.
#[derive(Clone, Debug)]
pub struct Share {
    all: Arc<Descriptors>,
    max: usize,
}

impl Share {
    /// A descriptor within the share.
    pub(crate) fn take(&self) -> Option<Descriptor> {
        let taken = self
            .all
            .taken
            .fetch_update(Relaxed, Relaxed, |taken| (taken < self.max).then_some(taken + 1));
        taken.is_ok().then(|| Descriptor(Arc::clone(&self.all)))
    }

    /// A descriptor in place of another one that is about to be returned.
    pub(crate) fn take_over(&self) -> Descriptor {
        self.all.taken.fetch_add(1, Relaxed);
        Descriptor(Arc::clone(&self.all))
    }
}

/// One descriptor of a [`Share`]; returned when dropped.
#[derive(Debug)]
pub(crate) struct Descriptor(Arc<Descriptors>);

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_left_to_others() {
        let all = Descriptors::of_limit(1024);
        assert_eq!(all.max(), 960);
        let (public, admin) = (all.share(900), all.share(0));
        let held: Vec<_> = std::iter::from_fn(|| public.take()).collect();
        assert_eq!(held.len(), 60);
        let more: Vec<_> = std::iter::from_fn(|| admin.take()).collect();
        assert_eq!(more.len(), 900);
        drop(held);
        assert!(public.take().is_none(), "the others have more than its share leaves");
        drop(more);
        assert!(public.take().is_some());
    }

    #[test]
    fn a_small_limit_leaves_half() {
        assert_eq!(Descriptors::of_limit(100).max(), 50);
        assert_eq!(Descriptors::of_limit(usize::MAX).max(), usize::MAX - OWN_MAX);
    }
}
