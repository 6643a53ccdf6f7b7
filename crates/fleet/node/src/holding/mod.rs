//! The titles of a box: copies those that it should hold, verifies those that it has, removes those that are withdrawn.
//!
//! Invariants:
//! * A title is in the inventory only if all of it was read and found to match its record, and its files have not been seen to change
//!   since.
//! * A title appears by one rename (`arrival`), and leaves by one (`removal`). So the server has either all of it, or nothing.
//! * The only things removed are withdrawn titles, versions that were replaced a day ago, and titles that the fleet places and holds
//!   elsewhere while no viewer watches them here. A damaged title is hidden, and repaired.
//! * Titles that changed while the agent was away are hidden before the server starts, until they are verified (`look`).
//!
//! Three threads do the work, each on one title at a time: one copies, repairs and verifies (`copying`), one removes, so that no withdrawal
//! waits for a copy (`removal`), and one re-reads everything continuously (`scrub`). A lock on a title's hidden folder
//! (`catalog::Workshop`) keeps them, and other programs, from working on the same title.
//!
//! Read first: `arrival.rs`, then `filling.rs` (what is fetched from where, and when) and `look.rs`.

mod arrival;
mod block_file;
mod block_map;
mod check;
mod copies;
mod copying;
mod disks;
mod error;
mod eviction;
mod fetch_rank;
mod filling;
mod giving_way;
mod grants;
mod hidden;
mod http_client;
mod http_head;
mod look;
mod origin;
mod pace;
mod peer;
mod removal;
mod room;
mod run_last;
mod scrub;
mod sources;
mod stamp;
mod table;
mod volume;
mod web_origin;
mod window;
mod wire;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fleet_protocol::{
    Desired, HeldTitle, Inventory, Name, OriginRoot, PublishedTitle, Receipt, ReceiptState,
};
use serde::Serialize;
use tls::client::Trust;

use crate::persistence;
use crate::stop::Wakeup;
use block_map::Why;
use copying::Trouble;
use disks::Disks;
use eviction::Evictions;
use filling::Fill;
pub use filling::FillStatus;
pub(crate) use giving_way::Viewers;
use hidden::Hidden;
use pace::Pace;
use removal::ReplacedVersion;
use scrub::Scrub;
pub use scrub::ScrubStatus;
pub use sources::{FillCounts, PeerFault};
use table::Table;
use window::Windows;
pub use window::{FillWindow, FillWindowError};

/// The most receipts in one heartbeat, as bounded by `fleet_protocol::Heartbeat`.
const RECEIPTS_MAX: usize = 1000;

/// How a box holds titles.
#[derive(Clone, Debug)]
pub struct HoldingOptions {
    /// The node's name.
    pub node: Name,
    /// The agent's state folder.
    pub state: PathBuf,
    /// The folders of the library. All titles below one top-level name are in the same folder.
    pub libraries: Vec<PathBuf>,
    /// The limit on copying, in bytes per second; 0 means no limit.
    pub copy_bytes_per_second: u64,
    /// When titles are fetched; always, if there is none.
    pub windows: Vec<FillWindow>,
    /// The most bytes to fetch in one window, or in a day without windows; 0 means no limit.
    pub fill_bytes_max: u64,
    /// How long a node waits for each of those before it in its cluster, in addition to the time that a title takes.
    pub fill_wait: Duration,
    /// Every title is read again and verified within this time.
    pub scrub: Duration,
    /// How long to keep a title that the plan assigns to other nodes, after steering has sent viewers elsewhere.
    pub evict_after: Duration,
    /// The wall clock, in seconds since 1970 ([`wall_clock`]): it may jump, and tests make it jump.
    pub clock: fn() -> u64,
    /// The allowed origins, besides nodes; see [`OriginRoot::is_allowed`].
    pub origins: Vec<OriginRoot>,
    /// Verifies the certificates of other nodes and origins: with the CAs that this machine trusts, as viewers do, except in tests.
    pub trust: Trust,
}

/// Lists the files that the server has open: device and inode of each.
pub type OpenFiles = Box<dyn Fn() -> io::Result<HashSet<(u64, u64)>> + Send + Sync>;

/// Holds titles.
pub struct Replicator {
    options: HoldingOptions,
    disks: Disks,
    table: Table,
    desired: Mutex<Arc<Desired>>,
    /// Incremented with each change of `desired`.
    generation: AtomicU64,
    receipts: Mutex<BTreeMap<HeldTitle, ReceiptState>>,
    /// The start of the next heartbeat's receipts.
    receipts_from: AtomicU64,
    /// Titles that are hidden, because they may be damaged, or have arrived only in part.
    hidden: Mutex<BTreeMap<String, Hidden>>,
    /// The last failures to copy or verify titles.
    troubles: Mutex<BTreeMap<String, Trouble>>,
    replaced: Mutex<Vec<ReplacedVersion>>,
    evictions: Evictions,
    copy_pace: Mutex<Pace>,
    copied_bytes: AtomicU64,
    fill: Fill,
    scrub: Scrub,
    started: Instant,
    copier: Wakeup,
    remover: Wakeup,
    scrubber: Wakeup,
    watcher: Wakeup,
}

/// The status for operators.
#[derive(Clone, Debug, Serialize)]
pub struct HoldingStatus {
    /// Verified titles.
    pub titles: usize,
    /// Their bytes, and those of titles that are not verified yet.
    pub bytes: u64,
    /// Titles still to be copied.
    pub missing: Vec<String>,
    /// Titles that are hidden until they are verified or repaired.
    pub hidden: Vec<String>,
    /// Titles that are leaving, because the plan assigns them to other nodes.
    pub leaving: Vec<String>,
    /// Why titles cannot be copied or verified, by path.
    pub troubles: BTreeMap<String, String>,
    /// The lost folders of the library, and why they are lost.
    pub lost_folders: BTreeMap<PathBuf, String>,
    /// Bytes copied since the start.
    pub copied_bytes: u64,
    /// Fill progress.
    pub fill: FillStatus,
    /// The scrub's results.
    pub scrub: ScrubStatus,
    /// The time within which a wrong byte is found.
    pub scrub_seconds: u64,
    /// The time since the last verification of the title that was verified longest ago.
    pub oldest_verified_seconds: u64,
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wall clock: seconds since 1970.
pub fn wall_clock() -> u64 {
    unix_seconds()
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Replicator {
    /// Loads the state of an earlier run, removes titles that were withdrawn by then, and hides titles that have changed since. Start the
    /// server after this.
    ///
    /// # Errors
    /// If the state folder or a folder of the library cannot be used.
    pub fn open(options: HoldingOptions) -> io::Result<Self> {
        let disks = Disks::open(&options.libraries, &options.state)?;
        let table = Table::new(options.node.clone(), options.state.join("verified"))?;
        let desired: Desired =
            persistence::read_json(&options.state.join(DESIRED)).unwrap_or_default();
        let receipts: Vec<Receipt> =
            persistence::read_json(&options.state.join(RECEIPTS)).unwrap_or_default();
        let replaced = persistence::read_json(&options.state.join(REPLACED)).unwrap_or_default();
        let volume = persistence::read_json(&options.state.join(VOLUME)).unwrap_or_default();
        let replicator = Self {
            disks,
            table,
            desired: Mutex::new(Arc::new(desired)),
            generation: AtomicU64::new(0),
            receipts: Mutex::new(receipts.into_iter().map(|one| (one.held, one.state)).collect()),
            receipts_from: AtomicU64::new(0),
            hidden: Mutex::default(),
            troubles: Mutex::default(),
            replaced: Mutex::new(replaced),
            evictions: Evictions::default(),
            copy_pace: Mutex::new(Pace::new(options.copy_bytes_per_second)),
            copied_bytes: AtomicU64::new(0),
            fill: Fill::new(Windows(options.windows.clone()), volume),
            scrub: Scrub::default(),
            started: Instant::now(),
            copier: Wakeup::default(),
            remover: Wakeup::default(),
            scrubber: Wakeup::default(),
            watcher: Wakeup::default(),
            options,
        };
        replicator.withdraw_all();
        replicator.look(look::Changed::Hide)?;
        Ok(replicator)
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start(self: &Arc<Self>) -> io::Result<Vec<JoinHandle<()>>> {
        let spawn = |name: &str, work: fn(&Self)| {
            let replicator = Arc::clone(self);
            std::thread::Builder::new().name(name.into()).spawn(move || work(&replicator))
        };
        Ok(vec![
            spawn("copy", Self::keep_copying)?,
            spawn("remove", Self::keep_removing)?,
            spawn("scrub", Self::keep_scrubbing)?,
            spawn("disks", Self::keep_watching_disks)?,
        ])
    }

    /// Stops the threads, even in the middle of a copy.
    pub fn stop(&self) {
        let all = [&self.copier, &self.remover, &self.scrubber, &self.watcher];
        all.into_iter().for_each(Wakeup::stop);
    }

    /// The wall clock. Durations and waits use `started` instead, which clock jumps do not affect.
    fn unix_seconds(&self) -> u64 {
        (self.options.clock)()
    }

    /// The complete, verified versions.
    pub fn inventory(&self) -> Arc<Inventory> {
        self.table.inventory()
    }

    /// The titles that it should hold.
    pub fn desired(&self) -> Arc<Desired> {
        Arc::clone(&lock(&self.desired))
    }

    /// Saves the titles to hold from now on.
    ///
    /// # Errors
    /// If the list is not one that a gateway may send, is older than the known one, or cannot be saved.
    pub fn handle_desired(&self, desired: Desired) -> Result<(), String> {
        desired
            .check()
            .map_err(|why| format!("the gateway's list of titles to hold is refused: {why}"))?;
        // Locked to the end: two gateways may report at the same time, and the older list must not win.
        let mut kept = lock(&self.desired);
        if **kept == desired {
            return Ok(());
        }
        if desired.is_older_than(&kept) {
            return Err(format!(
                "the gateway's list of titles to hold is refused: it is of epoch {}, revision {}, older than epoch {}, revision {}; the gateway cannot \
                 reach its store, or the store was put back without \"fullbore control restore\"",
                desired.epoch, desired.revision, kept.epoch, kept.revision
            ));
        }
        let place = self.options.state.join(DESIRED);
        persistence::write_json(&place, &desired)
            .map_err(|error| format!("cannot write {}: {error}", place.display()))?;
        let desired = Arc::new(desired);
        *kept = Arc::clone(&desired);
        drop(kept);
        let withdrawn: BTreeSet<&HeldTitle> = desired.withdrawn.iter().collect();
        lock(&self.receipts).retain(|held, _| withdrawn.contains(held));
        self.generation.fetch_add(1, Ordering::Relaxed);
        // Earlier obstacles may be gone.
        lock(&self.troubles).clear();
        self.remover.wake();
        self.copier.wake();
        Ok(())
    }

    /// The folder of a title, if the node holds this version of it.
    pub fn folder_of(&self, title: &PublishedTitle) -> Option<PathBuf> {
        let held = self.table.title(&title.path)?;
        let is_whole = held.version == title.version && held.verified.is_some();
        is_whole.then(|| held.library.join(&title.path))
    }

    /// The receipts for one heartbeat. If there are more than fit, each call returns the next ones.
    pub fn receipts(&self) -> Vec<Receipt> {
        let receipts = lock(&self.receipts);
        let all =
            receipts.iter().map(|(held, state)| Receipt { held: held.clone(), state: *state });
        if receipts.len() <= RECEIPTS_MAX {
            return all.collect();
        }
        let from = self.receipts_from.fetch_add(RECEIPTS_MAX as u64, Ordering::Relaxed);
        let from = from % receipts.len() as u64;
        all.cycle_from(from).take(RECEIPTS_MAX).collect()
    }

    /// Free space for titles.
    pub fn free_bytes(&self) -> u64 {
        self.disks.free_bytes()
    }

    /// The status for operators.
    pub fn status(&self) -> HoldingStatus {
        let titles = self.table.titles();
        let now = self.unix_seconds();
        let verified = titles.iter().filter_map(|(_, held)| held.verified);
        let oldest = verified.map(|one| now.saturating_sub(one.unix_seconds)).max();
        let is_missing = |title: &&PublishedTitle| self.is_missing(title);
        let desired = self.desired();
        let missing =
            desired.titles.iter().filter(is_missing).map(|one| one.path.clone()).collect();
        // Take one lock after the other: within one expression all would be held to its end, and the copier takes them in another order.
        let damaged =
            |(path, hidden): (&String, &Hidden)| (hidden.why == Why::Mend).then(|| path.clone());
        let hidden = lock(&self.hidden).iter().filter_map(damaged).collect();
        let told = |(path, trouble): (&String, &Trouble)| (path.clone(), trouble.why.clone());
        let troubles = lock(&self.troubles).iter().map(told).collect();
        HoldingStatus {
            titles: self.inventory().held.len(),
            bytes: self.table.bytes(),
            missing,
            hidden,
            leaving: self.evictions.leaving(),
            troubles,
            lost_folders: self.disks.lost(),
            copied_bytes: self.copied_bytes.load(Ordering::Relaxed),
            fill: self.fill_status(),
            scrub: self.scrub.status(),
            scrub_seconds: self.options.scrub.as_secs(),
            oldest_verified_seconds: oldest.unwrap_or(0),
        }
    }
}

/// The titles to hold, as last received from a gateway.
const DESIRED: &str = "desired.json";
/// The outcomes of withdrawals.
const RECEIPTS: &str = "receipts.json";
/// Replaced versions that are kept for their viewers.
const REPLACED: &str = "replaced.json";
/// The volume used in the current window.
const VOLUME: &str = "fill-volume.json";

/// An iterator that starts in the middle and wraps around.
trait CycleFrom: Iterator + Clone {
    fn cycle_from(self, from: u64) -> impl Iterator<Item = Self::Item> {
        let from = usize::try_from(from).unwrap_or(0);
        self.clone().skip(from).chain(self.take(from))
    }
}

impl<I: Iterator + Clone> CycleFrom for I {}
