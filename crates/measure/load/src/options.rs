//! The load to generate, in the terms of its command line.

use crate::film::typical_bytes;
use crate::schedule;
use player::Url;
use std::path::PathBuf;
use std::time::Duration;
use tls::client::ClientOptions;

/// The largest range to request: 1 TiB.
pub const RANGE_BYTES_MAX: u64 = 1 << 40;

/// The slowest and the fastest schedule, arrivals per second.
const ARRIVALS_MIN: f64 = 1e-3;
const ARRIVALS_MAX: f64 = 1e9;

/// Longer than any run, and short enough to add to any time.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Time between a viewer's requests if its pattern does not determine how long one of them plays.
const INTERVAL: Duration = Duration::from_secs(2);

/// Options of a run. `Options { targets, ..Options::default() }` requests whole files as fast as they come, on eight connections, for ten
/// seconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URLs to request; at least one.
    pub targets: Vec<Url>,
    /// How a viewer chooses a target.
    pub popularity: Popularity,
    /// The pattern of a viewer's requests to a target.
    pub pattern: Pattern,
    /// When a viewer sends requests.
    pub pace: Pace,
    /// Number of viewers; each has one connection at a time.
    pub connections: usize,
    /// One thread is pinned to each of these CPUs; if empty, the system places the threads.
    pub cpus: Vec<u32>,
    /// Number of threads if `cpus` is empty.
    pub threads: usize,
    /// How long to measure, after the ramp.
    pub duration: Duration,
    /// The time over which the viewers start, evenly. Errors count from the start, all else from the end of the ramp.
    pub ramp: Duration,
    /// How fast each viewer reads from its socket, in bits per second; `None` means at once. Slow readers get a small receive buffer, so
    /// that the server notices.
    pub read_rate_bits_per_second: Option<u64>,
    /// The most bytes that a viewer reads from its socket at once, as soon as any have arrived, like most players. `None`: the amount that
    /// is cheapest for this machine, once it has arrived.
    pub read_bytes_max: Option<u64>,
    /// Share of requests that the viewer aborts in the middle, to continue on a new connection; 0 to 1.
    pub abort_share: f64,
    /// Share of requests after which the viewer seeks to a random position in the title; 0 to 1.
    pub seek_share: f64,
    /// Which responses to compare byte for byte.
    pub verify: Verify,
    /// Which certificates to trust, and which versions, ciphers and groups to offer.
    pub tls: ClientOptions,
    /// Set if new connections resume earlier sessions when the server supports that. (The same field in `tls` is ignored.)
    pub resume: bool,
    /// For a title with a manifest: the rendition to play, where 1 has the lowest rate; `None` means the highest.
    pub rung: Option<usize>,
    /// How long a connection may make no progress, in each of connecting, handshake and answer.
    pub patience: Duration,
    /// The seed of random choices: the same seed makes the same choices.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            popularity: Popularity::InTurn,
            pattern: Pattern::Whole,
            pace: Pace::Closed,
            connections: 8,
            cpus: Vec::new(),
            threads: 1,
            duration: Duration::from_secs(10),
            ramp: Duration::ZERO,
            read_rate_bits_per_second: None,
            read_bytes_max: None,
            abort_share: 0.0,
            seek_share: 0.0,
            verify: Verify::Nothing,
            tls: ClientOptions::default(),
            resume: false,
            rung: None,
            patience: Duration::from_secs(10),
            seed: 1,
        }
    }
}

impl Options {
    /// The number of threads that will run.
    pub(crate) fn threads(&self) -> usize {
        let threads = if self.cpus.is_empty() { self.threads } else { self.cpus.len() };
        threads.clamp(1, self.connections.max(1))
    }

    /// Returns true if connections are viewers that have a rate.
    pub(crate) fn has_viewers(&self) -> bool {
        let asks = !matches!(self.pattern, Pattern::Handshakes | Pattern::Idle);
        asks && !matches!(self.pace, Pace::Open { .. })
    }

    /// Time between a viewer's requests; zero if it sends them without pause.
    pub(crate) fn interval(&self) -> Duration {
        match self.pace {
            Pace::Viewers { bits_per_second } => typical_bytes(self.pattern)
                .map_or(INTERVAL, |bytes| schedule::playing_time(bytes, bits_per_second)),
            _ => Duration::ZERO,
        }
    }

    /// When measuring begins, as a time since the start of the run: once the last viewer has started.
    pub fn opens_after(&self) -> Duration {
        self.ramp + self.interval()
    }

    /// Checks the combination of options and reports to the user.
    ///
    /// # Errors
    /// The first conflict.
    pub fn check(&self) -> Result<(), OptionsError> {
        let watches = !matches!(self.pattern, Pattern::Handshakes | Pattern::Idle);
        let possible = |rate: f64| (ARRIVALS_MIN..=ARRIVALS_MAX).contains(&rate);
        let complaints = [
            (self.targets.is_empty(), "there is no URL to request"),
            (self.connections == 0, "at least one connection is needed"),
            (self.duration.is_zero(), "the duration is zero: nothing would be measured"),
            (!watches && self.verify != Verify::Nothing, "there are no responses to verify"),
            (
                !watches && self.abort_share + self.seek_share > 0.0,
                "handshakes and idle connections have nothing to abort or to seek in",
            ),
            (
                self.pattern == Pattern::Whole && self.seek_share > 0.0,
                "a viewer of whole files cannot seek: choose ranges or a player's pattern",
            ),
            (
                matches!(self.pattern, Pattern::Ranges { bytes } if bytes == 0 || bytes > RANGE_BYTES_MAX),
                "a range must have at least one byte and at most 1 TiB",
            ),
            (
                matches!(self.pace, Pace::Open { per_second } if !possible(per_second)),
                "arrivals must be between 0.001 and 1,000,000,000 per second",
            ),
            (
                [self.duration, self.ramp, self.patience].iter().any(|time| *time > TIME_MAX),
                "no time may be longer than a year",
            ),
            (
                matches!(self.popularity, Popularity::Zipf { exponent } if !(0.0..=100.0).contains(&exponent)),
                "the exponent of Zipf's law must be a number from 0 to 100",
            ),
            (
                [self.abort_share, self.seek_share]
                    .iter()
                    .any(|share| !(0.0..=1.0).contains(share)),
                "a share must be a number from 0 to 1",
            ),
            (
                self.pattern == Pattern::Idle && self.pace != Pace::Closed,
                "idle connections cannot have a rate or arrivals",
            ),
            (
                self.pattern == Pattern::Handshakes && matches!(self.pace, Pace::Viewers { .. }),
                "handshakes have no rate per viewer: give arrivals per second instead",
            ),
            (
                self.pattern == Pattern::Handshakes && self.targets.iter().any(|url| !url.is_tls()),
                "handshakes need https:// URLs",
            ),
            (
                matches!(self.pace, Pace::Viewers { bits_per_second: 0 })
                    || self.read_rate_bits_per_second == Some(0),
                "a rate must be more than zero",
            ),
            (self.read_bytes_max == Some(0), "a read must be of more than zero bytes"),
            (
                matches!(self.popularity, Popularity::HitRatio { hot, .. } if hot == 0 || hot > self.targets.len()),
                "a hit ratio needs at least one hot title, and no more than there are URLs",
            ),
            (
                matches!(self.popularity, Popularity::HitRatio { hot, hit_share }
                    if hot == self.targets.len() && hit_share < 1.0),
                "a hit ratio below 100% needs URLs beyond the hot ones",
            ),
            (
                matches!(self.verify, Verify::OneIn { n: 0, .. }),
                "one response in zero cannot be verified",
            ),
        ];
        let complaint = complaints.iter().find(|(is_wrong, _)| *is_wrong);
        complaint.map_or(Ok(()), |(_, what)| Err(OptionsError(what)))
    }
}

/// Options that conflict. The display text explains why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(&'static str);

/// The pattern of a viewer's requests to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The whole file, in one response.
    Whole,
    /// Ranges as a player requests them: a head of 45 KB, then ranges of 262 KB and of 1.07 MB, from start to end.
    Player,
    /// Ranges of one size, from a random position to the end.
    Ranges {
        /// Bytes per range.
        bytes: u64,
    },
    /// The target is an HLS playlist or a DASH manifest: its segments, in order.
    Title,
    /// Connect, do a handshake, close; over and over.
    Handshakes,
    /// Connect, request one byte, and hold the connection until the end.
    Idle,
}

/// When a viewer sends requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as the last response is complete.
    Closed,
    /// When its playback clock has reached the end of what it requested. The clock does not wait for a slow server: a viewer that got bytes
    /// late requests the next ones at once. Starts are spread over one range's playing time.
    Viewers {
        /// The rate at which each plays.
        bits_per_second: u64,
    },
    /// On a schedule for all viewers together, whether or not the server keeps up; any free viewer takes the next request. Latencies count
    /// from the scheduled time, so a stall shows in every request that it delays.
    Open {
        /// Requests (or handshakes) due per second.
        per_second: f64,
    },
}

/// How a viewer chooses a title.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// One after the other; each viewer starts with a different one.
    InTurn,
    /// By rank: rank k has a probability proportional to k to the power of minus the exponent.
    Zipf {
        /// With 0 all are equally likely; reports for video libraries range from 0.6 to 1.2.
        exponent: f64,
    },
    /// A set share of requests goes to the first titles. The others are requested in sequence, range by range over all of them, so that
    /// each range was last requested as long ago as possible.
    HitRatio {
        /// The share of requests to hot titles, 0 to 1.
        hit_share: f64,
        /// Number of hot titles.
        hot: usize,
    },
}

/// Which responses to decrypt in full, hash (SHA-256) and compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verify {
    /// None.
    Nothing,
    /// One in every `n`.
    OneIn {
        /// 1 compares every response.
        n: u64,
        /// The reference to compare with.
        against: Against,
    },
}

/// The reference that responses are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against {
    /// The first response to the same request.
    FirstSeen,
    /// The same bytes of the file that the server reads: the URL's path below this directory.
    Directory(PathBuf),
}
