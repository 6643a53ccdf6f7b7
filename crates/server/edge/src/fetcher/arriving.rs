//! Responses that will be stored, while they arrive.
//!
//! They are not evicted meanwhile. When the viewer of a long one leaves, one response for each path goes on without a viewer, because the next one
//! will want it. Further copies of it would hold slots and disk space, and be thrown away.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// The most that arrive without a viewer: an eighth of the slots. Otherwise a client that hangs up, and has another query in each request, could take
/// all of them.
const ALONE_MAX: usize = 8;

/// The most revalidations at the same time whose viewers have the stale response.
const REFRESHED_MAX: usize = 32;

/// The numbers of all of them, with their lengths.
#[derive(Clone, Default)]
pub(super) struct Arriving(Arc<Mutex<HashMap<u64, u64>>>);

/// A response that arrives, until this is dropped.
pub(super) struct ArrivingResponse {
    number: u64,
    all: Arriving,
}

/// Paths that something is done for without a viewer, once for each.
#[derive(Clone)]
pub(super) struct Paths {
    taken: Arc<Mutex<HashSet<String>>>,
    max: usize,
}

/// The right to do so for a path, until this is dropped.
pub(super) struct PathTaken {
    path: String,
    all: Paths,
}

impl Paths {
    /// For responses whose viewers have left.
    pub(super) fn alone() -> Self {
        Self { taken: Arc::default(), max: ALONE_MAX }
    }

    /// For revalidations whose viewers have the stale response.
    pub(super) fn refreshed() -> Self {
        Self { taken: Arc::default(), max: REFRESHED_MAX }
    }

    /// Takes `path`, unless it is taken, or too many are.
    pub(super) fn take(&self, path: &str) -> Option<PathTaken> {
        let mut taken = self.lock();
        let is_new = taken.len() < self.max && taken.insert(path.to_owned());
        is_new.then(|| PathTaken { path: path.to_owned(), all: self.clone() })
    }

    /// Whether `path` is taken.
    pub(super) fn has(&self, path: &str) -> bool {
        self.lock().contains(path)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.taken.lock().expect("no holder of this lock can panic")
    }
}

impl Drop for PathTaken {
    fn drop(&mut self) {
        self.all.lock().remove(&self.path);
    }
}

impl Arriving {
    /// A response of `bytes` begins to arrive, unless all of them would be more than `bytes_max`: none of them can be evicted.
    pub(super) fn begin(
        &self,
        number: u64,
        bytes: u64,
        bytes_max: u64,
    ) -> Option<ArrivingResponse> {
        let mut all = self.lock();
        if all.values().fold(bytes, |sum, one| sum.saturating_add(*one)) > bytes_max {
            return None;
        }
        all.insert(number, bytes);
        Some(ArrivingResponse { number, all: self.clone() })
    }

    /// Whether the response with this number is arriving.
    pub(super) fn has(&self, number: u64) -> bool {
        self.lock().contains_key(&number)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

impl Drop for ArrivingResponse {
    fn drop(&mut self) {
        self.all.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_response_for_each_path_goes_on_alone_and_few_in_all() {
        let (arriving, alone) = (Arriving::default(), Paths::alone());
        let first = alone.take("/film").unwrap();
        assert!(alone.take("/film").is_none());
        let paths = (0..100).map(|number| format!("/film?{number}"));
        let others: Vec<_> = paths.filter_map(|path| alone.take(&path)).collect();
        assert_eq!(others.len(), ALONE_MAX - 1);
        assert!(Paths::refreshed().take("/film").is_some(), "that is another matter");
        drop((first, others));
        assert!(alone.take("/film").is_some());
        let response = arriving.begin(7, 60, 100);
        assert!(response.is_some() && arriving.has(7) && !arriving.has(8));
        assert!(arriving.begin(8, 41, 100).is_none(), "they could not be evicted");
        assert!(arriving.begin(8, 40, 100).is_some());
        drop(response);
        assert!(!arriving.has(7) && arriving.begin(8, 100, 100).is_some());
    }
}
