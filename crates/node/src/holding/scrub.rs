//! The thread that reads every title again within a stated time, so that a byte that decays on the disk is found.
//!
//! A title is due half that time after it was last verified, and what is due is read at twice the rate that all titles need. So the time holds
//! however titles are spread over it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use catalog::Workshop;
use rustix::fs::OFlags;

use super::arrival::ARRIVING;
use super::error::HoldingError;
use super::look::title_path;
use super::table::Held;
use super::{Holder, lock, unix_seconds};

/// Slower than this is not worth waiting for, and no disk notices it.
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;
/// The longest wait for a title to be due.
const IDLE: Duration = Duration::from_secs(10);

impl Holder {
    /// The thread's life.
    pub(super) fn keep_scrubbing(&self) {
        while !self.scrubber.is_stopped() {
            let Some((path, held)) = self.next_to_scrub() else {
                self.scrubber.pause(IDLE.min(self.options.scrub / 8));
                continue;
            };
            let scrub_seconds = self.options.scrub.as_secs_f64().max(1e-3);
            let rate = (2.0 * self.table.bytes() as f64 / scrub_seconds) as u64;
            lock(&self.scrub_pace).set(rate.max(BYTES_PER_SECOND_MIN));
            match self.verify(&path, &held, &|bytes| self.scrub_gate(bytes)) {
                Ok(()) | Err(HoldingError::Cancelled) => {}
                Err(why) => {
                    crate::tell(&format!("{path} cannot be verified: {why}"));
                    self.scrubber.pause(Duration::from_secs(1));
                }
            }
        }
    }

    /// The title that waits longest, if it is due.
    fn next_to_scrub(&self) -> Option<(String, Held)> {
        let now = unix_seconds();
        let age = |held: &Held| match held.verified {
            // A time that is yet to come says nothing: the clock was set back.
            Some(verified) if verified.unix_seconds <= now => now - verified.unix_seconds,
            _ => u64::MAX,
        };
        let titles = self.table.titles().into_iter();
        // What was never verified is the copier's.
        let verified = titles.filter(|(_, held)| held.verified.is_some() && !held.has_changed);
        let oldest = verified.max_by_key(|(_, held)| age(held))?;
        let due = self.options.scrub.as_secs_f64() / 2.0;
        (age(&oldest.1) as f64 >= due).then_some(oldest)
    }

    fn scrub_gate(&self, bytes: u64) -> Result<(), HoldingError> {
        let wait = lock(&self.scrub_pace).take(bytes, self.started.elapsed());
        if !wait.is_zero() {
            self.scrubber.pause(wait);
        }
        match self.scrubber.is_stopped() {
            true => Err(HoldingError::Cancelled),
            false => Ok(()),
        }
    }

    /// Ends the connections of viewers who are getting a damaged file of a hidden title: the server closes those whose file changes. A file that
    /// the server holds still by a lease does not seem to change, so the server is made to give the lease back, too.
    pub(super) fn end_viewers(&self, path: &str, library: &Path, file: &str) {
        let Ok(title) = title_path(path) else { return };
        let hidden = title.above(library).join(Workshop::folder_name(title.name()));
        let place = hidden.join(ARRIVING).join(file);
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        // It fails while there is a lease, and that is enough to end it.
        drop(options.open(&place));
        if let Err(error) = File::open(&place).and_then(|file| file.set_modified(SystemTime::now()))
        {
            crate::tell(&format!("cannot touch {}: {error}", place.display()));
        }
    }
}
