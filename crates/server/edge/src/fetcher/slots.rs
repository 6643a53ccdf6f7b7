//! Slots for requests to the origin, each held until the answer has been read.
//!
//! Requests for new paths and for blocks of known objects share [`REQUESTS_MAX`] slots. When these are taken, the two kinds alternate, and so do the
//! objects among themselves. So neither a flood of invented paths nor many ranges of one film block everything else. Revalidations of known objects
//! have slots of their own ([`REVALIDATIONS_MAX`]), and so have requests that the origin holds until there is an answer ([`HELD_MAX`]).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most requests to the origin at the same time, except revalidations. Browsers make six to one host; an edge stands for many viewers,
/// and 64 requests of 8 MiB fill 10 Gb/s at 400 ms.
pub(super) const REQUESTS_MAX: usize = 64;

/// The most revalidations at the same time, in addition to those. Most answers have no body.
pub(super) const REVALIDATIONS_MAX: usize = 32;

/// The most requests at the same time that the origin holds, in addition to those. Each costs both sides a connection and little else. The server has
/// 256 places for them, and the origin may hold all of its other questions as well: 40 about new paths, 32 about known ones, and 16 for one viewer
/// each. So what has a place there has a slot here.
pub(super) const HELD_MAX: usize = 256 + 40 + 32 + 16;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPurpose {
    /// To revalidate a known object.
    Revalidation,
    /// To look up an unknown path, or to fetch an object that must not be kept.
    New,
    /// To fetch blocks of the object with this number.
    Blocks(u64),
}

/// The right to run a request to the origin, until its answer has been read; a held one until its answer begins.
pub(super) enum Slot {
    Request { _place: Place },
    Revalidation { _permit: OwnedSemaphorePermit },
    Held { _permit: OwnedSemaphorePermit },
}

/// One of the shared slots; returned when dropped.
pub(super) struct Place(Arc<Mutex<Shared>>);

/// A slot that is there in addition, until this is dropped.
pub(super) struct AddedSlot(Arc<Mutex<Shared>>);

struct Shared {
    free: usize,
    /// Added slots that are gone, and were in use then: they end with those who use them.
    owed: usize,
    new: VecDeque<Sender<Place>>,
    blocks: HashMap<u64, VecDeque<Sender<Place>>>,
    /// The objects with requests waiting for blocks, the next one first.
    objects: VecDeque<u64>,
    is_turn_of_blocks: bool,
}

impl Slot {
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// All slots.
pub(super) struct Slots {
    shared: Arc<Mutex<Shared>>,
    revalidations: Arc<Semaphore>,
    held: Arc<Semaphore>,
}

impl Slots {
    pub(super) fn new() -> Self {
        let shared = Shared {
            free: REQUESTS_MAX,
            owed: 0,
            new: VecDeque::new(),
            blocks: HashMap::new(),
            objects: VecDeque::new(),
            is_turn_of_blocks: false,
        };
        let revalidations = Arc::new(Semaphore::new(REVALIDATIONS_MAX));
        let held = Arc::new(Semaphore::new(HELD_MAX));
        Self { shared: Arc::new(Mutex::new(shared)), revalidations, held }
    }

    /// A slot for a request that the origin holds, if one is free.
    pub(super) fn hold(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.held).try_acquire_owned().ok()?;
        Some(Slot::Held { _permit: permit })
    }

    /// Whether at least half of the slots are free, and no request waits for one.
    pub(super) fn are_idle(&self) -> bool {
        let shared = locked(&self.shared);
        let is_awaited = !shared.new.is_empty() || !shared.objects.is_empty();
        let revalidations = self.revalidations.available_permits();
        !is_awaited && shared.free >= REQUESTS_MAX / 2 && revalidations >= REVALIDATIONS_MAX / 2
    }

    /// Adds a slot to the shared ones, for a request that must take none of those for viewers.
    pub(super) fn add_one(&self) -> AddedSlot {
        let mut shared = locked(&self.shared);
        match shared.owed > 0 {
            true => shared.owed -= 1,
            // A place that comes back goes to the next one who waits.
            false => {
                shared.free += 1;
                if let Some(next) = shared.next() {
                    shared.free -= 1;
                    drop(shared);
                    let _ = next.send(Place(Arc::clone(&self.shared)));
                }
            }
        }
        AddedSlot(Arc::clone(&self.shared))
    }

    /// Waits for a slot.
    pub(super) async fn take(&self, purpose: RequestPurpose) -> Slot {
        if purpose == RequestPurpose::Revalidation {
            let permit = Arc::clone(&self.revalidations).acquire_owned().await;
            return Slot::Revalidation { _permit: permit.expect("nothing closes the semaphore") };
        }
        let waiting = match self.take_now_or_wait(purpose) {
            Ok(place) => return Slot::Request { _place: place },
            Err(waiting) => waiting,
        };
        let place = waiting.await.expect("no sender is dropped while a task waits for it");
        Slot::Request { _place: place }
    }

    fn take_now_or_wait(&self, purpose: RequestPurpose) -> Result<Place, Receiver<Place>> {
        let mut shared = locked(&self.shared);
        if shared.free > 0 {
            shared.free -= 1;
            return Ok(Place(Arc::clone(&self.shared)));
        }
        let (sender, receiver) = channel();
        shared.wait(purpose, sender);
        Err(receiver)
    }
}

impl Shared {
    fn wait(&mut self, purpose: RequestPurpose, sender: Sender<Place>) {
        let RequestPurpose::Blocks(object) = purpose else { return self.new.push_back(sender) };
        let line = self.blocks.entry(object).or_default();
        if line.is_empty() {
            self.objects.push_back(object);
        }
        line.push_back(sender);
    }

    /// The request that gets the next slot. Cancelled ones are skipped.
    fn next(&mut self) -> Option<Sender<Place>> {
        let is_turn_of_blocks = self.is_turn_of_blocks;
        self.is_turn_of_blocks = !is_turn_of_blocks;
        match is_turn_of_blocks {
            true => self.next_of_blocks().or_else(|| next_of(&mut self.new)),
            false => next_of(&mut self.new).or_else(|| self.next_of_blocks()),
        }
    }

    fn next_of_blocks(&mut self) -> Option<Sender<Place>> {
        loop {
            let object = self.objects.pop_front()?;
            let line = self.blocks.get_mut(&object)?;
            let next = next_of(line);
            if line.is_empty() {
                self.blocks.remove(&object);
            } else {
                self.objects.push_back(object);
            }
            if next.is_some() {
                return next;
            }
        }
    }
}

fn next_of(line: &mut VecDeque<Sender<Place>>) -> Option<Sender<Place>> {
    std::iter::from_fn(|| line.pop_front()).find(|next| !next.is_closed())
}

impl Drop for AddedSlot {
    fn drop(&mut self) {
        let mut shared = locked(&self.0);
        match shared.free > 0 {
            true => shared.free -= 1,
            false => shared.owed += 1,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = {
            let mut shared = locked(&self.0);
            if shared.owed > 0 {
                shared.owed -= 1;
                return;
            }
            let next = shared.next();
            if next.is_none() {
                shared.free += 1;
            }
            next
        };
        if let Some(next) = next {
            // If the receiver was just dropped, the slot comes back when it is dropped here.
            let _ = next.send(Self(Arc::clone(&self.0)));
        }
    }
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("no holder of this lock can panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a slot; `name` identifies the waiting request.
    fn wait(
        slots: &Slots,
        purpose: RequestPurpose,
        name: &'static str,
    ) -> (Receiver<Place>, &'static str) {
        (slots.take_now_or_wait(purpose).err().expect("all places are taken"), name)
    }

    #[test]
    fn kinds_and_objects_take_turns_and_revalidations_and_held_requests_have_places_of_their_own() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let slots = Slots::new();
        let mut taken: Vec<Place> = (0..REQUESTS_MAX)
            .filter_map(|_| slots.take_now_or_wait(RequestPurpose::New).ok())
            .collect();
        assert_eq!(taken.len(), REQUESTS_MAX);
        let mut waiting = vec![
            wait(&slots, RequestPurpose::New, "path 1"),
            wait(&slots, RequestPurpose::New, "path 2"),
            wait(&slots, RequestPurpose::New, "path 3"),
            wait(&slots, RequestPurpose::Blocks(1), "film 1, first"),
            wait(&slots, RequestPurpose::Blocks(1), "film 1, second"),
            wait(&slots, RequestPurpose::Blocks(1), "film 1, third"),
            wait(&slots, RequestPurpose::Blocks(2), "film 2, first"),
        ];
        // This one gives up.
        drop(waiting.remove(1));
        let _revalidation = runtime.block_on(slots.take(RequestPurpose::Revalidation));
        let held: Vec<_> = std::iter::from_fn(|| slots.hold()).take(1000).collect();
        assert_eq!(held.len(), HELD_MAX);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(taken.pop());
            waiting.retain_mut(|(receiver, name)| match receiver.try_recv() {
                Ok(place) => {
                    order.push(*name);
                    taken.push(place);
                    false
                }
                Err(_) => true,
            });
        }
        let expected = [
            "path 1",
            "film 1, first",
            "path 3",
            "film 2, first",
            "film 1, second",
            "film 1, third",
        ];
        assert_eq!(order, expected);
        drop(taken);
        assert!(slots.are_idle());
        let shared = locked(&slots.shared);
        assert_eq!(shared.free, REQUESTS_MAX, "none is lost");
        assert!(shared.blocks.is_empty() && shared.objects.is_empty() && shared.new.is_empty());
    }

    #[test]
    fn a_slot_that_is_added_and_takes_none_from_viewers_is_taken_away_again() {
        let slots = Slots::new();
        let take = || slots.take_now_or_wait(RequestPurpose::New);
        let half: Vec<_> = (0..=REQUESTS_MAX / 2).filter_map(|_| take().ok()).collect();
        assert!(!slots.are_idle(), "viewers need more than half");
        let rest: Vec<_> = (half.len()..REQUESTS_MAX).filter_map(|_| take().ok()).collect();
        let (mut viewer, _) = wait(&slots, RequestPurpose::New, "a viewer");
        let added = slots.add_one();
        assert!(viewer.try_recv().is_ok(), "who came first");
        assert!(take().is_ok(), "the viewer has left");
        let own = take().ok();
        drop(added);
        assert!(own.is_some() && take().is_err());
        drop(own);
        assert!(take().is_err(), "it is gone with its last user");
        let (one, other) = (slots.add_one(), slots.add_one());
        drop((one, other, half, rest));
        let shared = locked(&slots.shared);
        assert_eq!((shared.free, shared.owed), (REQUESTS_MAX, 0), "none is lost, and none is left");
    }
}
