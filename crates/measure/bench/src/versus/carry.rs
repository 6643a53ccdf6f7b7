//! How many viewers a server carries without a stall: a search, whose trials are runs of the swarm.
//!
//! In a trial, viewers come one after the other and play films of one bit rate to the end of the trial. It passes if every
//! viewer saw the film and none ever stalled, no request failed, the viewers got what they play, and the swarm itself was
//! not late. The number of viewers doubles until a trial fails; then it is narrowed down between the two.
//!
//! The swarm's own limit is not the server's. If it ends the search, the result says so: "at least" that many viewers.
//!
//! Work is counted in seconds of film that viewers got, over the same time as the server's CPU seconds: with every viewer
//! playing one second per second, that is viewers per core.

use super::film::{self, SEGMENT_SECONDS};
use super::side::Side;
use super::turn::{Round, Task};
use super::window::{Measured, Window};
use super::workload::{FILES, client_options};
use crate::search::{Attempt, Bounds, Found, search};
use load::Url;
use load::interrupt::Interrupt;
use player::{PlayerOptions, Rule};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use swarm::crowd::{Arrivals, CrowdOptions, Watch};
use swarm::live::{self, LiveOptions, LiveOutcome, Own};

/// The most viewers that are tried by default: each is a connection, and peers/nginx.conf gives nginx 16,384.
pub(super) const VIEWERS_MAX: usize = 16_000;

/// The rate of each viewer by default, bits per second: a film of 1080 lines.
pub(super) const BITS_PER_SECOND: u64 = 4_000_000;

/// Viewers to begin with if nothing is known yet.
const VIEWERS_FIRST: usize = 250;

/// The first leap if nothing is known, and if the turn before has found a number.
const LEAP: f64 = 2.0;
const LEAP_NEAR: f64 = 1.15;

/// How precise the number must be, as a share of it.
const RESOLUTION: f64 = 0.1;

/// Trials of a search at most. Six get from 250 viewers to 16,000, and a few more to the resolution.
const TRIALS_MAX: usize = 14;

/// What a player holds ahead: two segments, so that it asks for one while it plays another.
const BUFFER: Duration = Duration::from_secs(2 * SEGMENT_SECONDS);

/// Viewers come at this rate, in up to this time. While they fill their buffers they take more than they play: with twice
/// the buffer's time, half as much again.
const ARRIVALS_PER_SECOND: f64 = 50.0;
const RAMP_SECONDS_MAX: f64 = 2.0 * BUFFER.as_secs() as f64;

/// More arrivals than this in a second would measure handshakes.
const ARRIVALS_PER_SECOND_MAX: f64 = 500.0;

/// Seconds between the last arrival and the first reading: the last buffers fill.
const SETTLE_SECONDS: f64 = 2.0;

/// The swarm shows its counts once a second, so a reading may be this much later than it was wanted.
const GLANCE_SECONDS: f64 = 1.1;

/// The share of what they play that viewers must get in the measured time. Less than that empties their buffers, and would
/// be stalls in a longer trial.
const SERVED_SHARE_MIN: f64 = 0.95;

/// Where viewers come from over loopback: an address has ports for 28,000 connections, and each trial's stay taken for a minute.
const SOURCES: &str = "127.1.0.0/16";

/// A turn's result.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// The most viewers who all played without a stall.
    pub(crate) viewers: usize,
    /// The server may carry more: the swarm could not, or more were not tried.
    pub(crate) is_least: bool,
    /// Why there were no more.
    pub(crate) stopped_by: String,
    /// How late the swarm's own tasks woke up at that number of viewers, at the 99th percentile.
    lag_ms_p99: f64,
    trials: usize,
}

impl Carried {
    /// The number for people.
    pub(crate) fn words(&self) -> String {
        let Self { viewers, is_least, .. } = self;
        if *is_least { format!("at least {viewers}") } else { viewers.to_string() }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "viewers": self.viewers,
            "at_least": self.is_least,
            "stopped_by": self.stopped_by,
            "lag_ms_p99": self.lag_ms_p99,
            "trials": self.trials,
        })
    }
}

/// Playing time of a film that no trial plays to its end.
pub(super) fn film_time(viewers_max: usize, seconds: f64) -> Duration {
    trial_time(viewers_max, seconds) + 2 * BUFFER
}

/// How long a trial takes.
fn trial_time(viewers: usize, seconds: f64) -> Duration {
    let whole = opens_after(viewers) + measured_seconds(seconds) + 2.0 * GLANCE_SECONDS;
    Duration::from_secs_f64(whole)
}

/// How long after a trial's beginning to read for the first time.
fn opens_after(viewers: usize) -> f64 {
    ramp_seconds(viewers) + SETTLE_SECONDS
}

fn ramp_seconds(viewers: usize) -> f64 {
    let viewers = viewers as f64;
    let ramp = (viewers / ARRIVALS_PER_SECOND).clamp(1.0, RAMP_SECONDS_MAX);
    ramp.max(viewers / ARRIVALS_PER_SECOND_MAX)
}

/// At least a segment's time, in which each viewer requests one.
fn measured_seconds(seconds: f64) -> f64 {
    seconds.max(SEGMENT_SECONDS as f64)
}

impl Task<'_> {
    /// Searches for the most viewers that the side carries without a stall.
    ///
    /// # Errors
    /// If it carries no viewer, or the swarm cannot run here.
    pub(super) fn carry(
        &self,
        side: &mut Side,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(String),
    ) -> io::Result<Round> {
        let mut trials = 0;
        let found = search(self.bounds()?, |viewers| {
            trials += 1;
            let trial = self.try_viewers(viewers, side, interrupt)?;
            // A server that has ended is the cause of what viewers saw.
            side.check()?;
            if let Some(trial) = &trial {
                progress(format!("  {}: {}", side.name, trial.describe()));
            }
            Ok(trial)
        })?;
        interrupt.check()?;
        carried(found, trials)
    }

    fn bounds(&self) -> io::Result<Bounds> {
        // A viewer may have a connection for pictures and one for sound.
        let descriptors = usize::try_from(machine::raise_nofile()?).unwrap_or(usize::MAX);
        let most = self.connections.min(descriptors.saturating_sub(200) / 2).max(1);
        let (first, leap) =
            self.guess.map_or((VIEWERS_FIRST, LEAP), |viewers| (viewers, LEAP_NEAR));
        Ok(Bounds { first, most, leap, resolution: RESOLUTION, steps_max: TRIALS_MAX })
    }

    /// One trial; `None` if it was interrupted.
    fn try_viewers(
        &self,
        viewers: usize,
        side: &mut Side,
        interrupt: &Interrupt,
    ) -> io::Result<Option<Trial>> {
        let options = self.swarm(viewers, side)?;
        let (opens_after, seconds) = (opens_after(viewers), measured_seconds(self.seconds));
        let mut window = Window::new(side, self.server_cpu, opens_after, seconds);
        let outcome = std::thread::scope(|scope| {
            // The swarm's threads inherit the cores of the thread that starts them.
            let swarm = scope.spawn(|| {
                let mut cpus = CpuSet::new();
                self.client_cpus.iter().for_each(|cpu| cpus.set(*cpu as usize));
                sched_setaffinity(None, &cpus)?;
                live::run(options, || interrupt.is_asked(), |moment| window.look(moment))
            });
            swarm.join().expect("the swarm does not panic")
        })?;
        if outcome.interrupted {
            return Ok(None);
        }
        let measured = window.measured()?;
        Ok(Some(Trial::of(viewers, self, measured, &outcome)))
    }

    fn swarm(&self, viewers: usize, side: &Side) -> io::Result<LiveOptions> {
        let origin = self.origin(side);
        let url = |file| format!("{origin}/{}", film::name(file));
        let titles: Vec<Url> = (0..FILES)
            .map(|file| url(file).parse().map_err(io::Error::other))
            .collect::<io::Result<_>>()?;
        let duration = trial_time(viewers, self.seconds);
        let is_loopback = side.address.ip().is_loopback();
        let sources = is_loopback.then(|| SOURCES.parse().expect("it is written as a network is"));
        Ok(LiveOptions {
            crowd: CrowdOptions {
                viewers,
                arrivals: Arrivals::Poisson,
                over: Duration::from_secs_f64(ramp_seconds(viewers)),
                titles: titles.len(),
                title_duration: film_time(viewers, self.seconds),
                // No viewer leaves.
                watch: Watch::Exactly(2 * duration),
                seeks_per_hour: 0.0,
                ..CrowdOptions::default()
            },
            titles,
            also_at: Vec::new(),
            player: PlayerOptions {
                rule: Rule::Fixed(0),
                buffer_max: BUFFER,
                ..PlayerOptions::default()
            },
            has_networks: false,
            cmcd: false,
            cmcd_events: false,
            duration,
            sources,
            tls: client_options(),
            resume: false,
            threads: self.client_cpus.len(),
            film_flags: Vec::new(),
        })
    }
}

/// The turn that a search makes.
fn carried(found: Found<Trial>, trials: usize) -> io::Result<Round> {
    let Found { best, worst, stopped_by } = found;
    let is_swarms = worst.as_ref().is_some_and(|worst| worst.is_swarms);
    let Some(Trial { viewers, lag_ms_p99, round, .. }) = best else {
        return Err(io::Error::other(format!("not even one viewer plays: {stopped_by}")));
    };
    let is_least = is_swarms || worst.is_none();
    let carried = Carried { viewers, is_least, stopped_by, lag_ms_p99, trials };
    Ok(Round { is_client_bound: is_swarms, carried: Some(carried), ..round })
}

/// One run of the swarm.
struct Trial {
    viewers: usize,
    trouble: Option<String>,
    /// The trouble is the swarm's own.
    is_swarms: bool,
    lag_ms_p99: f64,
    core_percent: f64,
    /// What it cost the server.
    round: Round,
}

impl Attempt for Trial {
    fn viewers(&self) -> usize {
        self.viewers
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }
}

impl Trial {
    fn of(
        viewers: usize,
        task: &Task<'_>,
        measured: Option<Measured>,
        outcome: &LiveOutcome,
    ) -> Self {
        let is_whole = measured.is_some();
        let Measured { counts, cost, shares, wall_seconds } = measured.unwrap_or_default();
        let core_cpu_seconds = shares.spent * wall_seconds;
        let film_seconds = counts.body_bytes as f64 * 8.0 / task.rate_bits_per_second as f64;
        let segments = film_seconds / SEGMENT_SECONDS as f64;
        let is_swarms = outcome.own.is_too_slow();
        let trouble = is_swarms
            .then(|| own_trouble(outcome))
            .or_else(|| complaint(viewers, outcome))
            .or_else(|| (!is_whole).then(|| "the trial ended before its time".to_owned()))
            .or_else(|| too_little(viewers, wall_seconds, segments));
        let cpu_seconds = cost.cpu_seconds;
        let counted_seconds = if task.counts_core { core_cpu_seconds } else { cpu_seconds };
        let round = Round {
            // A trial in which the server did nothing has failed, and its figure is not used.
            figure: film_seconds / counted_seconds.max(1e-9),
            cpu_seconds,
            core_cpu_seconds,
            wall_seconds,
            rss_bytes: cost.rss_bytes,
            softirq_share: shares.softirq,
            hardware: None,
            wakeups: cost.wakeups,
            left_bytes: None,
            counts,
            is_client_bound: false,
            outcome: None,
            carried: None,
        };
        let lag_ms_p99 = outcome.own.lag_ms_p99;
        let core_percent = 100.0 * shares.busy;
        Self { viewers, trouble, is_swarms, lag_ms_p99, core_percent, round }
    }

    fn describe(&self) -> String {
        let Self { viewers, core_percent, .. } = self;
        let result = self.trouble.as_deref().unwrap_or("no stall");
        format!("{viewers} viewers: {result} (server's core {core_percent:.0}% busy)")
    }
}

/// How the swarm itself was the limit.
fn own_trouble(outcome: &LiveOutcome) -> String {
    let Own { lag_ms_p99, busiest_thread, .. } = outcome.own;
    let percent = 100.0 * busiest_thread;
    format!(
        "the swarm itself was the limit (it woke up {lag_ms_p99:.0} ms late at p99, and used {percent:.0}% of a core)"
    )
}

/// What viewers could complain of.
fn complaint(viewers: usize, outcome: &LiveOutcome) -> Option<String> {
    if let Some((kind, first)) = outcome.errors.iter().max_by_key(|(_, failure)| failure.count) {
        return Some(format!("{} x {kind}, the first: {}", first.count, first.example));
    }
    let last = &outcome.last;
    if last.stalls > 0 {
        let reasons = outcome.seen.stalls.by_reason();
        let most = reasons.max_by_key(|(_, count)| *count).map_or("unknown", |(reason, _)| reason);
        return Some(match last.stalls {
            1 => format!("1 stall ({most})"),
            stalls => format!("{stalls} stalls, most of them {most}"),
        });
    }
    let playing = usize::try_from(last.playing).unwrap_or(usize::MAX);
    (playing < viewers).then(|| format!("only {playing} of {viewers} viewers saw a picture"))
}

/// Whether viewers got clearly less than they play. When in a segment's time a viewer requests one is chance, so the number
/// of segments in a short time is off by some: for independent viewers by the square root of their number, at most.
fn too_little(viewers: usize, wall_seconds: f64, segments: f64) -> Option<String> {
    let viewers = viewers as f64;
    let played = viewers * wall_seconds / SEGMENT_SECONDS as f64;
    let percent = 100.0 * segments / played;
    (segments < SERVED_SHARE_MIN * played - viewers.sqrt())
        .then(|| format!("viewers got {percent:.0}% of what they play"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::{CoreShares, Reading};
    use load::Snapshot;
    use std::collections::BTreeMap;
    use swarm::live::{FailureKind, Moment};
    use swarm::outcome::Outcome;

    /// A run in which all viewers saw the film.
    fn outcome(viewers: u64) -> LiveOutcome {
        LiveOutcome {
            seen: Outcome::default(),
            wall_seconds: 10.0,
            viewers: viewers as usize,
            course: Vec::new(),
            last: Moment { playing: viewers, ..Moment::default() },
            errors: BTreeMap::new(),
            own: Own {
                lag_ms_p50: 0.1,
                lag_ms_p99: 1.0,
                lag_ms_max: 2.0,
                cpu_seconds: 1.0,
                busiest_thread: 0.1,
            },
            interrupted: false,
            gave_up: false,
        }
    }

    fn task<'a>(library: &'a std::sync::Arc<crate::library::Library>) -> Task<'a> {
        Task {
            workload: super::super::Workload::Swarm,
            client: super::super::Client::Load,
            library,
            scratch: std::path::Path::new("/nowhere"),
            connections: 1000,
            seconds: 4.0,
            rate_bits_per_second: 1_000_000,
            hit_share: 0.0,
            server_cpu: 0,
            client_cpus: vec![1],
            counts_core: false,
            guess: None,
        }
    }

    /// A trial of a hundred viewers who got this share of what they play in four seconds.
    fn trial(outcome: &LiveOutcome, share: f64) -> Trial {
        let library = crate::library::Library::at("/nowhere".as_ref(), 1, 1);
        let counts = Snapshot {
            body_bytes: (share * 100.0 * 4.0 * 125_000.0) as u64,
            ..Snapshot::default()
        };
        let cost = Reading { cpu_seconds: 0.5, ..Reading::default() };
        let shares = CoreShares { busy: 0.2, ..CoreShares::default() };
        let measured = Measured { counts, cost, shares, wall_seconds: 4.0 };
        Trial::of(100, &task(&library.into()), Some(measured), outcome)
    }

    #[test]
    fn viewers_who_all_play_pass_and_are_counted_by_seconds_of_film() {
        let trial = trial(&outcome(100), 1.0);
        assert_eq!(trial.trouble(), None);
        // Four hundred seconds of film in half a CPU second.
        assert!((trial.round.figure - 800.0).abs() < 1e-6, "{}", trial.round.figure);
        assert_eq!(trial.describe(), "100 viewers: no stall (server's core 20% busy)");
    }

    #[test]
    fn stalls_failures_black_pictures_and_starving_buffers_are_trouble() {
        let said =
            |outcome: &LiveOutcome, share| trial(outcome, share).trouble().unwrap_or_default();
        let mut stalled = outcome(100);
        stalled.last.stalls = 3;
        assert!(said(&stalled, 1.0).starts_with("3 stalls"), "{}", said(&stalled, 1.0));
        let mut failed = outcome(100);
        failed.errors.insert("reset", FailureKind { count: 2, example: "media u: reset".into() });
        assert_eq!(said(&failed, 1.0), "2 x reset, the first: media u: reset");
        assert_eq!(said(&outcome(99), 1.0), "only 99 of 100 viewers saw a picture");
        assert_eq!(said(&outcome(100), 0.85), "viewers got 85% of what they play");
        // Ten segments more or less are chance.
        assert_eq!(said(&outcome(100), 0.93), "");
    }

    #[test]
    fn a_swarm_that_is_late_is_not_the_server_s_fault() {
        let mut late = outcome(100);
        late.own.lag_ms_p99 = 80.0;
        late.last.stalls = 9;
        let worst = trial(&late, 1.0);
        let trouble = worst.trouble().expect("it was late");
        assert!(trouble.contains("the swarm itself") && trouble.contains("80 ms"), "{trouble}");
        let best = Some(trial(&outcome(100), 1.0));
        let found = Found { best, worst: Some(worst), stopped_by: trouble };
        let round = carried(found, 5).expect("a hundred played");
        assert!(round.is_client_bound);
        let json = round.carried.expect("a search").to_json();
        assert_eq!((&json["viewers"], &json["at_least"]), (&100.into(), &true.into()));
    }

    #[test]
    fn what_the_server_does_not_carry_is_an_exact_end_and_nobody_is_an_error() {
        let mut stalled = outcome(100);
        stalled.last.stalls = 3;
        let found = |best| Found {
            best,
            worst: Some(trial(&stalled, 1.0)),
            stopped_by: "3 stalls".to_owned(),
        };
        let round = carried(found(Some(trial(&outcome(100), 1.0))), 5).expect("a hundred played");
        assert!(!round.is_client_bound);
        assert_eq!(round.carried.expect("a search").words(), "100");
        let nobody = carried(found(None), 5).expect_err("nobody played").to_string();
        assert!(nobody.contains("3 stalls"), "{nobody}");
    }

    #[test]
    fn trials_are_short_and_films_longer_than_they_are() {
        for viewers in [1, 250, VIEWERS_MAX] {
            let trial = trial_time(viewers, 4.0);
            assert!(trial < Duration::from_secs(45), "{viewers}: {trial:?}");
            assert!(film_time(viewers, 4.0) > trial + BUFFER);
            assert!(viewers as f64 / ramp_seconds(viewers) <= ARRIVALS_PER_SECOND_MAX);
        }
    }
}
