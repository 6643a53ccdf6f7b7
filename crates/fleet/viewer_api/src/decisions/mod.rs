//! The log of steering decisions: the answers of the last 24 hours, so that each decision can be replayed.
//!
//! A decision is based on a snapshot, so the log has snapshots, too: a full one at the start of each file and whenever titles, sites or the set of
//! nodes change, and the changes of single nodes in between. Each file is self-contained. No line has a viewer's address ([`steering::Logged`]).
//!
//! A separate thread writes. Logging never blocks: if the disk cannot keep up, lines are dropped and counted. The log is bounded in bytes as well
//! as in time, and the oldest file is removed first.

mod line;
mod reader;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use steering::Logged;

pub use reader::{Difference, Replayed, replay_all, replay_while};

/// Most decisions waiting for the disk: one second of them at full load takes 30 MB.
const WAITING_MAX: usize = 1 << 16;

/// How long decisions are stored.
const KEPT_SECONDS: u64 = 24 * 3600;

/// A message to the writer.
enum Message {
    Decision(Box<Logged>),
    Snapshot(Arc<steering::Fleet>),
    /// Drops the sender once everything before it is on disk.
    Flush(SyncSender<()>),
}

/// The log of a running gateway or node.
pub struct DecisionLog {
    to_writer: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    dropped: Arc<AtomicU64>,
    folder: PathBuf,
}

impl DecisionLog {
    /// Logs to `folder`, up to `bytes_max`.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        let (to_writer, messages) = sync_channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut writer = writer::Writer::open(folder, bytes_max, Arc::clone(&dropped))?;
        let writer = thread::Builder::new()
            .name("decisions".to_owned())
            .spawn(move || writer.run(&messages))?;
        Ok(Self {
            to_writer: Some(to_writer),
            writer: Some(writer),
            dropped,
            folder: folder.to_owned(),
        })
    }

    /// Logs a decision.
    pub fn decision(&self, logged: Logged) {
        self.send(Message::Decision(Box::new(logged)));
    }

    /// Makes this the snapshot of the following decisions.
    pub fn snapshot(&self, fleet: Arc<steering::Fleet>) {
        self.send(Message::Snapshot(fleet));
    }

    fn send(&self, message: Message) {
        let sent = self.to_writer.as_ref().map(|to_writer| to_writer.try_send(message));
        if let Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) = sent {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Waits until everything logged so far is on disk.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(0);
        let Some(to_writer) = &self.to_writer else { return };
        if to_writer.send(Message::Flush(done)).is_ok() {
            // An error means that the writer dropped `done`, which is the signal.
            let _ = wait.recv();
        }
    }

    /// Number of lines dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// The folder of the log.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for DecisionLog {
    fn drop(&mut self) {
        self.to_writer = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer has already been reported.
            let _ = writer.join();
        }
    }
}
