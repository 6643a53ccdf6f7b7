//! Logs the changes of the reported condition: a line for each turn, with everything that it follows from, so that it can be replayed.
//!
//! Turns are rare, because each reason has to hold for a while. So they are written synchronously: a slow disk delays only the next
//! second's check. Two files of [`BYTES_MAX`] are kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet_protocol::Condition;
use serde::{Deserialize, Serialize};

use super::{ControlLoop, Observed};
use crate::holding::lock;

/// About a thousand turns.
const BYTES_MAX: u64 = 8 << 20;
/// The longest line: it contains the measurements of each second of [`super::WINDOW`].
const LINE_BYTES_MAX: u64 = 1 << 20;
const LOG: &str = "conditions.log";
const OLD: &str = "conditions.log.1";

/// The reported condition has changed since the second before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConditionChange {
    /// The version of this format: 1.
    version: u32,
    /// When, in seconds since 1970.
    pub(crate) time_unix_seconds: u64,
    /// The new condition.
    pub(crate) condition: Condition,
    /// The loop's state before.
    before: ControlLoop,
    /// The measurements.
    observed: Observed,
    /// The time by the clock of `before`.
    now: Duration,
}

impl ConditionChange {
    /// The condition that the loop computes today from the same measurements.
    pub(crate) fn again(&self) -> Condition {
        let mut again = self.before.clone();
        again.handle(self.observed.clone(), self.now);
        again.condition()
    }
}

impl ControlLoop {
    /// Like [`handle`](Self::handle). Returns the turn, if the condition has changed.
    pub(crate) fn handle_and_note(
        &mut self,
        observed: Observed,
        now: Duration,
    ) -> Option<ConditionChange> {
        let before = self.clone();
        self.handle(observed.clone(), now);
        let condition = self.condition();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_unix_seconds = since.as_secs();
        let change =
            ConditionChange { version: 1, time_unix_seconds, condition, before, observed, now };
        (change.condition != change.before.condition()).then_some(change)
    }
}

/// Where turns are logged.
pub(crate) struct ChangeLog {
    folder: PathBuf,
    is_broken: Mutex<bool>,
}

impl ChangeLog {
    /// Writes to the agent's state folder.
    pub(crate) fn new(state: &Path) -> Self {
        Self { folder: state.to_owned(), is_broken: Mutex::default() }
    }

    /// Writes a turn. Of several failures in a row, only the first is logged.
    pub(crate) fn add(&self, change: &ConditionChange) {
        let written = self.write(change);
        let was_broken = std::mem::replace(&mut *lock(&self.is_broken), written.is_err());
        if let (Err(error), false) = (written, was_broken) {
            let place = self.folder.join(LOG);
            crate::tell(&format!("cannot write {}: {error}", place.display()));
        }
    }

    fn write(&self, change: &ConditionChange) -> io::Result<()> {
        let place = self.folder.join(LOG);
        let mut line = serde_json::to_vec(change)?;
        line.push(b'\n');
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).mode(0o600).open(&place)?;
        if file.metadata()?.len() > BYTES_MAX {
            fs::rename(&place, self.folder.join(OLD))?;
            file = options.open(&place)?;
        }
        file.write_all(&line)
    }
}

/// Passes each turn in the log of the state folder `state` to `each`, oldest first; `None` for an unreadable line.
///
/// # Errors
/// If a file cannot be read. A missing file counts as empty.
pub(crate) fn read_all(
    state: &Path,
    mut each: impl FnMut(Option<ConditionChange>),
) -> io::Result<()> {
    for name in [OLD, LOG] {
        let file = match File::open(state.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let (mut lines, mut line) = (BufReader::new(file), Vec::new());
        while Read::take(&mut lines, LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
            let change = serde_json::from_slice::<ConditionChange>(&line).ok();
            each(change.filter(|change| change.version == 1));
            line.clear();
        }
    }
    Ok(())
}
