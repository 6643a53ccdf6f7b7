//! One thread and its viewers: their shared state, and the time window that is measured.

use crate::options::{Options, Pace};
use crate::outcome::Latencies;
use crate::schedule::{self, Arrivals};
use crate::shared::Shared;
use crate::tally::{Counters, Snapshot};
use crate::viewer::Viewer;
use reactor::{Reactor, RingOptions, Woken, spawn, tasks_panicked, timeout_at};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Latencies up to an hour have preallocated buckets; longer ones allocate theirs.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// State that the viewers of one thread share.
pub(crate) struct Crew {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    /// The thread's arrivals in the open loop.
    pub(crate) arrivals: Option<Arrivals>,
    /// Arrivals in the open loop that have been answered or have failed.
    pub(crate) settled: Cell<u64>,
    /// Complete responses so far that could be compared.
    pub(crate) comparable: Cell<u64>,
    first_byte: RefCell<Latencies>,
    /// When the window opens; `None` before that.
    window: Cell<Option<Instant>>,
    watches: RefCell<Vec<Rc<Watch>>>,
}

/// One viewer's bytes in the window.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    began: Cell<Option<Instant>>,
    bytes: Cell<u64>,
}

/// The measurements of one thread.
pub(crate) struct Measured {
    /// Length of the window.
    pub(crate) seconds: f64,
    /// Counts within the window.
    pub(crate) counts: Snapshot,
    /// CPU time of this thread within the window.
    pub(crate) cpu_seconds: f64,
    /// Latencies of requests that were due within the window, in microseconds.
    pub(crate) first_byte: Latencies,
    /// Arrivals in the open loop that were due but not answered at the window's end.
    pub(crate) overdue: u64,
    /// The rate of each viewer that was present for the whole window.
    pub(crate) viewer_bits_per_second: Vec<f64>,
}

/// Counts and CPU time at one moment.
struct Mark {
    at: Instant,
    counts: Snapshot,
    cpu_seconds: f64,
}

/// Runs thread `thread`'s viewers until the end of the run, or until `woken` reports that it was stopped.
///
/// # Errors
/// If the thread cannot be pinned, or the kernel provides no ring.
pub(crate) fn run(
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    thread: usize,
    woken: Woken,
) -> io::Result<Measured> {
    pin(&shared.options, thread)?;
    let reactor = Reactor::new(RingOptions::default())?;
    reactor.run(async move {
        let crew = Rc::new(Crew::new(shared, counters, thread));
        crew.start_viewers(thread);
        let measured = crew.measure(woken).await;
        if tasks_panicked() > 0 {
            // No known input makes a viewer panic. If one does, a missing viewer must not look like a quiet server.
            crew.counters.error("viewer_panicked", || {
                "a viewer ended because of a bug in the load generator".into()
            });
        }
        measured
    })?
}

fn pin(options: &Options, thread: usize) -> io::Result<()> {
    let Some(cpu) = options.cpus.get(thread) else { return Ok(()) };
    let number = usize::try_from(*cpu).unwrap_or(usize::MAX);
    if number >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("there is no CPU {cpu}")));
    }
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(number);
    rustix::thread::sched_setaffinity(None, &cpus)
        .map_err(|error| io::Error::other(format!("cannot run on CPU {cpu}: {error}")))
}

impl Crew {
    fn new(shared: Arc<Shared>, counters: Arc<Counters>, thread: usize) -> Self {
        let arrivals = match shared.options.pace {
            Pace::Open { per_second } => {
                Some(Arrivals::new(shared.began, per_second, thread, shared.options.threads()))
            }
            _ => None,
        };
        Self {
            shared,
            counters,
            arrivals,
            settled: Cell::new(0),
            comparable: Cell::new(0),
            first_byte: RefCell::new(no_latencies()),
            window: Cell::new(None),
            watches: RefCell::default(),
        }
    }

    /// Starts this thread's viewers: every `threads`-th one.
    fn start_viewers(self: &Rc<Self>, thread: usize) {
        let options = &self.shared.options;
        let interval = options.interval();
        for number in (thread..options.connections).step_by(options.threads()) {
            let after = schedule::viewer_start(number, options.connections, options.ramp, interval);
            let watch = Rc::new(Watch::default());
            self.watches.borrow_mut().push(Rc::clone(&watch));
            let viewer = Viewer::new(Rc::clone(self), watch, number);
            spawn(viewer.live(self.shared.began + after));
        }
    }

    /// Waits for the window to open and close, and returns the measurements. A run that is stopped before its window opens is measured from
    /// its beginning.
    async fn measure(&self, woken: Woken) -> io::Result<Measured> {
        let shared = Arc::clone(&self.shared);
        let mut stopped = Box::pin(woken.each(move || !shared.is_stopping()));
        let first = Mark::at_the_start(self.shared.began);
        // The window opens when the last viewer has started.
        let options = &self.shared.options;
        let opens = self.shared.began + options.opens_after();
        let first = match timeout_at(opens, stopped.as_mut()).await {
            Ok(woken) => {
                woken?;
                return Ok(self.measured(&first, &Mark::now(self)));
            }
            Err(_) => self.open_window(),
        };
        if let Ok(woken) = timeout_at(opens + options.duration, stopped.as_mut()).await {
            woken?;
        }
        Ok(self.measured(&first, &Mark::now(self)))
    }

    fn open_window(&self) -> Mark {
        let mark = Mark::now(self);
        self.window.set(Some(mark.at));
        *self.first_byte.borrow_mut() = no_latencies();
        if self.shared.options.pace == Pace::Closed {
            // Viewers that send requests without pause are in the middle of something: count their bytes from now on.
            self.watches.borrow().iter().for_each(|watch| watch.began.set(Some(mark.at)));
        }
        mark
    }

    fn measured(&self, first: &Mark, last: &Mark) -> Measured {
        let due = self.arrivals.as_ref().map_or(0, |arrivals| arrivals.due_by(last.at));
        let plays_at = match self.shared.options.pace {
            Pace::Viewers { bits_per_second } => Some(bits_per_second),
            _ => None,
        };
        let watches = self.watches.borrow();
        let rates = watches.iter().filter_map(|watch| watch.rate(last.at, plays_at)).collect();
        Measured {
            seconds: (last.at - first.at).as_secs_f64(),
            counts: last.counts.since(first.counts),
            cpu_seconds: last.cpu_seconds - first.cpu_seconds,
            first_byte: self.first_byte.borrow().clone(),
            overdue: due.saturating_sub(self.settled.get()),
            viewer_bits_per_second: rates,
        }
    }

    /// Records how long after its due time a request was answered.
    pub(crate) fn answered(&self, due: Instant) {
        if self.window.get().is_none_or(|opened| due >= opened) {
            let microseconds = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.first_byte.borrow_mut().record(microseconds);
        }
    }
}

/// An empty set of latencies.
pub(crate) fn no_latencies() -> Latencies {
    Latencies::up_to(LATENCY_US_MAX)
}

impl Mark {
    /// The mark at the start, before anything has been counted.
    fn at_the_start(began: Instant) -> Self {
        Self { at: began, counts: Snapshot::default(), cpu_seconds: 0.0 }
    }

    fn now(crew: &Crew) -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu_seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        Self { at: Instant::now(), counts: crew.counters.snapshot(), cpu_seconds }
    }
}

impl Watch {
    /// Notes that a request is due. This viewer's window starts with its first request in it.
    pub(crate) fn asks(&self, crew: &Crew, due: Instant) {
        let paced = matches!(crew.shared.options.pace, Pace::Viewers { .. });
        let in_window = crew.window.get().is_some_and(|opened| due >= opened);
        if paced && in_window && self.began.get().is_none() {
            self.began.set(Some(due));
        }
    }

    /// Counts bytes that have arrived.
    pub(crate) fn received(&self, bytes: u64) {
        if self.began.get().is_some() {
            self.bytes.set(self.bytes.get() + bytes);
        }
    }

    /// Bits per second from its first request in the window to now. For a paced viewer the result is at most the rate at which it plays: it
    /// is ahead by its last request, which depends on chance.
    fn rate(&self, now: Instant, plays_at: Option<u64>) -> Option<f64> {
        let seconds = now.checked_duration_since(self.began.get()?)?.as_secs_f64();
        let rate = self.bytes.get() as f64 * 8.0 / seconds;
        let most = plays_at.map_or(f64::INFINITY, |rate| rate as f64);
        (seconds > 0.0).then(|| rate.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch(began: Instant, bytes: u64) -> Watch {
        let watch = Watch::default();
        watch.began.set(Some(began));
        watch.received(bytes);
        watch
    }

    #[test]
    fn a_viewer_served_on_time_has_its_full_rate_wherever_the_window_ends() {
        let began = Instant::now();
        // Ranges that play for two seconds, the last one requested shortly before the end of the window.
        let watch = watch(began, 3_000_000);
        assert_eq!(watch.rate(began + 4 * SECOND, Some(4_000_000)), Some(4_000_000.0));
        assert_eq!(watch.rate(began + 4 * SECOND, None), Some(6_000_000.0));
    }

    #[test]
    fn a_viewer_that_waits_for_bytes_has_what_came_until_now() {
        let began = Instant::now();
        let rate = |bytes| watch(began, bytes).rate(began + 4 * SECOND, Some(4_000_000));
        assert_eq!(rate(500_000), Some(1_000_000.0));
        assert_eq!(rate(0), Some(0.0));
    }

    #[test]
    fn a_viewer_without_a_request_in_the_window_has_no_rate() {
        let watch = Watch::default();
        watch.received(1);
        assert_eq!(watch.rate(Instant::now(), None), None);
    }
}
