//! The thread that copies, repairs and verifies: first titles that may be damaged, then unverified ones, then missing ones.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::Record;
use fleet_protocol::{Digest, PublishedTitle};

use super::arrival::{Arrival, Arrived};
use super::block_map::Why;
use super::check;
use super::error::{Attempt, HoldingError};
use super::hidden::Hidden;
use super::look::{Changed, title_path};
use super::pace::keep_pace;
use super::removal::ReplacedVersion;
use super::room;
use super::sources::Sources;
use super::stamp::stamp;
use super::table::{Held, Verified};
use super::{Replicator, lock};

/// The longest wait for new work.
const IDLE: Duration = Duration::from_secs(1);
/// The wait before a title is retried: this at first, then doubled each time, up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// Checking a full disk again costs nothing.
const RETRY_FULL: Duration = Duration::from_secs(5);

/// The last failure to copy or verify a title.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) why: String,
    attempts: u32,
    /// Since the start.
    retry_at: Duration,
}

/// A unit of work.
enum Job {
    /// A hidden title, and why it is hidden.
    Mend(String, Why),
    /// A title in the library that is due to be verified.
    Verify(String, Held),
    /// A title that is missing, or present in another version.
    Copy(PublishedTitle),
}

impl Job {
    fn path(&self) -> &str {
        match self {
            Self::Mend(path, _) | Self::Verify(path, _) => path,
            Self::Copy(wanted) => &wanted.path,
        }
    }
}

impl Replicator {
    /// The copier's loop.
    pub(super) fn keep_copying(&self) {
        while !self.copier.is_stopped() {
            match self.next_job() {
                Some(job) => self.work_on(&job),
                None => {
                    self.fill.note_idle_round();
                    self.copier.wait(IDLE);
                }
            }
        }
        // What the last job fetched counts in this window after a restart as well.
        self.keep_volume();
    }

    fn next_job(&self) -> Option<Job> {
        let now = self.started.elapsed();
        let troubles = lock(&self.troubles);
        let may = |path: &str| troubles.get(path).is_none_or(|trouble| trouble.retry_at <= now);
        let desired = self.desired();
        let hidden = lock(&self.hidden);
        let wanted = |path: &str| desired.titles.iter().find(|wanted| wanted.path == path);
        let is_due = |(path, hidden): &(&String, &Hidden)| {
            may(path) && !wanted(path).is_some_and(|wanted| hidden.is_missing(wanted))
        };
        if let Some((path, hidden)) = hidden.iter().find(is_due) {
            return Some(Job::Mend(path.clone(), hidden.why));
        }
        let titles = self.table.titles();
        let is_due = |held: &Held| held.verified.is_none() || held.has_changed;
        let due = titles.into_iter().find(|(path, held)| is_due(held) && may(path));
        if let Some((path, held)) = due {
            return Some(Job::Verify(path, held));
        }
        let is_missing = |wanted: &&PublishedTitle| {
            hidden.get(&wanted.path).is_none_or(|hidden| hidden.is_missing(wanted))
                && self.is_missing(wanted)
                && !desired.withdrawn.contains(&wanted.held())
        };
        let missing: Vec<_> = desired.titles.iter().filter(is_missing).collect();
        self.next_missing(&missing, may).map(Job::Copy)
    }

    /// Whether this version of a title is missing.
    pub(super) fn is_missing(&self, wanted: &PublishedTitle) -> bool {
        self.table.title(&wanted.path).is_none_or(|held| held.version != wanted.version)
    }

    fn work_on(&self, job: &Job) {
        let path = job.path();
        let done = match job {
            Job::Mend(path, why) => self.mend(path, *why),
            Job::Verify(path, held) => {
                self.verify(path, held, &|bytes| self.copy_gate(bytes, &|| true))
            }
            Job::Copy(wanted) => self.copy(wanted),
        };
        match done {
            Ok(()) => drop(lock(&self.troubles).remove(path)),
            Err(HoldingError::Cancelled) => {}
            Err(why) => self.note_trouble(path, &why),
        }
    }

    fn note_trouble(&self, path: &str, why: &HoldingError) {
        let mut troubles = lock(&self.troubles);
        let before = troubles.get(path);
        let attempts = before.map_or(0, |before| before.attempts);
        let wait = match why {
            HoldingError::Full { .. } => RETRY_FULL,
            // The ledger decides when to ask which node.
            HoldingError::Peer(_) => RETRY,
            _ => RETRY.saturating_mul(1 << attempts.min(10)).min(RETRY_MAX),
        };
        let is_full = matches!(why, HoldingError::Full { .. });
        let why = why.to_string();
        // The figures of a full disk change all the time.
        if !before.is_some_and(|before| before.why == why || is_full && attempts > 0) {
            crate::tell(&format!("cannot hold {path} yet: {why}"));
        }
        let retry_at = self.started.elapsed() + wait;
        troubles.insert(path.to_owned(), Trouble { why, attempts: attempts + 1, retry_at });
    }

    /// Verifies a hidden title, fetches its missing blocks, and puts it back.
    fn mend(&self, path: &str, why: Why) -> Result<(), HoldingError> {
        let desired = self.desired();
        let wanted = desired.titles.iter().find(|wanted| wanted.path == path);
        let wanted = wanted.filter(|wanted| !desired.withdrawn.contains(&wanted.held()));
        self.bring(path, wanted, why)
    }

    fn copy(&self, wanted: &PublishedTitle) -> Result<(), HoldingError> {
        self.bring(&wanted.path, Some(wanted), Why::Fill)
    }

    fn bring(
        &self,
        path: &str,
        wanted: Option<&PublishedTitle>,
        why: Why,
    ) -> Result<(), HoldingError> {
        let title = title_path(path)?;
        let library = self.library_of(&title);
        if library.as_os_str().is_empty() {
            return Err(HoldingError::Library(
                "no folder of the library can be used: mount or replace its disk, then start the agent again".to_owned(),
            ));
        }
        let is_mending = why == Why::Mend;
        let generation = self.generation.load(Ordering::Relaxed);
        let is_wanted = || {
            let is_as_it_was = self.generation.load(Ordering::Relaxed) == generation;
            let is_time = is_mending || wanted.is_none_or(|wanted| self.is_time_for(wanted));
            is_time && (is_as_it_was || self.still_wants(path, wanted))
        };
        let all = wanted.map(|wanted| self.sources(&title, wanted, is_mending));
        let none = match all {
            Some(_) => "no node in this cluster has it; another node is due to fetch it first",
            None => "it was not published, so there is nowhere to copy it from: ingest it again",
        };
        let sources = Sources {
            all: all.unwrap_or_default(),
            failed: Cell::new(0),
            ledger: &self.fill.ledger,
            now: &|| self.started.elapsed(),
            none,
        };
        let arrival = Arrival {
            title: &title,
            library: &library,
            wanted,
            why,
            sources: &sources,
            progress: &|done_bytes, all_bytes| self.fill.note(path, done_bytes, all_bytes),
            kept_free_bytes: room::kept_free_bytes(&library),
            gate: &|bytes| self.copy_gate(bytes, &is_wanted),
        };
        let brought = arrival.bring().inspect_err(|why| self.note_disk(&library, why));
        self.fill.end();
        let arrived = brought.map_err(|why| match why {
            // The check for free space passed, and then a write found the disk full.
            HoldingError::Full { needed_bytes: 0, .. } => HoldingError::Full {
                needed_bytes: wanted.map_or(1, |wanted| wanted.bytes),
                free_bytes: room::free_bytes(&library).saturating_sub(arrival.kept_free_bytes),
            },
            other => other,
        })?;
        self.note_arrival(path, &library, &title.folder(&library), arrived)
    }

    fn note_arrival(
        &self,
        path: &str,
        library: &Path,
        folder: &Path,
        arrived: Arrived,
    ) -> Result<(), HoldingError> {
        let Arrived { record, replaced, fetched_bytes } = arrived;
        self.copied_bytes.fetch_add(fetched_bytes, Ordering::Relaxed);
        if let Some(old) = replaced {
            self.add_replaced(ReplacedVersion {
                path: path.to_owned(),
                folder: old.folder,
                version: old.sha256.parse().ok(),
                unix_seconds: self.unix_seconds(),
            });
        }
        let place = std::fs::File::open(folder).attempt("open", folder)?;
        let stamp = stamp(place, &record).attempt("look at", folder)?;
        let verified = Verified { stamp, unix_seconds: self.unix_seconds() };
        let version = version(&record)?;
        let (library, bytes) = (library.to_owned(), record.bytes());
        let held = Held { version, library, bytes, verified: Some(verified), has_changed: false };
        self.table.put(path, held);
        // Clear it: the title was hidden, or a scan of the library has found its hidden folder while it arrived.
        lock(&self.hidden).remove(path);
        let fetched = if fetched_bytes > 0 { "copied and verified" } else { "verified" };
        crate::tell(&format!("{path} is {fetched}"));
        Ok(())
    }

    fn still_wants(&self, path: &str, wanted: Option<&PublishedTitle>) -> bool {
        let desired = self.desired();
        match wanted {
            Some(wanted) => {
                desired.titles.iter().any(|one| one == wanted)
                    && !desired.withdrawn.contains(&wanted.held())
            }
            None => desired.withdrawn.iter().all(|withdrawn| withdrawn.path != path),
        }
    }

    /// Waits until a block may be copied, and says whether to go on.
    fn copy_gate(&self, bytes: u64, is_wanted: &dyn Fn() -> bool) -> Result<(), HoldingError> {
        self.fill.let_viewers_run_first();
        match keep_pace(&self.copy_pace, bytes, self.started, &self.copier, is_wanted) {
            true => Ok(()),
            false => Err(HoldingError::Cancelled),
        }
    }

    /// Reads and verifies a title in the library, and hides it at once if it is damaged.
    ///
    /// # Errors
    /// [`HoldingError`], but not for a damaged title: its repair is a job of its own.
    pub(super) fn verify(
        &self,
        path: &str,
        held: &Held,
        gate: check::Gate<'_>,
    ) -> Result<(), HoldingError> {
        let folder = title_path(path)?.folder(&held.library);
        let is_present = || self.table.title(path).is_some_and(|now| now.version == held.version);
        let record = match Record::read(&folder) {
            Ok(record) if version(&record)? != held.version => {
                // Another program has put another version there.
                self.table.take(path);
                return self.look(Changed::Verify).attempt("list", &held.library);
            }
            Ok(record) => record,
            Err(_) if !folder.exists() => {
                self.table.take(path);
                return Ok(());
            }
            Err(why) => {
                return self.hide_damaged(path, &held.library, &format!("title.json: {why}"));
            }
        };
        let look = || std::fs::File::open(&folder).and_then(|place| stamp(place, &record)).ok();
        let before = look();
        match check::check(&folder, &record, gate) {
            Err(HoldingError::Damaged { path: file, why }) if folder.exists() && is_present() => {
                self.hide_damaged(path, &held.library, &format!("{file} {why}"))?;
                self.end_viewers(path, &held.library, &file);
                Ok(())
            }
            // It was removed in the meantime.
            Err(HoldingError::Damaged { .. }) => Ok(()),
            Err(other) => Err(other),
            Ok(()) => {
                let stamp = before.filter(|before| look() == Some(*before));
                // It was written to while it was being read: read it again.
                let Some(stamp) = stamp else { return Err(HoldingError::Busy) };
                let verified = Some(Verified { stamp, unix_seconds: self.unix_seconds() });
                if is_present() {
                    self.table.put(path, Held { verified, has_changed: false, ..held.clone() });
                }
                Ok(())
            }
        }
    }
}

fn version(record: &Record) -> Result<Digest, HoldingError> {
    record.sha256.parse().map_err(|_| HoldingError::Title("its record has no SHA-256".to_owned()))
}
