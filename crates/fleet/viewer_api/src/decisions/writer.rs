//! The thread that writes the log.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::line::{Change, Line};
use super::{KEPT_SECONDS, Message};

/// A file is full when the lines after its first snapshot have reached both this fraction of the log and the snapshot's length. The fraction bounds
/// how much too much goes with a removed file. The length keeps a large fleet's snapshots, which exceed the fraction, from becoming most of the
/// log.
const FILES_MIN: u64 = 16;

/// Or when it is this old.
const FILE_SECONDS: u64 = 3600;

/// Buffered lines are flushed after this time.
const FLUSH: Duration = Duration::from_secs(1);

/// Sending to a waiting thread has to wake it, which costs about as much as the rest of an answer. So this thread handles all pending messages, and
/// then sleeps for this long. The queue has room for forty times as many decisions as a core can make meanwhile.
const LOOK_AWAY: Duration = Duration::from_millis(10);

/// The file extension of the log's files. Their names begin with the time, so they sort by age.
pub(super) const EXTENSION: &str = "jsonl";

pub(super) struct Writer {
    folder: PathBuf,
    bytes_max: u64,
    dropped: Arc<AtomicU64>,
    file: Option<OpenFile>,
    /// The snapshot of the present decisions.
    fleet: Option<Arc<steering::Fleet>>,
}

struct OpenFile {
    out: BufWriter<File>,
    /// Length of the snapshot at its start.
    snapshot_bytes: u64,
    /// Length of everything after it.
    bytes: u64,
    began_unix_seconds: u64,
}

impl Writer {
    pub(super) fn open(folder: &Path, bytes_max: u64, dropped: Arc<AtomicU64>) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.to_owned(), bytes_max, dropped, file: None, fleet: None })
    }

    /// Writes messages until all senders are gone.
    pub(super) fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            match messages.recv_timeout(FLUSH) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {
                    self.flush();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
            messages.try_iter().for_each(|message| self.take(message));
            thread::sleep(LOOK_AWAY);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Decision(logged) => self.note(&Line::Decision(*logged)),
            Message::Snapshot(fleet) => self.note_snapshot(fleet),
            Message::Flush(_done) => self.flush(),
        }
    }

    fn note_snapshot(&mut self, fleet: Arc<steering::Fleet>) {
        let before = self.fleet.replace(Arc::clone(&fleet));
        if self.file.is_none() {
            // The next line starts a file, which begins with this snapshot.
            return;
        }
        let change = before.and_then(|before| Change::between(before.snapshot(), fleet.snapshot()));
        self.note(&match change {
            Some(change) => Line::Change(change),
            None => Line::Snapshot(fleet.snapshot().clone()),
        });
    }

    fn note(&mut self, line: &Line) {
        if self.write(line).is_err() {
            self.dropped.fetch_add(1, Relaxed);
            // The file may end with half a line. The next line starts another file, with a full snapshot.
            self.file = None;
        }
    }

    fn flush(&mut self) {
        if self.file.as_mut().is_some_and(|file| file.out.flush().is_err()) {
            self.dropped.fetch_add(1, Relaxed);
            self.file = None;
        }
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let now = unix_seconds();
        let is_full = self.file.as_ref().is_none_or(|file| {
            let is_old = now.saturating_sub(file.began_unix_seconds) >= FILE_SECONDS;
            is_old || file.bytes >= file.snapshot_bytes.max(self.bytes_max / FILES_MIN)
        });
        if is_full {
            self.flush();
            self.file = None;
            remove_old(&self.folder, self.bytes_max, now)?;
            let mut file = create(&self.folder, now)?;
            if let Some(fleet) = &self.fleet {
                put(&mut file, &Line::Snapshot(fleet.snapshot().clone()))?;
                file.snapshot_bytes = std::mem::take(&mut file.bytes);
            }
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => put(file, line),
            None => Ok(()),
        }
    }
}

fn put(file: &mut OpenFile, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.bytes += text.len() as u64;
    file.out.write_all(&text)
}

/// Creates a file. If another one was created in the same second, it gets another name.
fn create(folder: &Path, now: u64) -> io::Result<OpenFile> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut attempt = 0;
    let file = loop {
        let path = folder.join(format!("{now:012}-{attempt:04}.{EXTENSION}"));
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
            other => break other?,
        }
    };
    Ok(OpenFile { out: BufWriter::new(file), snapshot_bytes: 0, bytes: 0, began_unix_seconds: now })
}

/// The log's files, oldest first, with their lengths.
pub(super) fn files(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == EXTENSION) {
            files.push((entry.path(), entry.metadata()?.len()));
        }
    }
    files.sort();
    Ok(files)
}

/// Removes files until there is room for one more, as well as those that ended too long ago.
fn remove_old(folder: &Path, bytes_max: u64, now: u64) -> io::Result<()> {
    let files = files(folder)?;
    let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let room = bytes_max - bytes_max / FILES_MIN;
    for (path, length) in files {
        let is_old = ended_unix_seconds(&path).is_some_and(|ended| ended + KEPT_SECONDS < now);
        if is_old || bytes > room {
            fs::remove_file(&path)?;
            bytes -= length;
        }
    }
    Ok(())
}

fn ended_unix_seconds(path: &Path) -> Option<u64> {
    let ended = fs::metadata(path).ok()?.modified().ok()?;
    ended.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
