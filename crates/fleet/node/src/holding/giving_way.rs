//! Decides which share of its rate a fill takes: less when the box's viewers begin to wait.
//!
//! Two signals count: the mean time to first byte of the server's responses, and the mean time of its disk reads. If either is bad, the
//! share is halved at once, and again after [`SETTLE`] if that was not enough. When both have been good for [`WELL`], the share grows by a
//! sixteenth each second. It never falls below a sixteenth: a fill that stops for good is of no use to viewers either.
//!
//! The mean is compared with the viewers' wait without the fill: the last one measured while the fill was idle or took a sixteenth. If that
//! measurement is old, the fill drops to a sixteenth for some seconds to repeat it. With few responses there are no viewers to give way to.
//!
//! No I/O and no clock: every call takes the time as an argument.

use std::collections::VecDeque;
use std::time::Duration;

/// Counts of what viewers of the box got since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Viewers {
    /// Responses whose first byte has left.
    pub(crate) first_bytes: u64,
    /// The sum of their times to first byte.
    pub(crate) first_byte_seconds: f64,
    /// Windows read from disk.
    pub(crate) disk_reads: u64,
    /// The sum of their read times.
    pub(crate) disk_read_seconds: f64,
}

/// The window for the means.
const WINDOW: Duration = Duration::from_secs(5);
/// The fewest responses, or reads, in that time that make a mean. A guess: fewer are one viewer's.
const COUNT_MIN: u64 = 20;
/// The wait is too long if its mean exceeds the mean without a fill by this factor. The fleet has the same bound for first bytes during a
/// fill.
const WORSE: f64 = 1.2;
/// Waits below this never count. A guess: less than a network adds, so viewers do not notice.
const NOTICED_SECONDS: f64 = 0.002;
/// Reads above this are slow: half the mean at which a box asks for no more viewers (`condition::READ_SECONDS`).
const READ_SECONDS: f64 = 0.125;
/// How long a measurement without the fill is valid, and how long a new one takes: the first half of that time flushes [`WINDOW`].
const QUIET_COUNTS: Duration = Duration::from_secs(600);
const PROBE: Duration = Duration::from_secs(10);
/// How long to wait for a smaller share to take effect.
const SETTLE: Duration = Duration::from_secs(5);
/// How long both signals must have been good before the share grows.
const WELL: Duration = Duration::from_secs(10);
/// The whole share, in sixteenths.
const WHOLE: u32 = 16;

/// The controller.
#[derive(Debug)]
pub(crate) struct GivingWay {
    seen: VecDeque<(Duration, Viewers)>,
    /// The mean without a fill, and when it was last measured.
    quiet: Option<(Duration, f64)>,
    /// Since when the fill has been idle, or at a sixteenth.
    quiet_since: Option<Duration>,
    probes_until: Option<Duration>,
    sixteenths: u32,
    halved_at: Option<Duration>,
    bad_at: Option<Duration>,
}

impl Default for GivingWay {
    fn default() -> Self {
        let (seen, quiet, quiet_since, probes_until, halved_at, bad_at) = Default::default();
        Self { seen, quiet, quiet_since, probes_until, sixteenths: WHOLE, halved_at, bad_at }
    }
}

impl GivingWay {
    /// Takes the viewers' counts at `now`, once a second; `None` if the server does not answer. `is_filling`: the box is fetching titles.
    pub(crate) fn handle(&mut self, viewers: Option<Viewers>, is_filling: bool, now: Duration) {
        let Some(viewers) = viewers else {
            self.seen.clear();
            return;
        };
        // Another server's counters begin at zero.
        if self.seen.back().is_some_and(|(_, last)| last.first_bytes > viewers.first_bytes) {
            self.seen.clear();
        }
        self.seen.push_back((now, viewers));
        while self.seen.len() > 2 && self.seen[1].0 + WINDOW <= now {
            self.seen.pop_front();
        }
        self.probes_until = self.probes_until.filter(|until| now < *until);
        self.quiet_since = match !is_filling || self.taken() == 1 {
            true => self.quiet_since.or(Some(now)),
            false => None,
        };
        let wait = self.wait();
        if let Some(wait) = wait {
            self.compare(wait, is_filling, now);
        }
        let read = self.mean(|one| (one.disk_reads, one.disk_read_seconds));
        if self.probes_until.is_none() {
            let waits = wait.is_some_and(|wait| self.is_bad(wait));
            match waits || read.is_some_and(|read| read > READ_SECONDS) {
                true => self.shrink(now),
                false => self.grow(now),
            }
        }
    }

    /// The share of its rate that a fill may take: from a sixteenth to 1.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.taken()) / f64::from(WHOLE)
    }

    fn taken(&self) -> u32 {
        if self.probes_until.is_some() { 1 } else { self.sixteenths }
    }

    /// Whether there are viewers to give way to.
    pub(crate) fn has_viewers(&self) -> bool {
        self.wait().is_some()
    }

    /// The mean time to first byte.
    fn wait(&self) -> Option<f64> {
        self.mean(|one| (one.first_bytes, one.first_byte_seconds))
    }

    /// The mean over [`WINDOW`] of the counters selected by `of`, if there were enough events.
    fn mean(&self, of: impl Fn(&Viewers) -> (u64, f64)) -> Option<f64> {
        let ((_, first), (_, last)) = (self.seen.front()?, self.seen.back()?);
        let ((count_before, before), (count, seconds)) = (of(first), of(last));
        let count = count.saturating_sub(count_before);
        (count >= COUNT_MIN).then(|| (seconds - before) / count as f64)
    }

    /// Records the mean if it is one without a fill; starts a probe if the last such mean is too old.
    fn compare(&mut self, mean: f64, is_filling: bool, now: Duration) {
        if self.quiet_since.is_some_and(|since| since + WINDOW <= now) {
            // Smoothed over a few seconds.
            let before = self.quiet.map_or(mean, |(_, before)| before);
            self.quiet = Some((now, before + (mean - before) / 4.0));
        }
        let is_old = self.quiet.is_none_or(|(at, _)| at + QUIET_COUNTS <= now);
        if is_old && is_filling && self.quiet_since.is_none() {
            self.probes_until = Some(now + PROBE);
        }
    }

    fn is_bad(&self, wait: f64) -> bool {
        let bound = self.quiet.map_or(f64::INFINITY, |(_, quiet)| quiet * WORSE);
        wait > bound.max(NOTICED_SECONDS)
    }

    fn shrink(&mut self, now: Duration) {
        self.bad_at = Some(now);
        if self.halved_at.is_none_or(|at| at + SETTLE <= now) {
            self.halved_at = Some(now);
            self.sixteenths = (self.sixteenths / 2).max(1);
        }
    }

    fn grow(&mut self, now: Duration) {
        if self.bad_at.is_none_or(|at| at + WELL <= now) {
            self.sixteenths = (self.sixteenths + 1).min(WHOLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A box in virtual time: its viewers' wait depends on the share that the fill takes.
    struct Box {
        control: GivingWay,
        now: u64,
        is_filling: bool,
        counted: Viewers,
    }

    impl Box {
        fn new() -> Self {
            let (control, counted) = Default::default();
            Self { control, now: 0, is_filling: true, counted }
        }

        /// Lets seconds pass with `responses` in each. Returns the mean share and the mean wait.
        fn run(&mut self, seconds: u64, responses: u64, wait: impl Fn(f64) -> f64) -> (f64, f64) {
            let (mut shares, mut waits) = (0.0, 0.0);
            for _ in 0..seconds {
                self.now += 1;
                let share = self.control.share();
                let waited = wait(if self.is_filling { share } else { 0.0 });
                self.counted.first_bytes += responses;
                self.counted.first_byte_seconds += responses as f64 * waited;
                let now = Duration::from_secs(self.now);
                self.control.handle(Some(self.counted), self.is_filling, now);
                (shares, waits) = (shares + share, waits + waited);
            }
            (shares / seconds as f64, waits / seconds as f64)
        }

        fn share(&self) -> f64 {
            self.control.share()
        }
    }

    #[test]
    fn a_fill_that_nobody_feels_keeps_its_rate() {
        let mut one = Box::new();
        // Probing takes a sixtieth of the time.
        assert!(one.run(6000, 100, |_| 0.010).0 > 0.97);
        assert!(one.run(6000, 100, |share| 0.0001 + 0.001 * share).0 > 0.97, "too short to notice");
        assert!(one.control.has_viewers());
        assert!(one.run(6000, 1, |_| 3.0).0 > 0.97, "too few to be a mean");
        assert!(!one.control.has_viewers());
    }

    #[test]
    fn a_fill_that_viewers_feel_settles_where_they_hardly_do() {
        // At its whole rate it would double their wait. A day long, with and without a quiet time before.
        let wait = |share: f64| 0.010 * (1.0 + share);
        for quiet in [0, 60] {
            let mut one = Box::new();
            one.is_filling = false;
            one.run(quiet, 100, wait);
            one.is_filling = true;
            one.run(60, 100, wait);
            let (share, waited) = one.run(86_400, 100, wait);
            assert!((0.1..0.3).contains(&share), "{share}");
            assert!(waited < 0.010 * 1.3, "{waited}");
            one.run(60, 100, |_| 0.010);
            assert_eq!(one.share(), 1.0, "it comes back when they are well");
        }
    }

    #[test]
    fn it_halves_at_once_and_again_when_that_was_not_enough() {
        let mut one = Box::new();
        one.run(40, 100, |_| 0.010);
        assert_eq!(one.share(), 1.0);
        one.run(2, 100, |_| 0.100);
        assert_eq!(one.share(), 0.5);
        one.run(5, 100, |_| 0.100);
        assert_eq!(one.share(), 0.25);
        one.run(10, 100, |_| 0.100);
        assert_eq!(one.share(), 1.0 / 16.0, "it never stops");
        // The fill does not cause the wait.
        one.run(120, 100, |_| 0.100);
        assert_eq!(one.share(), 1.0);
    }

    #[test]
    fn reads_that_take_long_count_though_first_bytes_come_soon() {
        let mut one = Box::new();
        one.run(40, 100, |_| 0.001);
        for (reads, seconds_each, shares) in
            [(100, 0.1, 1.0..1.1), (1, 3.0, 1.0..1.1), (100, 0.2, 0.0..0.2), (100, 0.1, 1.0..1.1)]
        {
            for _ in 0..60 {
                one.counted.disk_reads += reads;
                one.counted.disk_read_seconds += reads as f64 * seconds_each;
                one.run(1, 100, |_| 0.001);
            }
            assert!(shares.contains(&one.share()), "{reads} of {seconds_each} s: {}", one.share());
        }
    }

    #[test]
    fn a_server_that_starts_anew_or_is_silent_says_nothing_bad() {
        let mut one = Box::new();
        one.run(40, 100, |_| 0.010);
        one.counted = Viewers::default();
        assert_eq!(one.run(30, 100, |_| 0.010).0, 1.0);
        one.control.handle(None, true, Duration::from_secs(one.now));
        assert_eq!(one.run(30, 100, |_| 0.010).0, 1.0);
    }
}
