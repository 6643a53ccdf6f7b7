//! The work that both sides do, and which figure is compared.

use super::carry;
use crate::UnknownName;
use load::{ClientOptions, Options, Pace, Pattern, Popularity, Trust};
use std::time::Duration;
use tls::{Group, Suite, TlsVersions};

/// Files of the library.
pub(crate) const FILES: usize = 16;

/// How many of them are hot if some are and some are not.
pub(crate) const HOT_FILES: usize = 4;

/// How many viewers take titles from disk while others are measured: enough to keep a disk busy.
const BESIDE_CONNECTIONS: usize = 16;

/// The rate of all viewers together by default. A core of the machines at hand sends 10 to 30 Gb/s over TLS.
const VIEWERS_BITS_PER_SECOND: u64 = 4_000_000_000;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Whole files over TLS 1.3, all in the page cache.
    TlsWarm,
    /// The same from disk.
    TlsCold,
    /// Whole files without TLS, all in the page cache.
    HttpWarm,
    /// The same from disk.
    HttpCold,
    /// Viewers of titles in the page cache, next to others whose titles come from disk; without TLS.
    HttpBeside,
    /// Connections that have requested one byte and wait: their cost in memory.
    Idle,
    /// Full TLS handshakes, each on its own connection.
    Handshakes,
    /// Viewers who take what they play and no more.
    Viewers,
    /// Ranges, of which a set share is from titles in the page cache.
    Mixed,
    /// The same without TLS.
    HttpMixed,
    /// Viewers who really play, over TLS: how many there can be before one of them stalls.
    Swarm,
}

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Gigabits of bodies per CPU second of the server; more is better.
    GbpsPerCpuSecond,
    /// Handshakes per CPU second of the server; more is better.
    HandshakesPerCpuSecond,
    /// Resident bytes of the server per connection; less is better.
    RssBytesPerConnection,
    /// Milliseconds to the slowest first byte; less is better.
    SlowestFirstByteMs,
    /// Seconds of film that viewers got per CPU second of the server: viewers per core; more is better.
    ViewersPerCpuSecond,
}

impl Figure {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::GbpsPerCpuSecond => "gbps_per_cpu_second",
            Self::HandshakesPerCpuSecond => "handshakes_per_cpu_second",
            Self::RssBytesPerConnection => "rss_bytes_per_connection",
            Self::SlowestFirstByteMs => "slowest_first_byte_ms",
            Self::ViewersPerCpuSecond => "viewers_per_cpu_second",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::GbpsPerCpuSecond => "Gb/s per CPU second",
            Self::HandshakesPerCpuSecond => "handshakes per CPU second",
            Self::RssBytesPerConnection => "bytes per connection (less is better)",
            Self::SlowestFirstByteMs => "ms to the slowest first byte (less is better)",
            Self::ViewersPerCpuSecond => "viewers per CPU second",
        }
    }

    pub(crate) fn better(self) -> &'static str {
        match self {
            Self::RssBytesPerConnection | Self::SlowestFirstByteMs => "lower",
            Self::GbpsPerCpuSecond | Self::HandshakesPerCpuSecond | Self::ViewersPerCpuSecond => {
                "higher"
            }
        }
    }
}

impl Workload {
    /// Every workload with its name.
    pub const ALL: [(Workload, &'static str); 11] = [
        (Self::TlsWarm, "tls-warm"),
        (Self::TlsCold, "tls-cold"),
        (Self::HttpWarm, "http-warm"),
        (Self::HttpCold, "http-cold"),
        (Self::HttpBeside, "http-beside"),
        (Self::Idle, "idle"),
        (Self::Handshakes, "handshakes"),
        (Self::Viewers, "viewers"),
        (Self::Mixed, "mixed"),
        (Self::HttpMixed, "http-mixed"),
        (Self::Swarm, "swarm"),
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(workload, _)| *workload == self);
        known.map_or("", |(_, name)| name)
    }

    /// Whether it is over TLS.
    pub fn has_tls(self) -> bool {
        !matches!(self, Self::HttpWarm | Self::HttpCold | Self::HttpBeside | Self::HttpMixed)
    }

    /// The default number of connections; of the swarm, the most viewers that are tried.
    pub fn connections(self) -> usize {
        match self {
            Self::TlsWarm | Self::TlsCold | Self::HttpWarm | Self::HttpCold => 8,
            Self::Mixed | Self::HttpMixed => 16,
            Self::Handshakes | Self::HttpBeside => 64,
            Self::Idle | Self::Viewers => 1000,
            Self::Swarm => carry::VIEWERS_MAX,
        }
    }

    /// The default rate of each viewer, bits per second. Where their number is given, it is about a quarter of what one
    /// core sends over TLS, so that it shows how the server treats viewers and not its limit.
    pub fn rate_bits_per_second(self, connections: usize) -> u64 {
        match self {
            Self::Swarm => carry::BITS_PER_SECOND,
            _ => VIEWERS_BITS_PER_SECOND / connections.max(1) as u64,
        }
    }

    /// Whether each viewer has a rate.
    pub(crate) fn has_rate(self) -> bool {
        matches!(self, Self::Viewers | Self::HttpBeside | Self::Swarm)
    }

    /// Seconds over which connections start before anything is measured.
    pub(crate) fn ramp(self, connections: usize) -> Duration {
        let seconds = match self {
            // A player's first ranges come in a burst, which is over after a few ranges' playing time.
            Self::Viewers | Self::HttpBeside => 2.0 + connections as f64 / 1500.0,
            Self::Idle => connections as f64 / 1500.0,
            _ => 0.5,
        };
        Duration::from_secs_f64(seconds)
    }

    /// How many of the library's files are in memory.
    pub(crate) fn hot_files(self) -> usize {
        match self {
            Self::TlsCold | Self::HttpCold => 0,
            Self::Mixed | Self::HttpMixed | Self::HttpBeside => HOT_FILES,
            _ => FILES,
        }
    }

    /// Whether it is done once for each hit ratio.
    pub(crate) fn has_hit_ratio(self) -> bool {
        matches!(self, Self::Mixed | Self::HttpMixed)
    }

    pub(crate) fn figure(self) -> Figure {
        match self {
            Self::Handshakes => Figure::HandshakesPerCpuSecond,
            Self::Idle => Figure::RssBytesPerConnection,
            Self::HttpBeside => Figure::SlowestFirstByteMs,
            Self::Swarm => Figure::ViewersPerCpuSecond,
            _ => Figure::GbpsPerCpuSecond,
        }
    }

    /// Whether each turn has a new server. A server that has done this work before would be measured differently: memory that it took
    /// stays with it, and titles that were requested before are no longer cold to it. And where its buffers lie is chance and stays for as
    /// long as it runs: the same program was 1.6 times as fast in one process as in another, from a disk that the bench did not slow down
    /// (docs/notes/buffers.md). Over many turns that is part of the deviation and no bias. The others would only show how the server warms up.
    pub(crate) fn wants_fresh_servers(self) -> bool {
        !matches!(self, Self::TlsWarm | Self::Handshakes | Self::Viewers)
    }

    /// What the clients do. (The swarm's viewers are players of their own: `carry`.)
    pub(crate) fn load(self, rate_bits_per_second: u64, hit_share: f64) -> Options {
        let (pattern, pace) = match self {
            Self::TlsWarm | Self::TlsCold | Self::HttpWarm | Self::HttpCold => {
                (Pattern::Whole, Pace::Closed)
            }
            Self::Idle => (Pattern::Idle, Pace::Closed),
            Self::Handshakes => (Pattern::Handshakes, Pace::Closed),
            Self::Viewers | Self::HttpBeside | Self::Swarm => {
                (Pattern::Player, Pace::Viewers { bits_per_second: rate_bits_per_second })
            }
            // The larger of a player's ranges, so that the disk is the limit and not the requests.
            Self::Mixed | Self::HttpMixed => (Pattern::Ranges { bytes: 1 << 20 }, Pace::Closed),
        };
        let popularity = match self {
            Self::Mixed | Self::HttpMixed => Popularity::HitRatio { hit_share, hot: HOT_FILES },
            Self::HttpBeside => Popularity::HitRatio { hit_share: 1.0, hot: HOT_FILES },
            _ => Popularity::InTurn,
        };
        Options { pattern, pace, popularity, tls: client_options(), ..Options::default() }
    }

    /// What others do at the same time, without being measured: they take titles from disk as fast as they come.
    pub(crate) fn load_beside(self) -> Option<Options> {
        (self == Self::HttpBeside).then(|| Options {
            connections: BESIDE_CONNECTIONS,
            popularity: Popularity::HitRatio { hit_share: 0.0, hot: HOT_FILES },
            ..Self::HttpCold.load(0, 0.0)
        })
    }
}

/// The same cipher and key exchange for every server. Both sides run on this machine with a certificate that was just
/// made, so its names do not matter.
pub(crate) fn client_options() -> ClientOptions {
    ClientOptions {
        trust: Trust::AnyCertificate,
        versions: TlsVersions::Tls13,
        suites: vec![Suite::Aes128Gcm],
        groups: vec![Group::X25519],
        resume: false,
    }
}

impl std::str::FromStr for Workload {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        let unknown = || UnknownName::new("workload", name, Self::ALL.map(|(_, name)| name));
        known.map(|(workload, _)| *workload).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_named_once_and_asks_for_something_sensible() {
        for (workload, name) in Workload::ALL {
            assert_eq!(name.parse::<Workload>().unwrap(), workload);
            assert_eq!(workload.name(), name);
            let targets = vec!["https://127.0.0.1:1/a".parse().unwrap(); FILES];
            let load = Options { targets, ..workload.load(1_000_000, 0.5) };
            assert_eq!(load.check(), Ok(()), "{name}");
        }
        let unknown = "warp".parse::<Workload>().unwrap_err().to_string();
        assert!(unknown.contains("\"warp\"") && unknown.contains("tls-warm"), "{unknown}");
    }
}
