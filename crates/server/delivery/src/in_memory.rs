//! Limits the memory that responses hold: pages, lists, and the heads of a multipart answer's parts.
//!
//! A viewer may take an answer as slowly as it likes, and keep its memory in use for that long. File ranges cost nothing meanwhile, because they are
//! read when TCP asks for them. Bytes in memory count against a limit, and an answer that would exceed it is refused. Bytes that several responses
//! share count once.
//!
//! Bodies below `SMALL_BYTES` are not counted. No connection has more than one, so they are part of a connection's cost, which the number of
//! connections bounds. So a refusal can be sent when nothing else can.

use disk::{Budget, BudgetShare};
use fullbore_http::Part;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// More than any refusal's text, less than a connection takes.
const SMALL_BYTES: u64 = 1 << 10;

/// One worker's account.
pub struct InMemory {
    bytes_max: u64,
    budget: Budget,
    /// Bytes that several responses may hold, newest last: one entry for each version of a list that a viewer is still downloading.
    shared: RefCell<Vec<Weak<Shared>>>,
}

/// One response's share of the account, given back when dropped.
#[derive(Default)]
pub struct Held {
    _own: Option<BudgetShare>,
    _shared: Vec<Rc<Shared>>,
}

/// Bytes that several responses hold together.
struct Shared {
    bytes: Arc<[u8]>,
    _share: BudgetShare,
}

impl InMemory {
    /// An empty account that never exceeds `bytes_max`.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, budget: Budget::new(bytes_max), shared: RefCell::default() }
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.bytes_max - self.budget.left_bytes()
    }

    /// Adds a body to the account; `None` if the limit leaves no room for it.
    pub fn hold(&self, body: &[Part]) -> Option<Held> {
        let sum = |bytes_of: fn(&Part) -> u64| body.iter().map(bytes_of).sum::<u64>();
        let own_bytes = sum(own_bytes);
        if own_bytes + sum(shared_bytes) < SMALL_BYTES {
            return Some(Held::default());
        }
        let own = if own_bytes > 0 { Some(self.budget.take(own_bytes)?) } else { None };
        let shared = body.iter().filter_map(|part| match part {
            Part::Shared(bytes) => Some(self.share(bytes)),
            _ => None,
        });
        Some(Held { _own: own, _shared: shared.collect::<Option<_>>()? })
    }

    /// The account of shared bytes: the one that other responses use, or a new one.
    fn share(&self, bytes: &Arc<[u8]>) -> Option<Rc<Shared>> {
        let mut shared = self.shared.borrow_mut();
        let held = shared.iter().rev().filter_map(Weak::upgrade);
        if let Some(found) = held.into_iter().find(|held| Arc::ptr_eq(&held.bytes, bytes)) {
            return Some(found);
        }
        let share = self.budget.take(bytes.len() as u64)?;
        let new = Rc::new(Shared { bytes: Arc::clone(bytes), _share: share });
        shared.retain(|held| held.strong_count() > 0);
        shared.push(Rc::downgrade(&new));
        Some(new)
    }
}

/// Memory that only this part uses. Reserved memory counts too, not only the filled part.
fn own_bytes(part: &Part) -> u64 {
    match part {
        Part::Bytes(bytes) => bytes.capacity() as u64,
        Part::Static(_) | Part::Shared(_) | Part::Range(_) => 0,
    }
}

fn shared_bytes(part: &Part) -> u64 {
    match part {
        Part::Shared(bytes) => bytes.len() as u64,
        Part::Static(_) | Part::Bytes(_) | Part::Range(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(bytes: usize) -> Vec<Part> {
        vec![Part::Bytes(vec![0; bytes])]
    }

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let memory = InMemory::new(10_000);
        let first = memory.hold(&own(6000)).unwrap();
        assert_eq!(memory.bytes(), 6000);
        assert!(memory.hold(&own(6000)).is_none());
        assert_eq!(memory.bytes(), 6000, "a refused body holds nothing");
        drop(first);
        assert_eq!(memory.bytes(), 0);
        assert!(memory.hold(&own(10_000)).is_some());
    }

    #[test]
    fn shared_bytes_count_once_however_many_hold_them() {
        let memory = InMemory::new(10_000);
        let list = || vec![Part::Shared(vec![0; 6000].into())];
        let body = list();
        let many: Vec<_> = (0..1000).map(|_| memory.hold(&body).unwrap()).collect();
        assert_eq!(memory.bytes(), 6000);
        assert!(memory.hold(&list()).is_none(), "a newer version has bytes of its own");
        drop(many);
        assert_eq!(memory.bytes(), 0);
        let newer = memory.hold(&list()).unwrap();
        assert_eq!((memory.bytes(), memory.shared.borrow().len()), (6000, 1));
        drop(newer);
    }

    #[test]
    fn a_small_body_goes_when_there_is_no_room_and_a_file_needs_none() {
        let memory = InMemory::new(2000);
        let all = memory.hold(&own(2000)).unwrap();
        assert!(memory.hold(&own(1000)).is_some());
        assert!(memory.hold(&[Part::Range(0..1 << 40)]).is_some());
        assert!(memory.hold(&[Part::Static(&[0; 5000])]).is_some());
        drop(all);
    }

    #[test]
    fn a_body_that_fits_in_part_only_holds_nothing() {
        let memory = InMemory::new(10_000);
        let body = [Part::Bytes(vec![0; 6000]), Part::Shared(vec![0; 6000].into())];
        assert!(memory.hold(&body).is_none());
        assert_eq!(memory.bytes(), 0);
    }
}
