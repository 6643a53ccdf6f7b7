//! The versions that nodes hold: each version is stored once, and has a number.
//!
//! Ten thousand nodes hold the same few thousand titles, so a node's entry is a list of numbers. A number is freed when no node holds the version
//! any more: a hostile node's claims use memory only as long as it makes them.

use std::collections::HashMap;
use std::sync::Arc;

use fleet_protocol::HeldTitle;

/// The versions held by any node.
#[derive(Debug, Default)]
pub(super) struct HeldVersions {
    numbers: HashMap<Arc<HeldTitle>, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    held: Option<Arc<HeldTitle>>,
    holders: u32,
}

impl HeldVersions {
    /// Adds a holder of `held`.
    pub(super) fn take(&mut self, held: HeldTitle) -> u32 {
        if let Some(number) = self.numbers.get(&held) {
            self.slots[*number as usize].holders += 1;
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // Even 100,000 different titles on each of 10,000 nodes are fewer than 2^32.
            u32::try_from(self.slots.len() - 1).expect("bounded by inventories")
        });
        let held = Arc::new(held);
        self.slots[number as usize] = Slot { held: Some(Arc::clone(&held)), holders: 1 };
        self.numbers.insert(held, number);
        number
    }

    /// Removes a holder from each of `numbers`.
    pub(super) fn give_up(&mut self, numbers: &[u32]) {
        for number in numbers {
            let slot = &mut self.slots[*number as usize];
            slot.holders -= 1;
            if slot.holders == 0 {
                if let Some(held) = slot.held.take() {
                    self.numbers.remove(&held);
                }
                self.free.push(*number);
            }
        }
    }

    /// The number of `held`, if any node holds it.
    pub(super) fn number(&self, held: &HeldTitle) -> Option<u32> {
        self.numbers.get(held).copied()
    }

    /// Count of all numbers, in use or free: the highest plus one.
    pub(super) fn numbers(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_protocol::Digest;

    fn held(path: &str) -> HeldTitle {
        HeldTitle { path: path.to_owned(), version: Digest::of(path.as_bytes()) }
    }

    #[test]
    fn a_version_has_a_number_as_long_as_somebody_holds_it() {
        let mut held_versions = HeldVersions::default();
        let (a, b) = (held_versions.take(held("a")), held_versions.take(held("b")));
        assert_eq!(held_versions.take(held("a")), a);
        held_versions.give_up(&[a]);
        assert_eq!(held_versions.number(&held("a")), Some(a));
        held_versions.give_up(&[a]);
        assert_eq!(held_versions.number(&held("a")), None);
        assert_eq!(held_versions.number(&held("b")), Some(b));
        assert_eq!(held_versions.take(held("c")), a);
        assert_eq!(held_versions.numbers(), 2);
    }
}
