//! The log of steering decisions: one line of JSON each, without viewers' addresses, for replays.
//!
//! Whoever decides never waits for the disk: lines go through a queue, and what does not fit is dropped and counted. Two files of
//! [`BYTES_MAX`] are kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A hundred thousand decisions or so.
const BYTES_MAX: u64 = 32 << 20;
/// Lines that may wait for the disk.
const WAITING_MAX: usize = 4096;

/// Where decisions are written.
pub(crate) struct Decisions {
    lines: SyncSender<String>,
    lost: AtomicU64,
}

impl Decisions {
    /// Begins to write to `decisions.log` in `state`.
    ///
    /// # Errors
    /// If the file cannot be written, or the thread not started.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let place = state.join("decisions.log");
        let file = append(&place)?;
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let write = move || write_all(file, &place, &waiting);
        std::thread::Builder::new().name("decisions".into()).spawn(write)?;
        Ok(Self { lines, lost: AtomicU64::new(0) })
    }

    /// Writes a line, soon.
    pub(crate) fn add(&self, line: String) {
        if self.lines.try_send(line).is_err() && self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            crate::tell("decisions are not logged, because the disk cannot keep up");
        }
    }
}

fn append(place: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(place)
}

/// Ends when nobody can decide any more.
fn write_all(mut file: File, place: &Path, lines: &Receiver<String>) {
    let old: PathBuf = place.with_extension("log.1");
    for line in lines {
        let written = writeln!(file, "{line}").and_then(|()| file.metadata());
        let turned = written.and_then(|metadata| {
            if metadata.len() > BYTES_MAX {
                fs::rename(place, &old)?;
                file = append(place)?;
            }
            Ok(())
        });
        if let Err(error) = turned {
            crate::tell(&format!("cannot write {}: {error}", place.display()));
        }
    }
}
