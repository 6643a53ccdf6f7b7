//! The requests that are under way. Each purpose has one slot, so their number is bounded and a name finds its request without a search.

use crate::Time;
use crate::pathways::Recent;
use crate::playback::TRACKS_MAX;
use crate::request::{RequestId, RequestKind};
use std::time::Duration;

/// The purpose of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Slot {
    pub(crate) const MANIFEST: Self = Self(0);
    pub(crate) const STEERING: Self = Self(1);
    pub(crate) const PROBE: Self = Self(2);

    /// The playlist or index of a track.
    pub(crate) fn document(track: usize) -> Self {
        Self(3 + track)
    }

    /// The segments of a track, including their initialisation sections.
    pub(crate) fn media(track: usize) -> Self {
        Self(3 + TRACKS_MAX + track)
    }
}

const SLOTS: usize = 3 + 2 * TRACKS_MAX;

/// Bits of a name for its slot: the lowest ones.
const SLOT_BITS: u32 = 3;

const _: () = assert!(SLOTS <= 1 << SLOT_BITS);

/// One request that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) id: RequestId,
    pub(crate) kind: RequestKind,
    /// Set once the head of the response has arrived.
    pub(crate) has_head: bool,
    /// Set if it requests a part of a file.
    pub(crate) has_range: bool,
    /// The player's own number of the track.
    pub(crate) track: u8,
    pub(crate) pathway: u16,
    pub(crate) rendition: u16,
    /// The segment's index in its list. For an initialisation section: the segment that introduces it, counted from 1; 0 means the list's
    /// first one.
    pub(crate) segment: u32,
    /// The number of the list's first segment.
    pub(crate) first_number: u64,
    pub(crate) sent_at: Time,
    pub(crate) first_byte_at: Option<Time>,
    /// When the last data arrived.
    pub(crate) heard_at: Time,
    /// When to check whether it is too slow.
    pub(crate) judge_at: Time,
    pub(crate) bytes: u64,
    /// Its progress at earlier checks.
    pub(crate) recent: Recent,
    pub(crate) expected_bytes: Option<u64>,
    /// For a segment: where it begins on the player's timeline, and how long it plays.
    pub(crate) begin: Duration,
    pub(crate) duration: Duration,
}

impl Open {
    /// A request of `kind` that is sent now; it gets its name when it is opened.
    pub(crate) fn new(kind: RequestKind, now: Time) -> Self {
        Self {
            id: RequestId(0),
            kind,
            has_head: false,
            has_range: false,
            track: 0,
            pathway: 0,
            rendition: 0,
            segment: 0,
            first_number: 0,
            sent_at: now,
            first_byte_at: None,
            heard_at: now,
            judge_at: now,
            bytes: 0,
            recent: Recent::default(),
            expected_bytes: None,
            begin: Duration::ZERO,
            duration: Duration::ZERO,
        }
    }

    /// Time from the request to its first byte, or until now.
    pub(crate) fn first_byte_after(&self, now: Time) -> Duration {
        self.first_byte_at.unwrap_or(now).saturating_sub(self.sent_at)
    }

    pub(crate) fn took(&self, now: Time) -> Duration {
        now.saturating_sub(self.sent_at)
    }
}

/// The slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRequests {
    slots: [Option<Open>; SLOTS],
    /// A bit for each slot in use: the search for the next timeout visits only those.
    used: u8,
    next_number: u64,
}

impl OpenRequests {
    pub(crate) fn is_free(&self, slot: Slot) -> bool {
        self.used & (1 << slot.0) == 0
    }

    /// Opens a request in a free slot, and names it.
    pub(crate) fn open(&mut self, slot: Slot, open: Open) -> RequestId {
        debug_assert!(self.is_free(slot));
        let id = RequestId(self.next_number << SLOT_BITS | slot.0 as u64);
        self.next_number += 1;
        self.slots[slot.0] = Some(Open { id, ..open });
        self.used |= 1 << slot.0;
        id
    }

    /// The slot of the request with this name, if it is still open.
    pub(crate) fn find(&self, id: RequestId) -> Option<Slot> {
        let slot = (id.0 & ((1 << SLOT_BITS) - 1)) as usize;
        let open = self.slots.get(slot)?.as_ref()?;
        (open.id == id).then_some(Slot(slot))
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Open> {
        self.slots[slot.0].as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Open> {
        self.slots[slot.0].as_mut()
    }

    /// Removes a request, because it is over.
    pub(crate) fn close(&mut self, slot: Slot) -> Option<Open> {
        self.used &= !(1 << slot.0);
        self.slots[slot.0].take()
    }

    /// The slots in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = Slot> + use<> {
        let used = self.used;
        (0..SLOTS).filter(move |slot| used & (1 << slot) != 0).map(Slot)
    }

    /// The next time to check one of them.
    pub(crate) fn judge_at(&self) -> Time {
        let mut judge_at = Time::MAX;
        let mut used = self.used;
        while used != 0 {
            if let Some(open) = &self.slots[used.trailing_zeros() as usize] {
                judge_at = judge_at.min(open.judge_at);
            }
            used &= used - 1;
        }
        judge_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_request_until_that_is_over() {
        let mut requests = OpenRequests::default();
        let open = Open::new(RequestKind::Media, Duration::from_secs(1));
        let first = requests.open(Slot::media(1), open);
        let other = requests.open(Slot::PROBE, Open { judge_at: Duration::from_secs(9), ..open });
        assert_eq!(requests.find(first), Some(Slot::media(1)));
        assert_eq!((requests.used().count(), requests.judge_at()), (2, Duration::from_secs(1)));
        assert!(requests.close(Slot::media(1)).is_some_and(|open| open.id == first));
        assert_eq!(requests.find(first), None);
        let second = requests.open(Slot::media(1), open);
        assert!(second != first && requests.find(first).is_none());
        assert!(requests.close(Slot::media(1)).is_some() && requests.close(Slot::PROBE).is_some());
        assert_eq!((requests.find(other), requests.judge_at()), (None, Time::MAX));
        assert_eq!(requests.find(RequestId(7)), None);
    }
}
