//! The manifest and the lists of segments: when to fetch them, and what changes when they arrive.

use super::Player;
use super::fetching::length;
use super::lists::{Loaded, Place, Reload};
use super::open::{Open, Slot};
use super::steer::Steering;
use super::track::{Track, played};
use crate::Time;
use crate::failure::Failure;
use crate::pathways::Pathways;
use crate::presentation::{Presentation, Segments, Source};
use crate::request::{PlayerRequest, RequestKind, Target};
use std::sync::Arc;
use std::time::Duration;

impl Player {
    /// When to request the manifest.
    pub(super) fn manifest_due(&self) -> Time {
        if self.open.is_free(Slot::MANIFEST) { self.manifest_at } else { Time::MAX }
    }

    pub(super) fn request_manifest(&mut self, now: Time) -> Option<PlayerRequest> {
        if self.manifest_due() > now {
            return None;
        }
        let judge_at = now.saturating_add(self.options.patience);
        let open = Open { judge_at, ..Open::new(RequestKind::Manifest, now) };
        let target = Target::Address(self.manifest.clone());
        Some(self.open_document(Slot::MANIFEST, open, target))
    }

    /// Opens a request without a range.
    pub(super) fn open_document(
        &mut self,
        slot: Slot,
        open: Open,
        target: Target,
    ) -> PlayerRequest {
        let id = self.open.open(slot, open);
        PlayerRequest {
            id,
            kind: open.kind,
            range: None,
            pathway: 0,
            track: 0,
            rendition: 0,
            segment: None,
            expected_bytes: None,
            cmcd: self.cmcd(&open),
            target,
        }
    }

    /// Handles a manifest, the first one or a reloaded one.
    pub(super) fn handle_presentation(
        &mut self,
        slot: Slot,
        presentation: Arc<Presentation>,
        now: Time,
    ) {
        let indices = played(&presentation);
        let followed = self.followed().cloned();
        if indices.is_empty() || presentation.pathways.is_empty() {
            return self.fail(slot, Failure::Unreadable, None, now);
        }
        let presentation = self.with_clones(presentation);
        self.open.close(slot);
        self.manifest_failures = 0;
        self.manifest_at =
            presentation.reload_after.map_or(Time::MAX, |after| now.saturating_add(after));
        self.adopt_pathways(&presentation, now);
        self.adopt_tracks(&presentation, &indices, now);
        let rungs = &self.tracks[0].rungs;
        self.tally.prepare(rungs, presentation.pathways.len());
        self.presentation = Some(presentation);
        self.handle_reloaded_manifest(followed.as_ref(), now);
        self.place_if_listed(now);
    }

    fn adopt_pathways(&mut self, presentation: &Presentation, now: Time) {
        let ids = || presentation.pathways.iter().map(|pathway| &pathway.id);
        let is_known = self
            .presentation
            .as_ref()
            .is_some_and(|known| known.pathways.iter().map(|pathway| &pathway.id).eq(ids()));
        if is_known {
            return;
        }
        let current = self.presentation.as_ref().zip(self.pathways.as_ref());
        let current =
            current.map(|(known, pathways)| known.pathways[pathways.current()].id.as_str());
        let steering = presentation.steering.as_ref();
        let first = current.or(steering.and_then(|steering| steering.first.as_deref()));
        let policy = self.options.policy.clone();
        self.pathways = Some(Pathways::new(policy, ids().cloned().collect(), first));
        if self.steering.is_none() {
            self.steering = steering.map(|server| Steering::new(server, now));
        }
    }

    fn adopt_tracks(&mut self, presentation: &Presentation, indices: &[usize], now: Time) {
        let kinds = |index: &usize| presentation.tracks[*index].kind;
        let is_same = self.tracks.iter().map(|track| track.kind).eq(indices.iter().map(kinds));
        if is_same {
            let known = self.presentation.clone();
            for (track, index) in self.tracks.iter_mut().zip(indices) {
                let before = known.as_ref().and_then(|known| known.tracks.get(track.index));
                let same = before.is_some_and(|before| {
                    let ids = |of: &crate::presentation::Track| {
                        of.renditions
                            .iter()
                            .map(|rendition| rendition.id.clone())
                            .collect::<Vec<_>>()
                    };
                    ids(before) == ids(&presentation.tracks[*index])
                        && known
                            .as_ref()
                            .is_some_and(|known| known.pathways == presentation.pathways)
                });
                track.index = *index;
                track.renew(presentation, same);
            }
            return;
        }
        for t in 0..self.tracks.len() {
            self.drop_media(t);
            self.drop_slot(Slot::document(t));
        }
        let rule = self.options.rule;
        let track = |index: &usize| Track::new(presentation, *index, rule);
        self.tracks = indices.iter().map(track).collect();
        let position = self.playback.position(now);
        self.playback.prepare(indices.len(), position, now);
    }

    /// Places the viewer at the entry of the first known list, if the manifest has one.
    fn place_if_listed(&mut self, now: Time) {
        let lists = &self.tracks[0].lists;
        let Some(presentation) = &self.presentation else { return };
        let renditions = presentation.tracks[self.tracks[0].index].renditions.len();
        let all = (0..renditions).flat_map(|rendition| {
            (0..presentation.pathways.len()).map(move |pathway| Place { rendition, pathway })
        });
        if let Some(loaded) = all.into_iter().find_map(|place| lists.get(place)) {
            let entry = loaded.entry();
            self.place(entry, now);
        }
    }

    fn place(&mut self, entry: Duration, now: Time) {
        if !self.is_placed {
            self.is_placed = true;
            self.playback.prepare(self.tracks.len(), entry, now);
        }
    }

    /// The list that a track needs, and when.
    fn needed_list(&self, t: usize) -> Option<(Place, Time)> {
        let track = &self.tracks[t];
        if track.is_dead {
            return None;
        }
        if let Some(place) = track.choice.filter(|place| track.lists.get(*place).is_none()) {
            return Some((place, track.retry.at));
        }
        let live = track.choice.or(track.place);
        if let Some((place, list)) = live.and_then(|place| Some((place, track.lists.get(place)?))) {
            if list.reload_at < Time::MAX {
                return Some((place, list.reload_at.max(track.retry.at)));
            }
        }
        track.wanted.map(|place| (place, Time::ZERO))
    }

    /// When a track needs a list that it does not have.
    pub(super) fn list_due(&self, t: usize) -> Time {
        if !self.open.is_free(Slot::document(t)) {
            return Time::MAX;
        }
        self.needed_list(t).map_or(Time::MAX, |(_, at)| at)
    }

    pub(super) fn request_list(&mut self, t: usize, now: Time) -> Option<PlayerRequest> {
        if self.list_due(t) > now {
            return None;
        }
        let (wanted, _) = self.needed_list(t)?;
        // Request a live list from another pathway if the last one has just failed.
        let place = self.available(t, wanted).unwrap_or(wanted);
        let presentation = self.presentation.clone()?;
        let rendition = presentation.tracks[self.tracks[t].index].renditions.get(place.rendition);
        let source = rendition.and_then(|rendition| rendition.sources.get(place.pathway));
        let kind = match source {
            Some(Source::Index(_)) => RequestKind::Index,
            _ => RequestKind::Playlist,
        };
        let Some(reference) = source.and_then(Source::document) else {
            // A live DASH manifest lists the segments itself, and is reloaded as a whole.
            let track = &mut self.tracks[t];
            (track.wanted, track.choice) = (None, None);
            if let Some(list) = track.lists.get_mut(wanted) {
                list.reload_at = Time::MAX;
            }
            return None;
        };
        if self.tracks[t].choice == Some(wanted) {
            self.tracks[t].choice = Some(place);
        }
        let open = Open {
            expected_bytes: length(reference),
            ..self.opening(kind, t, place, reference, now)
        };
        let target = Target::Document(presentation.clone());
        Some(self.open_request(Slot::document(t), open, reference, target))
    }

    /// Handles a list.
    pub(super) fn handle_list(&mut self, slot: Slot, segments: &Arc<Segments>, now: Time) {
        let Some(open) = self.open.close(slot) else { return };
        let (pathway, rendition) = (usize::from(open.pathway), usize::from(open.rendition));
        let place = Place { rendition, pathway };
        self.tally.bytes(pathway, open.bytes, false);
        let Some(format) = self.presentation.as_ref().map(|presentation| presentation.format)
        else {
            return;
        };
        let Some(track) = self.tracks.get_mut(usize::from(open.track)) else { return };
        if track.wanted == Some(place) {
            track.wanted = None;
        } else if track.place.is_some_and(|at| at.rendition == rendition) {
            // A pathway that was asked because another one failed: follow its list from now on.
            track.place = Some(place);
        }
        let known = track.lists.get(place).cloned();
        // A list that was loaded to measure another pathway says nothing about what is played.
        let is_followed = open.track == 0 && track.place.is_none_or(|at| at == place);
        let reload = self.note_reload(is_followed, known.as_ref(), segments, now);
        let mut list = match known {
            // The known list is newer.
            Some(known) if reload == Reload::WentBack => known,
            known => self.timeline.load(format, segments, known.as_ref(), reload),
        };
        list.reload_at = reload_at(&list, reload, open.sent_at);
        let entry = (!self.is_placed).then(|| list.entry());
        let track = &mut self.tracks[usize::from(open.track)];
        track.lists.put(place, list);
        track.wake();
        self.note_latency(now);
        if let Some(entry) = entry {
            self.place(entry, now);
        }
    }

    /// Cancels the slot's request, if any.
    pub(super) fn drop_slot(&mut self, slot: Slot) {
        self.cancel(slot);
        self.open.close(slot);
    }
}

/// When to load a list again: after a target duration from the last request, or after half of that if it has nothing new (RFC 8216 section
/// 6.3.4).
fn reload_at(list: &Loaded, reload: Reload, sent_at: Time) -> Time {
    let Some(after) = list.segments.reload_after else { return Time::MAX };
    let is_new = !matches!(reload, Reload::Unchanged | Reload::WentBack);
    sent_at.saturating_add(if is_new { after } else { after / 2 })
}
