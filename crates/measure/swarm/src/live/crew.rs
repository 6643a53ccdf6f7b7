//! One thread and its viewers.

use super::lag::Lag;
use super::running::Shared;
use super::standing::Counters;
use super::viewer::Viewer;
use super::wakeup::Wakeup;
use crate::crowd;
use crate::outcome::Outcome;
use player::Failure;
use reactor::{Reactor, RingOptions, Woken, sleep_until, spawn, tasks_panicked, timeout_at};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a thread measures its own lag, even if no viewer wants to wake.
const HEARTBEAT: Duration = Duration::from_millis(20);

/// State that the viewers of one thread share.
pub(crate) struct Crew {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    lag: RefCell<Lag>,
    /// Current viewers, by number.
    watching: RefCell<BTreeMap<usize, Rc<Viewer>>>,
    /// Number of viewers still to come.
    to_come: Cell<usize>,
    /// Results of the viewers who have left.
    seen: RefCell<Outcome>,
    /// Set when all viewers have come and gone.
    all_gone: Wakeup,
}

/// The measurements of one thread.
pub(crate) struct Measured {
    pub(crate) seen: Outcome,
    pub(crate) lag: Lag,
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
}

/// Runs this thread's viewers, sorted by when they begin, until the end of the run, until all are gone, or until `woken` reports that the
/// run was stopped.
///
/// # Errors
/// If the kernel provides no ring.
pub(crate) fn run(
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    viewers: Vec<crowd::Viewer>,
    woken: Woken,
) -> io::Result<Measured> {
    let reactor = Reactor::new(RingOptions::default())?;
    reactor.run(async move {
        let crew = Rc::new(Crew {
            shared,
            counters,
            lag: RefCell::default(),
            watching: RefCell::default(),
            to_come: Cell::new(viewers.len()),
            seen: RefCell::default(),
            all_gone: Wakeup::default(),
        });
        spawn(Rc::clone(&crew).admit(viewers));
        spawn(Rc::clone(&crew).beat());
        crew.until_the_end(woken).await?;
        Ok(crew.measured())
    })?
}

impl Crew {
    async fn until_the_end(&self, woken: Woken) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let stopped = woken.each(move || !shared.is_stopping());
        let end = self.shared.began + self.shared.options.duration;
        match timeout_at(end, self.all_gone.unless_woken(stopped)).await {
            Ok(Some(woken)) => woken,
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Admits the viewers, each at its time.
    async fn admit(self: Rc<Self>, viewers: Vec<crowd::Viewer>) {
        for viewer in viewers {
            sleep_until(self.shared.began + viewer.begins).await;
            self.to_come.set(self.to_come.get() - 1);
            let number = viewer.number;
            let viewer = Viewer::begin(&self, viewer);
            self.watching.borrow_mut().insert(number, viewer);
        }
    }

    async fn beat(self: Rc<Self>) {
        loop {
            let deadline = Instant::now() + HEARTBEAT;
            sleep_until(deadline).await;
            self.woke(deadline);
        }
    }

    /// Records the lag of a task that wanted to wake at `deadline` and wakes now.
    pub(crate) fn woke(&self, deadline: Instant) {
        self.lag.borrow_mut().woke(deadline);
    }

    /// Records why a request failed.
    pub(crate) fn failed(&self, failure: Failure, example: impl FnOnce() -> String) {
        self.counters.failed(failure.as_str(), example);
        self.shared.failed();
    }

    /// Records that a viewer has gone.
    pub(crate) fn is_over(&self, viewer: &Viewer) {
        self.record(viewer);
        let mut watching = self.watching.borrow_mut();
        watching.remove(&viewer.who.number);
        if watching.is_empty() && self.to_come.get() == 0 {
            self.all_gone.wake();
        }
    }

    fn record(&self, viewer: &Viewer) {
        let who = &viewer.who;
        let report = viewer.report();
        self.seen.borrow_mut().record(who.number, who.title, &viewer.pathways(), &report);
    }

    fn measured(&self) -> Measured {
        let watching = std::mem::take(&mut *self.watching.borrow_mut());
        watching.values().for_each(|viewer| self.record(viewer));
        if tasks_panicked() > 0 {
            // No known input makes a viewer panic. If one does, a missing viewer must not look like a satisfied one.
            self.counters.failed("viewer_panicked", || {
                "a viewer ended because of a bug in the swarm".into()
            });
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Measured {
            seen: std::mem::take(&mut *self.seen.borrow_mut()),
            lag: self.lag.borrow().clone(),
            cpu_seconds: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
            wall_seconds: self.shared.began.elapsed().as_secs_f64(),
        }
    }
}
