//! What became of the bytes that were fetched ahead: viewers took them, or they were wasted.
//!
//! Bytes are wasted if what they belong to is removed before a viewer takes them, or if none does within [`USED_WITHIN`].

use super::queue::AheadSource;
use super::tallies::Tallies;
use crate::inquiry::FetchedAhead;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A player requests what it has announced when its buffer has room: within the time of a few segments.
const USED_WITHIN: Duration = Duration::from_secs(120);

/// Everything that was fetched ahead.
#[derive(Default)]
pub(super) struct Outcomes {
    objects: HashMap<u64, Object>,
    /// When parts of objects are wasted unless a viewer has taken them, the first ones first.
    due: VecDeque<(Instant, u64, u64)>,
    pub(super) tallies: Tallies,
    counts: AheadCounts,
}

/// Bytes since they were last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AheadCounts {
    pub(super) fetched: u64,
    pub(super) used: u64,
    pub(super) wasted: u64,
}

struct Object {
    client: IpAddr,
    source: AheadSource,
    at: Instant,
    /// Those of which it isn't known yet what becomes of them.
    parts: BTreeMap<u64, Part>,
    is_open: bool,
    is_used: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It is being fetched.
    Expected,
    /// It is being fetched, and a viewer waits for it.
    Awaited,
    /// These bytes have arrived then, and no viewer has taken them.
    There(u64, Instant),
}

impl Outcomes {
    /// These parts of an object are fetched ahead for `client` from now on.
    pub(super) fn expect(
        &mut self,
        number: u64,
        parts: Range<u64>,
        (client, source): (IpAddr, AheadSource),
        now: Instant,
    ) {
        let new = || Object {
            client,
            source,
            at: now,
            parts: BTreeMap::new(),
            is_open: false,
            is_used: false,
        };
        let object = self.objects.entry(number).or_insert_with(new);
        for part in parts {
            object.parts.entry(part).or_insert(Part::Expected);
        }
        if !std::mem::replace(&mut object.is_open, true) {
            (object.client, object.source, object.at) = (client, source, now);
            self.tallies.open(client);
        }
    }

    /// A part has arrived. Returns whether no viewer waits for it, because it is fetched ahead.
    pub(super) fn arrive(&mut self, number: u64, part: u64, bytes: u64, now: Instant) -> bool {
        let Some(object) = self.objects.get_mut(&number) else { return false };
        let is_awaited = match object.parts.get(&part) {
            Some(Part::Expected) => false,
            Some(Part::Awaited) => true,
            Some(Part::There(..)) | None => return false,
        };
        object.parts.insert(part, Part::There(bytes, now));
        self.tallies.arrive(object.client, bytes);
        self.counts.fetched += bytes;
        match is_awaited {
            true => self.take(number, part..part + 1, now),
            false => self.due.push_back((now + USED_WITHIN, number, part)),
        }
        !is_awaited
    }

    /// These parts will not arrive.
    pub(super) fn fail(&mut self, number: u64, parts: &Range<u64>) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        let is_there = |state: &Part| matches!(state, Part::There(..));
        object.parts.retain(|part, state| !parts.contains(part) || is_there(state));
        if object.parts.is_empty() {
            self.close(number);
            self.objects.remove(&number);
        }
    }

    /// Gives up on parts, unless a viewer waits for one of them, or it is a viewer's fetch. Returns whether that was so.
    pub(super) fn give_up(&mut self, number: u64, parts: &Range<u64>, now: Instant) -> bool {
        let Some(object) = self.objects.get(&number) else { return false };
        let mut states = object.parts.range(parts.clone()).map(|(_, state)| *state).peekable();
        if states.peek().is_none() || states.any(|state| state != Part::Expected) {
            return false;
        }
        let client = object.client;
        self.fail(number, parts);
        self.note_lost(client, 0, now);
        true
    }

    /// A viewer takes these parts, or waits for them.
    pub(super) fn take(&mut self, number: u64, parts: Range<u64>, now: Instant) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        for (_, state) in object.parts.range_mut(parts.clone()) {
            if *state == Part::Expected {
                *state = Part::Awaited;
            }
        }
        self.decide(number, |part, _| parts.contains(&part), true, now);
    }

    /// The end of those from this part on that a viewer may have at once, if there are any.
    pub(super) fn there_until(&self, number: u64, part: u64) -> Option<u64> {
        let parts = &self.objects.get(&number)?.parts;
        let is_there = |part: &u64| matches!(parts.get(part), Some(Part::There(..)));
        (part..).find(|part| !is_there(part)).filter(|end| *end > part)
    }

    /// Whether parts of it are being fetched.
    pub(super) fn is_arriving(&self, number: u64) -> bool {
        let is_on_its_way = |part: &Part| matches!(part, Part::Expected | Part::Awaited);
        self.objects.get(&number).is_some_and(|one| one.parts.values().any(is_on_its_way))
    }

    /// An object is removed. Parts on their way are reported like any other part, and count no more.
    pub(super) fn remove(&mut self, number: u64, now: Instant) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        object.parts.retain(|_, state| matches!(state, Part::There(..)));
        self.decide(number, |_, _| true, false, now);
        self.close(number);
        self.objects.remove(&number);
    }

    /// Bytes were fetched ahead for `client` of something that can't be kept.
    pub(super) fn note_lost(&mut self, client: IpAddr, bytes: u64, now: Instant) {
        self.counts.fetched += bytes;
        self.counts.wasted += bytes;
        self.tallies.note_lost(client, bytes, now);
    }

    /// Parts whose time is over are wasted.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.due.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, number, due)) = self.due.pop_front() else { return };
            // It may have been decided before, and fetched again.
            let is_late = |part, at| part == due && now >= at + USED_WITHIN;
            self.decide(number, is_late, false, now);
        }
    }

    /// The bytes since the last call.
    pub(super) fn take_counts(&mut self) -> AheadCounts {
        std::mem::take(&mut self.counts)
    }

    /// For operators: how an object came to be fetched ahead.
    pub(super) fn find(&self, number: u64, now: Instant) -> Option<FetchedAhead> {
        let object = self.objects.get(&number)?;
        Some(FetchedAhead {
            source: object.source.as_str().to_owned(),
            seconds_ago: now.saturating_duration_since(object.at).as_secs(),
            is_used: object.is_used,
        })
    }

    /// It is known what became of the parts that are there and are meant: a viewer took them, or they are wasted.
    fn decide(
        &mut self,
        number: u64,
        is_meant: impl Fn(u64, Instant) -> bool,
        is_used: bool,
        now: Instant,
    ) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        let (mut bytes, before) = (0, object.parts.len());
        object.parts.retain(|part, state| match state {
            Part::There(length, at) if is_meant(*part, *at) => {
                bytes += *length;
                false
            }
            _ => true,
        });
        if object.parts.len() == before {
            return;
        }
        object.is_used |= is_used;
        let (client, is_over) = (object.client, object.parts.is_empty());
        let (used, wasted) = if is_used { (bytes, 0) } else { (0, bytes) };
        self.counts.used += used;
        self.counts.wasted += wasted;
        self.tallies.decide(client, (used, wasted), is_over, now);
        if is_over {
            self.close(number);
        }
    }

    fn close(&mut self, number: u64) {
        if let Some(object) = self.objects.get_mut(&number).filter(|object| object.is_open) {
            object.is_open = false;
            self.tallies.close(object.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    const BY: (IpAddr, AheadSource) =
        (IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), AheadSource::Cmcd);

    fn fetch(outcomes: &mut Outcomes, number: u64, parts: Range<u64>, now: Instant) {
        outcomes.expect(number, parts.clone(), BY, now);
        parts.for_each(|part| assert!(outcomes.arrive(number, part, MIB, now)));
    }

    #[test]
    fn bytes_are_used_once_viewers_take_them_and_wasted_once_they_are_gone_or_late() {
        let (mut outcomes, now) = (Outcomes::default(), Instant::now());
        fetch(&mut outcomes, 1, 4..7, now);
        assert_eq!((outcomes.there_until(1, 5), outcomes.there_until(1, 7)), (Some(7), None));
        outcomes.take(1, 5..6, now);
        assert_eq!((outcomes.there_until(1, 4), outcomes.there_until(1, 6)), (Some(5), Some(7)));
        outcomes.remove(1, now);
        let counts = AheadCounts { fetched: 3 * MIB, used: MIB, wasted: 2 * MIB };
        assert_eq!(outcomes.take_counts(), counts);
        fetch(&mut outcomes, 2, 0..1, now);
        outcomes.expire(now + USED_WITHIN / 2);
        assert_eq!(outcomes.take_counts(), AheadCounts { fetched: MIB, ..AheadCounts::default() });
        outcomes.expire(now + USED_WITHIN);
        outcomes.remove(2, now + USED_WITHIN);
        assert_eq!(outcomes.take_counts(), AheadCounts { wasted: MIB, ..AheadCounts::default() });
        outcomes.note_lost(BY.0, 5, now);
        assert_eq!(outcomes.take_counts(), AheadCounts { fetched: 5, used: 0, wasted: 5 });
        assert!(outcomes.objects.is_empty() && outcomes.due.is_empty());
    }

    /// The parts of a film are announced one after the other, for longer than one of them has time.
    #[test]
    fn each_part_has_its_own_time() {
        let (mut outcomes, start) = (Outcomes::default(), Instant::now());
        fetch(&mut outcomes, 1, 0..1, start);
        let later = start + USED_WITHIN / 2;
        fetch(&mut outcomes, 1, 1..2, later);
        outcomes.expire(start + USED_WITHIN);
        assert_eq!(outcomes.take_counts().wasted, MIB);
        assert_eq!((outcomes.there_until(1, 0), outcomes.there_until(1, 1)), (None, Some(2)));
        fetch(&mut outcomes, 1, 0..1, start + USED_WITHIN);
        outcomes.expire(later + USED_WITHIN);
        assert_eq!(outcomes.take_counts().wasted, MIB);
        assert_eq!(outcomes.there_until(1, 0), Some(1));
        outcomes.take(1, 0..9, later + USED_WITHIN);
        outcomes.expire(start + 3 * USED_WITHIN);
        assert_eq!(outcomes.take_counts(), AheadCounts { used: MIB, ..AheadCounts::default() });
        assert!(outcomes.due.is_empty());
    }

    #[test]
    fn a_part_that_a_viewer_waits_for_is_reported_and_used_as_it_arrives() {
        let (mut outcomes, now) = (Outcomes::default(), Instant::now());
        outcomes.expect(1, 0..3, (BY.0, AheadSource::Playlist), now);
        outcomes.take(1, 0..2, now);
        assert!(outcomes.is_arriving(1) && !outcomes.is_arriving(2));
        assert!(!outcomes.arrive(1, 0, MIB, now), "it is awaited");
        outcomes.fail(1, &(1..2));
        assert!(!outcomes.arrive(1, 1, MIB, now), "it is another fetch");
        assert!(outcomes.arrive(1, 2, MIB, now) && !outcomes.is_arriving(1));
        let counts = AheadCounts { fetched: 2 * MIB, used: MIB, wasted: 0 };
        assert_eq!(outcomes.take_counts(), counts);
        let shown = outcomes.find(1, now + Duration::from_secs(3)).unwrap();
        assert_eq!(
            (shown.source.as_str(), shown.seconds_ago, shown.is_used),
            ("playlist", 3, true)
        );
        assert!(!outcomes.arrive(9, 0, MIB, now), "it was not fetched ahead");
        outcomes.expect(2, 0..1, BY, now);
        outcomes.fail(2, &(0..9));
        assert!(outcomes.find(2, now).is_none());
    }

    #[test]
    fn only_what_no_viewer_waits_for_is_given_up() {
        let (mut outcomes, now) = (Outcomes::default(), Instant::now());
        assert!(!outcomes.give_up(1, &(0..9), now), "it is a viewer's");
        outcomes.expect(1, 0..3, BY, now);
        assert!(!outcomes.give_up(1, &(3..9), now), "this part of it, too");
        assert!(outcomes.give_up(1, &(0..9), now) && !outcomes.is_arriving(1));
        outcomes.expect(1, 0..3, BY, now);
        outcomes.take(1, 2..3, now);
        assert!(!outcomes.give_up(1, &(0..9), now) && outcomes.is_arriving(1));
    }
}
