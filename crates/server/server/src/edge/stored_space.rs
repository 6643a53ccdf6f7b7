//! Space on the cache's disk that stored responses take once they are evicted while viewers still read them.
//!
//! An open file keeps its space although it has no name any more, and the helper counts it no longer. So a long response counts from the beginning,
//! once for all of its viewers, in a space of its own.

use super::response_space::{ResponseSpace, Taken};
use edge::contract::BLOCK_BYTES;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

/// The space of all stored responses that viewers read.
pub(super) struct StoredSpace {
    space: Arc<ResponseSpace>,
    held: Mutex<HashMap<u64, Weak<Taken>>>,
}

impl StoredSpace {
    /// With `bytes_max` for all of them.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { space: ResponseSpace::new(bytes_max), held: Mutex::default() }
    }

    /// Space for the response with this `number`, for a viewer of `client`; none if it has no room. Short ones take none: there are many, and they
    /// are sent soon.
    pub(super) fn take(&self, number: u64, client: IpAddr, bytes: u64) -> Option<Arc<Taken>> {
        let bytes = if bytes <= BLOCK_BYTES { 0 } else { bytes };
        let mut held = self.held.lock().expect("no holder of this lock can panic");
        if let Some(taken) = held.get(&number).and_then(Weak::upgrade) {
            return Some(taken);
        }
        held.retain(|_, taken| taken.strong_count() > 0);
        let taken = Arc::new(self.space.take(client, bytes)?);
        held.insert(number, Arc::downgrade(&taken));
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stored_response_counts_once_and_copies_of_it_count_each() {
        const MAX: u64 = 1 << 30;
        let space = StoredSpace::new(MAX);
        let client = |last: u8| IpAddr::from([192, 0, 2, last]);
        let viewers: Vec<_> = (0..100).filter_map(|_| space.take(1, client(1), MAX / 4)).collect();
        assert_eq!((viewers.len(), space.space.bytes()), (100, MAX / 4));
        let copies: Vec<_> =
            (2..100).filter_map(|number| space.take(number, client(1), MAX / 4)).collect();
        assert_eq!(copies.len(), 1, "one client has half");
        assert!(space.take(200, client(1), 1000).is_some(), "a page");
        drop((viewers, copies));
        assert!(space.take(300, client(1), MAX).is_some());
    }
}
