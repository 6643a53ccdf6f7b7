//! `fullbore swarm`: runs viewers that really play, and reports their experience.

mod virtual_time;

use crate::load::Time;
use ::load::{ClientOptions, Trust, Url, interrupt};
use ::swarm::crowd::{Arrivals, CrowdOptions, Shares, Watch};
use ::swarm::live::{self, LiveOptions, LiveOutcome, Moment, Place, SourceAddresses};
use clap::Args;
use player::{PlayerOptions, Rule};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

/// By default viewers arrive during the first quarter, so that all of them are present for most of the run.
const ARRIVE_IN_PART: u32 = 4;

/// Run viewers that really play against a server, and measure their experience
///
/// Each viewer has a buffer, chooses a bit rate, stalls, seeks and leaves, and sits behind a network of its own if you give
/// --networks. The results are what a person would have seen: time until the first picture, stalls and their reasons, bit
/// rate. The exit code is 1 if a request failed, and 130 after Ctrl-C; stalls are a result, not a failure.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore swarm --insecure https://localhost:8443/sample/master.m3u8\n  \
    fullbore swarm https://cdn.example/film/manifest.mpd --viewers 1000 --duration 10m --networks home=70,mobile=25,office=5\n  \
    fullbore swarm --insecure https://10.0.0.1:8443/film/master.m3u8 --also-at 10.0.0.2 --also-at 10.0.0.3 --viewers 200\n  \
    fullbore swarm --insecure https://localhost:8443/film/master.m3u8 --viewers 5000 --sources 127.1.0.0/16 --html swarm.html\n\n\
    docs/swarm.md says what each figure means."
)]
pub(crate) struct Swarm {
    /// Manifests to play, HLS or DASH, films or live streams, the most popular title first
    #[arg(required_unless_present = "is_virtual")]
    urls: Vec<Url>,
    /// Another server with the same titles, as HOST or HOST:PORT; each is a pathway for every viewer, in addition to those in the manifest
    #[arg(long, value_name = "SERVER")]
    also_at: Vec<Place>,
    /// Number of viewers
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    viewers: usize,
    /// How long to watch: 30s, 2m, 1h
    #[arg(long, short, value_name = "TIME", default_value = "1m")]
    duration: Time,
    /// Random seed: the same seed gives the same viewers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How viewers arrive: poisson, evening (a curve with a peak), premiere (most at once) or together
    #[arg(long, value_name = "HOW", default_value = "poisson")]
    arrivals: Arrivals,
    /// Period in which viewers arrive [default: a quarter of the duration, or all of it with --arrivals evening]
    #[arg(long, value_name = "TIME")]
    over: Option<Time>,
    /// How long each viewer stays [default: random; half of them stay for more than nine minutes]
    #[arg(long, value_name = "TIME")]
    watch: Option<Time>,
    /// Average seeks per viewer and hour
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    seeks_per_hour: f64,
    /// Length of the titles: viewers seek to positions up to this [default: 15m]
    #[arg(long, value_name = "TIME")]
    title_length: Option<Time>,
    /// With several URLs: the exponent of the Zipf distribution by which viewers choose
    #[arg(long, value_name = "S", default_value_t = 0.8)]
    zipf: f64,
    /// How players choose a bit rate: bba (by buffer), bola, throughput or fixed:N, 1 being the lowest
    #[arg(long, value_name = "RULE", default_value = "throughput")]
    rule: Rule,
    /// The most that a player buffers ahead
    #[arg(long, value_name = "TIME", default_value = "120s")]
    buffer: Time,
    /// Time without a byte after which a player repeats its request, perhaps to another server
    #[arg(long, value_name = "TIME", default_value = "10s")]
    patience: Time,
    /// A viewer leaves after waiting this long for the picture, at the beginning or in a stall [default: never]
    #[arg(long, value_name = "TIME")]
    give_up: Option<Time>,
    /// Networks that viewers sit behind, by weight, such as home=70,mobile=25,office=5; none: no limit
    #[arg(long, value_name = "SHARES", default_value = "none")]
    networks: Networks,
    /// Source addresses of viewers, such as 127.1.0.0/16, used one after the other
    #[arg(long, value_name = "NETWORK")]
    sources: Option<SourceAddresses>,
    /// Report to the server as players do (CMCD)
    #[arg(long)]
    cmcd: bool,
    /// Post events to the server that sends the film, too (CMCD version 2)
    #[arg(long, requires = "cmcd")]
    cmcd_events: bool,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Do a full TLS handshake for each connection instead of resuming
    #[arg(long)]
    no_resume: bool,
    /// Number of threads [default: one per CPU]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the viewers' states to this file while they play: one line of JSON per second
    #[arg(long, value_name = "FILE")]
    course: Option<PathBuf>,
    /// Exit with 0 even if requests failed
    #[arg(long)]
    allow_errors: bool,
    #[command(flatten)]
    virtual_time: virtual_time::Virtual,
}

const TITLE_LENGTH: Duration = Duration::from_secs(15 * 60);

/// Printed after a run of films that is shorter than twice the buffer.
const BUFFERED: &str = "  The run was shorter than twice the players' buffer: much of what they played they held before. To see what a server does all \
                        the time, make --duration longer or --buffer smaller.\n";

impl Swarm {
    /// Runs the viewers and prints their experience.
    pub(crate) fn run(self) -> ExitCode {
        if self.virtual_time.is_virtual {
            return self.run_virtual();
        }
        if self.virtual_time.is_needed() {
            return fail(2, "modelled servers are for virtual time only: add --virtual");
        }
        let options = self.options();
        if let Err(what) = options.check() {
            return fail(2, &what.to_string());
        }
        let course = match self.course.as_deref().map(CourseFile::create).transpose() {
            Ok(course) => course,
            Err(what) => return fail(1, &what),
        };
        let outcome = match watch(options, course) {
            Ok(outcome) => outcome,
            Err(error) => {
                let code = if error.kind() == io::ErrorKind::InvalidInput { 2 } else { 1 };
                return fail(code, &error.to_string());
            }
        };
        if let Err(what) = self.write(&outcome.to_json()) {
            return fail(1, &what);
        }
        if outcome.gave_up {
            let error = outcome.errors.values().max_by_key(|error| error.count);
            let what = error.map_or("nothing was answered", |error| &error.example);
            return fail(1, &format!("every request failed, stopped: {what}"));
        }
        crate::say(&outcome.describe());
        let has_films = outcome.seen.live.sessions < outcome.seen.all.sessions;
        if has_films && self.duration.0 < 2 * self.buffer.0 {
            crate::say(BUFFERED);
        }
        match (outcome.interrupted, outcome.is_clean() || self.allow_errors) {
            (true, _) => ExitCode::from(interrupt::EXIT_CODE),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
        }
    }

    fn options(&self) -> LiveOptions {
        LiveOptions {
            titles: self.urls.clone(),
            also_at: self.also_at.clone(),
            crowd: self.crowd(),
            player: PlayerOptions {
                rule: self.rule,
                buffer_max: self.buffer.0,
                patience: self.patience.0,
                give_up_after: self.give_up.map(|give_up| give_up.0),
                ..PlayerOptions::default()
            },
            has_networks: self.networks.0.is_some(),
            cmcd: self.cmcd,
            cmcd_events: self.cmcd_events,
            duration: self.duration.0,
            sources: self.sources,
            tls: ClientOptions { trust: self.trust(), ..ClientOptions::default() },
            resume: !self.no_resume,
            threads: self.threads.unwrap_or_else(crate::load::cpus_allowed),
            film_flags: self.film_flags(),
        }
    }

    fn title_length(&self) -> Duration {
        self.title_length.map_or(TITLE_LENGTH, |length| length.0)
    }

    /// Flags that make no sense for a live stream.
    fn film_flags(&self) -> Vec<&'static str> {
        let flags = [
            ("--seeks-per-hour", self.seeks_per_hour > 0.0),
            ("--title-length", self.title_length.is_some()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
    }

    fn crowd(&self) -> CrowdOptions {
        let duration = self.duration.0;
        let over = match (self.over, self.arrivals) {
            (Some(over), _) => over.0,
            (None, Arrivals::Evening) => duration,
            (None, _) => duration / ARRIVE_IN_PART,
        };
        CrowdOptions {
            viewers: self.viewers,
            seed: self.seed,
            arrivals: self.arrivals,
            over,
            titles: self.urls.len(),
            zipf_exponent: self.zipf,
            title_duration: self.title_length(),
            watch: self.watch.map_or_else(Watch::default, |watch| Watch::Exactly(watch.0)),
            seeks_per_hour: self.seeks_per_hour,
            networks: self.networks.0.unwrap_or_default(),
        }
    }

    fn trust(&self) -> Trust {
        match &self.ca {
            _ if self.insecure => Trust::AnyCertificate,
            Some(path) => Trust::File(path.clone()),
            None => Trust::System,
        }
    }

    /// Writes the requested files.
    fn write(&self, figures: &serde_json::Value) -> Result<(), String> {
        if let Some(path) = &self.json {
            put(path, &format!("{figures:#}\n"))?;
        }
        if let Some(path) = &self.html {
            let page = ::bench::report::swarm_page(figures);
            put(path, &page.map_err(|why| format!("cannot draw the page: {why}"))?)?;
        }
        Ok(())
    }
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn fail(code: u8, what: &str) -> ExitCode {
    crate::tell(what);
    ExitCode::from(code)
}

/// The viewers' states, for a program that reads along: one moment per line. Its names are those of `course` in the figures.
struct CourseFile {
    path: PathBuf,
    /// None once a write has failed.
    file: Option<File>,
}

impl CourseFile {
    fn create(path: &Path) -> Result<Self, String> {
        let created = File::create(path);
        let file = created.map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: Some(file) })
    }

    /// Writes a whole line at once. If that fails, the run continues without the file.
    fn note(&mut self, now: &Moment) {
        let Some(file) = &mut self.file else { return };
        let line = serde_json::to_string(now).map_err(io::Error::other);
        let written = line.and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            crate::tell(&format!("cannot write {}: {error}", self.path.display()));
            self.file = None;
        }
    }
}

/// Runs to the end, or to the first Ctrl-C. On a terminal, standard error shows the viewers' states.
fn watch(options: LiveOptions, mut course: Option<CourseFile>) -> io::Result<LiveOutcome> {
    let interrupt = interrupt::Interrupt::on_signal()?;
    let on_terminal = io::stderr().is_terminal();
    let mut last = Moment::default();
    let outcome = live::run(
        options,
        || interrupt.is_asked(),
        |now| {
            if let Some(course) = &mut course {
                course.note(now);
            }
            if on_terminal {
                // If the terminal is closed, the run continues.
                let _ = write!(io::stderr(), "\r\x1b[K{}", line(now, &last));
                last = *now;
            }
        },
    );
    if on_terminal {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    outcome
}

/// The viewers' states now, and the changes since the last line.
fn line(now: &Moment, last: &Moment) -> String {
    let seconds = (now.seconds - last.seconds).max(1e-3);
    format!(
        "{:4.0} s  {} waiting  {} playing  {} stalled  {} gone  {:7.3} Gb/s  {:6.0} requests/s  {} stalls  {} errors",
        now.seconds,
        now.waiting,
        now.playing,
        now.stalled,
        now.gone,
        (now.body_bytes - last.body_bytes) as f64 * 8e-9 / seconds,
        (now.requests - last.requests) as f64 / seconds,
        now.stalls,
        now.failures
    )
}

/// The networks that viewers sit behind, or `none`.
#[derive(Clone, Copy)]
struct Networks(Option<Shares>);

impl FromStr for Networks {
    type Err = <Shares as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|shares| Self(Some(shares))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_where_viewers_are_and_what_came_since_the_last_line() {
        let last = Moment { seconds: 2.0, body_bytes: 1_000_000, requests: 5, ..Moment::default() };
        let now = Moment {
            seconds: 4.0,
            waiting: 1,
            playing: 7,
            stalled: 2,
            body_bytes: 251_000_000,
            requests: 105,
            stalls: 3,
            ..Moment::default()
        };
        let line = line(&now, &last);
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "4 s 1 waiting 7 playing 2 stalled 0 gone 1.000 Gb/s 50 requests/s 3 stalls 0 errors"
        );
    }

    #[test]
    fn networks_are_shares_or_none() {
        assert!("none".parse::<Networks>().is_ok_and(|networks| networks.0.is_none()));
        assert!("home=1".parse::<Networks>().is_ok_and(|networks| networks.0.is_some()));
        assert!("all".parse::<Networks>().is_err());
    }
}
