//! Live figures for the dashboard: one snapshot a second, shared by all dashboards, and five minutes of the figures that are drawn as
//! curves.
//!
//! It runs on the admin listener's thread. Workers only fill their [`audience`]; their counters and, once a second, their lists of
//! titles are read by that thread. `docs/dashboard.md` describes the data format.
//!
//! Read first: `take_snapshots`. `Figures` are the counters at one moment; a `Snapshot` is made from two of them.

#![forbid(unsafe_code)]

pub mod audience;
pub mod busiest;
mod faults;
mod history;
mod machine_rates;
mod memory;
mod popular;
mod snapshot;
mod stream;

pub use memory::resident_bytes;
pub use stream::stream;

use crate::audience::Audience;
use catalog::KnownTitles;
use history::History;
use machine_rates::MachineRates;
use popular::Popular;
use snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use telemetry::since_1970;
use telemetry::{Numbers, Totals};

/// How long after the start of a second the snapshot is taken: workers publish their numbers at its start, and a busy
/// worker a little later.
const AFTER_THE_SECOND: Duration = Duration::from_millis(100);

/// The files about the machine that are read. Open them before the server is confined.
#[derive(Debug)]
pub struct Sources {
    disks: Option<File>,
    disk_names: Vec<String>,
    nics: Option<File>,
}

/// Values that do not change while the server runs.
#[derive(Clone, Debug)]
pub struct Constants {
    /// The route's name.
    pub route: &'static str,
    /// The disk policy's name.
    pub disk: String,
    /// When the server started.
    pub started: Instant,
}

/// The live state, shared by the streams.
pub struct Live {
    /// The number of snapshots so far.
    sequence: Cell<u64>,
    /// The newest snapshot, as an event.
    event: RefCell<Rc<[u8]>>,
    history: RefCell<History>,
    popular: RefCell<Popular>,
    waiting: RefCell<Vec<Waker>>,
    streams: Cell<usize>,
    streams_dropped: Cell<u64>,
}

/// The counters at one moment, summed over the workers.
struct Figures {
    at: Instant,
    totals: Totals,
}

impl Figures {
    fn of(workers: &[Arc<Numbers>]) -> Self {
        Self { at: Instant::now(), totals: Totals::of(workers.iter().map(AsRef::as_ref)) }
    }
}

impl Live {
    /// The state before the first snapshot.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            sequence: Cell::new(0),
            event: RefCell::new(Rc::from(&b""[..])),
            history: RefCell::default(),
            popular: RefCell::default(),
            waiting: RefCell::default(),
            streams: Cell::new(0),
            streams_dropped: Cell::new(0),
        })
    }

    /// The number of open streams.
    pub fn streams(&self) -> usize {
        self.streams.get()
    }

    /// The number of streams dropped because they fell behind.
    pub fn streams_dropped(&self) -> u64 {
        self.streams_dropped.get()
    }

    /// The titles that viewers request, as JSON.
    pub fn titles(&self) -> serde_json::Value {
        serde_json::json!(self.popular.borrow().requested())
    }

    fn publish(&self, event: Vec<u8>) {
        *self.event.borrow_mut() = event.into();
        self.sequence.set(self.sequence.get() + 1);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }
}

/// Takes a snapshot once a second for as long as the server runs. `more` returns members to add to each snapshot; its arguments are
/// whether a dashboard is open, and which folders are known to be titles.
pub async fn take_snapshots(
    live: Rc<Live>,
    workers: Vec<Arc<Numbers>>,
    audiences: Vec<Arc<Audience>>,
    sources: Sources,
    constants: Constants,
    more: impl Fn(bool, &Arc<KnownTitles>) -> serde_json::Map<String, serde_json::Value>,
) {
    let mut machine = MachineRates::new(sources);
    let mut past = history::Past::default();
    past.push(Figures::of(&workers));
    loop {
        reactor::sleep(until_next_look()).await;
        let now = Figures::of(&workers);
        let seconds = now.at.duration_since(past.last().at).as_secs_f64();
        let rates = machine.advance(seconds);
        // Nothing below waits.
        let mut popular = live.popular.borrow_mut();
        popular.advance(&audiences, seconds);
        let snapshot = Snapshot::new(&now, &past, &rates, &popular, &constants);
        live.history.borrow_mut().push(snapshot.point());
        let mut json = snapshot.into_json();
        json.insert("dashboards".into(), live.streams.get().into());
        json.append(&mut more(live.streams.get() > 0, popular.known()));
        live.publish(stream::event("snapshot", &serde_json::Value::Object(json)));
        past.push(now);
    }
}

fn until_next_look() -> Duration {
    let into_second = Duration::from_nanos(since_1970().subsec_nanos().into());
    let second = Duration::from_secs(1);
    // A snapshot that is nearly due is skipped rather than taken twice.
    let next =
        AFTER_THE_SECOND + if into_second < AFTER_THE_SECOND / 2 { Duration::ZERO } else { second };
    next - into_second
}
