//! What a box holds: copies what it shall hold, verifies what it has, removes what is withdrawn.
//!
//! Invariants:
//! * A title is in the inventory only if all of it was read and found to match its record, and its files were not found changed since.
//! * A title appears by one rename (`arrival`), and leaves by one (`removal`). So the server has all of it, or nothing.
//! * Nothing is removed but what is withdrawn, versions that were replaced a day ago, and what the fleet places elsewhere, holds there, and nobody
//!   watches here. A damaged title is hidden, and mended.
//! * What changed while the agent was away is hidden before the server starts, until it is verified (`look`).
//!
//! Three threads do the work, each a title at a time: one copies, mends and verifies (`copying`), one removes, so that no withdrawal waits for a
//! copy (`removal`), and one reads everything again and again (`scrub`). A lock on a title's hidden folder (`catalog::Workshop`) keeps them, and
//! other programs, from working on the same title.
//!
//! Read first: `arrival.rs`, then `filling.rs` (what comes from where, and when) and `look.rs`.

mod arrival;
mod block_file;
mod block_map;
mod check;
mod copies;
mod copying;
mod disks;
mod error;
mod eviction;
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
mod turns;
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

use crypt::client::Trust;
use fleet::{
    Desired, HeldTitle, Inventory, Name, OriginRoot, PublishedTitle, Receipt, ReceiptState,
};
use serde::Serialize;

use crate::kept;
use crate::stop::Bell;
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

/// Most receipts in one heartbeat, as `fleet::Heartbeat` bounds them.
const RECEIPTS_MAX: usize = 1000;

/// How a box holds titles.
#[derive(Clone, Debug)]
pub struct HoldingOptions {
    /// Its name.
    pub node: Name,
    /// The agent's state folder.
    pub state: PathBuf,
    /// The folders of the library. A name at the top of one belongs to that folder whole.
    pub libraries: Vec<PathBuf>,
    /// Most bytes per second that are copied; 0 means no bound.
    pub copy_bytes_per_second: u64,
    /// When titles are brought; always, if there is none.
    pub windows: Vec<FillWindow>,
    /// Most bytes that are brought in one window, or in a day if there is none; 0 means no bound.
    pub fill_bytes_max: u64,
    /// How long a node waits for each of those before it in its cluster, besides the time that a title takes.
    pub fill_wait: Duration,
    /// Every title is read again and compared with its record within this time.
    pub scrub: Duration,
    /// A title that the plan names for other nodes is kept for so long after viewers were told to leave.
    pub evict_after: Duration,
    /// The clock on the wall, in seconds since 1970 ([`wall_clock`]): it may jump, and tests make it jump.
    pub clock: fn() -> u64,
    /// From where titles may be copied, besides nodes; see [`OriginRoot::is_allowed`].
    pub origins: Vec<OriginRoot>,
    /// Whose certificates it takes for other nodes' and origins': what viewers trust, so those that this machine trusts, but for tests.
    pub trust: Trust,
}

/// Tells which files the server has open: device and inode of each.
pub type OpenFiles = Box<dyn Fn() -> io::Result<HashSet<(u64, u64)>> + Send + Sync>;

/// Holds titles.
pub struct Holder {
    options: HoldingOptions,
    disks: Disks,
    table: Table,
    desired: Mutex<Arc<Desired>>,
    /// Rises with each change of `desired`.
    generation: AtomicU64,
    receipts: Mutex<BTreeMap<HeldTitle, ReceiptState>>,
    /// Where the next heartbeat's receipts begin.
    receipts_from: AtomicU64,
    /// Titles that are hidden, because they may be damaged, or because a part of them is missing.
    hidden: Mutex<BTreeMap<String, Hidden>>,
    /// What keeps titles from being copied or verified.
    troubles: Mutex<BTreeMap<String, Trouble>>,
    replaced: Mutex<Vec<ReplacedVersion>>,
    evictions: Evictions,
    copy_pace: Mutex<Pace>,
    copied_bytes: AtomicU64,
    fill: Fill,
    scrub: Scrub,
    started: Instant,
    copier: Bell,
    remover: Bell,
    scrubber: Bell,
    watcher: Bell,
}

/// What an operator wants to know of it.
#[derive(Clone, Debug, Serialize)]
pub struct HoldingStatus {
    /// Verified titles.
    pub titles: usize,
    /// Their bytes, and those of titles that are not verified yet.
    pub bytes: u64,
    /// Titles that are still to be copied.
    pub missing: Vec<String>,
    /// Titles that are hidden until they are verified or mended.
    pub hidden: Vec<String>,
    /// Titles that go, because the plan names them for other nodes.
    pub leaving: Vec<String>,
    /// Titles that cannot be copied or verified, and why.
    pub troubles: BTreeMap<String, String>,
    /// Folders of the library that are lost, and why.
    pub lost_folders: BTreeMap<PathBuf, String>,
    /// Bytes copied since the start.
    pub copied_bytes: u64,
    /// How filling goes.
    pub fill: FillStatus,
    /// What reading again has found.
    pub scrub: ScrubStatus,
    /// A wrong byte is found within this time.
    pub scrub_seconds: u64,
    /// The time since the title that waits longest was last verified.
    pub oldest_verified_seconds: u64,
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock on the wall: seconds since 1970.
pub fn wall_clock() -> u64 {
    unix_seconds()
}

/// Since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Holder {
    /// Reads what an earlier run has kept, removes what was withdrawn by then, and hides what has changed since. The server may start afterwards.
    ///
    /// # Errors
    /// If the state folder or a folder of the library cannot be used.
    pub fn open(options: HoldingOptions) -> io::Result<Self> {
        let disks = Disks::open(&options.libraries, &options.state)?;
        let table = Table::new(options.node.clone(), options.state.join("verified"))?;
        let desired: Desired = kept::read_json(&options.state.join(DESIRED)).unwrap_or_default();
        let receipts: Vec<Receipt> =
            kept::read_json(&options.state.join(RECEIPTS)).unwrap_or_default();
        let replaced = kept::read_json(&options.state.join(REPLACED)).unwrap_or_default();
        let volume = kept::read_json(&options.state.join(VOLUME)).unwrap_or_default();
        let holder = Self {
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
            copier: Bell::default(),
            remover: Bell::default(),
            scrubber: Bell::default(),
            watcher: Bell::default(),
            options,
        };
        holder.withdraw_all();
        holder.look(look::Changed::Hide)?;
        Ok(holder)
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start(self: &Arc<Self>) -> io::Result<Vec<JoinHandle<()>>> {
        let spawn = |name: &str, work: fn(&Self)| {
            let holder = Arc::clone(self);
            std::thread::Builder::new().name(name.into()).spawn(move || work(&holder))
        };
        Ok(vec![
            spawn("copy", Self::keep_copying)?,
            spawn("remove", Self::keep_removing)?,
            spawn("scrub", Self::keep_scrubbing)?,
            spawn("disks", Self::keep_watching_disks)?,
        ])
    }

    /// Ends the threads, in the middle of a copy if need be.
    pub fn stop(&self) {
        let all = [&self.copier, &self.remover, &self.scrubber, &self.watcher];
        all.into_iter().for_each(Bell::stop);
    }

    /// By the clock on the wall. What has to last or to be waited for goes by `started`, which no clock's jump moves.
    fn unix_seconds(&self) -> u64 {
        (self.options.clock)()
    }

    /// The complete, verified versions.
    pub fn inventory(&self) -> Arc<Inventory> {
        self.table.inventory()
    }

    /// What it shall hold.
    pub fn desired(&self) -> Arc<Desired> {
        Arc::clone(&lock(&self.desired))
    }

    /// Keeps what it shall hold from now on.
    ///
    /// # Errors
    /// If it is not what a gateway may say, is older than what is known, or cannot be kept.
    pub fn handle_desired(&self, desired: Desired) -> Result<(), String> {
        desired.check().map_err(|why| format!("what to hold is refused: {why}"))?;
        // Held to the end: two gateways tell at the same time, and the older word must not be the last one.
        let mut kept = lock(&self.desired);
        if **kept == desired {
            return Ok(());
        }
        if desired.is_older_than(&kept) {
            return Err(format!(
                "what to hold is refused: it is of epoch {}, revision {}, and epoch {}, revision {} is known; the gateway does not reach its store, \
                 or the store was put back without \"fullbore control restore\"",
                desired.epoch, desired.revision, kept.epoch, kept.revision
            ));
        }
        let place = self.options.state.join(DESIRED);
        kept::write_json(&place, &desired)
            .map_err(|error| format!("cannot write {}: {error}", place.display()))?;
        let desired = Arc::new(desired);
        *kept = Arc::clone(&desired);
        drop(kept);
        let withdrawn: BTreeSet<&HeldTitle> = desired.withdrawn.iter().collect();
        lock(&self.receipts).retain(|held, _| withdrawn.contains(held));
        self.generation.fetch_add(1, Ordering::Relaxed);
        // What was in the way may be so no more.
        lock(&self.troubles).clear();
        self.remover.ring();
        self.copier.ring();
        Ok(())
    }

    /// The folder of a title that it holds in this version.
    pub fn folder_of(&self, title: &PublishedTitle) -> Option<PathBuf> {
        let held = self.table.title(&title.path)?;
        let is_whole = held.version == title.version && held.verified.is_some();
        is_whole.then(|| held.library.join(&title.path))
    }

    /// Receipts for one heartbeat. If there are more than fit, each call gives the next ones.
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

    /// Free room for titles.
    pub fn free_bytes(&self) -> u64 {
        self.disks.free_bytes()
    }

    /// What an operator wants to know.
    pub fn status(&self) -> HoldingStatus {
        let titles = self.table.titles();
        let now = self.unix_seconds();
        let verified = titles.iter().filter_map(|(_, held)| held.verified);
        let oldest = verified.map(|one| now.saturating_sub(one.unix_seconds)).max();
        let is_missing = |title: &&PublishedTitle| self.is_missing(title);
        let desired = self.desired();
        let missing =
            desired.titles.iter().filter(is_missing).map(|one| one.path.clone()).collect();
        // One lock after the other: within one expression all would be held until its end, and the copier takes them in another order.
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

/// What it shall hold, as a gateway said last.
const DESIRED: &str = "desired.json";
/// What became of withdrawn titles.
const RECEIPTS: &str = "receipts.json";
/// Versions that were replaced, and are kept for their viewers.
const REPLACED: &str = "replaced.json";
/// What was brought in the present window.
const VOLUME: &str = "fill-volume.json";

/// An iterator that begins in the middle and comes round.
trait CycleFrom: Iterator + Clone {
    fn cycle_from(self, from: u64) -> impl Iterator<Item = Self::Item> {
        let from = usize::try_from(from).unwrap_or(0);
        self.clone().skip(from).chain(self.take(from))
    }
}

impl<I: Iterator + Clone> CycleFrom for I {}
