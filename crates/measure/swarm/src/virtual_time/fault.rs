//! Faults of a modelled server, and their times.

use crate::bad_option::BadOption;
use crate::random::mix;
use fastrand::Rng;
use std::str::FromStr;
use std::time::Duration;

/// A fault of a server for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerFault {
    /// The server, counted from 0; `None` for all.
    pub server: Option<usize>,
    /// The kind of fault.
    pub kind: FaultKind,
    /// Its start, since the beginning of the run.
    pub from: Duration,
    /// Its end; `Duration::MAX` for a permanent fault.
    pub until: Duration,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// It resets its connections and refuses new ones.
    Dead,
    /// Its packets are silently dropped.
    Silent,
    /// Each response is limited to this many bits per second.
    Slow(f64),
    /// It answers every request with this status. With a 429, it asks clients to return after ten seconds.
    Status(u16),
    /// A segment is missing (404); with its index, counted from 0.
    Missing(usize),
    /// A segment ends in the middle; with its index, counted from 0.
    WrongLength(usize),
}

/// The rate of a slow server, unless the fault sets another.
const SLOW_BITS_PER_SECOND: f64 = 200e3;

impl ServerFault {
    /// Returns true if it affects this server at this time.
    pub(crate) fn holds(&self, server: usize, now: Duration) -> bool {
        self.is_of(server) && self.from <= now && now < self.until
    }

    pub(crate) fn is_of(&self, server: usize) -> bool {
        self.server.is_none_or(|this| this == server)
    }

    /// A bad evening: one of the servers slows down to 200 kb/s per connection for some time, and another dies for good. The seed decides
    /// which ones, and when. If there is only one server, both happen to it.
    pub fn evening(seed: u64, servers: usize, duration: Duration) -> Vec<Self> {
        let mut random = Rng::with_seed(mix(seed ^ EVENING));
        let slow = random.usize(..servers.max(1));
        let steps = if servers > 1 { 1 + random.usize(..servers - 1) } else { 0 };
        let dead = (slow + steps) % servers.max(1);
        let mut between = |from: f64, to: f64| duration.mul_f64(from + (to - from) * random.f64());
        vec![
            Self {
                server: Some(slow),
                kind: FaultKind::Slow(SLOW_BITS_PER_SECOND),
                from: between(0.2, 0.4),
                until: between(0.6, 0.8),
            },
            Self {
                server: Some(dead),
                kind: FaultKind::Dead,
                from: between(0.3, 0.6),
                until: Duration::MAX,
            },
        ]
    }
}

/// Separates the draws of an evening from those of its viewers.
const EVENING: u64 = 0x0065_7665_6e69_6e67;

const WANTED: &str = "a fault such as 1:dead@20m, 2:slow=200k@5m-10m, all:missing=17; the kinds are dead, silent, slow, status, missing and wrong-length";

/// Parses `SERVER:KIND[@FROM[-UNTIL]]`. Servers and segments are counted from 1 here, as people do; `all` means every server.
impl FromStr for ServerFault {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Self, BadOption> {
        parse(text).ok_or_else(|| BadOption::new(text, WANTED))
    }
}

fn parse(text: &str) -> Option<ServerFault> {
    let (server, rest) = text.split_once(':')?;
    let server = match server {
        "all" => None,
        number => Some(number.parse::<usize>().ok()?.checked_sub(1)?),
    };
    let (kind, times) = rest.split_once('@').unwrap_or((rest, "0"));
    let (from, until) = match times.split_once('-') {
        Some((from, until)) => (time(from)?, time(until)?),
        None => (time(times)?, Duration::MAX),
    };
    (from < until).then_some(ServerFault { server, kind: parse_kind(kind)?, from, until })
}

fn parse_kind(text: &str) -> Option<FaultKind> {
    let (name, value) = text.split_once('=').map_or((text, None), |(a, b)| (a, Some(b)));
    let segment = || value?.parse::<usize>().ok()?.checked_sub(1);
    match (name, value) {
        ("dead", None) => Some(FaultKind::Dead),
        ("silent", None) => Some(FaultKind::Silent),
        ("slow", None) => Some(FaultKind::Slow(SLOW_BITS_PER_SECOND)),
        ("slow", Some(rate)) => scaled(rate, &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)])
            .filter(|rate| *rate > 0.0)
            .map(FaultKind::Slow),
        ("status", Some(status)) => {
            let status = status.parse().ok().filter(|status| (400..600).contains(status));
            status.map(FaultKind::Status)
        }
        ("missing", Some(_)) => segment().map(FaultKind::Missing),
        ("wrong-length", Some(_)) => segment().map(FaultKind::WrongLength),
        _ => None,
    }
}

fn time(text: &str) -> Option<Duration> {
    let seconds = scaled(text, &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)])?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A number with one of these units; the first unit that fits is used.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (unit, factor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    Some(number * factor).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn faults_are_read_with_their_server_and_their_time() {
        let fault = |server, kind, from, until| Ok(ServerFault { server, kind, from, until });
        let ever = Duration::MAX;
        assert_eq!("2:dead@20m".parse(), fault(Some(1), FaultKind::Dead, seconds(1200), ever));
        let slow = FaultKind::Slow(200e3);
        assert_eq!("1:slow".parse(), fault(Some(0), slow, seconds(0), ever));
        assert_eq!("all:slow=0.2M@5-1m".parse(), fault(None, slow, seconds(5), seconds(60)));
        let missing = FaultKind::Missing(16);
        assert_eq!("all:missing=17".parse(), fault(None, missing, seconds(0), ever));
        let busy = FaultKind::Status(503);
        assert_eq!(
            "3:status=503@1h-2h".parse(),
            fault(Some(2), busy, seconds(3600), seconds(7200))
        );
    }

    #[test]
    fn what_is_no_fault_is_refused() {
        for text in [
            "",
            "dead",
            "0:dead",
            "1:dying",
            "1:slow=0",
            "1:status=200",
            "1:missing",
            "1:missing=0",
            "1:dead@5m-1m",
            "1:dead@x",
            "1:slow=NaN",
            "1:dead=3",
            "1:dead@-5",
        ] {
            let error = text.parse::<ServerFault>().expect_err(text);
            assert!(error.to_string().contains("wrong-length"), "{error}");
        }
    }

    #[test]
    fn an_evening_slows_one_server_and_kills_another() {
        for seed in 0..100 {
            let faults = ServerFault::evening(seed, 3, seconds(3600));
            assert_ne!(faults[0].server, faults[1].server);
            assert!(faults.iter().all(|fault| fault.from < fault.until));
            assert!(faults.iter().all(|fault| fault.server.is_some_and(|server| server < 3)));
            assert_eq!(faults, ServerFault::evening(seed, 3, seconds(3600)));
        }
        let alone = ServerFault::evening(1, 1, seconds(3600));
        assert!(alone.iter().all(|fault| fault.server == Some(0)));
    }
}
