//! The known lists of segments of a track, by rendition and pathway, and the next segment in one.
//!
//! Lists are shared with all other viewers of the title. Only the offset of a live stream's list on the timeline belongs to this player:
//! such a list begins at zero each time it is fetched, although its beginning moves.

use crate::Time;
use crate::presentation::{Format, Presentation, Segments, Source, StartPoint};
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// Lists of one title may differ by this much in a segment's begin, because they round: hls.js allows as much.
const TOLERANCE: Duration = Duration::from_millis(250);

/// Where a live stream begins on the player's timeline, so that segments no longer in its list have a place too.
const LIVE_ORIGIN: Duration = Duration::from_secs(3600);

/// A rendition on a pathway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rendition: usize,
    pub(crate) pathway: usize,
}

/// A loaded list.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) segments: Arc<Segments>,
    /// The offset from the list's times to the player's.
    pub(crate) shift: Duration,
    /// When to fetch it again, if it is live.
    pub(crate) reload_at: Time,
    /// Set if initialisation sections change within the list; `None` until checked.
    has_starts: Option<bool>,
    /// How often the numbers of the stream had begun again.
    beginnings: u32,
}

/// The segment after the end of the buffer, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The segment at this index.
    Segment(usize),
    /// Nothing: the film is over.
    Nothing,
    /// Nothing yet: the stream goes on.
    NotYet,
}

impl Loaded {
    pub(crate) fn new(segments: &Arc<Segments>, shift: Duration) -> Self {
        Self {
            segments: segments.clone(),
            shift,
            reload_at: Time::MAX,
            has_starts: None,
            beginnings: 0,
        }
    }

    /// The segment that plays at `end`. `hint` is the index to try first.
    pub(crate) fn next(&self, end: Duration, hint: usize) -> Next {
        let list = &self.segments.list;
        let wanted = end.saturating_sub(self.shift);
        let is_past = |index: usize| {
            let segment = &list[index];
            let slack = TOLERANCE.min(segment.duration / 2);
            segment.begin.saturating_add(segment.duration) <= wanted.saturating_add(slack)
        };
        let is_right = hint < list.len() && !is_past(hint) && (hint == 0 || is_past(hint - 1));
        let mut index = if is_right { hint } else { first_not(list.len(), is_past) };
        // A segment without duration would not advance the buffer's end.
        while list.get(index).is_some_and(|segment| segment.duration.is_zero()) {
            index += 1;
        }
        match index {
            index if index < list.len() => Next::Segment(index),
            _ if self.segments.reload_after.is_some() => Next::NotYet,
            _ => Next::Nothing,
        }
    }

    /// When the segment begins on the player's timeline.
    pub(crate) fn begin(&self, index: usize) -> Duration {
        self.segments.list[index].begin.saturating_add(self.shift)
    }

    /// The initialisation section that the segment needs: the index of the segment that introduced it, or `None` for the list's first one.
    pub(crate) fn start_of(&mut self, index: usize) -> Option<usize> {
        let list = &self.segments.list;
        let has_starts = *self
            .has_starts
            .get_or_insert_with(|| list.iter().any(|segment| segment.start.is_some()));
        if !has_starts {
            return None;
        }
        list[..=index].iter().rposition(|segment| segment.start.is_some())
    }

    /// Returns true if its segments may still exist: those of a live stream expire.
    pub(crate) fn is_fresh(&self, now: Time) -> bool {
        // Summing up a film's segments at each request would cost more than everything else.
        let is_live = self.segments.reload_after.is_some();
        !is_live || now < self.reload_at.saturating_add(self.segments.duration() / 2)
    }

    /// When the list ends on the player's timeline.
    pub(crate) fn end(&self) -> Duration {
        end(&self.segments).saturating_add(self.shift)
    }

    /// Where a new viewer begins: where the list says, or at the beginning, or in a live stream three of the longest segments before its
    /// end.
    pub(crate) fn entry(&self) -> Duration {
        let first = if self.segments.list.is_empty() { self.shift } else { self.begin(0) };
        let before_end = |before| self.end().saturating_sub(before).max(first);
        match self.segments.entry {
            Some(StartPoint::AfterBegin(after)) => {
                first.saturating_add(after).min(self.end()).max(first)
            }
            Some(StartPoint::BeforeEnd(before)) => before_end(before),
            None if self.segments.reload_after.is_some() => {
                let longest = self.segments.list.iter().map(|segment| segment.duration).max();
                before_end(longest.unwrap_or_default().saturating_mul(3))
            }
            None => first,
        }
    }

    /// Returns true if this later list continues it without a gap.
    fn is_continued_by(&self, later: &Segments) -> bool {
        let (end, later_end) = (end_number(&self.segments), end_number(later));
        !self.segments.list.is_empty() && later.first_number <= end && end <= later_end
    }
}

/// What loading a list again shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// It was not known.
    First,
    /// The same segments.
    Unchanged,
    /// Further segments. This many in front of them were in no list that the player has seen.
    Grown { missed: u64 },
    /// The list as it was some time ago.
    WentBack,
    /// A list whose numbers have begun again.
    Restarted,
}

impl Reload {
    /// Compares a list with the last one from its place. The lists of all places end before `number`. If the last one has stood still for long,
    /// an earlier list is a new beginning.
    pub(crate) fn of(
        format: Format,
        known: Option<&Loaded>,
        segments: &Segments,
        number: u64,
        stood_still: bool,
    ) -> Self {
        let Some(known) = known.map(|known| &*known.segments) else { return Self::First };
        if segments.list.is_empty() && !known.list.is_empty() {
            return Self::WentBack;
        }
        let (order, overlaps, missed) = match format {
            Format::Hls => by_numbers(known, segments, number),
            Format::Dash => by_times(known, segments),
        };
        match order {
            Ordering::Greater => Self::Grown { missed },
            Ordering::Equal => Self::Unchanged,
            Ordering::Less if overlaps && !stood_still => Self::WentBack,
            Ordering::Less => Self::Restarted,
        }
    }
}

/// Compares the ends of two lists by the numbers of their segments. Also returns whether the new one ends after the known one's beginning, and
/// the number of segments that neither of them has, nor any list that ends before `number`.
fn by_numbers(known: &Segments, segments: &Segments, number: u64) -> (Ordering, bool, u64) {
    let (end, new_end) = (end_number(known), end_number(segments));
    let missed = segments.first_number.saturating_sub(end.max(number));
    (new_end.cmp(&end), new_end > known.first_number, missed)
}

/// As above, by times: DASH needs no numbers if its template has times, and each of its lists then begins at 1.
fn by_times(known: &Segments, segments: &Segments) -> (Ordering, bool, u64) {
    let (end, new_end) = (end(known), end(segments));
    let order = match new_end.abs_diff(end) {
        // The same segments, rounded another way.
        change if change <= TOLERANCE => Ordering::Equal,
        _ => new_end.cmp(&end),
    };
    let begin = |list: &Segments| list.list.first().map(|first| first.begin);
    let gap = begin(segments).filter(|_| !known.list.is_empty());
    let gap = gap.map_or(Duration::ZERO, |begin| begin.saturating_sub(end)).as_nanos();
    // Segments that were never seen are assumed to be as long as these.
    let mean = mean(segments).as_nanos().max(1);
    let missed = u64::try_from((gap + mean / 2) / mean).unwrap_or(u64::MAX);
    (order, begin(known).is_some_and(|begin| new_end > begin), missed)
}

fn first_not(count: usize, is_past: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_past(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// The lists of one track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    pathways: usize,
    all: Vec<Option<Loaded>>,
}

impl Lists {
    /// Room for the track's lists, including those in the manifest itself.
    pub(crate) fn new(presentation: &Presentation, track: usize) -> Self {
        let mut lists = Self::default();
        lists.renew(presentation, track);
        lists
    }

    /// Takes a new manifest, or one with further pathways: its own lists replace known ones, and the rest stays.
    pub(crate) fn renew(&mut self, presentation: &Presentation, track: usize) {
        let pathways = presentation.pathways.len();
        let renditions = &presentation.tracks[track].renditions;
        let mut all = Vec::with_capacity(renditions.len() * pathways);
        for (rendition, of) in renditions.iter().enumerate() {
            for pathway in 0..pathways {
                let index = self.index(Place { rendition, pathway });
                let known = self.all.get_mut(index).and_then(Option::take);
                all.push(match of.sources.get(pathway) {
                    Some(Source::Listed(segments)) => Some(Loaded::new(segments, Duration::ZERO)),
                    _ => known,
                });
            }
        }
        *self = Self { pathways, all };
    }

    pub(crate) fn get(&self, place: Place) -> Option<&Loaded> {
        self.all.get(self.index(place))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Loaded> {
        let index = self.index(place);
        self.all.get_mut(index)?.as_mut()
    }

    pub(crate) fn put(&mut self, place: Place, list: Loaded) {
        let index = self.index(place);
        if let Some(loaded) = self.all.get_mut(index) {
            *loaded = Some(list);
        }
    }

    fn index(&self, place: Place) -> usize {
        if place.pathway >= self.pathways {
            return usize::MAX;
        }
        place.rendition * self.pathways + place.pathway
    }
}

/// The positions of a live HLS stream's lists on the player's timeline, derived from the numbers of their segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// The list that reaches furthest, with its offset.
    newest: Option<(Arc<Segments>, Duration)>,
    /// How often numbers have begun again.
    beginnings: u32,
}

impl Timeline {
    /// Puts a list on the timeline. `known` is the last list from its place.
    pub(crate) fn load(
        &mut self,
        format: Format,
        segments: &Arc<Segments>,
        known: Option<&Loaded>,
        reload: Reload,
    ) -> Loaded {
        let is_live = segments.reload_after.is_some() || self.newest.is_some();
        if !is_live || format != Format::Hls || segments.list.is_empty() {
            return Loaded::new(segments, Duration::ZERO);
        }
        // The list of another track may have begun again before this one does.
        let begins = known.is_some_and(|known| known.beginnings == self.beginnings);
        let begins = begins && reload == Reload::Restarted;
        let known = known.filter(|known| known.is_continued_by(segments));
        let shift = match (&self.newest, known) {
            (None, _) => LIVE_ORIGIN,
            (Some((newest, shift)), _) if begins => end(newest).saturating_add(*shift),
            // Numbers say less of other lists: the segments of sound and pictures differ in length.
            (_, Some(known)) => shift_beside(&known.segments, known.shift, segments),
            (Some((newest, shift)), None) => shift_beside(newest, *shift, segments),
        };
        self.beginnings += u32::from(begins);
        let beginnings = known.map_or(self.beginnings, |known| known.beginnings);
        let is_newest = begins || self.end_number() <= end_number(segments);
        if beginnings == self.beginnings && is_newest {
            self.newest = Some((segments.clone(), shift));
        }
        Loaded { beginnings, ..Loaded::new(segments, shift) }
    }

    /// Returns true if numbers have begun again since this list was loaded, on another track or another pathway.
    pub(crate) fn has_begun_again_since(&self, list: &Loaded) -> bool {
        list.beginnings < self.beginnings
    }

    /// The number after the last one of all lists.
    pub(crate) fn end_number(&self) -> u64 {
        self.newest.as_ref().map_or(0, |(newest, _)| end_number(newest))
    }
}

/// When a list ends, by its own times.
fn end(segments: &Segments) -> Duration {
    let last = segments.list.last();
    last.map_or(Duration::ZERO, |last| last.begin.saturating_add(last.duration))
}

/// The number after the last one.
fn end_number(segments: &Segments) -> u64 {
    segments.first_number.saturating_add(segments.list.len() as u64)
}

/// The offset of a list that is a later or an earlier part of the known one.
fn shift_beside(known: &Segments, shift: Duration, segments: &Segments) -> Duration {
    let number = known.first_number.max(segments.first_number);
    let at = |of: &Segments| usize::try_from(number - of.first_number).ok();
    let same = |of: &Segments| Some(of.list.get(at(of)?)?.begin);
    if let Some((known, same)) = same(known).zip(same(segments)) {
        return known.saturating_add(shift).saturating_sub(same);
    }
    // The segments between the lists were never seen; they are assumed to be as long as these.
    let begins = segments.list[0].begin;
    if number == segments.first_number {
        let missed = times(mean(segments), number - end_number(known).min(number));
        return end(known).saturating_add(shift).saturating_add(missed).saturating_sub(begins);
    }
    let missed = times(mean(segments), number - end_number(segments).min(number));
    known.list[0].begin.saturating_add(shift).saturating_sub(missed).saturating_sub(end(segments))
}

fn mean(segments: &Segments) -> Duration {
    let begin = segments.list.first().map_or(Duration::ZERO, |first| first.begin);
    let whole = end(segments).saturating_sub(begin);
    whole / u32::try_from(segments.list.len()).unwrap_or(u32::MAX).max(1)
}

fn times(duration: Duration, count: u64) -> Duration {
    duration.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::{Reference, Segment};

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn segments(durations: &[u64], first_number: u64, reload_after: Option<u64>) -> Arc<Segments> {
        let url: crate::url::Url = "http://a.example/1.mp4".parse().expect("a URL");
        let reference = Reference { url, range: None };
        let mut begin = Duration::ZERO;
        let list = durations.iter().map(|duration| {
            let duration = Duration::from_millis(*duration);
            let segment = Segment { begin, duration, reference: reference.clone(), start: None };
            begin += duration;
            segment
        });
        let list = list.collect();
        let reload_after = reload_after.map(Duration::from_secs);
        Arc::new(Segments { list, first_number, reload_after, ..Segments::default() })
    }

    fn loaded(segments: Arc<Segments>, shift: Duration) -> Loaded {
        Loaded::new(&segments, shift)
    }

    #[test]
    fn the_next_segment_is_the_one_at_the_end_of_the_buffer() {
        let list = loaded(segments(&[4000, 4000, 4000], 0, None), Duration::ZERO);
        for hint in [0, 1, 2, 3, 99] {
            assert_eq!(list.next(s(0), hint), Next::Segment(0));
            assert_eq!(list.next(s(4), hint), Next::Segment(1));
            assert_eq!(list.next(s(7), hint), Next::Segment(1));
            assert_eq!(list.next(Duration::from_millis(7800), hint), Next::Segment(2));
            assert_eq!(list.next(s(12), hint), Next::Nothing);
        }
        let live = loaded(segments(&[4000], 0, Some(4)), s(100));
        assert_eq!((live.next(s(104), 0), live.next(s(100), 0)), (Next::NotYet, Next::Segment(0)));
        assert_eq!(loaded(segments(&[], 0, None), s(0)).next(s(0), 0), Next::Nothing);
    }

    #[test]
    fn segments_without_duration_are_passed_over() {
        let list = loaded(segments(&[1000, 0, 0, 1000], 0, None), Duration::ZERO);
        assert_eq!(list.next(s(1), 1), Next::Segment(3));
        let list = loaded(segments(&[1000, 0], 0, None), Duration::ZERO);
        assert_eq!(list.next(s(1), 1), Next::Nothing);
    }

    #[test]
    fn a_live_stream_begins_near_its_end() {
        let list = segments(&[4000; 10], 7, Some(4));
        let mut timeline = Timeline::default();
        let list = timeline.load(Format::Hls, &list, None, Reload::First);
        assert_eq!(list.entry(), LIVE_ORIGIN + s(28));
        let short = loaded(segments(&[4000], 7, Some(4)), LIVE_ORIGIN);
        assert_eq!(short.entry(), LIVE_ORIGIN);
        assert_eq!(loaded(segments(&[4000; 10], 7, None), s(0)).entry(), s(0));
    }

    #[test]
    fn a_live_list_is_placed_by_the_numbers_of_its_segments() {
        let mut timeline = Timeline::default();
        let mut shift = |durations: &[u64], first| {
            let list = segments(durations, first, Some(4));
            timeline.load(Format::Hls, &list, None, Reload::First).shift
        };
        assert_eq!(shift(&[4000, 2000, 4000], 10), LIVE_ORIGIN);
        assert_eq!(shift(&[2000, 4000, 4000], 11), LIVE_ORIGIN + s(4));
        // An older list, from another rendition.
        assert_eq!(shift(&[4000, 2000, 4000], 10), LIVE_ORIGIN);
        // 14 would begin at 14; it and 15 were never seen.
        assert_eq!(shift(&[4000, 4000], 16), LIVE_ORIGIN + s(14 + 2 * 4));
        // All of it comes before the known list, which begins at 22.
        assert_eq!(shift(&[4000, 4000], 10), LIVE_ORIGIN + s(22) - s(4 * 4 + 8));
        // It continues after its end was marked.
        let ended = segments(&[4000, 4000], 16, None);
        let ended = timeline.load(Format::Hls, &ended, None, Reload::First);
        assert_eq!(ended.shift, LIVE_ORIGIN + s(22));
    }

    #[test]
    fn a_list_begins_where_it_says() {
        let entry = |entry, reload_after| {
            let list = (*segments(&[4000; 10], 0, reload_after)).clone();
            loaded(Arc::new(Segments { entry: Some(entry), ..list }), s(100)).entry()
        };
        for live in [None, Some(4)] {
            assert_eq!(entry(StartPoint::BeforeEnd(s(6)), live), s(134));
            assert_eq!(entry(StartPoint::BeforeEnd(s(600)), live), s(100));
            assert_eq!(entry(StartPoint::AfterBegin(s(5)), live), s(105));
            assert_eq!(entry(StartPoint::AfterBegin(s(600)), live), s(140));
        }
    }

    #[test]
    fn a_reload_is_new_or_not_or_of_long_ago() {
        let known = loaded(segments(&[4000; 6], 10, Some(4)), s(0));
        let of = |first, count: usize, stood_still| {
            let list = segments(&vec![4000; count], first, Some(4));
            Reload::of(Format::Hls, Some(&known), &list, 18, stood_still)
        };
        assert_eq!(Reload::of(Format::Hls, None, &known.segments, 0, false), Reload::First);
        assert_eq!((of(10, 6, false), of(12, 4, false)), (Reload::Unchanged, Reload::Unchanged));
        assert_eq!(of(11, 6, false), Reload::Grown { missed: 0 });
        assert_eq!(of(17, 6, false), Reload::Grown { missed: 0 });
        assert_eq!(of(21, 6, false), Reload::Grown { missed: 3 });
        assert_eq!((of(9, 6, false), of(9, 6, true)), (Reload::WentBack, Reload::Restarted));
        assert_eq!((of(0, 4, false), of(0, 0, true)), (Reload::Restarted, Reload::WentBack));
    }

    #[test]
    fn a_stream_that_begins_again_goes_on_after_what_was_seen_on_each_track() {
        let mut timeline = Timeline::default();
        let old = segments(&[4000; 6], 100, Some(4));
        let pictures = timeline.load(Format::Hls, &old, None, Reload::First);
        let sound = timeline.load(Format::Hls, &old, None, Reload::First);
        let new = segments(&[4000; 2], 0, Some(4));
        let again = timeline.load(Format::Hls, &new, Some(&pictures), Reload::Restarted);
        assert_eq!(again.shift, LIVE_ORIGIN + s(24));
        // The list of sound is still the old one for a moment, and then the new one, too.
        let grown = segments(&[4000; 6], 101, Some(4));
        let sound = timeline.load(Format::Hls, &grown, Some(&sound), Reload::Grown { missed: 0 });
        assert_eq!(sound.shift, LIVE_ORIGIN + s(4));
        let sound = timeline.load(Format::Hls, &new, Some(&sound), Reload::Restarted);
        assert_eq!((sound.shift, timeline.end_number()), (LIVE_ORIGIN + s(24), 2));
        let third = segments(&[4000], 0, Some(4));
        let again = timeline.load(Format::Hls, &third, Some(&again), Reload::Restarted);
        assert_eq!((again.shift, timeline.end_number()), (LIVE_ORIGIN + s(32), 1));
    }

    #[test]
    fn films_and_dash_have_one_timeline() {
        let mut timeline = Timeline::default();
        let film = segments(&[4000], 1, None);
        let mut shift = |format, list| timeline.load(format, list, None, Reload::First).shift;
        assert_eq!(shift(Format::Hls, &film), Duration::ZERO);
        let live = segments(&[4000], 1, Some(4));
        assert_eq!(shift(Format::Dash, &live), Duration::ZERO);
    }

    #[test]
    fn numbers_that_make_no_sense_do_no_harm() {
        let mut timeline = Timeline::default();
        for first in [5, u64::MAX, 0, u64::MAX - 1, 1 << 40] {
            let list = segments(&[4000, 4000], first, Some(4));
            let known = timeline.load(Format::Hls, &list, None, Reload::First);
            timeline.load(Format::Hls, &list, Some(&known), Reload::Restarted);
        }
    }

    #[test]
    fn lists_stay_where_they_are_when_a_pathway_is_added() {
        let document = "http://a.example/1.m3u8".parse().expect("a URL");
        let document = Source::Document(Reference { url: document, range: None });
        let rendition = |pathways: usize| crate::presentation::Rendition {
            id: "r".into(),
            bits_per_second: 1,
            sources: vec![document.clone(); pathways],
        };
        let presentation = |pathways: usize| Presentation {
            format: Format::Hls,
            duration: None,
            pathways: vec![crate::presentation::Pathway { id: "p".into() }; pathways],
            steering: None,
            tracks: vec![crate::presentation::Track {
                kind: crate::presentation::TrackKind::Pictures,
                renditions: vec![rendition(pathways); 2],
            }],
            reload_after: None,
        };
        let place = |rendition, pathway| Place { rendition, pathway };
        let mut lists = Lists::new(&presentation(2), 0);
        lists.put(place(1, 0), loaded(segments(&[4000], 0, None), Duration::ZERO));
        lists.put(place(0, 2), loaded(segments(&[], 0, None), Duration::ZERO));
        lists.renew(&presentation(3), 0);
        assert!(lists.get(place(1, 0)).is_some() && lists.get(place(0, 2)).is_none());
        assert!(lists.get(place(1, 2)).is_none() && lists.get(place(1, 3)).is_none());
        assert_eq!(lists.all.len(), 6);
    }
}
