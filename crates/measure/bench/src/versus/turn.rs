//! One side's turn: checks that every byte is right, then measures how much work a CPU second does.

use super::carry::Carried;
use super::client::{Client, Fetch};
use super::clients::{Clients, GLANCE, Program, Verdict, wait};
use super::dashboards::Dashboards;
use super::side::Side;
use super::workload::{FILES, Figure, Workload, client_options};
use crate::accounting::CoreTimes;
use crate::counters::{Counters, Counts};
use crate::library::{Eviction, Library, file_name};
use load::interrupt::Interrupt;
use load::{Against, Options, Outcome, Pattern, Running, Snapshot, Url, Verify};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many responses are compared byte for byte before a turn, at least.
const COMPARED_MIN: u64 = 24;

/// How long a server may take for those.
const CHECK_PATIENCE: Duration = Duration::from_secs(30);

/// How much longer than the measured time the clients run, at both ends, so that no start and no end is in the figures.
const MARGIN: Duration = Duration::from_millis(100);

/// How much longer than their ramp idle connections may take to be complete.
const IDLE_PATIENCE: Duration = Duration::from_secs(30);

/// The turn's task.
#[derive(Clone, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) workload: Workload,
    pub(crate) client: Client,
    pub(crate) library: &'a Arc<Library>,
    /// Directory for a client's files.
    pub(crate) scratch: &'a Path,
    /// At once; of the swarm, the most viewers that are tried.
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    /// The rate of each viewer.
    pub(crate) rate_bits_per_second: u64,
    /// The share of requests for hot titles.
    pub(crate) hit_share: f64,
    pub(crate) server_cpu: u32,
    pub(crate) client_cpus: Vec<u32>,
    /// Whether work per CPU second of the server's core is compared, rather than of its threads.
    pub(crate) counts_core: bool,
    /// The viewers that the side carried in the turn before.
    pub(crate) guess: Option<usize>,
}

/// With fewer wake-ups, what each cost says nothing.
const WAKEUPS_MIN: u64 = 100;

/// The results of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// The compared figure, in the workload's unit.
    pub(crate) figure: f64,
    pub(crate) cpu_seconds: f64,
    /// What the server's core has spent, without low-priority programs, for whatever purpose.
    pub(crate) core_cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
    /// The server's resident bytes at the end.
    pub(crate) rss_bytes: u64,
    /// The share of the server's core, 0 to 1.
    pub(crate) softirq_share: f64,
    /// The server's hardware counts, if the machine has counters.
    pub(crate) hardware: Option<Counts>,
    /// How often a thread of the server slept and was woken.
    pub(crate) wakeups: u64,
    /// Bytes of cold titles that were in the page cache whenever the bench evicted them; none if no title is cold.
    pub(crate) left_bytes: Option<u64>,
    /// The counts of that time.
    pub(crate) counts: Snapshot,
    /// Whether the clients had no CPU time left.
    pub(crate) is_client_bound: bool,
    /// Our own clients' results of the whole turn; none with other clients.
    pub(crate) outcome: Option<Outcome>,
    /// How many viewers played without a stall, if that was searched.
    pub(crate) carried: Option<Carried>,
}

impl Round {
    pub(crate) fn gbps(&self) -> f64 {
        self.counts.body_bytes as f64 * 8e-9 / self.wall_seconds
    }

    /// None if less than a MiB was sent.
    pub(crate) fn wakeups_per_mib(&self) -> Option<f64> {
        let mib = self.counts.body_bytes as f64 / f64::from(1 << 20);
        (mib >= 1.0).then(|| self.wakeups as f64 / mib)
    }

    /// Bytes of cold titles that the server left in the page cache, for each byte that it sent.
    pub(crate) fn left_share(&self) -> Option<f64> {
        Some(self.left_bytes? as f64 / self.counts.body_bytes.max(1) as f64)
    }

    /// Microseconds of the server's threads for each time that one was woken; none if that was too rare for a mean.
    pub(crate) fn cpu_us_per_wakeup(&self) -> Option<f64> {
        (self.wakeups >= WAKEUPS_MIN).then(|| 1e6 * self.cpu_seconds / self.wakeups as f64)
    }

    /// Milliseconds to the first byte that this percentage of requests did not exceed, if the client tells.
    pub(crate) fn first_byte_ms(&self, percentile: f64) -> Option<f64> {
        self.outcome.as_ref()?.first_byte_ms(percentile)
    }

    /// The rate in Mb/s that this percentage of viewers did not exceed, if the client tells.
    pub(crate) fn viewer_mbps(&self, percentile: f64) -> Option<f64> {
        self.outcome.as_ref()?.viewer_mbps(percentile)
    }
}

impl Task<'_> {
    /// Takes the turn while `dashboards` are open on the server.
    ///
    /// # Errors
    /// As [`Self::take`], and if a dashboard received nothing.
    pub(crate) fn take_beside(
        &self,
        side: &mut Side,
        dashboards: usize,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(String),
    ) -> io::Result<Round> {
        if dashboards == 0 {
            return self.take(side, interrupt, progress);
        }
        let open = Dashboards::open(side.admin_address()?, dashboards)?;
        let round = self.take(side, interrupt, progress)?;
        open.close()?;
        Ok(round)
    }

    /// Takes the turn. `progress` hears of the steps of a search.
    ///
    /// # Errors
    /// If the side answers wrongly or not at all: then there is nothing to compare. [`io::ErrorKind::Interrupted`] if
    /// the user ended it.
    pub(crate) fn take(
        &self,
        side: &mut Side,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(String),
    ) -> io::Result<Round> {
        let hot = self.workload.hot_files();
        self.library.prepare(hot)?;
        let _eviction = Eviction::begin(self.library, hot)?;
        let round = self.check(side, interrupt).and_then(|()| match self.workload.figure() {
            Figure::ViewersPerCpuSecond => self.carry(side, interrupt, progress),
            Figure::RssBytesPerConnection => self.hold(side, self.options(side)?, interrupt),
            _ => self.measure(side, self.options(side)?, interrupt),
        });
        // A server that has ended is the cause of what the clients saw, so that is reported first.
        side.check()?;
        round
    }

    /// Compares every byte of some dozens of ranges with the library.
    ///
    /// # Errors
    /// If one is wrong, or too few come.
    pub(crate) fn check(&self, side: &Side, interrupt: &Interrupt) -> io::Result<()> {
        let against = Against::Directory(self.library.root.clone());
        let options = Options {
            targets: self.targets(side)?,
            pattern: Pattern::Player,
            connections: 2,
            cpus: self.client_cpus.clone(),
            duration: CHECK_PATIENCE,
            verify: Verify::OneIn { n: 1, against },
            tls: client_options(),
            ..Options::default()
        };
        let running = Running::start(options)?;
        let enough = |seen: Snapshot| seen.verified >= COMPARED_MIN || seen.errors > 0;
        while !running.is_over() && !enough(running.snapshot()) {
            wait(&running, GLANCE, interrupt)?;
        }
        running.stop();
        let outcome = running.join()?;
        expect_clean(&outcome)?;
        if outcome.verified < COMPARED_MIN {
            let (compared, seconds) = (outcome.verified, CHECK_PATIENCE.as_secs());
            return Err(io::Error::other(format!("in {seconds} s only {compared} responses came")));
        }
        Ok(())
    }

    fn options(&self, side: &Side) -> io::Result<Options> {
        let ramp = self.workload.ramp(self.connections);
        Ok(Options {
            targets: self.targets(side)?,
            connections: self.connections,
            cpus: self.client_cpus.clone(),
            ramp,
            duration: Duration::from_secs_f64(self.seconds) + 2 * MARGIN,
            patience: Duration::from_secs(30),
            read_bytes_max: self.client.read_bytes_max(),
            ..self.workload.load(self.rate_bits_per_second, self.hit_share)
        })
    }

    /// All files of the library, on this side.
    pub(crate) fn targets(&self, side: &Side) -> io::Result<Vec<Url>> {
        let origin = self.origin(side);
        let url = |file| format!("{origin}/{}", file_name(file));
        (0..FILES).map(|file| url(file).parse().map_err(io::Error::other)).collect()
    }

    pub(super) fn origin(&self, side: &Side) -> String {
        let scheme = if self.workload.has_tls() { "https" } else { "http" };
        format!("{scheme}://{}", side.address)
    }

    fn start_clients(&self, side: &Side, options: Options) -> io::Result<Clients> {
        if self.client.is_own() {
            return Running::start(options).map(Clients::Load);
        }
        let files: Vec<_> = (0..FILES).map(file_name).collect();
        let fetch = Fetch {
            origin: &self.origin(side),
            files: &files,
            connections: self.connections,
            threads: self.client.threads(self.client_cpus.len(), self.connections),
        };
        let (file_bytes, cpus) = (self.library.file_bytes, &self.client_cpus);
        Program::start(self.client, &fetch, file_bytes, cpus, self.scratch).map(Clients::Program)
    }

    /// Measures work per CPU second over the time in which all clients are active.
    fn measure(
        &self,
        side: &mut Side,
        options: Options,
        interrupt: &Interrupt,
    ) -> io::Result<Round> {
        let opens_after = options.opens_after();
        let beside = self.start_beside(side, &options)?;
        let clients = self.start_clients(side, options)?;
        clients.wait(opens_after + MARGIN, interrupt)?;
        let hot = self.workload.hot_files();
        let left_bytes = self.library.left_bytes(hot)?;
        let (counts, reading) = (clients.counts()?, side.read()?);
        let mut counters = side.counters();
        let counted = counters.as_mut().map(Counters::read).transpose()?;
        let (core, began) = (CoreTimes::read(self.server_cpu)?, Instant::now());
        clients.wait(Duration::from_secs_f64(self.seconds), interrupt)?;
        let counts = clients.counts()?.since(counts);
        let left_bytes =
            self.library.left_bytes(hot)?.zip(left_bytes).map(|(after, before)| after - before);
        let (after, wall_seconds) = (side.read()?, began.elapsed().as_secs_f64());
        let shares = CoreTimes::read(self.server_cpu)?.since(&core);
        let core_cpu_seconds = shares.spent * wall_seconds;
        let hardware = counters.as_mut().map(Counters::read).transpose()?;
        let hardware = hardware.zip(counted).map(|(after, before)| after.since(&before));
        let Verdict { is_bound, outcome } = clients.end(interrupt)?;
        if let Some(beside) = beside {
            beside.stop();
            expect_clean(&beside.join()?)?;
        }
        let cpu_seconds = after.cpu_seconds - reading.cpu_seconds;
        let counted_seconds = if self.counts_core { core_cpu_seconds } else { cpu_seconds };
        let work = match self.workload.figure() {
            Figure::HandshakesPerCpuSecond => counts.handshakes as f64,
            _ => counts.body_bytes as f64 * 8e-9,
        };
        if work <= 0.0 || counted_seconds <= 0.0 {
            return Err(io::Error::other("it did no work in the measured time"));
        }
        let figure = match self.workload.figure() {
            Figure::SlowestFirstByteMs => {
                let slowest = outcome.as_ref().and_then(|outcome| outcome.first_byte_ms(100.0));
                slowest.ok_or_else(|| {
                    io::Error::other("no response began in the measured time: try more --seconds")
                })?
            }
            _ => work / counted_seconds,
        };
        let rss_bytes = after.rss_bytes;
        Ok(Round {
            figure,
            cpu_seconds,
            core_cpu_seconds,
            wall_seconds,
            rss_bytes,
            softirq_share: shares.softirq,
            hardware,
            wakeups: after.wakeups - reading.wakeups,
            left_bytes,
            counts,
            is_client_bound: is_bound,
            outcome,
            carried: None,
        })
    }

    /// Starts the other clients that run at the same time, for at least as long.
    fn start_beside(&self, side: &Side, measured: &Options) -> io::Result<Option<Running>> {
        let Some(load) = self.workload.load_beside() else { return Ok(None) };
        let options = Options {
            targets: self.targets(side)?,
            cpus: self.client_cpus.clone(),
            duration: measured.ramp + measured.duration + measured.patience,
            ..load
        };
        Running::start(options).map(Some)
    }

    /// Measures memory per waiting connection.
    fn hold(&self, side: &mut Side, options: Options, interrupt: &Interrupt) -> io::Result<Round> {
        let (before, began) = (side.read()?, Instant::now());
        let core = CoreTimes::read(self.server_cpu)?;
        let give_up = Instant::now() + options.ramp + IDLE_PATIENCE;
        let running = Running::start(Options { duration: IDLE_PATIENCE, ..options })?;
        while running.snapshot().requests < self.connections as u64 && Instant::now() < give_up {
            wait(&running, MARGIN, interrupt)?;
        }
        // The last ones' handshake state is freed.
        wait(&running, 5 * MARGIN, interrupt)?;
        let counts = running.snapshot();
        let (after, wall_seconds) = (side.read()?, began.elapsed().as_secs_f64());
        let shares = CoreTimes::read(self.server_cpu)?.since(&core);
        running.stop();
        let outcome = running.join()?;
        if !outcome.errors.is_empty() {
            expect_clean(&outcome)?;
        }
        if counts.connections_open < self.connections as u64 {
            let open = counts.connections_open;
            return Err(io::Error::other(format!(
                "only {open} of {} connections were open",
                self.connections
            )));
        }
        // Not what the server keeps of its library meanwhile: ours takes 2 MiB of each title that is requested twice.
        let grown_bytes = after.anonymous_bytes.saturating_sub(before.anonymous_bytes);
        if grown_bytes == 0 {
            return Err(io::Error::other(
                "these few connections fit into memory that it already had: try more --connections",
            ));
        }
        Ok(Round {
            figure: grown_bytes as f64 / self.connections as f64,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            core_cpu_seconds: shares.spent * wall_seconds,
            wall_seconds,
            rss_bytes: after.rss_bytes,
            softirq_share: shares.softirq,
            hardware: None,
            wakeups: after.wakeups - before.wakeups,
            left_bytes: None,
            counts,
            is_client_bound: outcome.is_client_bound(),
            outcome: Some(outcome),
            carried: None,
        })
    }
}

/// Checks that every answer was as it should be.
///
/// # Errors
/// The first that was not.
pub(crate) fn expect_clean(outcome: &Outcome) -> io::Result<()> {
    if outcome.is_clean() {
        return Ok(());
    }
    let first = outcome.errors.iter().next();
    Err(io::Error::other(first.map_or_else(
        || "nothing was answered".to_owned(),
        |(kind, error)| format!("{} x {kind}, the first: {}", error.count, error.example),
    )))
}
