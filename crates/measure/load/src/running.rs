//! A run: its threads, and how to watch, stop and await it.

use crate::connection::ServerEndpoint;
use crate::crew::{self, Measured};
use crate::film::Film;
use crate::options::{Options, Pattern};
use crate::outcome::{Latencies, Outcome};
use crate::popularity::Chooser;
use crate::shared::{Shared, Standing};
use crate::tally::{Counters, Snapshot, merge};
use crate::tls::ClientTls;
use crate::verify::Verifier;
use player::Url;
use reactor::{Woken, remote};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// Descriptors for everything that is not a connection: rings, eventfds, files to compare with, standard streams.
const OTHER_DESCRIPTORS: u64 = 64;

/// A run in progress. Dropping it stops it without waiting.
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<Measured>>>,
}

impl Running {
    /// Reads manifests if the pattern needs them, raises the limit on open files, and starts the threads.
    ///
    /// # Errors
    /// An error with a sentence for the user: options that conflict, a name without an address, a manifest that cannot be fetched or read,
    /// a list of trusted certificates that cannot be read, or a limit on open files that is too low.
    pub fn start(options: Options) -> io::Result<Self> {
        options.check().map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
        allow_connections(options.connections)?;
        let (endpoints, films) = prepare(&options)?;
        let threads = options.threads();
        let (remotes, woken): (Vec<_>, Vec<_>) =
            (0..threads).map(|_| remote()).collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let shared = Arc::new(Shared {
            chooser: Chooser::new(options.popularity, films.len()),
            verifier: Verifier::new(options.verify.clone()),
            films,
            endpoints,
            counters: (0..threads).map(|_| Arc::new(Counters::default())).collect(),
            remotes,
            began: Instant::now(),
            standing: Standing::default(),
            options,
        });
        let mut running = Self { shared, threads: Vec::new() };
        for (number, woken) in woken.into_iter().enumerate() {
            let thread = running.start_thread(number, woken)?;
            running.threads.push(thread);
        }
        Ok(running)
    }

    fn start_thread(
        &self,
        number: usize,
        woken: Woken,
    ) -> io::Result<JoinHandle<io::Result<Measured>>> {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&shared.counters[number]);
        let thread = std::thread::Builder::new().name(format!("load {number}"));
        thread.spawn(move || crew::run(shared, counters, number, woken))
    }

    /// All counts since the start, ramp included.
    pub fn snapshot(&self) -> Snapshot {
        let counters = self.shared.counters.iter();
        counters.map(|counters| counters.snapshot()).fold(Snapshot::default(), Snapshot::plus)
    }

    /// Ends the run early; the outcome reports that.
    pub fn stop(&self) {
        self.shared.interrupt();
    }

    /// Returns true if the run has ended, so that [`Self::join`] will not wait.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If a thread could not run: no such CPU, no ring.
    ///
    /// # Panics
    /// If a thread panicked.
    pub fn join(mut self) -> io::Result<Outcome> {
        let threads = std::mem::take(&mut self.threads);
        let measured: io::Result<Vec<_>> =
            threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect();
        Ok(self.outcome(measured?))
    }

    fn outcome(&self, measured: Vec<Measured>) -> Outcome {
        let all = self.snapshot();
        let mut outcome = Outcome {
            wall_seconds: self.shared.began.elapsed().as_secs_f64(),
            measured_seconds: 0.0,
            body_bytes: 0,
            requests: 0,
            aborted: 0,
            overdue: 0,
            handshakes: 0,
            resumed: 0,
            connections_opened: all.connections_opened,
            connections_open: 0,
            verified: all.verified,
            errors: BTreeMap::new(),
            first_byte: Latencies::default(),
            viewer_bits_per_second: Vec::new(),
            cpu_seconds: 0.0,
            busiest_thread: 0.0,
            interrupted: self.shared.is_interrupted(),
            gave_up: self.shared.has_given_up(),
        };
        for counters in &self.shared.counters {
            merge(&mut outcome.errors, counters.kinds());
        }
        let threads = measured.len().max(1) as f64;
        for measured in measured {
            outcome.add(measured, threads);
        }
        let has_viewers = self.shared.options.has_viewers();
        outcome.viewer_bits_per_second.retain(|_| has_viewers);
        outcome
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.interrupt();
    }
}

impl Outcome {
    fn add(&mut self, measured: Measured, threads: f64) {
        self.count(measured.counts);
        // All threads have the same window, apart from the moments at which they woke.
        self.measured_seconds += measured.seconds / threads;
        self.overdue += measured.overdue;
        self.cpu_seconds += measured.cpu_seconds;
        if measured.seconds > 0.0 {
            let busy = measured.cpu_seconds / measured.seconds;
            self.busiest_thread = self.busiest_thread.max(busy);
        }
        self.first_byte.add(&measured.first_byte);
        self.viewer_bits_per_second.extend(measured.viewer_bits_per_second);
    }
}

/// Raises the limit on open files as far as this process may.
///
/// # Errors
/// If that is not enough for this many connections, with a sentence on how to raise it further.
pub fn allow_connections(connections: usize) -> io::Result<()> {
    let allowed = machine::raise_nofile()?;
    let needed = connections as u64 + OTHER_DESCRIPTORS;
    if needed <= allowed {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{connections} connections need {needed} open files, and this process may have {allowed}: ask for at most {} \
         connections, or raise the hard limit (as root: `prlimit --pid $$ --nofile={needed}:{needed}` in this shell, or \
         LimitNOFILE= in a systemd unit)",
        allowed.saturating_sub(OTHER_DESCRIPTORS)
    )))
}

/// Resolves the servers' addresses and prepares what to request from them.
fn prepare(options: &Options) -> io::Result<(Vec<ServerEndpoint>, Vec<Film>)> {
    let tls = ClientTls::load(&options.tls).map_err(io::Error::other)?;
    let mut origins: Vec<Url> = Vec::new();
    let mut endpoints = Vec::new();
    let mut films = Vec::with_capacity(options.targets.len());
    for url in &options.targets {
        let known = origins.iter().position(|origin| origin.is_same_origin(url));
        let index = match known {
            Some(index) => index,
            None => {
                origins.push(url.clone());
                endpoints.push(endpoint(url, &tls)?);
                endpoints.len() - 1
            }
        };
        let segments = match options.pattern {
            Pattern::Title => super::title::read(&endpoints[index], url, options)?,
            _ => Vec::new(),
        };
        films.push(Film::new(url.clone(), index, segments));
    }
    Ok((endpoints, films))
}

fn endpoint(url: &Url, tls: &ClientTls) -> io::Result<ServerEndpoint> {
    let address = crate::address_of(url).map_err(|error| {
        let host = url.host();
        io::Error::new(
            error.kind(),
            format!("cannot find the address of {host}: {error}; is the name right?"),
        )
    })?;
    Ok(ServerEndpoint {
        address,
        host: url.host().to_owned(),
        tls: url.is_tls().then(|| tls.clone()),
    })
}
