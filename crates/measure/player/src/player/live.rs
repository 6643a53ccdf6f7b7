//! Live streams: what each reload of the list shows, and how far behind the stream the viewer is.
//!
//! Only the list of the first track counts, which is the one with pictures: a session has one figure for each of these.

use super::Player;
use super::lists::{Loaded, Reload};
use crate::Time;
use crate::presentation::{Format, Segments};
use std::time::Duration;

/// A list without anything new for this many target durations stands still. A server has to have news after 1.5 of them (RFC 8216 section
/// 6.2.2), and players look every half of one. DASH has no target duration: its longest segment counts, because manifests are often loaded
/// several times for each segment.
const STANDS_STILL_AFTER: u32 = 2;

/// The state of the list that the player follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    /// When the player last saw something new in it.
    changed_at: Time,
    stands_still: bool,
}

impl Player {
    /// The list of the first track.
    pub(super) fn followed(&self) -> Option<&Loaded> {
        let track = self.tracks.first()?;
        track.place.and_then(|place| track.lists.get(place))
    }

    /// Compares a list with the last one from its place. If it is the one that the player follows, this counts what it shows of a live stream.
    pub(super) fn note_reload(
        &mut self,
        is_followed: bool,
        known: Option<&Loaded>,
        segments: &Segments,
        now: Time,
    ) -> Reload {
        let format = self.presentation.as_ref().map_or(Format::Hls, |title| title.format);
        // Once one track begins again from an earlier list, the others do so as well, or they would have nothing to play next to it.
        let begins = known.is_some_and(|known| self.timeline.has_begun_again_since(known));
        let stood_still = begins || (is_followed && self.followed.stands_still);
        let reload = Reload::of(format, known, segments, self.timeline.end_number(), stood_still);
        let known_after = known.and_then(|known| known.segments.reload_after);
        let Some(after) = segments.reload_after.or(known_after).filter(|_| is_followed) else {
            return reload;
        };
        let longest = segments.list.iter().map(|segment| segment.duration).max();
        let after = after.max(longest.filter(|_| format == Format::Dash).unwrap_or_default());
        self.tally.live.reloaded(reload);
        let followed = &mut self.followed;
        match reload {
            Reload::Unchanged | Reload::WentBack => {
                let still_for = now.saturating_sub(followed.changed_at);
                if !followed.stands_still && still_for > after.saturating_mul(STANDS_STILL_AFTER) {
                    followed.stands_still = true;
                    self.tally.live.stood_still();
                }
            }
            _ => *followed = Followed { changed_at: now, stands_still: false },
        }
        reload
    }

    /// As above, for a DASH manifest, which lists the segments itself. `known` is what the first track followed before.
    pub(super) fn handle_reloaded_manifest(&mut self, known: Option<&Loaded>, now: Time) {
        let of_dash =
            |presentation: &crate::presentation::Presentation| presentation.format == Format::Dash;
        if !self.presentation.as_deref().is_some_and(of_dash) {
            return;
        }
        let Some(segments) = self.followed().map(|list| list.segments.clone()) else {
            self.followed = Followed { changed_at: now, stands_still: false };
            return;
        };
        self.note_reload(true, known, &segments, now);
        self.note_latency(now);
    }

    /// Measures how far behind the stream the viewer is: by the wall clock if the stream and the caller have one, or else by the end of the
    /// list.
    pub(super) fn note_latency(&mut self, now: Time) {
        let Some(list) = self.followed().filter(|_| self.playback.is_playing()) else { return };
        if list.segments.reload_after.is_none() {
            return;
        }
        let position = self.playback.position(now);
        let since_made = self.options.clock.zip(list.segments.clock).map(|(zero, made)| {
            // The list's time of the playhead is its position less the shift. Both sides are without subtractions until the last.
            let sums = [zero, now, made.at, list.shift];
            let wall = sums.into_iter().fold(Duration::ZERO, Duration::saturating_add);
            wall.saturating_sub(made.since_1970.saturating_add(position))
        });
        let behind_end = list.end().saturating_sub(position);
        self.tally.live.behind(since_made.unwrap_or(behind_end), since_made.is_some());
    }

    /// The most that the buffer may hold: what the list has, if it is live.
    pub(super) fn buffer_max(&self, t: usize) -> Duration {
        let track = &self.tracks[t];
        let list = track.choice.or(track.place).and_then(|place| track.lists.get(place));
        let window = list.filter(|list| list.segments.reload_after.is_some());
        let buffer_max = self.options.buffer_max;
        window.map_or(buffer_max, |list| buffer_max.min(list.segments.duration()))
    }
}
