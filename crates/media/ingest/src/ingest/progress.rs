//! The progress of an ingest, and its display.

use std::fmt::{self, Display, Formatter};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A step of an ingest.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Making a part of the title has begun.
    Making {
        /// Its name: "video 720".
        part: String,
        /// Its number, from 1 on.
        number: usize,
        /// The total number of parts.
        of: usize,
    },
    /// A part was kept from an earlier attempt.
    Kept {
        /// Its name.
        part: String,
    },
    /// Part of the encoding is done.
    Encoded {
        /// The share of everything that this attempt has to encode, 0 to 1.
        done: f64,
        /// How long the rest will take, if that can be estimated yet.
        seconds_left: Option<f64>,
        /// The pace of the current part.
        pace: EncodingPace,
    },
    /// A part was made.
    Made {
        /// Its name.
        part: String,
        /// How long the remaining parts will take, if that can be estimated yet.
        seconds_left: Option<f64>,
        /// Its pace.
        pace: EncodingPace,
    },
    /// Everything is encoded; pictures, manifests and checksums are being made.
    Finishing,
}

/// How fast a part is made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EncodingPace {
    /// Frames encoded per second; `None` for sound.
    pub frames_per_second: Option<f64>,
    /// Seconds of film encoded per second.
    pub speed: Option<f64>,
}

impl Display for EncodingPace {
    /// "87 fps, 3.4x"
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let frames = self.frames_per_second.map(|frames| format!("{frames:.0} fps"));
        let speed = self.speed.map(|speed| format!("{speed:.1}x"));
        f.write_str(&frames.into_iter().chain(speed).collect::<Vec<_>>().join(", "))
    }
}

/// Adds up the work of several jobs into one progress.
pub(super) struct Meter {
    /// The total work, in weights times seconds.
    total: f64,
    before: f64,
    began: Instant,
}

/// A longer title would leave no room for the progress in a line of 80.
const TITLE_LETTERS_MAX: usize = 16;

/// Until this many seconds have passed and this share of the work is done, the time left would be a guess.
const TELLING_SECONDS: f64 = 2.0;
const TELLING_PART: f64 = 0.005;

impl Meter {
    pub(super) fn new(total: f64) -> Self {
        Self { total, before: 0.0, began: Instant::now() }
    }

    /// The progress when `now` of the current job is done.
    pub(super) fn at(&self, now: f64, pace: EncodingPace) -> Progress {
        let (done, seconds_left) = self.done(now);
        Progress::Encoded { done, seconds_left, pace }
    }

    /// The progress when the part `part` was made.
    pub(super) fn made(&self, part: &str, pace: EncodingPace) -> Progress {
        Progress::Made { part: part.to_owned(), seconds_left: self.done(0.0).1, pace }
    }

    /// The share that is done, and the time left.
    fn done(&self, now: f64) -> (f64, Option<f64>) {
        let done = ((self.before + now) / self.total).clamp(0.0, 1.0);
        let took = self.began.elapsed().as_secs_f64();
        let can_tell = took >= TELLING_SECONDS && done >= TELLING_PART;
        (done, can_tell.then(|| took * (1.0 - done) / done))
    }

    /// Counts a job of `whole` as done.
    pub(super) fn finish(&mut self, whole: f64) {
        self.before += whole;
    }
}

/// Shows the progress of `title` on standard error: on a terminal as a bar that is rewritten, else as a line for each part and each minute.
/// Titles that are made at the same time, and so not `alone`, have lines on a terminal, too: they would overwrite each other's bar.
pub fn on_terminal(title: &str, alone: bool) -> impl FnMut(Progress) + use<> {
    let mut shown = Shown::new(title, std::io::stderr().is_terminal(), alone);
    move |progress| {
        let text = shown.text(&progress, Instant::now());
        // If the terminal was closed, only the progress is lost.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// Without a bar, the least time between a line and one about the encoding under way: a log of a day has some thousand of these.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

struct Shown {
    title: String,
    has_bar: bool,
    /// When the last line was written, without a bar.
    told: Option<Instant>,
    part: String,
    /// The width of the line on the terminal.
    width: usize,
}

impl Shown {
    fn new(title: &str, is_terminal: bool, alone: bool) -> Self {
        let title = shortened(&crate::shown(title));
        Self { title, has_bar: is_terminal && alone, told: None, part: String::new(), width: 0 }
    }

    fn text(&mut self, progress: &Progress, now: Instant) -> String {
        if self.has_bar {
            return self.rewritten(progress);
        }
        let is_due = now.duration_since(*self.told.get_or_insert(now)) >= LINE_INTERVAL;
        if matches!(progress, Progress::Encoded { .. }) && !is_due {
            return String::new();
        }
        self.told = Some(now);
        self.line(progress)
    }

    /// Without a bar.
    fn line(&self, progress: &Progress) -> String {
        let title = &self.title;
        let left = |seconds: &Option<f64>| {
            let seconds = seconds.filter(|seconds| *seconds > 0.0);
            seconds.map_or_else(String::new, |seconds| format!("; {} left", clock(seconds)))
        };
        match progress {
            Progress::Making { part, number, of } => {
                format!("{title}: making {part} ({number} of {of})\n")
            }
            Progress::Kept { part } => format!("{title}: {part} kept from an earlier run\n"),
            Progress::Encoded { done, seconds_left, pace } => {
                let (percent, pace, left) =
                    (done * 100.0, in_front(" at ", pace), left(seconds_left));
                format!("{title}: {percent:.0}% encoded{pace}{left}\n")
            }
            Progress::Made { part, seconds_left, pace } => {
                format!("{title}: made {part}{}{}\n", in_front(" at ", pace), left(seconds_left))
            }
            Progress::Finishing => format!("{title}: making pictures, manifests and sums\n"),
        }
    }

    /// With a bar: the line, written over the one before.
    fn rewritten(&mut self, progress: &Progress) -> String {
        let title = &self.title;
        let line = match progress {
            Progress::Making { part, number, of } => {
                self.part = format!("{part} ({number} of {of})");
                format!("{title}: {}", self.part)
            }
            Progress::Kept { part } => format!("{title}: {part} kept from an earlier run"),
            Progress::Encoded { done, seconds_left, pace } => {
                let left = seconds_left.map(|seconds| format!(", {} left", clock(seconds)));
                let (bar, part, left) = (bar(*done), &self.part, left.unwrap_or_default());
                let pace = in_front(", ", pace);
                format!("{title}: {bar} {:3.0}%{left}{pace} {part}", done * 100.0)
            }
            // The line is rewritten when the next part begins.
            Progress::Made { .. } => return String::new(),
            Progress::Finishing => format!("{title}: pictures, manifests and sums"),
        };
        let width = line.chars().count();
        let blank = " ".repeat(self.width.saturating_sub(width));
        self.width = width;
        format!("\r{line}{blank}")
    }
}

impl Drop for Shown {
    /// Ends the line, so that the next output begins on a line of its own.
    fn drop(&mut self) {
        if self.width > 0 {
            let _ = std::io::stderr().write_all(b"\n");
        }
    }
}

fn shortened(title: &str) -> String {
    match title.char_indices().nth(TITLE_LETTERS_MAX) {
        Some((end, _)) => format!("{}...", &title[..end]),
        None => title.to_owned(),
    }
}

/// `pace` after `words`; nothing if it is not known.
fn in_front(words: &str, pace: &EncodingPace) -> String {
    match pace.to_string() {
        pace if pace.is_empty() => pace,
        pace => format!("{words}{pace}"),
    }
}

const BAR: usize = 12;

fn bar(done: f64) -> String {
    let full = (done * BAR as f64).round() as usize;
    format!("[{}{}]", "#".repeat(full), " ".repeat(BAR.saturating_sub(full)))
}

/// "1:05:09", "5:09".
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: EncodingPace = EncodingPace { frames_per_second: Some(87.4), speed: Some(3.44) };

    fn all() -> [Progress; 5] {
        [
            Progress::Kept { part: "audio 1 (en)".into() },
            Progress::Making { part: "video 720".into(), number: 2, of: 2 },
            Progress::Encoded { done: 0.5, seconds_left: Some(65.0), pace: PACE },
            Progress::Made { part: "video 720".into(), seconds_left: Some(9.0), pace: PACE },
            Progress::Finishing,
        ]
    }

    fn text(is_terminal: bool, alone: bool) -> String {
        let (mut shown, now) = (Shown::new("film", is_terminal, alone), Instant::now());
        all().map(|progress| shown.text(&progress, now)).concat()
    }

    #[test]
    fn a_pipe_gets_a_line_for_each_part() {
        let text = text(false, true);
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("film: making video 720 (2 of 2)\n"), "{text}");
        assert!(text.contains("film: made video 720 at 87 fps, 3.4x; 0:09 left\n"), "{text}");
        let unknown = Progress::Made {
            part: "audio 1".into(),
            seconds_left: None,
            pace: EncodingPace::default(),
        };
        let mut shown = Shown::new("film", false, true);
        assert_eq!(shown.text(&unknown, Instant::now()), "film: made audio 1\n");
    }

    /// A film of two hours left nothing in the journal for hours.
    #[test]
    fn a_pipe_gets_a_line_a_minute_while_a_part_is_encoded() {
        let (mut shown, began) = (Shown::new("film", false, true), Instant::now());
        let [_, making, _, made, _] = all();
        let mut at = |seconds: u64, progress: &Progress| {
            shown.text(progress, began + Duration::from_secs(seconds))
        };
        let encoded = |percent: u32| Progress::Encoded {
            done: f64::from(percent) / 100.0,
            seconds_left: Some(65.0),
            pace: PACE,
        };
        assert!(!at(0, &making).is_empty());
        let lines =
            (1..=180).map(|second| at(second, &encoded(second as u32 / 2))).collect::<String>();
        let line = |percent: u32| format!("film: {percent}% encoded at 87 fps, 3.4x; 1:05 left\n");
        assert_eq!(lines, [30, 60, 90].map(line).concat());
        // Every line counts.
        assert!(!at(230, &made).is_empty() && at(250, &encoded(95)).is_empty());
        let unknown =
            Progress::Encoded { done: 0.96, seconds_left: None, pace: EncodingPace::default() };
        assert_eq!(at(290, &unknown), "film: 96% encoded\n");
    }

    #[test]
    fn films_that_are_made_at_once_have_lines_on_a_terminal() {
        assert_eq!(text(true, false), text(false, true));
    }

    #[test]
    fn a_terminal_gets_one_line_with_a_bar_and_the_time_left() {
        let text = text(true, true);
        assert_eq!((text.matches('\r').count(), text.matches('\n').count()), (4, 0));
        assert!(text.contains("[######      ]  50%, 1:05 left, 87 fps, 3.4x video 720"), "{text}");
    }

    #[test]
    fn a_long_title_leaves_room_for_the_rest() {
        assert_eq!(shortened("\u{e4}".repeat(30).as_str()), format!("{}...", "\u{e4}".repeat(16)));
        assert_eq!(shortened("film"), "film");
    }

    #[test]
    fn times_left_are_readable() {
        assert_eq!(clock(3909.0), "1:05:09");
        assert_eq!(clock(9.4), "0:09");
    }

    #[test]
    fn work_of_several_jobs_adds_up() {
        let mut meter = Meter::new(40.0);
        meter.finish(10.0);
        let pace = EncodingPace::default();
        let half = Progress::Encoded { done: 0.5, seconds_left: None, pace };
        assert_eq!(meter.at(10.0, pace), half);
    }
}
