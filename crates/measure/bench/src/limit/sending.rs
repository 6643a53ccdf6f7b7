//! Sending alone: on the server's reactor, with the calls that the server makes for each window and with its window sizes.
//!
//! The cost of sending, and how often a core wakes up for it, depends on how much TCP takes at a time. So the viewers are those that the
//! server serves in the same bench: a few who take all they can, from a buffer and from the page cache, and many who take only what they
//! play.

use super::parts::{Rate, Stage, WINDOW_BYTES, thread_time};
use super::sockets::UNSENT_BYTES_MAX;
use crate::versus::Workload;
use load::Running;
use net::{ListenerOptions, Socket, Window};
use reactor::{Fd, Reactor, RingOptions, op, sleep, spawn, yield_now};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::TcpListener;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much unsent data the server lets wait in the kernel for a viewer who takes everything, if TCP sends it at once
/// (`net.unsent_bytes_max`): encrypted bytes, and pages of the page cache.
const SEALED_UNSENT_BYTES: u32 = 512 << 10;
const PAGES_UNSENT_BYTES: u32 = 4 << 20;

/// The most that the server sends from the page cache in one call (`net.sendfile_bytes_max`).
const SENDFILE_BYTES_MAX: usize = 4 << 20;

/// Size of the film: more than any viewer gets.
const FILM_BYTES: u64 = 1 << 30;

/// Larger than any request.
const REQUEST_BYTES_MAX: usize = 4096;

/// Time to leave out at the start.
const MARGIN: Duration = Duration::from_millis(100);

/// The film to send.
enum Film {
    /// A warm buffer, again and again.
    Buffer(Rc<[u8]>),
    /// A file in the page cache.
    File(Rc<disk::File>),
}

impl Stage {
    /// Sends a warm buffer to viewers who take everything.
    pub(super) fn send(&self) -> io::Result<Rate> {
        self.answer_viewers(Workload::HttpWarm, vec![Film::warm_buffer()])
    }

    /// Sends from the page cache to such viewers.
    pub(super) fn sendfile(&self) -> io::Result<Rate> {
        let film = |index| {
            let file = File::open(self.library.path(index))?;
            let file = disk::File::new(file.into()).map_err(io::Error::other)?;
            Ok(Film::File(Rc::new(file)))
        };
        let films = (0..self.library.files).map(film).collect::<io::Result<_>>()?;
        self.answer_viewers(Workload::HttpWarm, films)
    }

    /// Sends a warm buffer to a thousand viewers who request ranges as players do, each at the pace of a film.
    pub(super) fn send_paced(&self) -> io::Result<Rate> {
        self.answer_viewers(Workload::Viewers, vec![Film::warm_buffer()])
    }

    /// Answers the same viewers as the server gets with `workload`, without TLS. They request all films.
    fn answer_viewers(&self, workload: Workload, films: Vec<Film>) -> io::Result<Rate> {
        let options = ListenerOptions {
            unsent_bytes_max: Some(UNSENT_BYTES_MAX),
            ..ListenerOptions::default()
        };
        let listener = TcpListener::from(net::bind(([127, 0, 0, 1], 0).into(), &options)?);
        let address = listener.local_addr()?;
        let target = |film| format!("http://{address}/{film}").parse().map_err(io::Error::other);
        let connections = workload.connections();
        let rate = workload.rate_bits_per_second(connections);
        let seconds = Duration::from_secs_f64(self.seconds);
        let load = load::Options {
            targets: (0..films.len()).map(target).collect::<io::Result<_>>()?,
            connections,
            cpus: vec![self.sink_cpu],
            ramp: workload.ramp(connections),
            duration: seconds + 4 * MARGIN,
            ..workload.load(rate, 1.0)
        };
        let opens_after = load.opens_after() + MARGIN;
        let viewers = Audience::start(load);
        let reactor = Reactor::new(RingOptions::default())?;
        reactor.run(async move {
            let bytes = Rc::new(Cell::new(0));
            spawn(welcome(OwnedFd::from(listener).into(), films.into(), Rc::clone(&bytes)));
            while !viewers.have_begun()? {
                sleep(Duration::from_millis(5)).await;
            }
            sleep(opens_after).await;
            let (began, began_cpu, before) = (Instant::now(), thread_time(), bytes.get());
            sleep(seconds).await;
            let cpu = thread_time().saturating_sub(began_cpu);
            let rate = Rate::of(bytes.get() - before, began.elapsed(), cpu);
            // The viewers end by themselves and need answers until then.
            while !viewers.have_ended() {
                sleep(Duration::from_millis(5)).await;
            }
            viewers.join()?;
            Ok(rate)
        })?
    }
}

impl Film {
    fn warm_buffer() -> Self {
        Self::Buffer(vec![7; WINDOW_BYTES].into())
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Buffer(_) => FILM_BYTES,
            Self::File(file) => file.size(),
        }
    }

    fn unsent_bytes(&self) -> u32 {
        match self {
            Self::Buffer(_) => SEALED_UNSENT_BYTES,
            Self::File(_) => PAGES_UNSENT_BYTES,
        }
    }

    fn window_bytes_max(&self) -> usize {
        match self {
            Self::Buffer(buffer) => buffer.len(),
            Self::File(_) => SENDFILE_BYTES_MAX,
        }
    }
}

/// Answers every viewer that connects.
async fn welcome(listener: Fd, films: Rc<[Film]>, bytes: Rc<Cell<usize>>) {
    let mut incoming = op::Incoming::new(listener);
    let window = Window::new(films[0].window_bytes_max());
    while let Ok(connection) = incoming.next().await {
        let (films, bytes) = (Rc::clone(&films), Rc::clone(&bytes));
        let viewer = Viewer::new(connection.into(), window);
        // A viewer that is cut off reports it itself.
        spawn(async move { drop(viewer.answer(&films, &bytes).await) });
    }
}

/// A connected viewer.
struct Viewer {
    socket: Socket,
    window: Window,
    /// Holds what TCP did not take at once. By the time it does, these bytes are no longer in any cache, as in the server.
    kept: Vec<u8>,
}

impl Viewer {
    fn new(socket: Socket, window: Window) -> Self {
        Self { socket, window, kept: Vec::new() }
    }

    /// Answers requests until the viewer leaves.
    async fn answer(mut self, films: &[Film], bytes: &Cell<usize>) -> io::Result<()> {
        let mut request = Vec::with_capacity(REQUEST_BYTES_MAX);
        loop {
            match self.socket.receive_into(&mut request, REQUEST_BYTES_MAX)? {
                Some(0) => return Ok(()),
                Some(_) => {}
                None => self.socket.readable().await,
            }
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            let film = requested(&request, films)?;
            let (head, range) = head_of(&request, film.bytes());
            request.clear();
            self.socket.ask_below(film.unsent_bytes());
            let count = |taken| bytes.set(bytes.get() + taken);
            match film {
                Film::Buffer(buffer) => self.send(head.as_bytes(), buffer, range, count).await?,
                Film::File(file) => self.send_file(head.as_bytes(), file, range, count).await?,
            }
        }
    }

    /// Sends window after window from `buffer`, each as large as what TCP took recently.
    async fn send(
        &mut self,
        mut head: &[u8],
        buffer: &[u8],
        range: Range<u64>,
        count: impl Fn(usize),
    ) -> io::Result<()> {
        let mut left = range.end - range.start;
        while left > 0 || !head.is_empty() {
            if !self.socket.is_writable() {
                self.socket.writable().await;
            }
            let body = left.min(self.window.bytes() as u64) as usize;
            left -= body as u64;
            let parts = [std::mem::take(&mut head), &buffer[..body]];
            let whole = parts[0].len() + body;
            let taken = match parts {
                [[], body] => self.socket.send(body, false)?,
                [head, body] => self.socket.send_parts(&[head, body].map(IoSlice::new))?,
            };
            count(taken);
            match taken == whole {
                true => self.window.taken_whole(),
                false => self.window.taken_in_part(taken),
            }
            self.send_kept(whole - taken, &count).await?;
            yield_now().await;
        }
        Ok(())
    }

    /// Sends the rest of a window. Its content does not matter here.
    async fn send_kept(&mut self, bytes: usize, count: impl Fn(usize)) -> io::Result<()> {
        if self.kept.len() < bytes {
            self.kept.resize(bytes, 7);
        }
        let mut left = bytes;
        while left > 0 {
            self.socket.writable().await;
            let taken = self.socket.send(&self.kept[bytes - left..bytes], false)?;
            count(taken);
            left -= taken;
        }
        Ok(())
    }

    /// Sends a range of a file, with the server's checks for each window: does TCP take more, how much is in memory, does the lease hold,
    /// is the file unchanged?
    async fn send_file(
        &mut self,
        head: &[u8],
        film: &disk::File,
        range: Range<u64>,
        count: impl Fn(usize),
    ) -> io::Result<()> {
        self.socket.cork(true);
        // The head is small and follows an answer that was taken whole, so there is room for it.
        self.socket.send(head, false)?;
        let (mut start, mut is_corked) = (range.start, true);
        while start < range.end {
            if !self.socket.is_writable() {
                if std::mem::take(&mut is_corked) {
                    self.socket.cork(false);
                }
                self.socket.writable().await;
            }
            let end = range.end.min(start + self.window.bytes() as u64);
            // No other process has the film open, so the lease holds. If the kernel does not know what is in memory, all of it counts as
            // cached.
            let end = film.first_missing(start..end).filter(|there| *there > start).unwrap_or(end);
            film.hold_still();
            film.check_unchanged().map_err(io::Error::other)?;
            if !std::mem::replace(&mut is_corked, true) {
                self.socket.cork(true);
            }
            let bytes = (end - start) as usize;
            let taken = self.socket.send_file(film.fd().borrowed(), start, bytes)?;
            match taken == bytes {
                true => self.window.taken_whole(),
                false => self.window.taken_in_part(taken),
            }
            count(taken);
            start += taken as u64;
            yield_now().await;
        }
        if is_corked {
            self.socket.cork(false);
        }
        Ok(())
    }
}

/// The film whose number is in the request's path.
fn requested<'a>(request: &[u8], films: &'a [Film]) -> io::Result<&'a Film> {
    let text = String::from_utf8_lossy(request);
    let path = text.split(' ').nth(1).unwrap_or_default();
    let number = path.strip_prefix('/').and_then(|number| number.parse::<usize>().ok());
    let film = number.and_then(|number| films.get(number));
    film.ok_or_else(|| io::Error::other(format!("no film at {path}")))
}

/// The head of an answer, and the range of bytes after it: the request's range, or the whole film.
fn head_of(request: &[u8], film_bytes: u64) -> (String, Range<u64>) {
    let text = String::from_utf8_lossy(request);
    let range = text.split_once("Range: bytes=").and_then(|(_, rest)| {
        let (start, end) = rest.split_once("\r\n")?.0.split_once('-')?;
        Some(start.parse().ok()?..end.parse::<u64>().map_or(film_bytes, |last| last + 1))
    });
    let Some(range) = range.filter(|range| range.start < range.end && range.end <= film_bytes)
    else {
        return (
            format!(
                "HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: {film_bytes}\r\n\r\n"
            ),
            // A HEAD request gets no body.
            0..if text.starts_with("HEAD") { 0 } else { film_bytes },
        );
    };
    let (bytes, last) = (range.end - range.start, range.end - 1);
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{last}/{film_bytes}\r\nContent-Length: {bytes}\r\n\r\n",
        range.start
    );
    (head, range)
}

/// The viewers, on a thread of their own. They request the film before the measurement begins.
struct Audience {
    begun: mpsc::Receiver<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Audience {
    fn start(options: load::Options) -> Self {
        let (tell, begun) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let running = Running::start(options)?;
            // Sending fails only if the receiver is gone, because the part has failed.
            let _ = tell.send(());
            let outcome = running.join()?;
            match outcome.errors.is_empty() {
                true => Ok(()),
                false => Err(io::Error::other(format!("viewers failed: {:?}", outcome.errors))),
            }
        });
        Self { begun, thread }
    }

    /// Returns true once the viewers have started.
    ///
    /// # Errors
    /// If they cannot start.
    fn have_begun(&self) -> io::Result<bool> {
        match self.begun.try_recv() {
            Ok(()) => Ok(true),
            Err(mpsc::TryRecvError::Empty) => Ok(false),
            Err(mpsc::TryRecvError::Disconnected) => {
                Err(io::Error::other("the viewers could not begin"))
            }
        }
    }

    fn have_ended(&self) -> bool {
        self.thread.is_finished()
    }

    fn join(self) -> io::Result<()> {
        self.thread.join().expect("viewers do not panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_get_the_range_that_they_request() {
        let request = b"GET /0 HTTP/1.1\r\nRange: bytes=10-99\r\n\r\n";
        let (head, range) = head_of(request, FILM_BYTES);
        assert_eq!(range, 10..100);
        assert!(head.contains("Content-Range: bytes 10-99/1073741824\r\n"), "{head}");
        assert!(head.contains("Content-Length: 90\r\n"), "{head}");
        let (head, range) = head_of(b"HEAD /0 HTTP/1.1\r\n\r\n", FILM_BYTES);
        assert!(head.starts_with("HTTP/1.1 200") && range.is_empty(), "{head}");
    }
}
