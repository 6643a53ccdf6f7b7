//! Running clients: our own load inside this process, or a program that others wrote, next to it.
//!
//! The kernel counts how much such a program has received so far (`/proc/PID/io`, proc(5)): curl writes each byte of a body
//! to /dev/null, and wrk reads each byte of a response from its socket. So the bytes are counted over the same time as the
//! server's CPU time, and responses under way at either end count as far as they have come. wrk's count includes the
//! responses' heads and, over TLS, the framing of records: about 0.1%.

use super::client::{Client, Fetch};
use super::process::Process;
use super::turn::expect_clean;
use crate::accounting::Account;
use load::interrupt::Interrupt;
use load::{Outcome, Running, Snapshot};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How soon an interrupt or the end of a run is noticed.
pub(super) const GLANCE: Duration = Duration::from_millis(20);

/// A client that uses more of its threads' time than this is the bottleneck.
const BUSY: f64 = 0.95;

/// The clients of a turn.
pub(super) enum Clients {
    Load(Running),
    Program(Program),
}

/// The clients' results of a whole turn.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// They had no CPU time left, so Gb/s by the clock show their speed.
    pub(super) is_bound: bool,
    /// The results of our own load.
    pub(super) outcome: Option<Outcome>,
}

/// A program that fetches files until it gets SIGINT.
#[derive(Debug)]
pub(super) struct Program {
    client: Client,
    process: Process,
    account: Account,
    began: Instant,
    threads: usize,
    file_bytes: u64,
}

impl Clients {
    /// What they have received so far.
    ///
    /// # Errors
    /// If they are gone.
    pub(super) fn counts(&self) -> io::Result<Snapshot> {
        match self {
            Self::Load(running) => Ok(running.snapshot()),
            Self::Program(program) => {
                Ok(Snapshot { body_bytes: program.received_bytes()?, ..Snapshot::default() })
            }
        }
    }

    /// Waits for this time, or for the end of their run.
    ///
    /// # Errors
    /// If it is interrupted, or a program has ended by itself.
    pub(super) fn wait(&self, time: Duration, interrupt: &Interrupt) -> io::Result<()> {
        match self {
            Self::Load(running) => wait(running, time, interrupt),
            Self::Program(program) => program.wait(time, interrupt),
        }
    }

    /// Waits for the end of our own load, or ends another program.
    ///
    /// # Errors
    /// If any transfer failed.
    pub(super) fn end(self, interrupt: &Interrupt) -> io::Result<Verdict> {
        match self {
            Self::Load(running) => {
                wait(&running, Duration::MAX, interrupt)?;
                let outcome = running.join()?;
                expect_clean(&outcome)?;
                Ok(Verdict { is_bound: outcome.is_client_bound(), outcome: Some(outcome) })
            }
            Self::Program(program) => program.end(),
        }
    }
}

impl Program {
    /// Starts it on these cores. Its files and its output go into `scratch`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(
        client: Client,
        fetch: &Fetch<'_>,
        file_bytes: u64,
        cpus: &[u32],
        scratch: &Path,
    ) -> io::Result<Self> {
        let variables = write_files(client, fetch, scratch)?;
        let words: Vec<_> =
            client.command(fetch).iter().map(|word| in_folder(word, scratch)).collect();
        let log = scratch.join(format!("{}.log", client.name()));
        let process = Process::start(&[], &words, &variables, cpus, &log, false)?;
        Ok(Self {
            client,
            account: Account::of(process.id()),
            process,
            began: Instant::now(),
            threads: fetch.threads,
            file_bytes,
        })
    }

    /// Bytes received so far, by the kernel's count.
    fn received_bytes(&self) -> io::Result<u64> {
        let counter = if self.client == Client::Curl { "wchar: " } else { "rchar: " };
        let text = fs::read_to_string(format!("/proc/{}/io", self.process.id()))?;
        let count = text.lines().find_map(|line| line.strip_prefix(counter));
        count.and_then(|count| count.parse().ok()).ok_or_else(|| {
            io::Error::other("this kernel does not count what processes read and write (CONFIG_TASK_IO_ACCOUNTING)")
        })
    }

    fn wait(&self, time: Duration, interrupt: &Interrupt) -> io::Result<()> {
        let began = Instant::now();
        loop {
            interrupt.check()?;
            if let Some(status) = self.process.ended()? {
                let (name, last_words) = (self.client.name(), self.process.last_words());
                return Err(io::Error::other(format!("{name} ended with {status}{last_words}")));
            }
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(GLANCE));
        }
    }

    fn end(mut self) -> io::Result<Verdict> {
        let cpu_seconds = self.account.read()?.cpu_seconds;
        let busy = cpu_seconds / self.threads as f64 / self.began.elapsed().as_secs_f64();
        let said = self.process.interrupt()?;
        self.client.judge(&said, self.file_bytes).map_err(io::Error::other)?;
        Ok(Verdict { is_bound: busy > BUSY, outcome: None })
    }
}

/// Writes the program's files; returns its environment variables.
fn write_files(
    client: Client,
    fetch: &Fetch<'_>,
    scratch: &Path,
) -> io::Result<Vec<(&'static str, PathBuf)>> {
    let mut variables = Vec::new();
    for (variable, name, contents) in client.files(fetch) {
        let path = scratch.join(name);
        fs::write(&path, contents)?;
        variables.extend(variable.map(|variable| (variable, path)));
    }
    Ok(variables)
}

/// Replaces `@NAME` by the path of that file.
fn in_folder(word: &str, folder: &Path) -> String {
    match word.strip_prefix('@') {
        Some(name) => folder.join(name).display().to_string(),
        None => word.to_owned(),
    }
}

/// Waits for this time, or for the end of the run.
pub(super) fn wait(running: &Running, time: Duration, interrupt: &Interrupt) -> io::Result<()> {
    let began = Instant::now();
    while !running.is_over() {
        interrupt.check()?;
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(GLANCE));
    }
    Ok(())
}
