//! Measures the cost of additional viewers on the bypass route: from a thousand connections to hundreds of thousands, at a constant total
//! rate.
//!
//! Everything above the device is the server's real code (`server.rs`): TCP, the layout of answers, keys, records, buffers. A thread makes
//! the frames of all viewers (`peer.rs`), so neither descriptors nor ports limit their number, and their cost is not counted as the
//! server's. Each number of connections runs in its own process, because a process's memory after a large run says nothing about what a
//! small one needs.
//!
//! Not included: handshakes, parsing of requests, and what a device or the kernel does with a frame. `versus` measures those.

mod outcome;
mod peer;
mod progress;
mod server;

pub use outcome::{Outcome, Row};

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use load::interrupt::Interrupt;
use tempfile::TempDir;

use crate::limit::pin;
use crate::scratch;
use crate::versus::{SERVER_CPU, client_cpus};
use peer::{Habits, ON_LINK_MAX, Peer, SERVER};
use progress::Progress;
use server::{HEAD_BYTES, Served, serve};

/// Options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of connections to measure, one after the other.
    pub connections: Vec<u32>,
    /// Bytes of film per second for all viewers together.
    pub total_bytes_per_second: f64,
    /// Rate of a viewer's link, in bytes per second.
    pub link_bytes_per_second: f64,
    /// Bytes of film in each answer.
    pub body_bytes: u64,
    /// How long to measure at least. The run also lasts until each viewer has sent one request.
    pub duration: Duration,
    /// Where to keep the film during the run; the system's temporary folder if unset.
    pub scratch: Option<PathBuf>,
}

/// Larger than any processor's cache, so that the film's bytes come from memory.
const FILM_BYTES: u64 = 512 << 20;

/// How long viewers send requests before counting starts: by then slow start is over and buffers have been touched.
const WARM_UP: Duration = Duration::from_secs(3);

/// Gives up a run in which nothing has changed for this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures each number of connections in its own process: this program, with the arguments `alone` and the number last. `tell` gets a line
/// on each step.
///
/// # Errors
/// If one of them fails, or the user interrupts.
pub fn run(
    options: &Options,
    alone: &[String],
    interrupt: &Interrupt,
    tell: impl Fn(&str),
) -> io::Result<Outcome> {
    let mut rows = Vec::new();
    for connections in &options.connections {
        interrupt.check()?;
        tell(&format!("{connections} connections"));
        let program = std::env::current_exe()?;
        let child = Command::new(program)
            .args(alone)
            .arg(connections.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            interrupt.check()?;
            let why = format!("the run with {connections} connections failed; its reason is above");
            return Err(io::Error::other(why));
        }
        let row = Row::from_json(&serde_json::from_slice(&output.stdout)?);
        rows.push(row.ok_or_else(|| io::Error::other("a run's figures cannot be read"))?);
    }
    Ok(Outcome { options: options.clone(), rows })
}

/// Measures one number of connections in this process.
///
/// # Errors
/// If viewers do not connect, the server fails, or a viewer saw a fault of the server.
pub fn run_alone(options: &Options, connections: u32, interrupt: &Interrupt) -> io::Result<Row> {
    let on_link = f64::from(answer_bytes(options.body_bytes)) / options.link_bytes_per_second;
    if on_link > ON_LINK_MAX.as_secs_f64() {
        let why = format!(
            "an answer would take {on_link:.1} s on its link: raise --link-mbps, or lower --answer"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let scratch = scratch::folder(options.scratch.as_ref())?;
    let film = film(&scratch)?;
    let progress = Arc::new(Progress::default());
    let period =
        f64::from(connections) * options.body_bytes as f64 / options.total_bytes_per_second;
    let habits = Habits {
        viewers: connections,
        period: Duration::from_secs_f64(period),
        answer_bytes: answer_bytes(options.body_bytes),
        link_bytes_per_second: options.link_bytes_per_second,
    };
    let (interface, far) = frames::synthetic::interface(IpAddr::V4(SERVER.0), 1500)?;
    let served = Served {
        film,
        film_bytes: FILM_BYTES,
        body_bytes: options.body_bytes,
        connections_max: connections as usize + 1,
    };
    let peer = Peer::new(habits, far);
    let cpus = client_cpus()?;
    let told = Arc::clone(&progress);
    let server = start("server", SERVER_CPU, move || serve(interface, served, &told))?;
    // Wait until the server has touched its buffers and published once.
    wait(&progress, interrupt, PATIENCE, |progress| {
        progress.with(|told| !told.samples.is_empty())
    })?;
    let before_bytes = resident_bytes()?;
    let told = Arc::clone(&progress);
    let peer = start("viewers", cpus[0], move || {
        peer.run(&told);
        Ok(())
    })?;
    let measured = measure(options, &habits, &progress, interrupt);
    let row = measured.and_then(|stretch| {
        let peer_bytes = progress.with(|told| told.peer_bytes);
        outcome::row(&habits, &progress, stretch, resident_bytes()?, before_bytes, peer_bytes)
    });
    progress.end();
    let ended = (join(server), join(peer));
    let row = row?;
    ended.0?;
    ended.1?;
    Ok(row)
}

/// The stretch of time in which the bench counts.
#[derive(Clone, Copy)]
struct Stretch {
    from: Instant,
    to: Instant,
}

fn measure(
    options: &Options,
    habits: &Habits,
    progress: &Arc<Progress>,
    interrupt: &Interrupt,
) -> io::Result<Stretch> {
    let all = habits.viewers;
    let mut seen = (Instant::now(), 0);
    while progress.connected() < all {
        let connected = progress.connected();
        if connected > seen.1 {
            seen = (Instant::now(), connected);
        }
        if seen.0.elapsed() > PATIENCE {
            let why = format!("only {connected} of {all} viewers could connect");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        pause(progress, interrupt)?;
    }
    let begin = Instant::now() + WARM_UP.min(options.duration);
    while Instant::now() < begin {
        pause(progress, interrupt)?;
    }
    progress.begin_counting();
    let from = Instant::now();
    // Measure whole periods, so that each viewer sends the same number of requests.
    let periods = (options.duration.as_secs_f64() / habits.period.as_secs_f64()).ceil().max(1.0);
    let end = from + habits.period.mul_f64(periods);
    while Instant::now() < end {
        pause(progress, interrupt)?;
    }
    progress.end_counting();
    let to = Instant::now();
    wait(progress, interrupt, PATIENCE, |progress| progress.with(|told| told.shares.is_some()))?;
    Ok(Stretch { from, to })
}

fn wait(
    progress: &Arc<Progress>,
    interrupt: &Interrupt,
    patience: Duration,
    is_done: impl Fn(&Progress) -> bool,
) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    while !is_done(progress) {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not start"));
        }
        pause(progress, interrupt)?;
    }
    Ok(())
}

fn pause(progress: &Arc<Progress>, interrupt: &Interrupt) -> io::Result<()> {
    interrupt.check()?;
    if let Some(why) = progress.with(|told| told.failure.take()) {
        return Err(io::Error::other(format!("the server has failed: {why}")));
    }
    std::thread::sleep(Duration::from_millis(10));
    Ok(())
}

fn start<T: Send + 'static>(
    name: &str,
    cpu: u32,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<T>>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        pin(cpu)?;
        work()
    })
}

fn join<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("a thread panicked; its message is above")))
}

/// Bytes of an answer on the wire: a record for the head, then records of the body, each with 22 bytes of overhead.
fn answer_bytes(body_bytes: u64) -> u32 {
    let record = |bytes: u64| bytes + bytes.div_ceil(tls::PLAINTEXT_MAX as u64) * 22;
    (record(HEAD_BYTES as u64) + record(body_bytes)) as u32
}

/// Creates a file of arbitrary bytes in the page cache.
fn film(scratch: &TempDir) -> io::Result<Arc<File>> {
    let path = scratch.path().join("film");
    let mut file = File::create(&path)?;
    let mut random = fastrand::Rng::with_seed(7);
    let mut block = vec![0; 1 << 20];
    for _ in 0..FILM_BYTES >> 20 {
        random.fill(&mut block[..4096]);
        file.write_all(&block)?;
    }
    Ok(Arc::new(File::open(path)?))
}

/// Resident memory of this process.
fn resident_bytes() -> io::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm cannot be read"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_its_records() {
        assert_eq!(answer_bytes(128 << 10), 300 + 22 + (128 << 10) + 8 * 22);
        assert_eq!(answer_bytes(1), 300 + 22 + 1 + 22);
    }
}
