//! Compares how a program learns that a read from disk is done: by an interrupt, by polling, or with commands sent straight to the driver.
//!
//! All ways use the same loop: one thread on the server's core keeps some reads in flight, each past the page cache into memory registered
//! with the ring, and refills a slot as soon as its read is done. Before it is measured, each way must return the same bytes as `pread`. A
//! way that the disk, the filesystem or this user does not allow is reported with the reason.
//!
//! Nothing is written: a disk only sees reads.

mod outcome;
mod target;

pub use outcome::Outcome;

use crate::library::Library;
use crate::limit::parts::thread_time;
use crate::limit::pin;
use crate::scratch;
use crate::versus::SERVER_CPU;
use load::interrupt::Interrupt;
use reactor::{DiskRing, DiskRingOptions};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use target::Target;

/// Options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// A file or a block device; a file is created if unset.
    pub path: Option<PathBuf>,
    /// Bytes of the created file.
    pub file_bytes: u64,
    /// Where to create it; the system's temporary folder if unset.
    pub scratch: Option<PathBuf>,
    /// Turns of each way.
    pub rounds: usize,
    /// Seconds of each turn.
    pub seconds: f64,
    /// Bytes of a read: a multiple of 4096.
    pub read_bytes: u32,
    /// Reads in flight.
    pub in_flight: u16,
}

/// A way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Interrupts,
    Polled,
    Passthrough,
    PassthroughPolled,
}

impl Way {
    pub(crate) const ALL: [Self; 4] =
        [Self::Interrupts, Self::Polled, Self::Passthrough, Self::PassthroughPolled];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupts => "interrupts",
            Self::Polled => "polled",
            Self::Passthrough => "passthrough",
            Self::PassthroughPolled => "passthrough, polled",
        }
    }

    /// A description for people.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Interrupts => "direct reads (O_DIRECT), as the server's",
            Self::Polled => {
                "direct reads whose completions the thread polls for (IORING_SETUP_IOPOLL)"
            }
            Self::Passthrough => "read commands straight to the NVMe driver (IORING_OP_URING_CMD)",
            Self::PassthroughPolled => "both: commands, and polling",
        }
    }

    fn is_polled(self) -> bool {
        matches!(self, Self::Polled | Self::PassthroughPolled)
    }

    fn is_command(self) -> bool {
        matches!(self, Self::Passthrough | Self::PassthroughPolled)
    }
}

/// Measures each way in turn, and reports each round to `progress`.
///
/// # Errors
/// If the file cannot be read at all, or a way returns other bytes than `pread`. An interrupt is not an error: the outcome then has the
/// rounds so far.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    mut progress: impl FnMut(String),
) -> io::Result<Outcome> {
    let scratch = scratch::folder(options.scratch.as_ref())?;
    let path = match &options.path {
        Some(path) => path.clone(),
        None => {
            progress(format!("creating a file of {} MiB", options.file_bytes >> 20));
            let root = scratch.path().join("library");
            Library::make(&root, 1, options.file_bytes, interrupt)?.path(0)
        }
    };
    let target = Target::open(&path, options)?;
    let mut outcome = Outcome::new(options, &target);
    let mut there = Vec::new();
    for way in Way::ALL {
        match compared_bytes(&target, way, options) {
            Ok(bytes) => {
                outcome.compared(way, bytes);
                there.push(way);
            }
            Err(Obstacle::Unavailable(why)) => outcome.unavailable(way, why),
            Err(Obstacle::Failed(error)) => return Err(error),
        }
    }
    for round in 1..=options.rounds {
        for way in &there {
            if interrupt.is_asked() {
                progress("interrupted: the figures cover the rounds so far".to_owned());
                outcome.interrupted = true;
                return Ok(outcome);
            }
            outcome.add(*way, turn(&target, *way, options)?);
        }
        progress(format!("round {round} of {}", options.rounds));
    }
    Ok(outcome)
}

/// Why a way was not measured.
enum Obstacle {
    /// It does not exist here, which is a result too.
    Unavailable(String),
    /// It failed.
    Failed(io::Error),
}

fn ring(target: &Target, way: Way, options: &Options) -> Result<DiskRing, Obstacle> {
    let (file, asked) = target.way(way).map_err(Obstacle::Unavailable)?;
    let ring = DiskRing::new(
        file.into(),
        DiskRingOptions {
            asked,
            polled: way.is_polled(),
            slots: options.in_flight,
            read_bytes: options.read_bytes,
        },
    );
    ring.map_err(|error| Obstacle::Unavailable(format!("the kernel has no such ring: {error}")))
}

/// Compares what a way reads with what `pread` does: one read per slot, from places all over the file. Returns the number of bytes
/// compared.
fn compared_bytes(target: &Target, way: Way, options: &Options) -> Result<u64, Obstacle> {
    let mut ring = ring(target, way, options)?;
    let places = target.places(options.read_bytes, options.in_flight);
    for (slot, offset) in (0..).zip(&places) {
        ring.read(slot, *offset);
    }
    let mut done = Vec::new();
    while done.len() < places.len() {
        ring.wait(&mut done).map_err(|error| refused(way, error))?;
    }
    let file = File::open(&target.path).map_err(Obstacle::Failed)?;
    let mut expected = vec![0; options.read_bytes as usize];
    for (slot, offset) in (0..).zip(&places) {
        file.read_exact_at(&mut expected, *offset).map_err(Obstacle::Failed)?;
        if ring.bytes(slot) != expected {
            let why = format!("{} read other bytes at {offset} than pread", way.name());
            return Err(Obstacle::Failed(io::Error::other(why)));
        }
    }
    Ok(places.len() as u64 * u64::from(options.read_bytes))
}

/// The kernel reports `EOPNOTSUPP` if a filesystem or a driver has no polling or no commands; an old NVMe driver reports `ENOTTY`. `EACCES`
/// and `EPERM` mean that the user lacks rights, and `EINVAL` that a command asks for more than the disk transfers at once. Only plain reads
/// must work.
fn refused(way: Way, error: io::Error) -> Obstacle {
    use rustix::io::Errno;
    match Errno::from_io_error(&error) {
        Some(Errno::INVAL) if way.is_command() => {
            Obstacle::Unavailable(format!("the driver refuses it: {error}; try a smaller --read"))
        }
        Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::ACCESS | Errno::PERM | Errno::INVAL)
            if way != Way::Interrupts =>
        {
            Obstacle::Unavailable(format!("the kernel refuses it here: {error}"))
        }
        _ => Obstacle::Failed(error),
    }
}

/// The result of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) gbps_per_cpu_second: f64,
    pub(crate) gbps: f64,
    pub(crate) reads_per_second: f64,
    /// Median time from submitting a read until the program sees that it is done.
    pub(crate) us_median: f64,
    /// Completed reads each time the program looks.
    pub(crate) reads_per_look: f64,
    /// The disk's interrupts, if the kernel identifies them.
    pub(crate) interrupts_per_read: Option<f64>,
}

/// Runs one turn, on its own thread that is pinned to the server's core.
fn turn(target: &Target, way: Way, options: &Options) -> io::Result<Turn> {
    std::thread::scope(|scope| {
        let turn =
            std::thread::Builder::new().name(way.name().to_owned()).spawn_scoped(scope, || {
                pin(SERVER_CPU)?;
                let ring = ring(target, way, options).map_err(|obstacle| match obstacle {
                    Obstacle::Failed(error) => error,
                    Obstacle::Unavailable(why) => {
                        io::Error::other(format!("{} is gone: {why}", way.name()))
                    }
                })?;
                let interrupts = target.interrupts();
                let reads = read_for(ring, target, options)?;
                let raised = target.interrupts().zip(interrupts);
                Ok(reads.turn(options, raised.map(|(after, before)| after - before)))
            })?;
        turn.join().expect("a turn does not panic")
    })
}

/// The counts of a turn.
struct Reads {
    wall: Duration,
    cpu: Duration,
    looks: usize,
    latencies: Vec<Duration>,
}

fn read_for(mut ring: DiskRing, target: &Target, options: &Options) -> io::Result<Reads> {
    let length = Duration::from_secs_f64(options.seconds);
    let (began, began_cpu) = (Instant::now(), thread_time());
    let mut offsets = target.offsets(options.read_bytes);
    let mut asked_at = vec![began; usize::from(options.in_flight)];
    let (mut looks, mut latencies, mut done) = (0, Vec::new(), Vec::new());
    for slot in 0..options.in_flight {
        ring.read(slot, offsets.next().unwrap_or(0));
    }
    let mut in_flight = usize::from(options.in_flight);
    while in_flight > 0 {
        ring.wait(&mut done)?;
        looks += 1;
        let now = Instant::now();
        in_flight -= done.len();
        for slot in done.drain(..) {
            latencies.push(now.duration_since(asked_at[usize::from(slot)]));
            if now.duration_since(began) < length {
                asked_at[usize::from(slot)] = now;
                ring.read(slot, offsets.next().unwrap_or(0));
                in_flight += 1;
            }
        }
    }
    let cpu = thread_time().saturating_sub(began_cpu);
    Ok(Reads { wall: began.elapsed(), cpu, looks, latencies })
}

impl Reads {
    fn turn(mut self, options: &Options, interrupts: Option<u64>) -> Turn {
        let count = self.latencies.len() as f64;
        let gigabits = count * f64::from(options.read_bytes) * 8e-9;
        let middle = self.latencies.len() / 2;
        let (_, median, _) = self.latencies.select_nth_unstable(middle);
        Turn {
            gbps_per_cpu_second: gigabits / self.cpu.as_secs_f64(),
            gbps: gigabits / self.wall.as_secs_f64(),
            reads_per_second: count / self.wall.as_secs_f64(),
            us_median: median.as_secs_f64() * 1e6,
            reads_per_look: count / self.looks as f64,
            interrupts_per_read: interrupts.map(|interrupts| interrupts as f64 / count),
        }
    }
}
