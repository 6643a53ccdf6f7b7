//! The access log: a line of JSON per response, written by a thread of its own so that no worker waits for the log's disk. If
//! that thread cannot keep up, lines are dropped and counted; viewers do not wait either.
//!
//! A viewer can send as much as fits into a request head, and JSON makes it longer. So long fields are cut, the line
//! names them (`cut`), and the bytes of waiting lines are bounded.

use crate::redact;
use fullbore_http::{Field, Request};
use rustix::fs::{Access, OFlags, access};
use rustix::io::Errno;
use serde_json::json;
use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use telemetry::since_1970;

/// Bytes of lines that may wait for the writer, for all workers together: some twenty thousand ordinary lines, enough for more
/// than a second without the disk.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// Lines that may wait: each also takes a place in the queue, no matter how short it is.
const WAITING_LINES_MAX: usize = 32 << 10;

/// The most bytes logged of a target or a referer: longer than any URL that people write.
const ADDRESS_BYTES_MAX: usize = 1024;

/// The most bytes logged of other fields: a browser's user agent takes some 150, a long list of ranges as much.
const FIELD_BYTES_MAX: usize = 256;

/// Size of the writer's buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// Where lines go.
type Out = Box<dyn Write + Send>;

/// The sending end; one per worker.
pub struct AccessLog {
    lines: SyncSender<Line>,
    waiting_bytes: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
    /// The writer's next output, if it should switch.
    next: Arc<Mutex<Option<Out>>>,
}

/// Makes the log start a new file when the old one has been renamed.
pub(crate) struct LogReopener {
    path: PathBuf,
    lines: SyncSender<Line>,
    next: Arc<Mutex<Option<Out>>>,
}

/// A line on its way to the writer.
struct Line {
    /// Empty if it only wakes the writer.
    text: Vec<u8>,
    /// Its worker's counter of dropped lines.
    lost: Arc<AtomicU64>,
}

/// The log's data about one response.
pub struct LogEntry<'a> {
    /// The viewer.
    pub peer: SocketAddr,
    /// TLS version and cipher suite.
    pub tls: Option<&'static str>,
    /// The request; none if it could not be understood.
    pub request: Option<&'a Request>,
    /// The answer's status.
    pub status: u16,
    /// Bytes of the whole response, including its head.
    pub response_bytes: u64,
    /// From the request's last byte to the response's.
    pub duration: Duration,
    /// Why the response was cut short, if it was.
    pub end: Option<&'static str>,
}

/// Opens the log, `-` for standard output. Opening a pipe fails unless it has a reader: the server does not wait for one.
///
/// # Errors
/// If the file cannot be opened for appending.
pub fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => io::Error::new(error.kind(), "this pipe or socket has no reader"),
        _ => error,
    })?;
    // From here on writes may block: waiting is what the writing thread is for.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(Box::new(file))
}

/// Checks whether [`open`] would succeed, and creates nothing. It does not check whether a pipe has a reader.
///
/// # Errors
/// If this user may not write to the file, or not create it in its folder.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    match path.metadata() {
        Ok(there) if there.is_dir() => Err(Errno::ISDIR.into()),
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or_else(|| Path::new("."));
            Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error),
    }
}

impl AccessLog {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(out: Box<dyn Write + Send>) -> io::Result<Self> {
        let (lines, received) = sync_channel(WAITING_LINES_MAX);
        let log = Self {
            lines,
            waiting_bytes: Arc::default(),
            lost: Arc::default(),
            next: Arc::default(),
        };
        let (waiting, next) = (Arc::clone(&log.waiting_bytes), Arc::clone(&log.next));
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&received, &waiting, &next, out))?;
        Ok(log)
    }

    /// Reopens the log at `path`; none if that is not a file: pipes and standard output cannot be renamed.
    pub(crate) fn reopener(&self, path: &Path) -> Option<LogReopener> {
        let reopener = || LogReopener {
            path: path.to_owned(),
            lines: self.lines.clone(),
            next: Arc::clone(&self.next),
        };
        (path.as_os_str() != "-" && path.is_file()).then(reopener)
    }

    /// The same log for another worker, which counts its own dropped lines.
    pub fn for_worker(&self) -> Self {
        Self {
            lines: self.lines.clone(),
            waiting_bytes: Arc::clone(&self.waiting_bytes),
            lost: Arc::default(),
            next: Arc::clone(&self.next),
        }
    }

    /// Logs one response; never waits.
    pub fn write(&self, entry: &LogEntry<'_>) {
        let json = entry.to_json().to_string();
        // People also read the log in terminals.
        let shown = match ingest::shown_json(&json) {
            Cow::Owned(shown) => Some(shown),
            Cow::Borrowed(_) => None,
        };
        let mut text = shown.unwrap_or(json).into_bytes();
        text.push(b'\n');
        if !self.enqueue(text) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hands a line to the writer, if there is room.
    fn enqueue(&self, text: Vec<u8>) -> bool {
        // The line counts with its capacity, not only its length. Workers add first and check afterwards, so together they
        // never exceed the bound.
        let bytes = text.capacity();
        let waiting = &self.waiting_bytes;
        if waiting.fetch_add(bytes, Ordering::Relaxed) + bytes <= WAITING_BYTES_MAX {
            let line = Line { text, lost: Arc::clone(&self.lost) };
            if self.lines.try_send(line).is_ok() {
                return true;
            }
        }
        waiting.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    /// Lines of this worker that found no room, or could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl LogEntry<'_> {
    fn to_json(&self) -> serde_json::Value {
        let since_1970 = since_1970();
        let mut cut = Vec::new();
        let mut within = |name: &'static str, text: Option<String>, bytes_max: usize| {
            let mut text = text?;
            if text.len() > bytes_max {
                truncate(&mut text, bytes_max);
                cut.push(name);
            }
            Some(text)
        };
        // Cut after redaction, because half a token would not be recognised as one.
        let target = self.request.map(|request| redact::target(request.target()));
        let target = within("target", target, ADDRESS_BYTES_MAX);
        let host = within("host", self.field(Field::Host), FIELD_BYTES_MAX);
        let range = within("range", self.field(Field::Range), FIELD_BYTES_MAX);
        let user_agent = within("user_agent", self.field(Field::UserAgent), FIELD_BYTES_MAX);
        let referer = self.request.and_then(|request| request.field(Field::Referer));
        let referer = within("referer", referer.map(redact::target), ADDRESS_BYTES_MAX);
        json!({
            "unix_seconds": since_1970.as_secs_f64(),
            "peer": self.peer.ip().to_string(),
            "tls": self.tls,
            "method": self.request.map(|request| request.method.as_str()),
            "host": host,
            "target": target,
            "status": self.status,
            "response_bytes": self.response_bytes,
            "seconds": self.duration.as_secs_f64(),
            "range": range,
            "user_agent": user_agent,
            "referer": referer,
            "cut": if cut.is_empty() { None } else { Some(cut) },
            "end": self.end,
        })
    }
}

/// Cuts a text to at most `bytes_max` bytes, between characters.
fn truncate(text: &mut String, bytes_max: usize) {
    let ends = (0..=bytes_max).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
}

impl LogReopener {
    /// Reopens the log at its path. The writer continues there with its next line.
    ///
    /// # Errors
    /// If it cannot be opened. The open log stays in use.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        let next = open(&self.path)?;
        *self.next.lock().expect("no holder of this lock can panic") = Some(next);
        // If the queue is full, lines are waiting, and the writer needs no waking.
        let _ = self.lines.try_send(Line { text: Vec::new(), lost: Arc::default() });
        Ok(())
    }

    /// The log's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes lines as they arrive, in batches when they arrive fast.
fn write_lines(
    lines: &Receiver<Line>,
    waiting_bytes: &AtomicUsize,
    next: &Mutex<Option<Out>>,
    out: Out,
) {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let mut broken = false;
    // The counter of the last line's worker.
    let mut lost_of_last = Arc::default();
    while let Ok(first) = lines.recv() {
        let mut failed = None;
        for Line { text, lost } in std::iter::once(first).chain(lines.try_iter()) {
            if let Some(next) = next.lock().expect("no holder of this lock can panic").take() {
                change(&mut out, next, &lost_of_last);
                (broken, failed) = (false, None);
                eprintln!("fullbore: access log reopened on request");
            }
            // If the disk accepts no data, it stays in the buffer, and a line that no longer fits is dropped.
            if let Err(error) = out.write_all(&text) {
                lost.fetch_add(1, Ordering::Relaxed);
                failed = Some(error);
            }
            waiting_bytes.fetch_sub(text.capacity(), Ordering::Relaxed);
            if !text.is_empty() {
                lost_of_last = lost;
            }
        }
        match failed.map_or_else(|| out.flush(), Err) {
            Ok(()) => broken = false,
            // Reported once, not per line: the log's disk may be the full one.
            Err(error) if !broken => {
                broken = true;
                eprintln!(
                    "fullbore: cannot write the access log: {error}; lines are dropped until it can be written"
                );
            }
            Err(_) => {}
        }
    }
}

/// Switches to `next`. Lines that the old file no longer accepts are dropped and counted; the first of them may have been written in part.
fn change(out: &mut BufWriter<Out>, next: Out, lost: &AtomicU64) {
    // The error was reported before, or the lines are counted as lost now.
    let _ = out.flush();
    let before = std::mem::replace(out, BufWriter::with_capacity(BUFFER_BYTES, next));
    let left = before.into_parts().1.unwrap_or_default();
    let lines = left.iter().filter(|byte| **byte == b'\n').count();
    lost.fetch_add(lines as u64, Ordering::Relaxed);
}

#[cfg(test)]
#[path = "access_log_tests.rs"]
mod tests;
