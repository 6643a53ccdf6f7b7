//! A whole fill, next to its parts: a box copies a title from a real server over TLS, which takes opening records, SHA-256, and writing.

use super::parts::{Rate, Stage, pin};
use crate::fill::source::{Source, TARGET, want};
use fleet_protocol::PublishedTitle;
use load::interrupt::Interrupt;
use node::{HoldingOptions, Replicator, wall_clock};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tls::client::Trust;

/// The name of the copying thread (`Replicator::start`).
const COPIER: &str = "copy";

/// Time limit for a title.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often to check whether it has arrived.
const GLANCE: Duration = Duration::from_millis(5);

/// An empty box. Its threads end when it is dropped.
struct EmptyBox {
    replicator: Arc<Replicator>,
    threads: Vec<JoinHandle<()>>,
}

impl EmptyBox {
    /// Starts the box on the caller's core.
    fn start(root: &Path) -> io::Result<Self> {
        let replicator = Replicator::open(HoldingOptions {
            node: TARGET.parse().map_err(|_| io::Error::other("a name"))?,
            state: root.join("state"),
            libraries: vec![root.join("library")],
            copy_bytes_per_second: 0,
            windows: Vec::new(),
            fill_bytes_max: 0,
            fill_wait: Duration::ZERO,
            scrub: Duration::from_secs(7 * 86_400),
            evict_after: Duration::ZERO,
            clock: wall_clock,
            origins: Vec::new(),
            // The server has only just made its certificate.
            trust: Trust::AnyCertificate,
        });
        let replicator = Arc::new(replicator?);
        let own = Self { threads: replicator.start()?, replicator };
        // The thread sets its name itself, when it first runs.
        let began = Instant::now();
        while copier_time().is_err() && began.elapsed() < PATIENCE {
            std::thread::sleep(GLANCE);
        }
        Ok(own)
    }
}

impl Drop for EmptyBox {
    fn drop(&mut self) {
        self.replicator.stop();
        for thread in self.threads.drain(..) {
            // If it panicked, its message has been printed.
            let _ = thread.join();
        }
    }
}

/// Runs one turn: a new box copies the title from the server at `address`.
///
/// # Errors
/// If it does not arrive in time.
///
/// # Panics
/// If the box panics.
pub(super) fn measure(
    stage: &Stage,
    source: &Source,
    number: usize,
    address: SocketAddr,
    interrupt: &Interrupt,
) -> io::Result<Rate> {
    let title = source.title(number)?;
    let root = stage.scratch.join(format!("box-{number}"));
    fs::create_dir_all(root.join("state"))?;
    let cpu = stage.cpu;
    let turn = std::thread::scope(|scope| {
        let turn = scope.spawn(|| {
            pin(cpu)?;
            copy(&EmptyBox::start(&root)?, &title, address, interrupt)
        });
        turn.join().expect("a box does not panic")
    });
    fs::remove_dir_all(&root)?;
    turn
}

fn copy(
    one: &EmptyBox,
    title: &PublishedTitle,
    address: SocketAddr,
    interrupt: &Interrupt,
) -> io::Result<Rate> {
    let (began, began_cpu) = (Instant::now(), copier_time()?);
    want(&one.replicator, title, address)?;
    while one.replicator.folder_of(title).is_none() {
        interrupt.check()?;
        if began.elapsed() > PATIENCE {
            let troubles = one.replicator.status().troubles;
            return Err(io::Error::other(format!("a title does not arrive: {troubles:?}")));
        }
        std::thread::sleep(GLANCE);
    }
    let (wall, cpu) = (began.elapsed(), copier_time()?.saturating_sub(began_cpu));
    let counts = one.replicator.status().fill.counts;
    if counts.cluster_bytes < title.bytes || !counts.refused.is_empty() {
        return Err(io::Error::other(format!("a fill went wrong: {counts:?}")));
    }
    Ok(Rate::of(usize::try_from(counts.cluster_bytes).unwrap_or(usize::MAX), wall, cpu))
}

/// CPU time of this process's only copying thread (Documentation/scheduler/sched-stats.rst).
fn copier_time() -> io::Result<Duration> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        if name.trim_end() == COPIER {
            let text = fs::read_to_string(task.join("schedstat"))?;
            let ran = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
            return ran.map(Duration::from_nanos).ok_or_else(|| io::Error::other("no schedstat"));
        }
    }
    Err(io::Error::other("there is no copying thread"))
}
