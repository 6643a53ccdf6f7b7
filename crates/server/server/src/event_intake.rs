//! Limits on the events that players post: by client, and in all. A client is an IPv4 address or an IPv6 network of 64 bits, as in
//! `experience.rs`. A post is refused by its head alone, before its body is read.
//!
//! Each client has an allowance of events that fills up with time. The table has a fixed number of places, and a keyed hash chooses a client's, so no
//! number of clients takes more memory. Two clients in one place share its allowance.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Places in the table: 64 KiB, taken with the first post.
const CLIENTS: usize = 4096;

/// A client may post an event each 20 ms, which suits some 1,000 viewers behind one address: players post one in 30 s, and one for each change.
const EVENT_MS: u64 = 20;

/// And 1,000 at once, because viewers of a live event start together.
const ALLOWANCE_MS: u64 = 1000 * EVENT_MS;

/// While the worker's room is scarce, a client may post only 20 at once, so that some clients' events leave room for those of others.
const SCARCE_ALLOWANCE_MS: u64 = 20 * EVENT_MS;

/// The most bodies that a worker waits for: 4 MiB, as each has 64 KiB at most.
const BODIES_MAX: u32 = 64;

/// The most of one client, while half of the bodies are free. Then each client may have one.
const BODIES_OF_CLIENT_MAX: u32 = 8;

/// How long a worker waits for a body: players' bodies have some 100 bytes, and usually come with their heads.
pub(crate) const BODY_WAIT: Duration = Duration::from_secs(3);

/// One client's use.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// When its allowance will be whole again (the theoretical arrival time of GCRA, ITU-T I.371 annex A).
    whole_at_ms: u64,
    /// Bodies that the worker waits for.
    bodies: u32,
}

/// One worker's limits.
#[derive(Debug, Default)]
pub(crate) struct EventIntake {
    key: RandomState,
    places: RefCell<Vec<Place>>,
    bodies: Cell<u32>,
}

/// The right to wait for a body, until this is dropped.
#[derive(Debug)]
pub(crate) struct BodyWait<'i> {
    intake: &'i EventIntake,
    index: usize,
}

impl EventIntake {
    /// Takes up to `count` events from the client's allowance, which is smaller if the worker's room `is_scarce`. Returns how many there were.
    pub(crate) fn pay(&self, client: &[u8], now_ms: u64, count: u32, is_scarce: bool) -> u32 {
        let allowance_ms = if is_scarce { SCARCE_ALLOWANCE_MS } else { ALLOWANCE_MS };
        self.with_place(client, |_, place| {
            let from_ms = place.whole_at_ms.max(now_ms);
            let left_ms = (now_ms + allowance_ms).saturating_sub(from_ms);
            let paid = (left_ms / EVENT_MS).min(u64::from(count));
            place.whole_at_ms = from_ms + paid * EVENT_MS;
            // Not more than `count`.
            paid as u32
        })
    }

    /// Admits a body of the client that the worker has to wait for; `None` if it waits for too many.
    pub(crate) fn wait_for_body(&self, client: &[u8]) -> Option<BodyWait<'_>> {
        let index = self.with_place(client, |index, place| {
            let bodies = self.bodies.get();
            let most = if bodies < BODIES_MAX / 2 { BODIES_OF_CLIENT_MAX } else { 1 };
            let has_room = bodies < BODIES_MAX && place.bodies < most;
            place.bodies += u32::from(has_room);
            has_room.then_some(index)
        })?;
        self.bodies.set(self.bodies.get() + 1);
        Some(BodyWait { intake: self, index })
    }

    fn with_place<R>(&self, client: &[u8], change: impl FnOnce(usize, &mut Place) -> R) -> R {
        let mut places = self.places.borrow_mut();
        if places.is_empty() {
            places.resize(CLIENTS, Place::default());
        }
        // The remainder is below `CLIENTS`.
        let index = (self.key.hash_one(client) % CLIENTS as u64) as usize;
        change(index, &mut places[index])
    }
}

impl Drop for BodyWait<'_> {
    fn drop(&mut self) {
        self.intake.bodies.set(self.intake.bodies.get() - 1);
        self.intake.places.borrow_mut()[self.index].bodies -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &[u8] = &[192, 0, 2, 1];

    #[test]
    fn an_allowance_is_used_up_and_fills_again() {
        let intake = EventIntake::default();
        assert_eq!(intake.pay(CLIENT, 5000, 5000, false), 1000);
        let paid = [5019, 5020].map(|now_ms| intake.pay(CLIENT, now_ms, 1, false));
        assert_eq!(paid, [0, 1]);
        assert_eq!(intake.pay(CLIENT, 6020, 5000, false), 50);
        let later = 1_000_000;
        assert_eq!(intake.pay(CLIENT, later, 900, false), 900);
        assert_eq!(intake.pay(CLIENT, later, 900, true), 0, "others come first");
        assert_eq!(intake.pay(CLIENT, later, 900, false), 100, "it does not grow beyond that");
        let others = (0..100).map(|last| intake.pay(&[198, 51, 100, last], later, 50, true));
        assert!(others.sum::<u32>() >= 90 * 20, "others have their own");
    }

    #[test]
    fn many_clients_take_no_more_memory() {
        let intake = EventIntake::default();
        for client in 0_u32..20_000 {
            intake.pay(&client.to_be_bytes(), 0, 1, false);
        }
        assert_eq!(intake.places.borrow().len(), CLIENTS);
    }

    #[test]
    fn bodies_are_limited_by_client_and_in_all() {
        let intake = EventIntake::default();
        let own: Vec<_> = (0..100).filter_map(|_| intake.wait_for_body(CLIENT)).collect();
        assert_eq!(own.len() as u32, BODIES_OF_CLIENT_MAX);
        let all: Vec<_> = (0_u32..1000)
            .filter_map(|client| intake.wait_for_body(&client.to_be_bytes()))
            .collect();
        assert_eq!((own.len() + all.len()) as u32, BODIES_MAX);
        drop((own, all));
        let few: Vec<_> = (0_u32..8)
            .flat_map(|client| [client; 8])
            .filter_map(|client| intake.wait_for_body(&client.to_be_bytes()))
            .collect();
        assert!(few.len() as u32 <= BODIES_MAX / 2 + 8, "eight clients leave room for others");
        let mut others = (0..9).filter_map(|last| intake.wait_for_body(&[192, 0, 2, last]));
        assert!(others.next().is_some());
        drop(few);
        assert!(intake.wait_for_body(CLIENT).is_some());
        assert_eq!(intake.bodies.get(), 0);
    }
}
