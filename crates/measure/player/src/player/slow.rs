//! When to give up a request that is under way: it is silent, or it is so slow that the viewer would have to wait although another pathway
//! or a lower bit rate would be in time.

use super::Player;
use super::fetching::bits;
use super::lists::Place;
use super::open::{Open, Slot};
use crate::Time;
use crate::abr::Rule;
use crate::event::PlayerEvent;
use crate::failure::Failure;
use crate::pathways::Progress;
use crate::playback::State;
use crate::request::RequestKind;
use std::time::Duration;

/// How often to check a request: the less is buffered, the more often.
const INTERVALS: [(Duration, Duration); 2] = [
    (Duration::from_secs(8), Duration::from_millis(500)),
    (Duration::from_secs(20), Duration::from_secs(1)),
];
const INTERVAL_MAX: Duration = Duration::from_secs(2);

/// How many requests for the same segment may be given up. Each costs the bytes already received.
const ABANDONED_MAX: u32 = 3;

/// After that many, a request gets at least this long.
const LAST_RESORT_AFTER: Duration = Duration::from_secs(4);

/// A lower bit rate must deliver the segment within this share of the time that the rest of the current one takes: the switch costs a round
/// trip and picture quality.
const WORTH: f64 = 0.5;

impl Player {
    /// Time until the first check of a request that is sent now.
    pub(super) fn judge_interval(&self, t: usize, now: Time) -> Duration {
        if t >= self.tracks.len() {
            return INTERVAL_MAX;
        }
        let dry_in = self.playback.dry_in(t, now);
        let interval = INTERVALS.iter().find(|(below, _)| dry_in < *below);
        interval.map_or(INTERVAL_MAX, |(_, interval)| *interval)
    }

    /// Checks a request that is under way.
    pub(super) fn judge(&mut self, slot: Slot, now: Time) {
        let Some(open) = self.open.get_mut(slot) else { return };
        let bits_per_second = open.recent.handle_progress(open.took(now), open.bytes);
        let open = *open;
        let silent_at = open.heard_at.saturating_add(self.silence_max(&open, now));
        if silent_at <= now {
            return self.refuse(slot, Failure::Silence, now);
        }
        if open.kind == RequestKind::Media
            && self.abandon_if_slow(slot, &open, bits_per_second, now)
        {
            return;
        }
        let interval = match open.kind {
            RequestKind::Manifest | RequestKind::Steering => INTERVAL_MAX,
            _ => self.judge_interval(usize::from(open.track), now),
        };
        if let Some(open) = self.open.get_mut(slot) {
            open.judge_at = silent_at.min(now.saturating_add(interval));
        }
    }

    /// How long a request may be silent: not long if the bytes are available elsewhere.
    fn silence_max(&self, open: &Open, now: Time) -> Duration {
        let patience = self.options.patience.max(Duration::from_millis(1));
        if matches!(open.kind, RequestKind::Manifest | RequestKind::Steering) {
            return patience;
        }
        let (Some(presentation), Some(pathways)) = (&self.presentation, &self.pathways) else {
            return patience;
        };
        let mut others =
            (0..presentation.pathways.len()).filter(|other| *other != usize::from(open.pathway));
        if others.any(|other| !pathways.is_penalised(now, other)) {
            return self.options.policy.silence_max.clamp(Duration::from_millis(1), patience);
        }
        patience
    }

    /// Gives up a segment if the viewer would wait for it and something else would be faster.
    fn abandon_if_slow(
        &mut self,
        slot: Slot,
        open: &Open,
        bits_per_second: Option<f64>,
        now: Time,
    ) -> bool {
        let t = usize::from(open.track);
        let Some(track) = self.tracks.get(t) else { return false };
        // Beyond the limit, give up only requests that would be too late, and not at once.
        let is_last_resort = track.retry.abandoned >= ABANDONED_MAX;
        if is_last_resort && open.took(now) < LAST_RESORT_AFTER {
            return false;
        }
        let rendition = usize::from(open.rendition);
        let guess = bits(track.rate(rendition), open.duration) / 8;
        let expected_bytes =
            open.expected_bytes.unwrap_or_else(|| guess.max(open.bytes + open.bytes / 4));
        let expected_bytes = expected_bytes.max(open.bytes);
        let progress = Progress {
            received_bytes: open.bytes,
            expected_bytes,
            elapsed: open.took(now),
            bits_per_second,
            buffered: self.playback.dry_in(t, now),
            segment: open.duration,
        };
        // Pictures decide for both tracks, as in the choice of a pathway.
        if t == 0 && self.has_pathways() {
            let pathway = usize::from(open.pathway);
            let is_late = self
                .pathways
                .as_mut()
                .is_some_and(|pathways| pathways.handle_progress(now, pathway, &progress));
            if is_late {
                self.abandon(slot, open, None, bits_per_second, now);
                self.tell_moves();
                return true;
            }
        }
        match self.rung_in_time(t, rendition, &progress) {
            Some(rung) => {
                self.abandon(slot, open, Some(rung), bits_per_second, now);
                true
            }
            None => false,
        }
    }

    /// The bit rate at which the segment would arrive before the buffer is empty, if it would not at the current one.
    fn rung_in_time(&self, t: usize, rendition: usize, progress: &Progress) -> Option<usize> {
        if matches!(self.options.rule, Rule::Fixed(_)) || rendition == 0 {
            return None;
        }
        // A paused viewer is in no hurry.
        if matches!(self.playback.state(), State::Paused { .. }) {
            return None;
        }
        let bytes_per_second = progress.bits_per_second? / 8.0;
        let left = progress.expected_bytes - progress.received_bytes;
        let rest = left as f64 / bytes_per_second;
        let dry_in = progress.buffered.as_secs_f64();
        if rest <= dry_in {
            return None;
        }
        let track = &self.tracks[t];
        let takes =
            |rung: usize| bits(track.rate(rung), progress.segment) as f64 / 8.0 / bytes_per_second;
        let rung = (0..rendition).rev().find(|rung| takes(*rung) <= dry_in).unwrap_or(0);
        (takes(rung) < rest * WORTH).then_some(rung)
    }

    /// Gives up a request for a segment, in favour of another pathway or of this rung.
    fn abandon(
        &mut self,
        slot: Slot,
        open: &Open,
        rung: Option<usize>,
        bits_per_second: Option<f64>,
        now: Time,
    ) {
        let (t, pathway) = (usize::from(open.track), usize::from(open.pathway));
        self.drop_media(t);
        debug_assert!(self.open.is_free(slot));
        // The bytes received show how fast the network is now. The choice of pathways already knows if this was its decision.
        self.estimate.handle_sample(open.bytes, open.took(now));
        let track = &mut self.tracks[t];
        track.retry.abandoned += 1;
        track.retry.came_at = bits_per_second;
        track.choice = rung.map(|rendition| Place { rendition, pathway });
        track.wake();
        self.events.push_back(PlayerEvent::Abandoned {
            track: track.index,
            pathway,
            bytes: open.bytes,
        });
    }

    /// Closes a track's request for media whose bytes are of no use.
    pub(super) fn drop_media(&mut self, t: usize) {
        let slot = Slot::media(t);
        self.cancel(slot);
        if let Some(open) = self.open.close(slot) {
            self.tally.bytes(usize::from(open.pathway), open.bytes, false);
            self.tally.wasted(open.bytes);
        }
    }
}
