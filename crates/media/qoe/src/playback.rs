//! A session's playback as its player's events tell it.
//!
//! Events have the times of the player's clock, so the differences between them are exact, however late they arrive, and whatever that clock shows.
//! They are processed in the order of these times; one that is older than the last is left out, so an event that arrives twice counts once.
//!
//! * **Play delay**: from `s` (starting) to the first `p` (playing), from the last `s` after a pause. `msd` replaces it if it comes no later.
//! * **Stalls**: `r` (rebuffering) after `p` or a pause. Before the first `p` it belongs to the start, and after `k` to the seek, as in CTA-5004-B.
//! * **Played**: the time in `p`. A pause, a seek or a stall is not play.
//!
//! Stalls are counted between events only: the event that ends one may be lost, and a viewer who goes on watching must not seem to wait. Play is
//! assumed to go on for [`UNTOLD_MS`] after the last event.
//!
//! A player may claim any time, so no more counts than has passed here since the session's first request, and [`EARLIER_MS`].

use crate::event::{PlayerState, QoeEvent};

/// A player may have started this long before its first request that arrived here.
const EARLIER_MS: u64 = 60_000;

/// Play goes on this long after an event without another one: a little more than the 30 s after which players post that nothing has changed.
const UNTOLD_MS: u64 = 35_000;

/// The longest play delay that counts: a day.
const DELAY_MS_MAX: u64 = 86_400_000;

/// What the events of a session have said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Playback {
    /// The state since the last event. A viewer who has left keeps the state before.
    state: Option<PlayerState>,
    has_left: bool,
    /// The time of the last event, by the player's clock.
    timestamp_ms: u64,
    /// When it arrived. Events that are left out change neither.
    arrived_ms: u64,
    /// When the viewer wanted to watch, by the player's clock.
    starting_ms: Option<u64>,
    error_ms: Option<u64>,
    pub(crate) has_played: bool,
    pub(crate) has_finished: bool,
    pub(crate) stalls: u64,
    pub(crate) errors: u64,
    played_ms: u64,
    stalled_ms: u64,
}

impl Playback {
    /// Processes an event. Returns the play delay, if this event shows it. `passed_ms` is the time since the session's first request.
    pub(crate) fn take(&mut self, event: &QoeEvent, passed_ms: u64) -> Option<u64> {
        if event.is_error && self.error_ms.is_none_or(|error_ms| error_ms < event.timestamp_ms) {
            self.error_ms = Some(event.timestamp_ms);
            self.errors += 1;
        }
        if event.timestamp_ms < self.timestamp_ms {
            return None;
        }
        self.arrived_ms = self.arrived_ms.max(event.at_ms());
        self.advance(event.timestamp_ms, passed_ms);
        event.state.and_then(|state| self.enter(state))
    }

    /// Counts the time until `timestamp_ms` as that of the present state.
    fn advance(&mut self, timestamp_ms: u64, passed_ms: u64) {
        let most_ms = (passed_ms + EARLIER_MS).saturating_sub(self.played_ms + self.stalled_ms);
        let more_ms = (timestamp_ms - self.timestamp_ms).min(most_ms);
        self.timestamp_ms = timestamp_ms;
        match self.lasting() {
            Some(PlayerState::Playing) => self.played_ms += more_ms,
            Some(PlayerState::Rebuffering) => self.stalled_ms += more_ms,
            _ => {}
        }
    }

    /// The state in which time passes; none once the viewer has left.
    fn lasting(&self) -> Option<PlayerState> {
        self.state.filter(|_| !self.has_left)
    }

    /// Changes the state. Returns the play delay, if it is known now.
    fn enter(&mut self, state: PlayerState) -> Option<u64> {
        let mut delay_ms = None;
        let next = match state {
            PlayerState::Quit => {
                self.has_left = true;
                return None;
            }
            PlayerState::Starting if !self.has_played => {
                self.starting_ms.get_or_insert(self.timestamp_ms);
                state
            }
            // It no longer waits: what comes before the next `s` is no delay.
            PlayerState::Preloading | PlayerState::Paused if !self.has_played => {
                self.starting_ms = None;
                state
            }
            PlayerState::Playing => {
                if !self.has_played {
                    let since_ms = |at_ms: u64| (self.timestamp_ms - at_ms).min(DELAY_MS_MAX);
                    delay_ms = self.starting_ms.map(since_ms);
                }
                self.has_played = true;
                state
            }
            PlayerState::Rebuffering if !self.has_played => PlayerState::Starting,
            PlayerState::Rebuffering if self.state == Some(PlayerState::Seeking) => {
                PlayerState::Seeking
            }
            PlayerState::Rebuffering => {
                self.stalls += u64::from(self.state != Some(state));
                state
            }
            PlayerState::Ended => {
                self.has_finished = true;
                state
            }
            other => other,
        };
        (self.state, self.has_left) = (Some(next), false);
        delay_ms
    }

    /// Whether a state is known, so that the events say more than the requests.
    pub(crate) fn is_known(&self) -> bool {
        self.state.is_some()
    }

    /// Time played and time in stalls up to a request that arrived at `now_ms`.
    pub(crate) fn spent_ms(&self, now_ms: u64) -> (u64, u64) {
        let since_ms = match self.lasting() {
            Some(PlayerState::Playing) => now_ms.saturating_sub(self.arrived_ms).min(UNTOLD_MS),
            _ => 0,
        };
        (self.played_ms + since_ms, self.stalled_ms)
    }

    /// Whether playback was wanted.
    pub(crate) fn was_wanted(&self) -> bool {
        self.has_played || self.starting_ms.is_some()
    }

    /// Whether an error ended it.
    pub(crate) fn has_failed(&self) -> bool {
        self.state == Some(PlayerState::Failed)
    }

    /// Whether it is in a stall.
    pub(crate) fn is_stalled(&self) -> bool {
        self.lasting() == Some(PlayerState::Rebuffering)
    }

    /// Whether the viewer waited when the last event came: for the start, in a stall, or for a seek.
    pub(crate) fn is_waiting(&self) -> bool {
        use PlayerState::{Rebuffering, Seeking, Starting, Waiting};
        matches!(self.state, Some(Starting | Waiting | Rebuffering | Seeking))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PlayerState::*;

    /// A day of 2026, by a player's clock.
    const CLOCK_MS: u64 = 1_790_000_000_000;

    fn event(seconds: f64, state: PlayerState) -> QoeEvent {
        let ms = (seconds * 1000.0) as u64;
        QoeEvent {
            at_us: ms * 1000,
            session: 1,
            viewer: 0,
            timestamp_ms: CLOCK_MS + ms,
            is_error: false,
            state: Some(state),
            start_delay_ms: None,
        }
    }

    /// The playback of these events, and its delay.
    fn played(events: &[(f64, PlayerState)]) -> (Playback, Option<u64>) {
        let (mut playback, mut delay_ms) = (Playback::default(), None);
        for (seconds, state) in events {
            let told = playback.take(&event(*seconds, *state), (seconds * 1000.0) as u64);
            assert!(told.is_none() || delay_ms.is_none(), "a session starts once");
            delay_ms = told.or(delay_ms);
        }
        (playback, delay_ms)
    }

    #[test]
    fn times_are_those_between_the_states() {
        let (playback, delay_ms) = played(&[
            (0.0, Preloading),
            (1.0, Starting),
            (1.75, Playing),
            (30.0, Playing),
            (61.75, Rebuffering),
            (64.0, Playing),
            (70.0, Paused),
            (170.0, Playing),
            (180.0, Ended),
        ]);
        assert_eq!((delay_ms, playback.stalls), (Some(750), 1));
        assert_eq!(playback.spent_ms(500_000), (76_000, 2250));
        assert!(playback.has_finished && !playback.has_failed() && !playback.is_waiting());
    }

    #[test]
    fn a_pause_before_the_start_is_no_delay() {
        let pause =
            [(0.0, Starting), (0.5, Paused), (60.0, Starting), (61.0, Starting), (61.5, Playing)];
        assert_eq!(played(&pause).1, Some(1500));
        let (left, _) = played(&pause[..2]);
        assert!(!left.was_wanted() && !left.is_waiting());
    }

    #[test]
    fn waiting_for_the_start_or_for_a_seek_is_no_stall() {
        let events = [
            (0.0, Starting),
            (0.5, Rebuffering),
            (2.0, Playing),
            (5.0, Seeking),
            (5.1, Rebuffering),
            (8.0, Playing),
            (9.0, Rebuffering),
        ];
        let (playback, delay_ms) = played(&events);
        assert_eq!((delay_ms, playback.stalls), (Some(2000), 1));
        assert_eq!(playback.spent_ms(9500), (4000, 0), "a stall counts when it is over");
        let (start, _) = played(&events[..2]);
        assert!(start.is_waiting() && start.was_wanted() && !start.has_played);
    }

    #[test]
    fn a_viewer_who_leaves_in_a_stall_gives_up_and_one_who_leaves_a_film_does_not() {
        let stall = [(0.0, Starting), (1.0, Playing), (3.0, Rebuffering), (7.0, Quit)];
        let (gave_up, _) = played(&stall);
        assert!(gave_up.is_waiting());
        assert_eq!(gave_up.spent_ms(60_000), (2000, 4000), "no time passes after that");
        let (left, _) = played(&[(0.0, Starting), (1.0, Playing), (3.0, Quit)]);
        assert!(!left.is_waiting() && !left.has_finished);
        let (failed, _) = played(&[(0.0, Starting), (1.0, Failed)]);
        assert!(failed.has_failed() && !failed.is_waiting());
    }

    #[test]
    fn an_event_that_comes_twice_or_late_counts_once() {
        let once = [(0.0, Starting), (1.0, Playing), (3.0, Rebuffering), (4.0, Playing)];
        let twice = once.into_iter().flat_map(|event| [event; 2]).collect::<Vec<_>>();
        let late = [&once[..], &once[..]].concat();
        for events in [&twice, &late] {
            let (playback, delay_ms) = played(events);
            assert_eq!((delay_ms, playback.stalls), (Some(1000), 1));
            assert_eq!(playback.spent_ms(4000), (2000, 1000));
        }
    }

    #[test]
    fn errors_count_once() {
        let mut playback = Playback::default();
        for seconds in [5.0, 5.0, 9.0, 5.0] {
            playback.take(&QoeEvent { is_error: true, ..event(seconds, Failed) }, 0);
        }
        assert_eq!(playback.errors, 2);
    }

    #[test]
    fn no_more_time_counts_than_has_passed() {
        let mut playback = Playback::default();
        let at = |seconds, state| QoeEvent { at_us: 0, ..event(seconds, state) };
        playback.take(&at(0.0, Playing), 0);
        playback.take(&at(1e6, Rebuffering), 1000);
        playback.take(&at(2e6, Playing), 2000);
        assert_eq!(playback.spent_ms(0), (61_000, 1000));
    }
}
