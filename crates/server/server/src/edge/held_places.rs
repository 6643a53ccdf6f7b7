//! Places of requests that the origin holds until there is an answer, such as the next playlist of a live stream.
//!
//! They wait for seconds, and cost the origin and the helper little. So they have places of their own, and take none of those of other requests:
//! cached films, new paths and short responses are served as if there were no held requests. One that finds no place is refused at once. It would
//! otherwise wait behind others that wait as well, while its player could try another server.

use super::QueueFull;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// A channel of low-latency HLS has one for the next playlist and one for the next part of each rendition. The helper has more slots (`HELD_MAX`).
const PLACES: usize = 256;

/// One client leaves a quarter of the places to others, as in the queues.
const BY_CLIENT_MAX: usize = 192;

/// All places.
#[derive(Clone, Default)]
pub(super) struct HeldPlaces(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// One place, which is free again when this is dropped.
pub(super) struct HeldPlace {
    client: IpAddr,
    places: HeldPlaces,
}

impl HeldPlaces {
    /// A place for a request of `client`.
    ///
    /// # Errors
    /// If none is free for it.
    pub(super) fn take(&self, client: IpAddr) -> Result<HeldPlace, QueueFull> {
        let mut taken = self.lock();
        let of_client = taken.by_client.get(&client).copied().unwrap_or(0);
        if taken.all >= PLACES || of_client >= BY_CLIENT_MAX {
            return Err(QueueFull::Held);
        }
        taken.all += 1;
        taken.by_client.insert(client, of_client + 1);
        Ok(HeldPlace { client, places: self.clone() })
    }

    /// The number of places taken.
    pub(super) fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(of_client) = taken.by_client.get_mut(&self.client) {
            *of_client -= 1;
            if *of_client == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_places_to_others_and_each_is_given_back() {
        let places = HeldPlaces::default();
        let client = |last: u8| IpAddr::from([192, 0, 2, last]);
        let take = |last| places.take(client(last)).ok();
        let mut held: Vec<_> = std::iter::from_fn(|| take(1)).take(1000).collect();
        assert_eq!(held.len(), BY_CLIENT_MAX);
        held.extend(std::iter::from_fn(|| take(2)).take(1000));
        assert_eq!((held.len(), places.taken()), (PLACES, PLACES));
        assert!(take(3).is_none(), "all are taken");
        held.pop();
        assert!(take(3).is_some());
        drop(held);
        assert!(places.taken() == 0 && places.lock().by_client.is_empty());
    }
}
