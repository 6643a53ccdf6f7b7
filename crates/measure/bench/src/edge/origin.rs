//! An origin that counts requests, answers late, and sometimes fails. It serves the library from this process.
//!
//! It serves files as web servers do, with a strong ETag and ranges. It drops clients that break the rules of HTTP/1.1.

use crate::library::{Library, file_name};
use crate::limit::pin;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than any request of a cache.
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// How an origin behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// Delay before each answer.
    pub(super) delay: Duration,
    /// One request in this many fails: in turn with status 500, with a reset before the answer, and with a reset in the middle of it.
    /// `None`: all succeed.
    pub(super) fails_one_in: Option<u64>,
}

/// Requests that the origin received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Requests.
    pub(super) requests: u64,
    /// How many of them were made to fail.
    pub(super) failed: u64,
    /// Different ranges of files. A whole file counts as one.
    pub(super) ranges: u64,
    /// Repeated requests for the same range. Repeats after a failure of the origin are not counted.
    pub(super) repeated: u64,
}

#[derive(Debug, Default)]
struct State {
    requests: u64,
    failed: u64,
    /// How often each range was requested, not counting failures.
    answered: HashMap<(usize, u64, u64), u64>,
}

/// A running origin. It stops accepting connections when dropped.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<State>>,
    is_over: Arc<AtomicBool>,
}

/// State shared by the connections' threads.
struct Serving {
    library: Arc<Library>,
    manner: Manner,
    state: Arc<Mutex<State>>,
}

impl Origin {
    /// Serves `library` on the core `cpu`.
    ///
    /// # Errors
    /// If there is no port or no thread for it.
    pub(super) fn start(library: Arc<Library>, manner: Manner, cpu: u32) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::<Mutex<State>>::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let serving = Arc::new(Serving { library, manner, state: Arc::clone(&state) });
        let ends = Arc::clone(&is_over);
        std::thread::Builder::new().name("origin".into()).spawn(move || {
            // Without a core of its own it is only slower.
            let _ = pin(cpu);
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let serving = Arc::clone(&serving);
                // When a client leaves, its connection's thread ends. If no thread can be started, the client sees a reset.
                let thread = std::thread::Builder::new().name("origin".into());
                let _ = thread.spawn(move || drop(serving.serve(stream)));
            }
        })?;
        Ok(Self { address, state, is_over })
    }

    /// The requests so far.
    pub(super) fn asked(&self) -> Asked {
        let state = lock(&self.state);
        let answered = state.answered.values();
        Asked {
            requests: state.requests,
            failed: state.failed,
            ranges: state.answered.len() as u64,
            repeated: answered.map(|times| times - 1).sum(),
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // The thread notices at its next connection, so make one.
        drop(TcpStream::connect(self.address));
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Counts are valid whatever happened to the last holder of the lock.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A deliberate failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Status,
    Reset,
    ResetAmid,
}

/// The parts of a request that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// `None`: no such file.
    file: Option<usize>,
    /// First and last byte.
    range: Option<(u64, u64)>,
    is_head: bool,
}

impl Serving {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(request) = self.read(&mut reader)? {
            let fault = self.count(&request);
            std::thread::sleep(self.manner.delay);
            if fault == Some(Fault::Reset) {
                return reset(&stream);
            }
            if fault == Some(Fault::Status) {
                stream.write_all(
                    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
                )?;
                continue;
            }
            self.answer(&mut stream, &request, fault.is_some())?;
            if fault.is_some() {
                return reset(&stream);
            }
        }
        Ok(())
    }

    /// Reads a request; `None` once the client has closed.
    fn read(&self, reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
        let mut head = String::new();
        let mut bounded = reader.take(HEAD_BYTES_MAX);
        while !head.ends_with("\r\n\r\n") {
            if bounded.read_line(&mut head)? == 0 {
                return Ok(None);
            }
        }
        Ok(Request::parse(&head, self.library.files))
    }

    fn count(&self, request: &Request) -> Option<Fault> {
        // A starting edge checks whether the origin is there.
        if request.is_head && request.file.is_none() {
            return None;
        }
        let mut state = lock(&self.state);
        state.requests += 1;
        // Fail in the middle of each turn, so that the first request succeeds.
        let fails = |one_in: u64| state.requests % one_in == one_in / 2;
        if self.manner.fails_one_in.is_some_and(fails) {
            state.failed += 1;
            let faults = [Fault::Status, Fault::Reset, Fault::ResetAmid];
            return Some(faults[(state.failed % 3) as usize]);
        }
        if let (Some(file), false) = (request.file, request.is_head) {
            let (first, last) = request.range.unwrap_or((0, u64::MAX));
            *state.answered.entry((file, first, last)).or_default() += 1;
        }
        None
    }

    fn answer(&self, stream: &mut TcpStream, request: &Request, breaks: bool) -> io::Result<()> {
        let Some(file) = request.file else {
            return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        };
        let size = self.library.file_bytes;
        let (first, end) = match request.range {
            Some((first, last)) => (first, size.min(last.saturating_add(1))),
            None => (0, size),
        };
        if first >= end {
            let head = "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nContent-Range: bytes */";
            return stream.write_all(format!("{head}{size}\r\n\r\n").as_bytes());
        }
        let status = match request.range {
            Some(_) => {
                format!("206 Partial Content\r\nContent-Range: bytes {first}-{}/{size}", end - 1)
            }
            None => "200 OK".to_owned(),
        };
        let count = end - first;
        stream.write_all(
            format!(
                "HTTP/1.1 {status}\r\nContent-Length: {count}\r\nETag: \"{file}-{size}\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                 Cache-Control: max-age=86400\r\nContent-Type: video/mp4\r\n\r\n"
            )
            .as_bytes(),
        )?;
        let end = if breaks { first + count / 2 } else { end };
        if !request.is_head {
            let mut from = File::open(self.library.path(file))?;
            from.seek(SeekFrom::Start(first))?;
            // The kernel copies it (sendfile).
            io::copy(&mut from.take(end - first), stream)?;
        }
        Ok(())
    }
}

/// Discards unsent bytes and resets the connection.
fn reset(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

impl Request {
    /// Treats a request in a form that caches never send as one for an unknown file.
    fn parse(head: &str, files: usize) -> Option<Self> {
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next().unwrap_or_default());
        let file = (0..files).find(|file| path[1.min(path.len())..] == file_name(*file));
        let range = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = name.eq_ignore_ascii_case("range").then_some(value.trim())?;
            let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse().ok()?, last.parse().unwrap_or(u64::MAX)))
        });
        Some(Self { file, range, is_head: method == "HEAD" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::byte_at;
    use load::interrupt::Interrupt;
    use std::path::Path;

    fn start(root: &Path, manner: Manner) -> Origin {
        let library = Library::make(root, 2, 400_000, &Interrupt::default()).unwrap();
        Origin::start(Arc::new(library), manner, 0).unwrap()
    }

    /// The whole answer to a request on its own connection; empty after a reset.
    fn ask(origin: &Origin, head: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(origin.address).unwrap();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A reset ends it as well, and may have arrived already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    #[test]
    fn ranges_have_the_library_s_bytes_and_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let origin = start(root.path(), Manner::default());
        let range = "GET /title-1.mp4 HTTP/1.1\r\nRange: bytes=70000-199999";
        let answer = ask(&origin, range);
        let expected: Vec<u8> = (70_000..200_000).map(|offset| byte_at(1, offset)).collect();
        assert!(answer.starts_with(b"HTTP/1.1 206 ") && answer.ends_with(&expected));
        assert!(ask(&origin, range) == answer);
        let whole = ask(&origin, "GET /title-1.mp4 HTTP/1.1");
        assert!(whole.starts_with(b"HTTP/1.1 200 ") && whole.ends_with(&expected));
        assert!(ask(&origin, "GET /title-2.mp4 HTTP/1.1").starts_with(b"HTTP/1.1 404 "));
        let past = "GET /title-0.mp4 HTTP/1.1\r\nrange: bytes=200000-";
        assert!(ask(&origin, past).starts_with(b"HTTP/1.1 416 "));
        assert_eq!(origin.asked(), Asked { requests: 5, failed: 0, ranges: 3, repeated: 1 });
    }

    #[test]
    fn failures_come_in_turn_and_what_failed_is_not_an_answer() {
        let manner = Manner { delay: Duration::ZERO, fails_one_in: Some(2) };
        let root = tempfile::tempdir().unwrap();
        let origin = start(root.path(), manner);
        let request = "GET /title-0.mp4 HTTP/1.1\r\nRange: bytes=0-99999";
        let answers: Vec<_> = (0..6).map(|_| ask(&origin, request)).collect();
        let whole = answers[1].len();
        assert!(answers[0].is_empty(), "a reset");
        assert!(answers[2].len() < whole, "a reset in the middle");
        assert!(answers[4].starts_with(b"HTTP/1.1 500 "));
        assert!([3, 5].iter().all(|at| answers[*at].len() == whole && whole > 100_000));
        assert_eq!(origin.asked(), Asked { requests: 6, failed: 3, ranges: 1, repeated: 2 });
    }
}
