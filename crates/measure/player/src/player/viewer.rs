//! The viewer's actions: waits, gives up, jumps, stops and leaves. Also handles the turns that the playhead takes by itself.

use super::Player;
use super::open::Slot;
use crate::Time;
use crate::event::{Ending, GiveUp, PlayerEvent, StallReason};
use crate::failure::Failure;
use crate::options::Deed;
use crate::playback::{State, Turn, WaitKind};
use crate::request::RequestKind;
use std::time::Duration;

/// A request that has been without a byte for this long is silent: more than any round trip.
const SILENT_AFTER: Duration = Duration::from_secs(1);

impl Player {
    /// When the viewer's next action is due.
    pub(super) fn viewer_due(&self) -> Time {
        let at = match self.playback.state() {
            State::Waiting(wait) => {
                let after = self.options.give_up_after;
                after.map_or(Time::MAX, |after| wait.since.saturating_add(after))
            }
            State::Playing => self.act_at,
            State::Paused { .. } | State::Over => Time::MAX,
        };
        at.min(self.leave_at)
    }

    /// Performs the actions that are due.
    pub(super) fn act(&mut self, now: Time) {
        if self.leave_at <= now {
            return self.end(Ending::Left, now);
        }
        while !self.is_over() && self.viewer_due() <= now {
            match self.playback.wait() {
                Some(wait) => self.give_up(
                    match wait.kind {
                        WaitKind::Start => GiveUp::Start,
                        WaitKind::Stall => GiveUp::Stall,
                        WaitKind::Seek => GiveUp::Seek,
                    },
                    now,
                ),
                None => self.act_as_planned(now),
            }
        }
    }

    fn act_as_planned(&mut self, now: Time) {
        let act = self.options.plan.get(self.next_act).copied();
        self.next_act += 1;
        self.plan_act();
        let position = self.playback.position(now);
        match act.map(|act| act.deed) {
            Some(Deed::SeekTo(to)) => self.seek(to, now),
            Some(Deed::SeekForward(by)) => self.seek(position.saturating_add(by), now),
            Some(Deed::SeekBack(by)) => self.seek(position.saturating_sub(by), now),
            Some(Deed::Pause(length)) => self.playback.pause(now.saturating_add(length), now),
            None => {}
        }
    }

    fn plan_act(&mut self) {
        let act = self.options.plan.get(self.next_act);
        self.act_at = match (act, self.playback.started_at()) {
            (Some(act), Some(started_at)) => started_at.saturating_add(act.at),
            _ => Time::MAX,
        };
    }

    fn seek(&mut self, to: Duration, now: Time) {
        let (first, last) = self.range();
        let to = to.clamp(first, last.max(first));
        let is_buffered = self.playback.seek(to, now);
        self.tally.sought(is_buffered, now);
        self.events.push_back(PlayerEvent::Sought { to, is_buffered });
        if is_buffered {
            return self.wake_all();
        }
        for t in 0..self.tracks.len() {
            self.drop_media(t);
            self.tracks[t].handle_seek();
        }
    }

    /// The available part of the film: its begin and end on the player's timeline.
    fn range(&self) -> (Duration, Duration) {
        let track = &self.tracks[0];
        let loaded = track.place.and_then(|place| track.lists.get(place));
        match loaded.filter(|loaded| !loaded.segments.list.is_empty()) {
            Some(loaded) if loaded.segments.reload_after.is_some() => {
                (loaded.begin(0), loaded.entry())
            }
            Some(loaded) => (loaded.begin(0), loaded.end()),
            None => (Duration::ZERO, Duration::MAX),
        }
    }

    /// Handles a turn of the playhead.
    pub(super) fn handle_turn(&mut self, turn: Turn, now: Time) {
        self.has_changed = true;
        match turn {
            Turn::Resumed(wait) => self.handle_resumed(wait.kind, wait.since, now),
            Turn::Stalled { at } => self.handle_stalled(at, now),
            Turn::Skipped { position, length } => {
                self.tally.skipped(length);
                self.events.push_back(PlayerEvent::Skipped { position, length });
            }
            Turn::Unpaused => {}
            Turn::Ended => return self.end(Ending::Finished, now),
        }
        self.wake_all();
    }

    fn handle_resumed(&mut self, kind: WaitKind, since: Time, now: Time) {
        let after = now.saturating_sub(since);
        match kind {
            WaitKind::Start => {
                let after = self.tally.started(now);
                self.untold.start_delay = Some(after);
                self.plan_act();
                self.events.push_back(PlayerEvent::Started { after });
                return;
            }
            WaitKind::Stall => {
                self.tally.stall_ended(now);
                let before = self.untold.starved_for.unwrap_or_default();
                self.untold.starved_for = Some(before + after);
            }
            WaitKind::Seek => self.tally.seek_wait_ended(now),
        }
        self.events.push_back(PlayerEvent::Resumed { at: now, after });
    }

    fn handle_stalled(&mut self, at: Time, now: Time) {
        let t = self.playback.shortest(at);
        let reason = self.stall_reason(t, at);
        let open = self.open.get(Slot::media(t)).map(|open| usize::from(open.pathway));
        let pathway = open.or(self.tracks[t].place.map(|place| place.pathway)).unwrap_or(0);
        self.tally.stall_began(at, reason, pathway);
        self.untold.is_starved = true;
        self.events.push_back(PlayerEvent::Stalled { at, reason });
        if self.tracks.iter().any(|track| track.is_dead) {
            self.give_up(GiveUp::Segments, now);
        }
    }

    /// Why there is nothing to play.
    fn stall_reason(&self, t: usize, at: Time) -> StallReason {
        let track = &self.tracks[t];
        match track.retry.last() {
            Some(Failure::Silence) => return StallReason::Silence,
            Some(_) => return StallReason::Failures,
            None => {}
        }
        match self.open.get(Slot::media(t)) {
            Some(open) if at.saturating_sub(open.heard_at) >= SILENT_AFTER => StallReason::Silence,
            Some(_) => StallReason::SlowNetwork,
            // Nothing was requested, because it is not known what exists.
            None => StallReason::Manifest,
        }
    }

    fn wake_all(&mut self) {
        for track in &mut self.tracks {
            track.wake();
        }
    }

    pub(super) fn give_up(&mut self, reason: GiveUp, now: Time) {
        if !self.is_over() {
            self.events.push_back(PlayerEvent::GaveUp { reason });
            self.end(Ending::GaveUp(reason), now);
        }
    }

    /// Ends the session and closes all open requests.
    pub(super) fn end(&mut self, ending: Ending, now: Time) {
        if self.is_over() {
            return;
        }
        match ending {
            Ending::Finished => self.events.push_back(PlayerEvent::Ended),
            Ending::Left => self.events.push_back(PlayerEvent::Left),
            Ending::GaveUp(_) | Ending::Watching => {}
        }
        for slot in self.open.used() {
            self.cancel(slot);
            let Some(open) = self.open.close(slot) else { continue };
            let is_probe = open.kind == RequestKind::Probe;
            self.tally.bytes(usize::from(open.pathway), open.bytes, is_probe);
            if open.kind == RequestKind::Media {
                self.tally.wasted(open.bytes);
            }
        }
        self.playback.stop(now);
        self.tally.ended(ending, now);
        self.ending = ending;
    }
}
