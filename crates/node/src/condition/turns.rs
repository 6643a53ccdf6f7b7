//! The log of what the box said of itself: a line for each turn, with all that it follows from, so that it can be made again.
//!
//! A turn is rare, because none comes before its time is up. So it is written where it is made, and a disk that is slow delays nobody but the look
//! of the next second. Two files of [`BYTES_MAX`] are kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::Condition;
use serde::{Deserialize, Serialize};

use super::{ControlLoop, Observed};
use crate::holding::lock;

/// A thousand turns or so.
const BYTES_MAX: u64 = 8 << 20;
/// No line is longer: it has what was seen in [`super::WINDOW`], each second.
const LINE_BYTES_MAX: u64 = 1 << 20;
const LOG: &str = "conditions.log";
const OLD: &str = "conditions.log.1";

/// A box said something else of itself than a second ago.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The version of this form: 1.
    version: u32,
    /// When, since 1970.
    pub(crate) time_unix_seconds: u64,
    /// What it says now.
    pub(crate) condition: Condition,
    /// What it had seen until then.
    before: ControlLoop,
    /// What it saw.
    observed: Observed,
    /// When, by the clock of `before`.
    now: Duration,
}

impl Turn {
    /// What the loop says today to what it saw then.
    pub(crate) fn again(&self) -> Condition {
        let mut again = self.before.clone();
        again.handle(self.observed.clone(), self.now);
        again.condition()
    }
}

impl ControlLoop {
    /// As [`handle`](Self::handle). Returns the turn, if this is one.
    pub(crate) fn handle_and_note(&mut self, observed: Observed, now: Duration) -> Option<Turn> {
        let before = self.clone();
        self.handle(observed.clone(), now);
        let condition = self.condition();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_unix_seconds = since.as_secs();
        let turn = Turn { version: 1, time_unix_seconds, condition, before, observed, now };
        (turn.condition != turn.before.condition()).then_some(turn)
    }
}

/// Where turns are written.
pub(crate) struct TurnLog {
    folder: PathBuf,
    is_broken: Mutex<bool>,
}

impl TurnLog {
    /// Writes to the agent's state folder.
    pub(crate) fn new(state: &Path) -> Self {
        Self { folder: state.to_owned(), is_broken: Mutex::default() }
    }

    /// Writes a turn. The first of several that cannot be written is told.
    pub(crate) fn add(&self, turn: &Turn) {
        let written = self.write(turn);
        let was_broken = std::mem::replace(&mut *lock(&self.is_broken), written.is_err());
        if let (Err(error), false) = (written, was_broken) {
            let place = self.folder.join(LOG);
            crate::tell(&format!("cannot write {}: {error}", place.display()));
        }
    }

    fn write(&self, turn: &Turn) -> io::Result<()> {
        let place = self.folder.join(LOG);
        let mut line = serde_json::to_vec(turn)?;
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

/// Passes on each turn in the log of the state folder `state`, oldest first; `None` for a line that is none.
///
/// # Errors
/// If a file cannot be read. One that is not there has no turns.
pub(crate) fn read_all(state: &Path, mut each: impl FnMut(Option<Turn>)) -> io::Result<()> {
    for name in [OLD, LOG] {
        let file = match File::open(state.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let (mut lines, mut line) = (BufReader::new(file), Vec::new());
        while Read::take(&mut lines, LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
            let turn = serde_json::from_slice::<Turn>(&line).ok();
            each(turn.filter(|turn| turn.version == 1));
            line.clear();
        }
    }
    Ok(())
}
