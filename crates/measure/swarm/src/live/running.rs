//! A run: its threads, its progress, and its end.

use super::crew::{self, Measured};
use super::documents::Documents;
use super::lag::{Lag, Own};
use super::options::LiveOptions;
use super::origins::Origins;
use super::outcome::LiveOutcome;
use super::standing::{Counters, Moment};
use crate::crowd::{self, crowd};
use crate::outcome::Outcome;
use load::Url;
use load::tls::ClientTls;
use player::Document;
use reactor::{Remote, Woken, remote};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use telemetry::since_1970;

/// How often to check for an interrupt or the end.
const GLANCE: Duration = Duration::from_millis(20);

/// The most moments that a run keeps: as many as a chart has pixels.
const MOMENTS_MAX: u32 = 1000;

/// Connections of a viewer to one server: one for pictures, one for sound. Each further server takes one more.
const CONNECTIONS_PER_VIEWER: usize = 2;

/// How many failures without any success make a run give up; fewer if there are fewer viewers.
const FAILURES_BEFORE_GIVING_UP: u64 = 50;

/// State that all threads share.
pub(crate) struct Shared {
    pub(crate) options: LiveOptions,
    pub(crate) origins: Origins,
    pub(crate) documents: Documents,
    pub(crate) began: Instant,
    /// When it began, by the wall clock.
    pub(crate) began_since_1970: Duration,
    /// Distinguishes the names of this run's sessions from those of other runs.
    name: String,
    remotes: Vec<Remote>,
    is_stopping: AtomicBool,
    gave_up: AtomicBool,
    has_succeeded: AtomicBool,
    failures: AtomicU64,
    /// Why the run cannot go on.
    refusal: OnceLock<String>,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.remotes.iter().for_each(Remote::wake);
    }

    /// Notes a success: from now on the run continues whatever fails.
    pub(crate) fn succeeded(&self) {
        if !self.has_succeeded.load(Ordering::Relaxed) {
            self.has_succeeded.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a failure. If everything fails, the run has no point.
    pub(crate) fn failed(&self) {
        let failures = 1 + self.failures.fetch_add(1, Ordering::Relaxed);
        let patience = FAILURES_BEFORE_GIVING_UP.min(self.options.crowd.viewers as u64);
        if failures >= patience && !self.has_succeeded.load(Ordering::Relaxed) {
            self.gave_up.store(true, Ordering::Release);
            self.stop();
        }
    }

    /// Ends the run with an error if a title is live although a flag was given that only films have.
    pub(crate) fn check(&self, url: &Url, document: &Document) {
        let flags = &self.options.film_flags;
        let is_live = match document {
            Document::Presentation(presentation) => presentation.reload_after.is_some(),
            Document::Segments(segments) => segments.reload_after.is_some(),
            Document::Steering(_) => false,
        };
        if is_live && !flags.is_empty() {
            let flags = flags.join(" and ");
            // The first one counts.
            let _ = self.refusal.set(format!("{url} is a live stream: leave out {flags}"));
            self.stop();
        }
    }

    /// A viewer's name in CMCD.
    pub(crate) fn session_name(&self, viewer: usize) -> Arc<str> {
        format!("{}-{viewer}", self.name).into()
    }
}

/// Runs viewers to the end of the run. Calls `glance` once a second, and ends the run early when `is_interrupted` returns true.
///
/// # Errors
/// An error with a sentence for the user: options that conflict or do not go with a live stream (`InvalidInput`), certificates that cannot
/// be read, a limit on open files that is too low, or a kernel that provides no ring.
///
/// # Panics
/// If a thread panicked.
pub fn run(
    mut options: LiveOptions,
    is_interrupted: impl Fn() -> bool,
    mut glance: impl FnMut(&Moment),
) -> io::Result<LiveOutcome> {
    options.check().map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
    let connections_each = CONNECTIONS_PER_VIEWER + options.also_at.len();
    load::allow_connections(options.crowd.viewers.saturating_mul(connections_each))?;
    options.crowd.titles = options.titles.len();
    let threads = options.threads();
    let origins = Origins::new(ClientTls::load(&options.tls).map_err(io::Error::other)?);
    origins.prepare(&options.titles)?;
    let crews = crews(&options, threads);
    let (remotes, woken): (Vec<_>, Vec<_>) =
        (0..threads).map(|_| remote()).collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
    let counters: Vec<Arc<Counters>> = (0..threads).map(|_| Arc::default()).collect();
    let shared = Arc::new(Shared {
        origins,
        documents: Documents::new(options.also_at.clone()),
        name: name(),
        options,
        remotes,
        began: Instant::now(),
        began_since_1970: since_1970(),
        is_stopping: AtomicBool::new(false),
        gave_up: AtomicBool::new(false),
        has_succeeded: AtomicBool::new(false),
        failures: AtomicU64::new(0),
        refusal: OnceLock::new(),
    });
    let running = crews
        .into_iter()
        .zip(woken)
        .enumerate()
        .map(|(number, (crew, woken))| start(&shared, &counters[number], number, crew, woken))
        .collect::<io::Result<Vec<_>>>();
    // If one thread could not be started, stop the others.
    let running = running.inspect_err(|_| shared.stop())?;
    let mut course = Course::new(&shared);
    let mut interrupted = false;
    while !running.iter().all(JoinHandle::is_finished) {
        if !interrupted && is_interrupted() {
            interrupted = true;
            shared.stop();
        }
        course.look(&counters, &mut glance);
        std::thread::sleep(GLANCE);
    }
    // How it ended, too: a program that reads along may wait for the last viewer to be gone.
    glance(&Moment::of(shared.began.elapsed(), counters.iter().map(|counters| &**counters)));
    let measured: io::Result<Vec<_>> =
        running.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect();
    let measured = measured?;
    if let Some(why) = shared.refusal.get() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why.clone()));
    }
    Ok(outcome(&shared, &counters, course, measured, interrupted))
}

/// The name of a run: the time when it began.
fn name() -> String {
    format!("swarm-{:x}", since_1970().as_micros())
}

/// The viewers of each thread, sorted by when they begin.
fn crews(options: &LiveOptions, threads: usize) -> Vec<Vec<crowd::Viewer>> {
    let mut crews: Vec<Vec<crowd::Viewer>> = (0..threads).map(|_| Vec::new()).collect();
    for viewer in crowd(&options.crowd) {
        crews[viewer.number % threads].push(viewer);
    }
    crews.iter_mut().for_each(|crew| crew.sort_by_key(|viewer| viewer.begins));
    crews
}

fn start(
    shared: &Arc<Shared>,
    counters: &Arc<Counters>,
    number: usize,
    viewers: Vec<crowd::Viewer>,
    woken: Woken,
) -> io::Result<JoinHandle<io::Result<Measured>>> {
    let (shared, counters) = (Arc::clone(shared), Arc::clone(counters));
    let thread = std::thread::Builder::new().name(format!("swarm {number}"));
    thread.spawn(move || crew::run(shared, counters, viewers, woken))
}

/// The course of the run, moment by moment.
struct Course {
    began: Instant,
    interval: Duration,
    next: Duration,
    told: Duration,
    moments: Vec<Moment>,
}

impl Course {
    fn new(shared: &Shared) -> Self {
        let interval = (shared.options.duration / MOMENTS_MAX).max(Duration::from_secs(1));
        let (next, told) = (Duration::ZERO, Duration::ZERO);
        Self { began: shared.began, interval, next, told, moments: Vec::new() }
    }

    fn look(&mut self, counters: &[Arc<Counters>], glance: &mut impl FnMut(&Moment)) {
        let now = self.began.elapsed();
        let moment = || Moment::of(now, counters.iter().map(|counters| &**counters));
        if now >= self.next {
            self.moments.push(moment());
            self.next += self.interval;
        }
        if now >= self.told {
            glance(&moment());
            self.told = now + Duration::from_secs(1);
        }
    }
}

fn outcome(
    shared: &Shared,
    counters: &[Arc<Counters>],
    course: Course,
    measured: Vec<Measured>,
    interrupted: bool,
) -> LiveOutcome {
    let (mut seen, mut lag) = (Outcome::default(), Lag::default());
    let (mut cpu_seconds, mut busiest_thread) = (0.0, 0.0_f64);
    let mut wall_seconds = 0.0_f64;
    for thread in measured {
        seen.add(&thread.seen);
        lag.add(&thread.lag);
        cpu_seconds += thread.cpu_seconds;
        busiest_thread = busiest_thread.max(thread.cpu_seconds / thread.wall_seconds.max(1e-3));
        wall_seconds = wall_seconds.max(thread.wall_seconds);
    }
    let mut errors = BTreeMap::new();
    counters.iter().for_each(|counters| counters.add_kinds(&mut errors));
    let after = Duration::from_secs_f64(wall_seconds);
    let last = Moment::of(after, counters.iter().map(|counters| &**counters));
    let mut course = course.moments;
    course.push(last);
    LiveOutcome {
        seen,
        wall_seconds,
        last,
        course,
        errors,
        own: Own::new(&lag, cpu_seconds, busiest_thread),
        viewers: shared.options.crowd.viewers,
        interrupted,
        gave_up: shared.gave_up.load(Ordering::Acquire),
    }
}
