//! What became of the bytes that were fetched ahead: viewers took them, or they were wasted.
//!
//! Bytes are wasted if what they belong to is removed before a viewer takes them, or if none does within [`USED_WITHIN`]. When too large a share of them
//! was, nothing more is fetched ahead, except one object now and then, to find out whether that has changed.

use super::queue::AheadSource;
use crate::inquiry::BroughtAhead;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A player requests what it has announced when its buffer has room: within the time of a few segments.
const USED_WITHIN: Duration = Duration::from_secs(120);

/// The share of waste is that of the last minutes: of older bytes, half count after this time, a quarter after twice that.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// A share means something once this many objects were taken or wasted. Fewer are one viewer who stopped.
const OUTCOMES_MIN: f64 = 8.0;

/// How often one object is fetched ahead all the same while too much is wasted.
const TRIED_EVERY: Duration = Duration::from_secs(30);

/// The most objects of one client, and the most bytes in all, of which it isn't known yet whether viewers take them. Twice the bytes that viewers have
/// taken lately come on top of those.
const OPEN_BY_CLIENT_MAX: usize = 32;
const OPEN_BYTES_MIN: u64 = 64 << 20;

/// What a request counts for that brought nothing to keep: it costs the origin about as much as a small object.
const REQUEST_BYTES: u64 = 64 << 10;

/// Everything that was fetched ahead.
#[derive(Default)]
pub(super) struct Brought {
    objects: HashMap<u64, Object>,
    /// When it is decided what became of them, the first ones first.
    due: VecDeque<(Instant, u64)>,
    open_by_client: HashMap<IpAddr, usize>,
    open_bytes: u64,
    lately: Lately,
    counts: AheadCounts,
    tried_at: Option<Instant>,
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
    /// These bytes are there, and no viewer has taken them.
    There(u64),
}

/// What was decided lately, older things for less.
#[derive(Default)]
struct Lately {
    used_bytes: f64,
    wasted_bytes: f64,
    outcomes: f64,
    at: Option<Instant>,
}

impl Lately {
    fn to(&mut self, now: Instant) -> &mut Self {
        let since = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let left = 0.5_f64.powf(since.as_secs_f64() / HALF_LIFE.as_secs_f64());
        for one in [&mut self.used_bytes, &mut self.wasted_bytes, &mut self.outcomes] {
            *one *= left;
        }
        self.at = Some(now);
        self
    }
}

impl Brought {
    /// Whether to fetch more ahead for `client`, if at most this share of the bytes, in percent, may be wasted.
    pub(super) fn may_go_on(
        &mut self,
        client: IpAddr,
        waste_percent_max: u8,
        now: Instant,
    ) -> bool {
        let open = self.open_by_client.get(&client).copied().unwrap_or(0);
        let lately = self.lately.to(now);
        let bytes_max = OPEN_BYTES_MIN + 2 * lately.used_bytes as u64;
        if open >= OPEN_BY_CLIENT_MAX || self.open_bytes >= bytes_max {
            return false;
        }
        if !self.is_wasteful(waste_percent_max, now) {
            return true;
        }
        let is_due = self.tried_at.is_none_or(|at| now >= at + TRIED_EVERY);
        if is_due {
            self.tried_at = Some(now);
        }
        is_due
    }

    /// Whether more than this share of the bytes was wasted lately.
    pub(super) fn is_wasteful(&mut self, waste_percent_max: u8, now: Instant) -> bool {
        let Lately { used_bytes, wasted_bytes, outcomes, .. } = *self.lately.to(now);
        let max = f64::from(waste_percent_max) / 100.0 * (used_bytes + wasted_bytes);
        // Halves are counted, so the last one of eight is a little less by now.
        outcomes >= OUTCOMES_MIN - 0.5 && wasted_bytes > max
    }

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
            *self.open_by_client.entry(client).or_default() += 1;
            self.due.push_back((now + USED_WITHIN, number));
        }
    }

    /// A part has arrived. Returns whether no viewer waits for it, because it is fetched ahead.
    pub(super) fn arrive(&mut self, number: u64, part: u64, bytes: u64, now: Instant) -> bool {
        let Some(object) = self.objects.get_mut(&number) else { return false };
        let is_awaited = match object.parts.get(&part) {
            Some(Part::Expected) => false,
            Some(Part::Awaited) => true,
            Some(Part::There(_)) | None => return false,
        };
        object.parts.insert(part, Part::There(bytes));
        self.open_bytes += bytes;
        self.counts.fetched += bytes;
        if is_awaited {
            self.take(number, part..part + 1, now);
        }
        !is_awaited
    }

    /// These parts will not arrive.
    pub(super) fn fail(&mut self, number: u64, parts: &Range<u64>) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        object.parts.retain(|part, state| !parts.contains(part) || matches!(state, Part::There(_)));
        if object.parts.is_empty() {
            self.close(number);
            self.objects.remove(&number);
        }
    }

    /// A viewer takes these parts.
    pub(super) fn take(&mut self, number: u64, parts: Range<u64>, now: Instant) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        let (mut used, mut taken) = (0, Vec::new());
        for (part, state) in object.parts.range_mut(parts) {
            match *state {
                Part::There(bytes) => {
                    used += bytes;
                    taken.push(*part);
                }
                Part::Expected | Part::Awaited => *state = Part::Awaited,
            }
        }
        object.parts.retain(|part, _| !taken.contains(part));
        object.is_used |= !taken.is_empty();
        let is_done = object.parts.is_empty();
        self.open_bytes -= used;
        self.counts.used += used;
        let lately = self.lately.to(now);
        lately.used_bytes += used as f64;
        lately.outcomes += f64::from(u8::from(is_done && !taken.is_empty()));
        if is_done {
            self.close(number);
        }
    }

    /// Those that follow each other, with this part among them, and that a viewer may have at once.
    pub(super) fn there(&self, number: u64, part: u64) -> Option<Range<u64>> {
        let parts = &self.objects.get(&number)?.parts;
        let is_there = |part: &u64| matches!(parts.get(part), Some(Part::There(_)));
        if !is_there(&part) {
            return None;
        }
        let first = (0..part).rev().take_while(is_there).last().unwrap_or(part);
        Some(first..(part..).find(|part| !is_there(part))?)
    }

    /// Whether parts of it are being fetched.
    pub(super) fn is_arriving(&self, number: u64) -> bool {
        let is_on_its_way = |part: &Part| matches!(part, Part::Expected | Part::Awaited);
        self.objects.get(&number).is_some_and(|one| one.parts.values().any(is_on_its_way))
    }

    /// An object is removed.
    pub(super) fn remove(&mut self, number: u64, now: Instant) {
        self.waste(number, now);
        self.objects.remove(&number);
    }

    /// Bytes were fetched ahead of something that can't be kept.
    pub(super) fn note_lost(&mut self, bytes: u64, now: Instant) {
        self.counts.fetched += bytes;
        self.counts.wasted += bytes;
        let lately = self.lately.to(now);
        lately.wasted_bytes += bytes.max(REQUEST_BYTES) as f64;
        lately.outcomes += 1.0;
    }

    /// Decides about those whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.due.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, number)) = self.due.pop_front() else { return };
            // It may have been decided before, and expected again.
            let is_late = |object: &Object| object.is_open && now >= object.at + USED_WITHIN;
            if self.objects.get(&number).is_some_and(is_late) {
                self.waste(number, now);
            }
        }
    }

    /// The bytes since the last call.
    pub(super) fn take_counts(&mut self) -> AheadCounts {
        std::mem::take(&mut self.counts)
    }

    /// For operators: how an object came to be fetched ahead.
    pub(super) fn find(&self, number: u64, now: Instant) -> Option<BroughtAhead> {
        let object = self.objects.get(&number)?;
        Some(BroughtAhead {
            source: object.source.as_str().to_owned(),
            seconds_ago: now.saturating_duration_since(object.at).as_secs(),
            is_used: object.is_used,
        })
    }

    /// What no viewer has taken of an object is wasted.
    fn waste(&mut self, number: u64, now: Instant) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        let bytes = |part: &Part| if let Part::There(bytes) = part { *bytes } else { 0 };
        let wasted: u64 = object.parts.values().map(bytes).sum();
        // Those on their way are reported like any other part, and count no more.
        object.parts.clear();
        self.open_bytes -= wasted;
        self.counts.wasted += wasted;
        if wasted > 0 {
            let lately = self.lately.to(now);
            lately.wasted_bytes += wasted as f64;
            lately.outcomes += 1.0;
        }
        self.close(number);
    }

    fn close(&mut self, number: u64) {
        let Some(object) = self.objects.get_mut(&number).filter(|object| object.is_open) else {
            return;
        };
        object.is_open = false;
        if let Some(open) = self.open_by_client.get_mut(&object.client) {
            *open -= 1;
            if *open == 0 {
                self.open_by_client.remove(&object.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn bring(brought: &mut Brought, number: u64, parts: Range<u64>, now: Instant) {
        let by = (client((number % 200) as u8), AheadSource::Cmcd);
        brought.expect(number, parts.clone(), by, now);
        parts.for_each(|part| assert!(brought.arrive(number, part, MIB, now)));
    }

    #[test]
    fn bytes_are_used_once_viewers_take_them_and_wasted_once_they_are_gone_or_late() {
        let (mut brought, now) = (Brought::default(), Instant::now());
        bring(&mut brought, 1, 4..7, now);
        assert_eq!((brought.there(1, 5), brought.there(1, 7)), (Some(4..7), None));
        brought.take(1, 5..6, now);
        assert_eq!((brought.there(1, 4), brought.there(1, 6)), (Some(4..5), Some(6..7)));
        brought.remove(1, now);
        let counts = AheadCounts { fetched: 3 * MIB, used: MIB, wasted: 2 * MIB };
        assert_eq!(brought.take_counts(), counts);
        bring(&mut brought, 2, 0..1, now);
        brought.expire(now + USED_WITHIN / 2);
        assert_eq!(brought.take_counts(), AheadCounts { fetched: MIB, ..AheadCounts::default() });
        brought.expire(now + USED_WITHIN);
        brought.remove(2, now + USED_WITHIN);
        assert_eq!(brought.take_counts(), AheadCounts { wasted: MIB, ..AheadCounts::default() });
        brought.note_lost(5, now);
        assert_eq!(brought.take_counts(), AheadCounts { fetched: 5, used: 0, wasted: 5 });
        assert!(brought.objects.is_empty() && brought.open_bytes == 0);
        assert!(brought.open_by_client.is_empty());
    }

    #[test]
    fn a_part_that_a_viewer_waits_for_is_reported_and_used_as_it_arrives() {
        let (mut brought, now) = (Brought::default(), Instant::now());
        brought.expect(1, 0..3, (client(1), AheadSource::Playlist), now);
        brought.take(1, 0..2, now);
        assert!(brought.is_arriving(1) && !brought.is_arriving(2));
        assert!(!brought.arrive(1, 0, MIB, now), "it is awaited");
        brought.fail(1, &(1..2));
        assert!(!brought.arrive(1, 1, MIB, now), "it is another fetch");
        assert!(brought.arrive(1, 2, MIB, now) && !brought.is_arriving(1));
        let counts = AheadCounts { fetched: 2 * MIB, used: MIB, wasted: 0 };
        assert_eq!(brought.take_counts(), counts);
        let shown = brought.find(1, now + Duration::from_secs(3)).unwrap();
        assert_eq!(
            (shown.source.as_str(), shown.seconds_ago, shown.is_used),
            ("playlist", 3, true)
        );
        assert!(!brought.arrive(9, 0, MIB, now), "it was not fetched ahead");
        brought.expect(2, 0..1, (client(1), AheadSource::Cmcd), now);
        brought.fail(2, &(0..9));
        assert!(brought.find(2, now).is_none());
    }

    #[test]
    fn too_much_waste_ends_it_but_for_one_try_now_and_then() {
        let (mut brought, start) = (Brought::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for number in 0..7 {
            bring(&mut brought, number, 0..1, start);
            brought.remove(number, start);
        }
        assert!(brought.may_go_on(client(1), 20, start), "a few say nothing");
        bring(&mut brought, 7, 0..1, start);
        brought.remove(7, start);
        let tries = (0..65).filter(|second| brought.may_go_on(client(1), 20, at(*second)));
        assert_eq!(tries.collect::<Vec<_>>(), [0, 30, 60]);
        assert!(brought.may_go_on(client(1), 100, at(65)), "as much as this may be wasted");
        // It has become worthwhile: the share falls, and old waste counts for less.
        for number in 10..30 {
            bring(&mut brought, number, 0..2, at(66));
            brought.take(number, 0..2, at(66));
        }
        assert!(!brought.is_wasteful(20, at(66)) && brought.is_wasteful(10, at(66)));
        assert!(
            brought.may_go_on(client(1), 20, at(66)) && brought.may_go_on(client(1), 20, at(66))
        );
    }

    #[test]
    fn what_no_viewer_has_taken_yet_is_bounded_by_client_and_in_all() {
        let (mut brought, now) = (Brought::default(), Instant::now());
        let mine = (client(1), AheadSource::Cmcd);
        let began = (0..1000).take_while(|number| {
            let may = brought.may_go_on(client(1), 20, now);
            if may {
                brought.expect(*number, 0..1, mine, now);
                brought.arrive(*number, 0, MIB / 2, now);
            }
            may
        });
        assert_eq!(began.count(), OPEN_BY_CLIENT_MAX);
        assert!(brought.may_go_on(client(2), 20, now));
        bring(&mut brought, 2000, 0..OPEN_BYTES_MIN / MIB, now);
        assert!(!brought.may_go_on(client(2), 20, now), "until it is known what becomes of it");
        brought.take(2000, 0..OPEN_BYTES_MIN / MIB, now);
        assert!(brought.may_go_on(client(2), 20, now));
        brought.take(0, 0..1, now);
        assert!(brought.may_go_on(client(1), 20, now));
    }
}
