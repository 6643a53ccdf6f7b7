//! One step: viewers connect, stay for a while and leave. Compares what they received with the CPU time of the server's cores.

use super::trial::Trial;
use crate::accounting::Account;
use crate::library::file_name;
use load::interrupt::Interrupt;
use load::{ClientOptions, Outcome, Pace, Pattern, Running, Snapshot, Trust};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tls::{Suite, TlsVersions};

/// Viewers that connect per second: few enough that none still has to catch up when the step begins.
const ARRIVALS_PER_SECOND: f64 = 500.0;

/// The shortest time in which viewers connect, in seconds: the first windows are small.
const RAMP_SECONDS_MIN: f64 = 1.0;

/// A step is read for the last time this many seconds before its end, when no viewer has left yet.
const END_SECONDS: f64 = 0.05;

/// How often to check for Ctrl-C.
const LOOK: Duration = Duration::from_millis(20);

/// The length of a step, and what its viewers do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Seconds after all viewers have connected.
    pub(crate) seconds: f64,
    pub(crate) asks: Asks,
}

/// The viewers' requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    /// Range after range, at the viewer's own rate.
    Ranges {
        /// Bytes of each range.
        bytes: u64,
        /// Rate of each viewer.
        bits_per_second: u64,
    },
    /// A connection and a handshake over and over, resumed with a ticket if there is one.
    Handshakes,
}

/// Where a step takes place.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    /// The server's process.
    pub(crate) server: u32,
    pub(crate) server_cpus: usize,
    pub(crate) client_cpus: Vec<u32>,
    pub(crate) has_tls: bool,
    pub(crate) files: usize,
    pub(crate) interrupt: Interrupt,
}

/// Readings at one moment.
struct Instants {
    at: Instant,
    counted: Snapshot,
    server_cpu_seconds: f64,
}

impl Stage {
    /// Plays one step with `viewers` viewers; `None` if it was interrupted.
    ///
    /// # Errors
    /// If the load cannot be generated, or the server has exited.
    pub(crate) fn play(&self, load: &Load, viewers: usize) -> io::Result<Option<Trial>> {
        let ramp_seconds = (viewers as f64 / ARRIVALS_PER_SECOND).max(RAMP_SECONDS_MIN);
        let running = Running::start(self.options(load, viewers, ramp_seconds))?;
        // Counting starts when the last viewer has started.
        let Some(begun) = self.look_after(&running, ramp_seconds + load.interval_seconds())? else {
            return Ok(None);
        };
        let Some(ended) = self.look_after(&running, load.seconds - END_SECONDS)? else {
            return Ok(None);
        };
        let outcome = running.join()?;
        Ok(Some(self.trial(load, viewers, &begun, &ended, &outcome)))
    }

    fn options(&self, load: &Load, viewers: usize, ramp_seconds: f64) -> load::Options {
        let scheme = if self.has_tls { "https" } else { "http" };
        let url = |file| format!("{scheme}://{}/{}", self.address, file_name(file));
        let (pattern, pace) = match load.asks {
            Asks::Ranges { bytes, bits_per_second } => {
                (Pattern::Ranges { bytes }, Pace::Viewers { bits_per_second })
            }
            Asks::Handshakes => (Pattern::Handshakes, Pace::Closed),
        };
        load::Options {
            targets: (0..self.files)
                .map(|file| url(file).parse().expect("an address and a name make a URL"))
                .collect(),
            pattern,
            pace,
            connections: viewers,
            cpus: self.client_cpus.clone(),
            duration: Duration::from_secs_f64(load.seconds),
            ramp: Duration::from_secs_f64(ramp_seconds),
            // Pin one version and one cipher, so that results do not depend on what this machine prefers.
            tls: ClientOptions {
                trust: Trust::AnyCertificate,
                versions: TlsVersions::Tls13,
                suites: vec![Suite::Aes128Gcm],
                ..ClientOptions::default()
            },
            resume: matches!(load.asks, Asks::Handshakes),
            ..load::Options::default()
        }
    }

    /// Takes readings after `seconds`; `None` if interrupted.
    fn look_after(&self, running: &Running, seconds: f64) -> io::Result<Option<Instants>> {
        let deadline = Instant::now() + Duration::from_secs_f64(seconds);
        while !self.interrupt.is_asked() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.look(running).map(Some);
            }
            std::thread::sleep(left.min(LOOK));
        }
        Ok(None)
    }

    fn look(&self, running: &Running) -> io::Result<Instants> {
        Ok(Instants {
            at: Instant::now(),
            counted: running.snapshot(),
            server_cpu_seconds: Account::of(self.server).read()?.cpu_seconds,
        })
    }

    fn trial(
        &self,
        load: &Load,
        viewers: usize,
        begun: &Instants,
        ended: &Instants,
        outcome: &Outcome,
    ) -> Trial {
        let seconds = ended.at.duration_since(begun.at).as_secs_f64();
        let server_seconds = ended.server_cpu_seconds - begun.server_cpu_seconds;
        let counted = ended.counted.since(begun.counted);
        Trial {
            viewers,
            gbps: counted.body_bytes as f64 * 8e-9 / seconds,
            handshakes_per_second: counted.handshakes as f64 / seconds,
            cpu_percent: 100.0 * server_seconds / seconds / self.server_cpus as f64,
            clients_are_full: outcome.is_client_bound(),
            asked_bits_per_second: load.asked_bits_per_second(),
            viewer_bits_per_second: outcome.viewer_bits_per_second.clone(),
            error: first_error(outcome),
        }
    }
}

/// The first error, if any. Getting no answer at all counts as one.
fn first_error(outcome: &Outcome) -> Option<String> {
    let first = outcome.errors.iter().next();
    let described = first
        .map(|(kind, error)| format!("{} x {kind}, the first: {}", error.count, error.example));
    described.or_else(|| (!outcome.is_clean()).then(|| "there were no answers".to_owned()))
}

impl Load {
    fn asked_bits_per_second(&self) -> Option<f64> {
        match self.asks {
            Asks::Ranges { bits_per_second, .. } => Some(bits_per_second as f64),
            Asks::Handshakes => None,
        }
    }

    /// Time between a viewer's requests.
    fn interval_seconds(&self) -> f64 {
        match self.asks {
            Asks::Ranges { bytes, bits_per_second } => bytes as f64 * 8.0 / bits_per_second as f64,
            Asks::Handshakes => 0.0,
        }
    }
}
