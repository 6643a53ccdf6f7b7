//! The thread that reads every title again within a stated time, to find bytes that have decayed on the disk.
//!
//! A title is due half that time after its last verification, and due titles are read at twice the rate that all titles need. So the time
//! is kept however the verifications are spread over it, unless viewers need the disks: scrubbing gives way to them as a fill does
//! ([`GivingWay`]).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use catalog::Workshop;
use rustix::fs::OFlags;
use serde::Serialize;

use super::arrival::ARRIVING;
use super::error::HoldingError;
use super::giving_way::{GivingWay, Viewers};
use super::look::title_path;
use super::pace::{Pace, keep_pace};
use super::table::Held;
use super::{Replicator, lock};

/// Slower than this is pointless, and this much does not burden a disk.
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;
/// The longest wait for a title to become due.
const IDLE: Duration = Duration::from_secs(10);

/// The state that scrubbing needs.
#[derive(Debug)]
pub(super) struct Scrub {
    pace: Mutex<Pace>,
    /// The rate that all titles need, if viewers leave it.
    bytes_per_second: AtomicU64,
    is_reading: AtomicBool,
    giving_way: Mutex<GivingWay>,
    read_bytes: AtomicU64,
    damaged_titles: AtomicU64,
}

/// The scrub's results since the start.
#[derive(Clone, Debug, Serialize)]
pub struct ScrubStatus {
    /// Bytes read again.
    pub read_bytes: u64,
    /// The current share of the scrub's rate: less than 1 while it gives way to viewers.
    pub share: f64,
    /// Titles in the library that were found damaged, by scrubbing or because their files had changed.
    pub damaged_titles: u64,
}

impl Default for Scrub {
    fn default() -> Self {
        let (bytes_per_second, is_reading, giving_way, read_bytes, damaged_titles) =
            Default::default();
        let pace = Mutex::new(Pace::new(0));
        Self { pace, bytes_per_second, is_reading, giving_way, read_bytes, damaged_titles }
    }
}

impl Scrub {
    /// Counts a damaged title of the inventory.
    pub(super) fn note_damage(&self) {
        self.damaged_titles.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the viewers' measurements, once a second.
    pub(super) fn note_viewers(&self, viewers: Option<Viewers>, now: Duration) {
        let is_reading = self.is_reading.load(Ordering::Relaxed);
        lock(&self.giving_way).handle(viewers, is_reading, now);
        self.set_pace(now);
    }

    fn set_pace(&self, now: Duration) {
        let whole = self.bytes_per_second.load(Ordering::Relaxed) as f64;
        // 0 would mean no limit.
        let share = (whole * lock(&self.giving_way).share()) as u64;
        lock(&self.pace).set(share.max(1), now);
    }

    /// Begins to read a title, at this rate at most.
    fn begin(&self, bytes_per_second: u64, now: Duration) {
        self.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
        self.is_reading.store(true, Ordering::Relaxed);
        self.set_pace(now);
    }

    fn end(&self) {
        self.is_reading.store(false, Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> ScrubStatus {
        ScrubStatus {
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            share: lock(&self.giving_way).share(),
            damaged_titles: self.damaged_titles.load(Ordering::Relaxed),
        }
    }
}

impl Replicator {
    /// The scrubber's loop.
    pub(super) fn keep_scrubbing(&self) {
        while !self.scrubber.is_stopped() {
            let Some((path, held)) = self.next_to_scrub() else {
                self.scrubber.pause(IDLE.min(self.options.scrub / 8));
                continue;
            };
            let scrub_seconds = self.options.scrub.as_secs_f64().max(1e-3);
            let rate = (2.0 * self.table.bytes() as f64 / scrub_seconds) as u64;
            self.scrub.begin(rate.max(BYTES_PER_SECOND_MIN), self.started.elapsed());
            let verified = self.verify(&path, &held, &|bytes| self.scrub_gate(bytes));
            self.scrub.end();
            match verified {
                Ok(()) | Err(HoldingError::Cancelled) => {}
                Err(why) => {
                    crate::tell(&format!("cannot verify {path}: {why}"));
                    self.scrubber.pause(Duration::from_secs(1));
                }
            }
        }
    }

    /// The title that was verified longest ago, if it is due.
    fn next_to_scrub(&self) -> Option<(String, Held)> {
        let now = self.unix_seconds();
        let age = |held: &Held| match held.verified {
            // A time in the future is useless: the clock was set back.
            Some(verified) if verified.unix_seconds <= now => now - verified.unix_seconds,
            _ => u64::MAX,
        };
        let titles = self.table.titles().into_iter();
        // Titles that were never verified are the copier's job.
        let verified = titles.filter(|(_, held)| held.verified.is_some() && !held.has_changed);
        let oldest = verified.max_by_key(|(_, held)| age(held))?;
        let due = self.options.scrub.as_secs_f64() / 2.0;
        (age(&oldest.1) as f64 >= due).then_some(oldest)
    }

    fn scrub_gate(&self, bytes: u64) -> Result<(), HoldingError> {
        self.fill.let_viewers_run_first();
        if !keep_pace(&self.scrub.pace, bytes, self.started, &self.scrubber, &|| true) {
            return Err(HoldingError::Cancelled);
        }
        self.scrub.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the connections of viewers who are getting a damaged file of a hidden title: the server closes a connection when its file
    /// changes. A file that the server holds by a lease does not appear to change, so the server is made to give up the lease, too.
    pub(super) fn end_viewers(&self, path: &str, library: &Path, file: &str) {
        let Ok(title) = title_path(path) else { return };
        let hidden = title.above(library).join(Workshop::folder_name(title.name()));
        let place = hidden.join(ARRIVING).join(file);
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        // This open fails while there is a lease, but it suffices to break it.
        drop(options.open(&place));
        if let Err(error) = File::open(&place).and_then(|file| file.set_modified(SystemTime::now()))
        {
            crate::tell(&format!("cannot touch {}: {error}", place.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_again_takes_less_of_the_disks_while_viewers_wait_longer_for_it() {
        let scrub = Scrub::default();
        scrub.begin(16 << 20, Duration::ZERO);
        let mut viewers = Viewers::default();
        let mut pass = |seconds: std::ops::Range<u64>, wait: f64| {
            for second in seconds {
                viewers.first_bytes += 100;
                viewers.first_byte_seconds += 100.0 * wait;
                scrub.note_viewers(Some(viewers), Duration::from_secs(second));
            }
        };
        let takes = |at: u64| {
            let mut pace = *lock(&scrub.pace);
            let now = Duration::from_secs(at);
            pace.take(16 << 20, now);
            pace.wait(now).as_secs()
        };
        pass(0..60, 0.010);
        assert_eq!((scrub.status().share, takes(60)), (1.0, 1));
        pass(60..90, 0.100);
        assert_eq!((scrub.status().share, takes(90)), (1.0 / 16.0, 16));
        pass(90..200, 0.010);
        assert_eq!((scrub.status().share, takes(200)), (1.0, 1));
    }
}
