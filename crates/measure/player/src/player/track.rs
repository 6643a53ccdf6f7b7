//! The player's state for one track: its lists, its rung, and what it is about to fetch.

use super::lists::{Lists, Place};
use super::retry::Retry;
use crate::Time;
use crate::abr::{Abr, Rule};
use crate::presentation::{Presentation, TrackKind};

/// Missing segments in a row before the player stops asking: this is no longer a film with holes.
pub(crate) const SKIPS_IN_ROW_MAX: u32 = 10;

/// One track that is played.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    /// Its index in the presentation.
    pub(crate) index: usize,
    pub(crate) kind: TrackKind,
    /// Bit rates, lowest first.
    pub(crate) rungs: Vec<u64>,
    pub(crate) abr: Abr,
    pub(crate) lists: Lists,
    /// The place of the last segment, or the expected place of the next one.
    pub(crate) place: Option<Place>,
    /// The chosen place of the next segment; `None` until it is chosen.
    pub(crate) choice: Option<Place>,
    /// A list that will be needed for a probe.
    pub(crate) wanted: Option<Place>,
    /// When to fetch such a list again after it failed.
    pub(crate) wanted_at: Time,
    /// The rendition of the last segment.
    pub(crate) current: Option<usize>,
    /// The index to try first for the next segment.
    pub(crate) hint: usize,
    /// The initialisation section in force: its rendition, and the number of the segment that introduced it.
    pub(crate) start: Option<(usize, Option<u64>)>,
    /// A bit for each rendition whose first initialisation section has arrived.
    pub(crate) known_starts: u128,
    pub(crate) retry: Retry,
    /// Nothing to fetch before this time, unless something changes.
    pub(crate) idle_until: Time,
    /// It waits for another track, which has less buffered.
    pub(crate) is_ahead: bool,
    pub(crate) skips_in_row: u32,
    /// Too much of it is missing.
    pub(crate) is_dead: bool,
}

impl Track {
    pub(crate) fn new(presentation: &Presentation, index: usize, rule: Rule) -> Self {
        Self {
            index,
            kind: presentation.tracks[index].kind,
            rungs: rungs(presentation, index),
            abr: Abr::new(rule),
            lists: Lists::new(presentation, index),
            place: None,
            choice: None,
            wanted: None,
            wanted_at: Time::ZERO,
            current: None,
            hint: 0,
            start: None,
            known_starts: 0,
            retry: Retry::default(),
            idle_until: Time::ZERO,
            is_ahead: false,
            skips_in_row: 0,
            is_dead: false,
        }
    }

    /// Takes a new manifest. If its renditions differ, choices among the old ones are discarded.
    pub(crate) fn renew(&mut self, presentation: &Presentation, has_same_renditions: bool) {
        if has_same_renditions {
            self.lists.renew(presentation, self.index);
        } else {
            self.lists = Lists::new(presentation, self.index);
            (self.place, self.choice, self.wanted, self.current) = (None, None, None, None);
            (self.start, self.known_starts) = (None, 0);
            self.retry.clear();
        }
        self.rungs = rungs(presentation, self.index);
        self.wake();
    }

    /// Something changed, so check again what to fetch.
    pub(crate) fn wake(&mut self) {
        self.idle_until = Time::ZERO;
        self.is_ahead = false;
    }

    /// Nothing to fetch until something changes.
    pub(crate) fn sleep(&mut self) {
        self.idle_until = Time::MAX;
    }

    /// Forgets what it was about to fetch, because the viewer jumped elsewhere.
    pub(crate) fn handle_seek(&mut self) {
        self.abr.handle_seek();
        self.choice = None;
        self.retry.clear();
        self.skips_in_row = 0;
        // The track may be complete at the new position.
        self.is_dead = false;
        self.wake();
    }

    /// Returns true if its list keeps growing.
    pub(crate) fn is_live(&self) -> bool {
        let list = self.place.and_then(|place| self.lists.get(place));
        list.is_some_and(|list| list.segments.reload_after.is_some())
    }

    /// The bit rate of a rendition.
    pub(crate) fn rate(&self, rendition: usize) -> u64 {
        self.rungs.get(rendition).copied().unwrap_or(1)
    }

    pub(crate) fn top_rate(&self) -> u64 {
        self.rungs.last().copied().unwrap_or(1)
    }

    /// Another bit rate: the next lower one, or else the next higher.
    pub(crate) fn other_rung(&self, rendition: usize) -> Option<usize> {
        let lower = rendition.checked_sub(1);
        lower.or(Some(rendition + 1)).filter(|rung| *rung < self.rungs.len())
    }

    /// Returns true if the initialisation section has been fetched.
    pub(crate) fn has_start(&self, rendition: usize, number: Option<u64>) -> bool {
        let is_known =
            number.is_none() && rendition < 128 && self.known_starts >> rendition & 1 == 1;
        is_known || self.start == Some((rendition, number))
    }

    /// Notes an initialisation section that has arrived.
    pub(crate) fn handle_start(&mut self, rendition: usize, number: Option<u64>) {
        self.start = Some((rendition, number));
        if number.is_none() && rendition < 128 {
            self.known_starts |= 1 << rendition;
        }
    }
}

fn rungs(presentation: &Presentation, index: usize) -> Vec<u64> {
    let renditions = &presentation.tracks[index].renditions;
    renditions.iter().map(|rendition| rendition.bits_per_second).collect()
}

/// The tracks to play: the first with pictures, and the first with only sound.
pub(crate) fn played(presentation: &Presentation) -> Vec<usize> {
    let tracks = &presentation.tracks;
    let has = |index: usize| !tracks[index].renditions.is_empty();
    let first = |kind| (0..tracks.len()).find(|index| tracks[*index].kind == kind && has(*index));
    [first(TrackKind::Pictures), first(TrackKind::Sound)].into_iter().flatten().collect()
}
