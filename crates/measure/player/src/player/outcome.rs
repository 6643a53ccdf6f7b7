//! How requests end, and what follows: data, failures, retries.

use super::Player;
use super::lists::Place;
use super::open::{Open, Slot};
use super::retry::Remedy;
use super::track::SKIPS_IN_ROW_MAX;
use crate::Time;
use crate::event::{GiveUp, PlayerEvent};
use crate::failure::Failure;
use crate::pathways::Outage;
use crate::presentation::Source;
use crate::report::Fetched;
use crate::request::RequestKind;
use std::time::Duration;

/// A server may ask the player to wait; anything longer than this is as good as never.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The pause before fetching another list that nothing is waiting for, after one failed.
const WANTED_PAUSE: Duration = Duration::from_secs(8);

/// Attempts to fetch the manifest before the player gives up, since it then has nothing to play.
const MANIFEST_ATTEMPTS_MAX: u32 = 6;

impl Player {
    /// Refuses a response on the player's own account: the caller closes it.
    pub(super) fn refuse(&mut self, slot: Slot, failure: Failure, now: Time) {
        self.cancel(slot);
        self.fail(slot, failure, None, now);
    }

    /// Handles the failure of a request.
    pub(super) fn fail(
        &mut self,
        slot: Slot,
        failure: Failure,
        retry_after: Option<Duration>,
        now: Time,
    ) {
        let Some(open) = self.open.close(slot) else { return };
        let (kind, pathway) = (open.kind, usize::from(open.pathway));
        let retry_after = retry_after.map(|after| after.min(RETRY_AFTER_MAX));
        self.tally.failed(failure);
        self.events.push_back(PlayerEvent::Failed { kind, pathway, failure });
        match kind {
            RequestKind::Manifest => self.handle_manifest_failure(failure, retry_after, now),
            RequestKind::Steering => self.handle_steering_failure(failure, retry_after, now),
            _ => {
                let is_probe = kind == RequestKind::Probe;
                self.tally.bytes(pathway, open.bytes, is_probe);
                if !is_probe {
                    self.tally.wasted(open.bytes);
                }
                // A probe's segment may have expired from a live list, which is not the server's fault.
                if !(is_probe && failure.is_of_object()) {
                    self.blame(pathway, failure, retry_after, now);
                }
                if !is_probe {
                    self.tally.stall_explained(failure);
                    self.retry(&open, failure, retry_after, now);
                }
            }
        }
    }

    /// Reports the failure to the choice of pathways, unless this machine itself is at fault.
    fn blame(
        &mut self,
        pathway: usize,
        failure: Failure,
        retry_after: Option<Duration>,
        now: Time,
    ) {
        if !self.has_pathways() || failure == Failure::OwnLimit {
            return;
        }
        let outage = match failure {
            Failure::Silence => Outage::Silence,
            _ => Outage::Failure { retry_after },
        };
        if let Some(pathways) = &mut self.pathways {
            pathways.handle_failure(now, pathway, outage);
        }
        self.tell_moves();
    }

    /// Decides what a track does after a failure.
    fn retry(&mut self, open: &Open, failure: Failure, retry_after: Option<Duration>, now: Time) {
        let (t, pathway, rendition) =
            (usize::from(open.track), usize::from(open.pathway), usize::from(open.rendition));
        let Some(presentation) = &self.presentation else { return };
        let Some(track) = self.tracks.get_mut(t) else { return };
        let place = Place { rendition, pathway };
        if track.wanted == Some(place) && track.choice != Some(place) && is_list(open.kind) {
            // Nothing is waiting for this list.
            track.wanted = None;
            track.wanted_at = now.saturating_add(WANTED_PAUSE);
            return;
        }
        let renditions = &presentation.tracks[track.index].renditions;
        let sources = renditions.get(rendition).map_or(&[][..], |rendition| &rendition.sources);
        let pathways = self.pathways.as_ref();
        let has = |other: usize| {
            sources.get(other).is_some_and(|of| *of != Source::Absent)
                && pathways.is_some_and(|pathways| pathways.is_named(other))
        };
        let count = presentation.pathways.len();
        let remedy = track.retry.handle_failure(pathway, failure, count, has, now);
        if let Some(after) = retry_after.filter(|_| track.retry.at > now || count == 1) {
            track.retry.at = track.retry.at.max(now.saturating_add(after));
        }
        track.choice = None;
        track.wake();
        let is_media = open.kind == RequestKind::Media;
        match remedy {
            Remedy::Again => {}
            Remedy::OtherRung => track.retry.rung = track.other_rung(rendition),
            Remedy::LeaveOut if is_media => {
                self.leave_out(t, open.begin.saturating_add(open.duration), now);
            }
            // A live list may return.
            Remedy::LeaveOut if track.is_live() => {}
            Remedy::LeaveOut => self.give_up_track(t, now),
        }
    }

    /// The segment is missing: playback will jump over it.
    fn leave_out(&mut self, t: usize, until: Duration, now: Time) {
        let track = &mut self.tracks[t];
        track.retry.clear();
        track.skips_in_row += 1;
        if track.skips_in_row >= SKIPS_IN_ROW_MAX {
            return self.give_up_track(t, now);
        }
        if let Some(turn) = self.playback.skip(t, until, now) {
            self.handle_turn(turn, now);
        }
        self.wake_those_ahead();
    }

    /// The track is unavailable. The viewer sees the media that is already buffered.
    pub(super) fn give_up_track(&mut self, t: usize, now: Time) {
        self.tracks[t].is_dead = true;
        if self.playback.wait().is_some() {
            self.give_up(GiveUp::Segments, now);
        }
    }

    fn handle_manifest_failure(
        &mut self,
        failure: Failure,
        retry_after: Option<Duration>,
        now: Time,
    ) {
        self.manifest_failures = self.manifest_failures.saturating_add(1);
        let first = self.presentation.is_none();
        // A manifest that is missing or damaged will still be so a second later.
        let attempts = if failure.is_of_object() { 2 } else { MANIFEST_ATTEMPTS_MAX };
        if first && self.manifest_failures >= attempts {
            return self.give_up(GiveUp::Manifest, now);
        }
        let pause = Duration::from_secs(1 << self.manifest_failures.min(4)) / 2;
        let pause = pause.max(retry_after.unwrap_or_default());
        self.manifest_at = now.saturating_add(pause);
    }

    /// Handles an initialisation section.
    pub(super) fn handle_start(&mut self, slot: Slot) {
        let Some(open) = self.open.close(slot) else { return };
        self.tally.bytes(usize::from(open.pathway), open.bytes, false);
        let Some(track) = self.tracks.get_mut(usize::from(open.track)) else { return };
        let number = u64::from(open.segment).checked_sub(1);
        let number = number.map(|index| index.saturating_add(open.first_number));
        track.handle_start(usize::from(open.rendition), number);
        track.wake();
    }

    /// Handles a complete segment.
    pub(super) fn handle_segment(&mut self, slot: Slot, now: Time) {
        let Some(open) = self.open.close(slot) else { return };
        let (t, pathway, rendition) =
            (usize::from(open.track), usize::from(open.pathway), usize::from(open.rendition));
        self.tally.bytes(pathway, open.bytes, false);
        self.measure(&open, now);
        let Some(track) = self.tracks.get_mut(t) else { return };
        track.retry.clear();
        track.skips_in_row = 0;
        track.choice = None;
        track.current = Some(rendition);
        track.hint = open.segment as usize + 1;
        track.wake();
        if t == 0 {
            self.tally.fetched(&Fetched {
                pathway,
                rendition,
                bits_per_second: track.rate(rendition),
                top_bits_per_second: track.top_rate(),
                duration: open.duration,
                requested_at: open.sent_at,
            });
        }
        let end = open.begin.saturating_add(open.duration);
        if let Some(turn) = self.playback.append(t, open.begin, end, now) {
            self.handle_turn(turn, now);
        }
        self.wake_those_ahead();
    }

    /// Measures the network with a response that was complete or broken off.
    pub(super) fn measure(&mut self, open: &Open, now: Time) {
        let took = open.took(now);
        self.estimate.handle_sample(open.bytes, took);
        if !self.has_pathways() {
            return;
        }
        let pathway = usize::from(open.pathway);
        if let Some(pathways) = &mut self.pathways {
            let first = open.first_byte_after(now);
            pathways.handle_sample(now, pathway, open.bytes, first, took, false);
        }
    }

    /// Handles the end of a probe, complete or not.
    pub(super) fn finish_probe(&mut self, slot: Slot, now: Time) {
        let Some(open) = self.open.close(slot) else { return };
        let (pathway, bytes, took) = (usize::from(open.pathway), open.bytes, open.took(now));
        self.tally.bytes(pathway, bytes, true);
        if let Some(pathways) = &mut self.pathways {
            pathways.handle_sample(now, pathway, bytes, open.first_byte_after(now), took, true);
        }
        self.events.push_back(PlayerEvent::Probed { pathway, bytes, took });
        self.tell_moves();
    }

    /// Wakes tracks that waited for another one.
    fn wake_those_ahead(&mut self) {
        for track in self.tracks.iter_mut().filter(|track| track.is_ahead) {
            track.wake();
        }
    }

    /// Reports the moves of the choice of pathways.
    pub(super) fn tell_moves(&mut self) {
        let Some(pathways) = &mut self.pathways else { return };
        while let Some(moved) = pathways.poll_event() {
            self.tally.moved(&moved);
            self.events.push_back(PlayerEvent::Moved(moved));
        }
    }
}

fn is_list(kind: RequestKind) -> bool {
    matches!(kind, RequestKind::Playlist | RequestKind::Index)
}
