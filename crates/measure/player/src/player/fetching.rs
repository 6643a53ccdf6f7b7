//! Chooses what to fetch next: which segment, from which pathway, at which bit rate, and when there is room for it.

use super::Player;
use super::lists::{Loaded, Next, Place};
use super::open::{Open, Slot};
use crate::Time;
use crate::abr::{Rule, Situation};
use crate::pathways::Need;
use crate::presentation::{Reference, Source};
use crate::request::{PlayerRequest, RequestKind, Target};
use std::sync::Arc;
use std::time::Duration;

/// The assumed length of a segment before there is a list.
const SEGMENT_GUESS: Duration = Duration::from_secs(4);

/// This much is enough for any segment at a measured rate.
const PLENTY_BUFFERED: Duration = Duration::from_secs(20);

/// The part of the buffered time that one segment may take.
const BUFFER_SHARE_MAX: f64 = 0.5;

impl Player {
    /// When a track may have something to fetch.
    pub(super) fn media_due(&self, t: usize) -> Time {
        let track = &self.tracks[t];
        if track.is_dead || !self.open.is_free(Slot::media(t)) || self.waits_for_steering() {
            return Time::MAX;
        }
        track.idle_until.max(track.retry.at)
    }

    /// The next request for media of a track, or for the initialisation section that this media needs.
    pub(super) fn request_media(&mut self, t: usize, now: Time) -> Option<PlayerRequest> {
        if self.media_due(t) > now {
            return None;
        }
        let place = match self.tracks[t].choice {
            Some(place) => place,
            None => self.choose(t, now)?,
        };
        self.tracks[t].choice = Some(place);
        let (index, duration) = self.next_segment(t, place, now)?;
        if !self.has_room(t, duration, now) {
            return None;
        }
        let track = &mut self.tracks[t];
        let loaded = track.lists.get_mut(place).expect("its next segment was found");
        let start = loaded.start_of(index);
        let segments = &loaded.segments;
        let number = start.map(|index| segments.first_number.saturating_add(index as u64));
        let needs_start = start.is_some() || segments.start.is_some();
        track.place = Some(place);
        if needs_start && !track.has_start(place.rendition, number) {
            return self.open_start(t, place, start, now);
        }
        Some(self.open_media(t, place, index, now))
    }

    /// The segment at the end of the track's buffer in this list. `None` if there is none now; the track then sleeps.
    fn next_segment(&mut self, t: usize, place: Place, now: Time) -> Option<(usize, Duration)> {
        let end = self.playback.end(t);
        let track = &mut self.tracks[t];
        let Some(loaded) = track.lists.get(place) else {
            // `request_list` will fetch it.
            track.sleep();
            return None;
        };
        match loaded.next(end, track.hint) {
            Next::Segment(index) => Some((index, loaded.segments.list[index].duration)),
            Next::NotYet => {
                track.choice = None;
                track.place = Some(place);
                track.sleep();
                None
            }
            Next::Nothing => {
                if let Some(turn) = self.playback.complete(t, now) {
                    self.handle_turn(turn, now);
                }
                self.wake_others(t);
                self.tracks[t].sleep();
                None
            }
        }
    }

    fn wake_others(&mut self, t: usize) {
        for (index, track) in self.tracks.iter_mut().enumerate() {
            if index != t && track.is_ahead {
                track.wake();
                self.has_changed = true;
            }
        }
    }

    /// Returns true if the buffer has room for another segment. If not, the track sleeps until it does.
    fn has_room(&mut self, t: usize, duration: Duration, now: Time) -> bool {
        let ahead = self.playback.ahead(t, now);
        let wait = self.playback.wait();
        if wait.is_some_and(|wait| ahead < self.playback.threshold(wait.kind)) {
            return true;
        }
        // Fetch for the track with less buffered first: the viewer needs both.
        let others = self.playback.end_of_others(t);
        let buffer_max = self.buffer_max(t);
        let track = &mut self.tracks[t];
        if others.is_some_and(|end| self.playback.end(t) > end.saturating_add(duration)) {
            track.sleep();
            track.is_ahead = true;
            return false;
        }
        if ahead <= duration {
            return true;
        }
        let over = ahead.saturating_add(duration).saturating_sub(buffer_max);
        if over.is_zero() {
            return true;
        }
        track.sleep();
        if self.playback.is_playing() {
            track.idle_until = now.saturating_add(over.min(ahead - duration));
        }
        false
    }

    /// Chooses the source of the next segment. `None` if there is nothing to fetch now.
    fn choose(&mut self, t: usize, now: Time) -> Option<Place> {
        let mut duration = SEGMENT_GUESS;
        if let Some(place) =
            self.tracks[t].place.filter(|place| self.tracks[t].lists.get(*place).is_some())
        {
            (_, duration) = self.next_segment(t, place, now)?;
            if !self.has_room(t, duration, now) {
                return None;
            }
        }
        let pathway = self.choose_pathway(t, duration, now);
        let rendition = self.choose_rendition(t, duration, pathway, now);
        let place = self.available(t, Place { rendition, pathway });
        if place.is_none() {
            self.give_up_track(t, now);
        }
        place
    }

    /// The pathway of the next segment: pictures decide, and sound follows.
    fn choose_pathway(&mut self, t: usize, duration: Duration, now: Time) -> usize {
        if !self.has_pathways() {
            return 0;
        }
        let track = &self.tracks[t];
        let buffered = self.playback.ahead(t, now);
        let Some(pathways) = &mut self.pathways else { return 0 };
        if t != 0 {
            return pathways.current();
        }
        let bits = bits(track.rate(track.current.unwrap_or(0)), duration);
        let need =
            Need { buffered, bits, segment: duration, bits_per_second_max: track.top_rate() };
        let pathway = pathways.choose(now, &need);
        self.tell_moves();
        pathway
    }

    fn choose_rendition(
        &mut self,
        t: usize,
        duration: Duration,
        pathway: usize,
        now: Time,
    ) -> usize {
        let mut measured = self.measured(pathway);
        let buffered = self.playback.ahead(t, now);
        let buffer_max = self.buffer_max(t);
        let track = &mut self.tracks[t];
        if track.retry.abandoned > 0 {
            // The bottleneck may be shared by all pathways, so their measured rates are unreliable; and if little is buffered, only the
            // last seconds count.
            let all = self.estimate.bits_per_second();
            let last = track.retry.came_at.filter(|_| buffered < PLENTY_BUFFERED);
            measured = [measured, all, last].into_iter().flatten().reduce(f64::min);
        }
        if let Some(rung) = track.retry.rung {
            return rung;
        }
        if track.rungs.len() == 1 {
            return 0;
        }
        let situation = Situation {
            now,
            rungs: &track.rungs,
            current: track.current,
            buffered,
            buffer_max,
            segment: duration,
            bits_per_second: measured,
            playing: self.playback.is_playing(),
        };
        let wanted = track.abr.choose(&situation);
        match self.options.rule {
            Rule::Fixed(_) => wanted,
            _ => within_the_buffer(&situation, wanted),
        }
    }

    /// The pathway's rate, as far as it is known; otherwise the network's rate on other pathways.
    pub(super) fn measured(&self, pathway: usize) -> Option<f64> {
        let all = self.estimate.bits_per_second();
        if !self.has_pathways() {
            return all;
        }
        let of = self.pathways.as_ref().and_then(|pathways| pathways.bits_per_second(pathway));
        of.or(all)
    }

    /// The chosen place; or, if it lacks the rendition or has just failed, one that comes close.
    pub(super) fn available(&self, t: usize, wanted: Place) -> Option<Place> {
        let track = &self.tracks[t];
        let presentation = self.presentation.as_ref()?;
        let renditions = &presentation.tracks[track.index].renditions;
        let has = |rendition: usize, pathway: usize| {
            let source = renditions.get(rendition).and_then(|of| of.sources.get(pathway));
            source.is_some_and(|source| *source != Source::Absent)
        };
        let all = 0..presentation.pathways.len();
        let Place { rendition, pathway } = wanted;
        if has(rendition, pathway) && !track.retry.is_tried(pathway) {
            return Some(wanted);
        }
        let pathways = self.pathways.as_ref();
        let is_named = |other: usize| pathways.is_none_or(|pathways| pathways.is_named(other));
        let untried = all.clone().find(|other| {
            has(rendition, *other) && !track.retry.is_tried(*other) && is_named(*other)
        });
        let other = untried.or(Some(pathway)).filter(|other| has(rendition, *other));
        if let Some(pathway) = other.or(all.clone().find(|other| has(rendition, *other))) {
            return Some(Place { rendition, pathway });
        }
        let any = (0..renditions.len()).find(|other| has(*other, pathway));
        any.map(|rendition| Place { rendition, pathway })
    }

    fn open_start(
        &mut self,
        t: usize,
        place: Place,
        start: Option<usize>,
        now: Time,
    ) -> Option<PlayerRequest> {
        let segments = self.tracks[t].lists.get(place)?.segments.clone();
        let (reference, target) = match start {
            Some(index) => {
                (segments.list[index].start.as_ref()?, Target::Segment(segments.clone(), index))
            }
            None => (segments.start.as_ref()?, Target::Start(segments.clone())),
        };
        let open = Open {
            segment: start.map_or(0, |index| index as u32 + 1),
            first_number: segments.first_number,
            ..self.opening(RequestKind::Start, t, place, reference, now)
        };
        Some(self.open_request(Slot::media(t), open, reference, target))
    }

    fn open_media(&mut self, t: usize, place: Place, index: usize, now: Time) -> PlayerRequest {
        let track = &mut self.tracks[t];
        let from = track.current.filter(|from| *from != place.rendition);
        let loaded = track.lists.get(place).expect("its next segment was found");
        let begin = loaded.begin(index);
        let segments = loaded.segments.clone();
        if let Some(from) = from {
            self.tell_switch(t, from, place.rendition);
        }
        let segment = &segments.list[index];
        let open = Open {
            segment: index as u32,
            begin,
            duration: segment.duration,
            ..self.opening(RequestKind::Media, t, place, &segment.reference, now)
        };
        let target = Target::Segment(segments.clone(), index);
        let mut request = self.open_request(Slot::media(t), open, &segment.reference, target);
        request.segment = Some(index);
        request
    }

    /// A track's request that is about to be sent.
    pub(super) fn opening(
        &self,
        kind: RequestKind,
        t: usize,
        place: Place,
        reference: &Reference,
        now: Time,
    ) -> Open {
        Open {
            track: t as u8,
            pathway: place.pathway as u16,
            rendition: place.rendition as u16,
            has_range: reference.range.is_some(),
            expected_bytes: length(reference),
            judge_at: now.saturating_add(self.judge_interval(t, now)),
            ..Open::new(kind, now)
        }
    }

    /// Opens the request in its slot, and returns what the caller sends.
    pub(super) fn open_request(
        &mut self,
        slot: Slot,
        open: Open,
        reference: &Reference,
        target: Target,
    ) -> PlayerRequest {
        let id = self.open.open(slot, open);
        let t = usize::from(open.track);
        PlayerRequest {
            id,
            kind: open.kind,
            range: reference.range.clone(),
            pathway: usize::from(open.pathway),
            track: self.tracks.get(t).map_or(0, |track| track.index),
            rendition: usize::from(open.rendition),
            segment: None,
            expected_bytes: open.expected_bytes,
            cmcd: self.cmcd(&open),
            target,
        }
    }

    /// A request for a few bytes of another pathway, if a measurement is worth its cost now.
    pub(super) fn request_probe(&mut self, now: Time) -> Option<PlayerRequest> {
        if !self.has_pathways() || !self.playback.is_playing() || !self.open.is_free(Slot::PROBE) {
            return None;
        }
        if self.wants_list(now) {
            return self.request_list(0, now);
        }
        let mut pathways = self.pathways.take()?;
        let probe = pathways.probe(now, |pathway| self.listed(pathway, now).is_some());
        self.pathways = Some(pathways);
        let probe = probe?;
        let place = self.listed(probe.pathway, now)?;
        let track = &self.tracks[0];
        let segments = track.lists.get(place)?.segments.clone();
        let last = segments.list.len().checked_sub(1)?;
        let index = if segments.reload_after.is_some() { last } else { track.hint.min(last) };
        let whole = &segments.list[index].reference;
        let first = whole.range.as_ref().map_or(0, |range| range.start);
        let end = first.saturating_add(probe.bytes);
        let end = whole.range.as_ref().map_or(end, |range| end.min(range.end));
        let part = Reference { url: whole.url.clone(), range: Some(first..end) };
        let open = self.opening(RequestKind::Probe, 0, place, &part, now);
        let target = Target::Segment(segments.clone(), index);
        let mut request = self.open_request(Slot::PROBE, open, &part, target);
        request.segment = Some(index);
        Some(request)
    }

    /// A picture list on the pathway: of the current rendition, or else of any.
    fn listed(&self, pathway: usize, now: Time) -> Option<Place> {
        let track = &self.tracks[0];
        let current = track.place?.rendition;
        let all = std::iter::once(current).chain(0..track.rungs.len());
        let mut places = all.map(|rendition| Place { rendition, pathway });
        let has = |list: &Loaded| list.is_fresh(now) && !list.segments.list.is_empty();
        places.find(|place| track.lists.get(*place).is_some_and(has))
    }

    /// Ensures that each pathway has a list, for probes and for an immediate move if the current pathway fails. Returns whether one is on
    /// its way.
    fn wants_list(&mut self, now: Time) -> bool {
        if self.tracks[0].wanted.is_some() || now < self.tracks[0].wanted_at {
            return true;
        }
        let Some(current) = self.tracks[0].place else { return true };
        let (Some(presentation), Some(pathways)) = (&self.presentation, &self.pathways) else {
            return true;
        };
        let renditions = &presentation.tracks[self.tracks[0].index].renditions;
        let all = std::iter::once(current.rendition).chain(0..renditions.len());
        let fetchable = |pathway: usize| {
            let place = |rendition| Place { rendition, pathway };
            let has =
                |place: &Place| renditions[place.rendition].sources[pathway].document().is_some();
            all.clone().map(place).find(has)
        };
        let lacks = |pathway: &usize| {
            pathways.is_named(*pathway)
                && !pathways.is_penalised(now, *pathway)
                && self.listed(*pathway, now).is_none()
        };
        let wanted = (0..presentation.pathways.len()).filter(lacks).find_map(fetchable);
        self.tracks[0].wanted = wanted;
        wanted.is_some()
    }
}

/// Bits of media of this length at this rate.
pub(super) fn bits(bits_per_second: u64, duration: Duration) -> u64 {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    bits_per_second.saturating_mul(ms) / 1000
}

/// Bytes of a reference to a part of a file.
pub(super) fn length(reference: &Reference) -> Option<u64> {
    reference.range.as_ref().map(|range| range.end.saturating_sub(range.start))
}

/// The target for a document that is not shared.
pub(super) fn address(url: crate::url::Url) -> Target {
    Target::Address(Arc::new(url))
}

/// While little is buffered, at the start and after a dip: a rung whose segment takes at most half of the buffered time, because a path may
/// lose half of its rate meanwhile. The rules consider only rates.
fn within_the_buffer(situation: &Situation, wanted: usize) -> usize {
    let Some(rate) = situation.bits_per_second.filter(|_| situation.playing) else { return wanted };
    if situation.buffered >= PLENTY_BUFFERED {
        return wanted;
    }
    let bits_max = rate * situation.buffered.as_secs_f64() * BUFFER_SHARE_MAX;
    let fits = |rung: &usize| bits(situation.rungs[*rung], situation.segment) as f64 <= bits_max;
    (0..=wanted).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_does_not_take_what_is_buffered() {
        let segment = Duration::from_secs(6);
        let rung = |buffered_s: u64, playing: bool| {
            let situation = Situation {
                now: Time::ZERO,
                rungs: &[400_000, 2_000_000, 8_000_000],
                current: None,
                buffered: Duration::from_secs(buffered_s),
                buffer_max: Duration::from_secs(120),
                segment,
                bits_per_second: Some(14e6),
                playing,
            };
            within_the_buffer(&situation, 2)
        };
        // At 14 Mb/s, the 48 Mb of the highest rung take 3.4 s.
        assert_eq!(rung(7, true), 2);
        assert_eq!(rung(6, true), 1);
        assert_eq!(rung(0, true), 0);
        assert_eq!(rung(6, false), 2, "no viewer waits for the picture to go on");
    }
}
