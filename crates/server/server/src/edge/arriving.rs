//! How many responses that are no objects arrive for each client.
//!
//! The origin sends some of them without an end, others for as long as a film takes. Each holds a place at the helper meanwhile, so one client gets
//! three quarters of the places, as in the queues.

use super::cached::Live;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

/// Three quarters of the helper's 64 requests to the origin.
const BY_CLIENT_MAX: usize = 48;

/// Those of all clients.
#[derive(Default)]
pub(super) struct Arriving(Mutex<HashMap<IpAddr, Vec<Weak<Live>>>>);

impl Arriving {
    /// Adds a response for a viewer of `client`. Returns whether that may have one more.
    pub(super) fn add(&self, client: IpAddr, live: &Arc<Live>) -> bool {
        let mut all = self.0.lock().expect("no holder of this lock can panic");
        all.retain(|_, arriving| {
            arriving.retain(|live| live.upgrade().is_some_and(|live| live.is_arriving()));
            !arriving.is_empty()
        });
        let of_client = all.entry(client).or_default();
        let has_place = of_client.len() < BY_CLIENT_MAX;
        if has_place {
            of_client.push(Arc::downgrade(live));
        }
        has_place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::PresentBlocks;

    #[test]
    fn one_client_leaves_places_to_others_and_has_them_back_when_its_responses_are_complete() {
        let arriving = Arriving::default();
        let begin = |client: u8| {
            let file = tempfile::tempfile().unwrap().into();
            let live = Arc::new(Live::new(1 << 63, file, PresentBlocks::new(1000)));
            arriving.add(IpAddr::from([192, 0, 2, client]), &live).then_some(live)
        };
        let mut lives: Vec<_> = std::iter::from_fn(|| begin(1)).take(100).collect();
        assert_eq!(lives.len(), BY_CLIENT_MAX);
        assert!(begin(2).is_some(), "another client");
        lives[0].arrived.note(0..1);
        lives.push(begin(1).expect("one is complete"));
        assert!(begin(1).is_none());
        lives.pop();
        assert!(begin(1).is_some(), "one has been left");
    }
}
