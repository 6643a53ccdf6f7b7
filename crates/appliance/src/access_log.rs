//! The access log: a line of JSON per response, written by a thread of its own so that no worker waits for the log's
//! disk. When that thread cannot keep up, lines are lost and counted; viewers do not wait either.

use crate::discreet;
use http::{Field, Request};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lines that may wait for the writer: some 4 MiB of text.
const LINES_WAITING_MAX: usize = 16 << 10;

/// The sending end; one per worker.
pub struct AccessLog {
    lines: SyncSender<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

/// What is told of one response.
pub struct Entry<'a> {
    /// The viewer.
    pub peer: SocketAddr,
    /// TLS version and cipher suite.
    pub tls: Option<&'static str>,
    /// The request; none if it could not be understood.
    pub request: Option<&'a Request>,
    /// The answer's status.
    pub status: u16,
    /// Bytes that the response has in all, head included.
    pub response_bytes: u64,
    /// From the request's last byte to the response's.
    pub duration: Duration,
    /// Why the response was cut short, if it was.
    pub end: Option<&'static str>,
}

/// Opens the log, `-` for standard output.
///
/// # Errors
/// When the file cannot be opened for appending.
pub fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    Ok(Box::new(OpenOptions::new().create(true).append(true).open(path)?))
}

impl AccessLog {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(out: Box<dyn Write + Send>) -> io::Result<Self> {
        let (lines, received) = sync_channel(LINES_WAITING_MAX);
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&received, out))?;
        Ok(Self { lines, lost: Arc::default() })
    }

    /// The same log for another worker, which counts the lines that it loses itself.
    pub fn for_worker(&self) -> Self {
        Self { lines: self.lines.clone(), lost: Arc::default() }
    }

    /// Logs one response; never waits.
    pub fn write(&self, entry: &Entry<'_>) {
        let mut line = entry.to_json().to_string().into_bytes();
        line.push(b'\n');
        if self.lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines of this worker that the writer could not take.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Entry<'_> {
    fn to_json(&self) -> serde_json::Value {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "unix_seconds": since_1970.as_secs_f64(),
            "peer": self.peer.ip().to_string(),
            "tls": self.tls,
            "method": self.request.map(|request| request.method.as_str()),
            "target": self.request.map(|request| discreet::target(request.target())),
            "status": self.status,
            "response_bytes": self.response_bytes,
            "seconds": self.duration.as_secs_f64(),
            "range": self.field(Field::Range),
            "user_agent": self.field(Field::UserAgent),
            "referer": self.request.and_then(|request| request.field(Field::Referer)).map(discreet::target),
            "end": self.end,
        })
    }
}

/// Writes lines as they come, in batches when they come fast.
fn write_lines(lines: &Receiver<Vec<u8>>, out: Box<dyn Write + Send>) {
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let mut broken = false;
    while let Ok(line) = lines.recv() {
        let mut written = out.write_all(&line);
        while let Ok(line) = lines.try_recv() {
            written = written.and_then(|()| out.write_all(&line));
        }
        match written.and_then(|()| out.flush()) {
            Ok(()) => broken = false,
            // Said once, not per line: the disk under the log may well be full.
            Err(error) if !broken => {
                broken = true;
                eprintln!(
                    "fullbore: cannot write the access log: {error}; lines are lost until it can be written"
                );
            }
            Err(_) => {}
        }
    }
}
