//! Responses that are to be stored, while they arrive.
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

/// All of them.
#[derive(Clone, Default)]
pub(super) struct Arriving(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    /// The responses' numbers, with their lengths.
    bytes: HashMap<u64, u64>,
    alone: HashSet<String>,
    refreshed: HashSet<String>,
}

/// A response that arrives, until this is dropped.
pub(super) struct ArrivingResponse {
    number: u64,
    all: Arriving,
}

/// The right to go on without a viewer, until this is dropped.
pub(super) struct Alone {
    path: String,
    all: Arriving,
}

/// The right to revalidate the response at a path without a viewer, until this is dropped.
pub(super) struct Refreshed {
    path: String,
    all: Arriving,
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
        if all.bytes.values().fold(bytes, |sum, one| sum.saturating_add(*one)) > bytes_max {
            return None;
        }
        all.bytes.insert(number, bytes);
        Some(ArrivingResponse { number, all: self.clone() })
    }

    /// Whether the response with this number is arriving.
    pub(super) fn has(&self, number: u64) -> bool {
        self.lock().bytes.contains_key(&number)
    }

    /// The right to go on without a viewer for a response at `path`, unless another one has it, or too many have.
    pub(super) fn go_on_alone(&self, path: &str) -> Option<Alone> {
        let mut all = self.lock();
        if all.alone.len() >= ALONE_MAX || !all.alone.insert(path.to_owned()) {
            return None;
        }
        Some(Alone { path: path.to_owned(), all: self.clone() })
    }

    /// The right to revalidate the response at `path` without a viewer, unless that is done already, or too many are.
    pub(super) fn refresh(&self, path: &str) -> Option<Refreshed> {
        let mut all = self.lock();
        if all.refreshed.len() >= REFRESHED_MAX || !all.refreshed.insert(path.to_owned()) {
            return None;
        }
        Some(Refreshed { path: path.to_owned(), all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

impl Drop for ArrivingResponse {
    fn drop(&mut self) {
        self.all.lock().bytes.remove(&self.number);
    }
}

impl Drop for Refreshed {
    fn drop(&mut self) {
        self.all.lock().refreshed.remove(&self.path);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.all.lock().alone.remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_response_for_each_path_goes_on_alone_and_few_in_all() {
        let arriving = Arriving::default();
        let first = arriving.go_on_alone("/film").unwrap();
        assert!(arriving.go_on_alone("/film").is_none());
        let paths = (0..100).map(|number| format!("/film?{number}"));
        let others: Vec<_> = paths.filter_map(|path| arriving.go_on_alone(&path)).collect();
        assert_eq!(others.len(), ALONE_MAX - 1);
        drop((first, others));
        assert!(arriving.go_on_alone("/film").is_some());
        let response = arriving.begin(7, 60, 100);
        assert!(response.is_some() && arriving.has(7) && !arriving.has(8));
        assert!(arriving.begin(8, 41, 100).is_none(), "they could not be evicted");
        assert!(arriving.begin(8, 40, 100).is_some());
        drop(response);
        assert!(!arriving.has(7) && arriving.begin(8, 100, 100).is_some());
        let refreshed = arriving.refresh("/page");
        assert!(arriving.refresh("/page").is_none() && arriving.go_on_alone("/page").is_some());
        drop(refreshed);
        assert!(arriving.refresh("/page").is_some());
    }
}
