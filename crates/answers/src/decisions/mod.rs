//! The log of decisions: what every viewer was answered, for 24 hours, so that each can be made again.
//!
//! A decision follows from a snapshot, so the log has those, too: a whole one at the start of each file and whenever titles, sites or nodes change,
//! and what changed of single nodes between them. Each file can be read by itself. No line has a viewer's address ([`steering::Logged`]).
//!
//! A thread of its own writes. Whoever logs never waits: if the disk cannot keep up, lines are dropped and counted. The log is bounded in bytes as
//! well as in time, and its oldest file goes first.

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

/// Decisions that wait for the disk: a second of them at full load takes 30 MB.
const WAITING_MAX: usize = 1 << 16;

/// How long decisions are kept.
const KEPT_SECONDS: u64 = 24 * 3600;

/// What is written.
enum Message {
    Decision(Box<Logged>),
    Snapshot(Arc<steering::Fleet>),
    /// Everything before it is on disk when the sender is dropped.
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
    /// Logs to `folder`, at most `bytes_max`.
    ///
    /// # Errors
    /// If the folder cannot be made.
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

    /// From now on, decisions follow from this snapshot.
    pub fn snapshot(&self, fleet: Arc<steering::Fleet>) {
        self.send(Message::Snapshot(fleet));
    }

    fn send(&self, message: Message) {
        let sent = self.to_writer.as_ref().map(|to_writer| to_writer.try_send(message));
        if let Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) = sent {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Waits until all that was logged before is on disk.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(0);
        let Some(to_writer) = &self.to_writer else { return };
        if to_writer.send(Message::Flush(done)).is_ok() {
            // An error means that the writer dropped `done`, which is what is waited for.
            let _ = wait.recv();
        }
    }

    /// How many lines were dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for DecisionLog {
    fn drop(&mut self) {
        self.to_writer = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so.
            let _ = writer.join();
        }
    }
}
