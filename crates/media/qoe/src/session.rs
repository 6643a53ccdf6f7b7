//! One session, and the viewer's experience as its requests show it.
//!
//! All times are those of requests, because players report only with a request. So derived times are accurate to about the time between two
//! requests. Where a player of CMCD's second version states a time (`msd`, `bsd`), that time is used instead.
//!
//! * **Play delay**: `msd` if it comes first. Otherwise it is the time from the session's first request to its first one for media without
//!   `su`, if the session was seen with `su`. A session whose start was not seen has no play delay.
//! * **Stalls**: a request with `bs` reports one, if the session plays. The stall began when the buffer reported before (`bl`) must have been
//!   empty, and ended with the next request for media without `su`; `bsd` replaces that length. Two requests with `bs` for sound and for
//!   pictures, less than [`SAME_STALL_MS`] apart, report the same stall.
//! * **Played**: the time since playback began minus the stalls, but no more than the playing time of the requested media, so that a pause
//!   does not count as playing.
//! * **Bit rate**: the mean of `br` weighted by `d`, of pictures if there are any.
//! * **Time to quality**: from the first request to the one that completes [`GOOD_MS`] in a row at 80% of `tb` at least.
//!
//! If the player also posts events (`playback.rs`), the play delay, the stalls and the time played are those of the events, and the requests' are
//! left out, so nothing counts twice. A session begins with a request, because only a request shows that a viewer got a film.

use crate::beginning::Beginning;
use crate::event::QoeEvent;
use crate::playback::Playback;
use crate::scope::Scope;
use crate::{ObjectType, QoeReport, ViewerGroup};

/// Two reports of one stall are no further apart. An assumption: players request sound and pictures together.
const SAME_STALL_MS: u64 = 1000;

/// This much media in a row makes a good picture.
const GOOD_MS: u64 = 4000;

/// Changes by a report that are counted at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The play delay became known.
    pub(crate) play_delay_ms: Option<u64>,
    /// The picture became good.
    pub(crate) time_to_quality_ms: Option<u64>,
    /// Stalls that began.
    pub(crate) stalls: u64,
    /// Additional time played.
    pub(crate) played_ms: u64,
    /// Additional time spent in stalls.
    pub(crate) stalled_ms: u64,
    /// Errors that the player reported.
    pub(crate) errors: u64,
}

impl News {
    fn add(&mut self, more: &Self) {
        self.play_delay_ms = self.play_delay_ms.or(more.play_delay_ms);
        self.time_to_quality_ms = self.time_to_quality_ms.or(more.time_to_quality_ms);
        self.stalls += more.stalls;
        self.played_ms += more.played_ms;
        self.stalled_ms += more.stalled_ms;
        self.errors += more.errors;
    }
}

/// The result of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// It was seen waiting for playback to start, and never seen playing.
    pub(crate) never_started: bool,
    /// It could have reached a good picture, and did not.
    pub(crate) never_good: bool,
    /// The share of the time spent in stalls, in millionths; none if it did not play.
    pub(crate) rebuffer_millionths: Option<u64>,
    /// Its mean bit rate.
    pub(crate) bitrate_kbps: Option<u64>,
    /// Its player posted events. The others are only known if it did.
    pub(crate) has_events: bool,
    /// An error ended it.
    pub(crate) has_failed: bool,
    /// It reached the end of the film.
    pub(crate) has_finished: bool,
    /// Its viewer left while waiting.
    pub(crate) gave_up: bool,
}

/// The requested media of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Media {
    /// Its playing time.
    asked_ms: u64,
    /// The playing time of the media whose bit rate is known.
    rated_ms: u64,
    /// Its bits.
    bits: u64,
    /// When the buffer runs empty if nothing more arrives.
    dry_at_ms: Option<u64>,
}

/// One session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) scope: Scope,
    /// All its changes so far.
    pub(crate) told: News,
    pub(crate) beginning: Beginning,
    /// Known once it has received something that it needed to start.
    pub(crate) group: Option<ViewerGroup>,
    first_ms: u64,
    last_ms: u64,
    waited_for_start: bool,
    started_ms: Option<u64>,
    knows_delay: bool,
    sound: Media,
    pictures: Media,
    /// When the current stall began, if there is one.
    stall_since_ms: Option<u64>,
    /// When a stall was last reported.
    stall_told_ms: Option<u64>,
    /// The estimated length of the last stall; none once the player has reported its length.
    stall_guess_ms: Option<u64>,
    /// By its requests, like the two below.
    stalls: u64,
    stalled_ms: u64,
    played_ms: u64,
    /// By its events.
    playback: Playback,
    /// The networks of its first request and of its last one.
    networks: [u64; 2],
    /// When its last event arrived.
    last_event_ms: Option<u64>,
    top_known: bool,
    good_ms: u64,
    is_good: bool,
    /// The viewer who received its first bytes, and how many. Bytes received at another address don't count.
    delivered: Option<(u64, u64)>,
    /// It received enough to count against the server.
    is_credible: bool,
}

impl Session {
    /// A session that begins with `report`, which still has to be [taken](Self::take).
    pub(crate) fn of(report: &QoeReport) -> Self {
        Self {
            scope: Scope::of(&report.path, report.object == ObjectType::Manifest),
            told: News::default(),
            beginning: Beginning::default(),
            group: None,
            first_ms: report.at_ms(),
            last_ms: report.at_ms(),
            waited_for_start: false,
            started_ms: None,
            knows_delay: false,
            sound: Media::default(),
            pictures: Media::default(),
            stall_since_ms: None,
            stall_told_ms: None,
            stall_guess_ms: None,
            stalls: 0,
            stalled_ms: 0,
            played_ms: 0,
            playback: Playback::default(),
            networks: [report.viewer; 2],
            last_event_ms: None,
            top_known: false,
            good_ms: 0,
            is_good: false,
            delivered: None,
            is_credible: false,
        }
    }

    /// Counts bytes that a viewer received. Returns whether the session counts from now on, and did not before.
    pub(crate) fn deliver(&mut self, viewer: u64, bytes: u64, bytes_min: u64) -> bool {
        let (of, delivered) = self.delivered.get_or_insert((viewer, 0));
        if *of == viewer {
            *delivered = delivered.saturating_add(bytes);
        }
        let begins = !self.is_credible && *of == viewer && *delivered >= bytes_min;
        self.is_credible |= begins;
        begins
    }

    /// The viewer of the session, if it counts.
    pub(crate) fn credible_viewer(&self) -> Option<u64> {
        self.delivered.filter(|_| self.is_credible).map(|(viewer, _)| viewer)
    }

    /// The time of its first report.
    pub(crate) fn first_ms(&self) -> u64 {
        self.first_ms
    }

    /// Whether it is in a stall.
    pub(crate) fn is_stalled(&self) -> bool {
        match self.playback.is_known() {
            true => self.playback.is_stalled(),
            false => self.stall_since_ms.is_some(),
        }
    }

    /// Its time in stalls, with the one that it is in.
    pub(crate) fn stalled_ms(&self) -> u64 {
        self.spent_ms().1
    }

    /// Time played and time in stalls, with the one that it is in: by its events, or else by its requests.
    fn spent_ms(&self) -> (u64, u64) {
        let in_stall_ms =
            self.stall_since_ms.map_or(0, |since_ms| self.last_ms.saturating_sub(since_ms));
        match self.playback.is_known() {
            true => self.playback.spent_ms(self.last_ms),
            false => (self.played_ms, self.stalled_ms + in_stall_ms),
        }
    }

    /// The time of its last report or event.
    pub(crate) fn last_ms(&self) -> u64 {
        self.last_event_ms.map_or(self.last_ms, |event_ms| event_ms.max(self.last_ms))
    }

    /// Whether `event` is its viewer's: events need no token, so anyone who knows a session's name can post some, but requests for its files come
    /// from the viewer.
    pub(crate) fn is_of(&self, event: &QoeEvent) -> bool {
        self.networks.contains(&event.viewer)
    }

    /// Processes the report of one request.
    pub(crate) fn take(&mut self, report: &QoeReport) -> News {
        // A late report counts as of now.
        let now_ms = report.at_ms().max(self.last_ms);
        let mut news = News::default();
        self.networks[1] = report.viewer;
        self.scope.take(&report.path, report.object == ObjectType::Manifest);
        self.beginning.take(report);
        self.take_start(report, now_ms, &mut news);
        if self.started_ms.is_some() {
            self.take_stall(report, now_ms);
        }
        self.take_media(report, now_ms);
        self.take_quality(report, now_ms, &mut news);
        self.last_ms = now_ms;
        self.take_played(now_ms);
        self.settle(news, now_ms)
    }

    /// Processes an event that the player posted.
    pub(crate) fn take_event(&mut self, event: &QoeEvent) -> News {
        let now_ms = event.at_ms().max(self.last_ms());
        self.last_event_ms = Some(now_ms);
        let delay_ms = self.playback.take(event, now_ms - self.first_ms);
        let mut news = News::default();
        if let Some(delay_ms) = event.start_delay_ms.map(u64::from).or(delay_ms) {
            self.know_delay(delay_ms, &mut news);
        }
        if self.playback.has_played {
            self.started_ms.get_or_insert(now_ms);
        }
        // Later events may already be there, so the present state counts up to this one only.
        self.settle(news, 0)
    }

    /// Completes the changes with the differences between what is known at `now_ms` and what was counted before. A counter cannot go down.
    fn settle(&mut self, mut news: News, now_ms: u64) -> News {
        let (stalls, (played_ms, stalled_ms)) = match self.playback.is_known() {
            true => (self.playback.stalls, self.playback.spent_ms(now_ms)),
            false => (self.stalls, (self.played_ms, self.stalled_ms)),
        };
        news.stalls = stalls.saturating_sub(self.told.stalls);
        news.played_ms = played_ms.saturating_sub(self.told.played_ms);
        news.stalled_ms = stalled_ms.saturating_sub(self.told.stalled_ms);
        news.errors = self.playback.errors - self.told.errors;
        self.told.add(&news);
        news
    }

    fn know_delay(&mut self, delay_ms: u64, news: &mut News) {
        if !self.knows_delay {
            self.knows_delay = true;
            news.play_delay_ms = Some(delay_ms);
        }
    }

    fn take_start(&mut self, report: &QoeReport, now_ms: u64, news: &mut News) {
        let told = report.start_delay_ms.map(u64::from);
        if self.started_ms.is_none() {
            let plays = is_media(report) && !report.startup;
            self.waited_for_start |= report.startup;
            if !plays && told.is_none() {
                return;
            }
            self.started_ms = Some(now_ms);
            if told.is_none() && self.waited_for_start && !self.playback.is_known() {
                self.know_delay(now_ms - self.first_ms, news);
            }
        }
        if let Some(told_ms) = told {
            self.know_delay(told_ms, news);
        }
    }

    fn take_stall(&mut self, report: &QoeReport, now_ms: u64) {
        if report.starved && is_media(report) {
            let is_told =
                self.stall_told_ms.is_some_and(|told_ms| now_ms - told_ms < SAME_STALL_MS);
            self.stall_told_ms = Some(now_ms);
            if !is_told && self.stall_since_ms.is_none() {
                self.stalls += 1;
                self.stall_since_ms =
                    Some(self.dry_at_ms().unwrap_or(now_ms).clamp(self.last_ms, now_ms));
            }
        }
        if is_media(report) && !report.startup {
            if let Some(since_ms) = self.stall_since_ms.take() {
                let guess_ms = now_ms - since_ms;
                self.stall_guess_ms = Some(guess_ms);
                self.stalled_ms += guess_ms;
            }
        }
        if let Some(told_ms) = report.starved_ms {
            self.take_told_stall(report, u64::from(told_ms));
        }
    }

    /// The player reports how long its last stall was, which is better than the estimate.
    fn take_told_stall(&mut self, report: &QoeReport, told_ms: u64) {
        // Reported for sound and for pictures: both are the same stall.
        if report.object == ObjectType::Audio && self.pictures.asked_ms > 0 {
            return;
        }
        let guess_ms = match (self.stall_since_ms.take(), self.stall_guess_ms.take()) {
            (Some(_), _) => 0,
            (None, Some(guess_ms)) => guess_ms,
            (None, None) => {
                self.stalls += 1;
                0
            }
        };
        self.stalled_ms = self.stalled_ms.saturating_sub(guess_ms) + told_ms;
    }

    /// When the first of the buffers runs empty.
    fn dry_at_ms(&self) -> Option<u64> {
        [self.sound.dry_at_ms, self.pictures.dry_at_ms].into_iter().flatten().min()
    }

    fn take_media(&mut self, report: &QoeReport, now_ms: u64) {
        let media = match report.object {
            ObjectType::Audio => &mut self.sound,
            ObjectType::Video => &mut self.pictures,
            ObjectType::Manifest | ObjectType::Other => return,
        };
        if let Some(buffer_ms) = report.buffer_ms {
            media.dry_at_ms = Some(now_ms + u64::from(buffer_ms));
        }
        let Some(duration_ms) = report.duration_ms.map(u64::from) else { return };
        media.asked_ms += duration_ms;
        if let Some(kbps) = report.bitrate_kbps {
            media.rated_ms += duration_ms;
            media.bits = media.bits.saturating_add(u64::from(kbps) * duration_ms);
        }
    }

    fn take_quality(&mut self, report: &QoeReport, now_ms: u64, news: &mut News) {
        let (ObjectType::Video, Some(top), Some(kbps), Some(duration_ms)) =
            (report.object, report.top_kbps, report.bitrate_kbps, report.duration_ms)
        else {
            return;
        };
        self.top_known = true;
        let is_near_top = u64::from(kbps) * 10 >= u64::from(top) * 8;
        self.good_ms = if is_near_top { self.good_ms + u64::from(duration_ms) } else { 0 };
        if self.good_ms >= GOOD_MS && !self.is_good {
            self.is_good = true;
            news.time_to_quality_ms = Some(now_ms - self.first_ms);
        }
    }

    fn take_played(&mut self, now_ms: u64) {
        let Some(started_ms) = self.started_ms else { return };
        let stalled_ms = self.stalled_ms
            + self.stall_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        // An event of a moment later may have set the start.
        let passed_ms = now_ms.saturating_sub(started_ms).saturating_sub(stalled_ms);
        let asked_ms = self.sound.asked_ms.max(self.pictures.asked_ms);
        let played_ms = if asked_ms > 0 { passed_ms.min(asked_ms) } else { passed_ms };
        self.played_ms = self.played_ms.max(played_ms);
    }

    /// The result if the session ends now.
    pub(crate) fn outcome(&self) -> Outcome {
        let playback = &self.playback;
        let has_events = playback.is_known();
        let (played_ms, stalled_ms) = self.spent_ms();
        let both_ms = played_ms + stalled_ms;
        let rated = if self.pictures.rated_ms > 0 { self.pictures } else { self.sound };
        let never_started = match has_events {
            true => (self.waited_for_start || playback.was_wanted()) && !playback.has_played,
            false => self.waited_for_start && self.started_ms.is_none(),
        };
        Outcome {
            never_started,
            never_good: self.top_known && !self.is_good,
            rebuffer_millionths: (both_ms > 0).then(|| stalled_ms * 1_000_000 / both_ms),
            bitrate_kbps: rated.bits.checked_div(rated.rated_ms),
            has_events,
            has_failed: playback.has_failed(),
            has_finished: playback.has_finished,
            gave_up: playback.is_waiting(),
        }
    }
}

fn is_media(report: &QoeReport) -> bool {
    matches!(report.object, ObjectType::Audio | ObjectType::Video)
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
