//! Sending alone: on the server's reactor, with the calls that the server makes around each window and the sizes that follow from them.
//!
//! How much TCP takes at a time decides what sending costs, and how often a core wakes up for it. So there are two ways to send to a few viewers who
//! take all that they get, from a buffer and out of the page cache, and one to many who take what they play.

use super::parts::{CONNECTIONS, Rate, Stage, Timer, WINDOW_BYTES, thread_time};
use super::sockets::{Sink, UNSENT_BYTES_MAX};
use crate::library::Library;
use crate::versus::Workload;
use load::Running;
use net::{ListenerOptions, Socket, Window};
use reactor::{Fd, Reactor, RingOptions, op, sleep, spawn, tasks_live, yield_now};
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

/// What the server lets wait in the kernel for a viewer who takes everything, if TCP sends it at once (`net.unsent_bytes_max`): sealed bytes,
/// and pages of the page cache.
const SEALED_UNSENT_BYTES: u32 = 512 << 10;
const PAGES_UNSENT_BYTES: u32 = 4 << 20;

/// The most that the server sends out of the page cache at once (`net.sendfile_bytes_max`).
const SENDFILE_BYTES_MAX: usize = 4 << 20;

/// What viewers play: longer than any of them gets.
const FILM_BYTES: u64 = 1 << 30;

/// More than a request has.
const REQUEST_BYTES_MAX: usize = 4096;

/// Nothing of the beginning is measured.
const MARGIN: Duration = Duration::from_millis(100);

/// What a connection adds to.
#[derive(Clone)]
struct Turn {
    timer: Timer,
    bytes: Rc<Cell<usize>>,
    failure: Rc<Cell<Option<io::Error>>>,
}

impl Stage {
    /// A warm buffer into connections that take everything.
    pub(super) fn send(&self) -> io::Result<Rate> {
        let buffer: Rc<[u8]> = vec![7; WINDOW_BYTES].into();
        self.over_sink(move |_, socket, turn| {
            let buffer = Rc::clone(&buffer);
            spawn(async move { turn.clone().fails(send_on(&socket, &buffer, &turn).await) });
            Ok(())
        })
    }

    /// The page cache into such connections.
    pub(super) fn sendfile(&self) -> io::Result<Rate> {
        let library = self.library.clone();
        self.over_sink(move |index, socket, turn| {
            let film = film(&library, index)?;
            spawn(async move { turn.clone().fails(sendfile_on(&socket, &film, &turn).await) });
            Ok(())
        })
    }

    /// Starts a task for each connection of a sink, and waits until all have ended with their time.
    fn over_sink(
        &self,
        start: impl Fn(usize, Socket, Turn) -> io::Result<()> + 'static,
    ) -> io::Result<Rate> {
        let sink = Sink::start(CONNECTIONS, self.sink_cpu)?;
        let sockets = sink.connect()?.into_sockets()?;
        let reactor = Reactor::new(RingOptions::default())?;
        let timer = self.timer();
        reactor.run(async move {
            let turn = Turn { timer, bytes: Rc::default(), failure: Rc::default() };
            for (index, socket) in sockets.into_iter().enumerate() {
                start(index, socket, turn.clone())?;
            }
            while tasks_live() > 1 {
                sleep(Duration::from_millis(1)).await;
            }
            turn.failure.take().map_or_else(|| Ok(turn.timer.rate(turn.bytes.get())), Err)
        })?
    }

    /// A warm buffer to a thousand viewers who request ranges as players do, each at the pace of a film.
    pub(super) fn send_paced(&self) -> io::Result<Rate> {
        let options = ListenerOptions {
            unsent_bytes_max: Some(UNSENT_BYTES_MAX),
            ..ListenerOptions::default()
        };
        let listener = TcpListener::from(net::bind(([127, 0, 0, 1], 0).into(), &options)?);
        let target = format!("http://{}/film", listener.local_addr()?);
        let connections = Workload::Viewers.connections();
        let rate = Workload::Viewers.rate_bits_per_second(connections);
        let seconds = Duration::from_secs_f64(self.seconds);
        let load = load::Options {
            targets: vec![target.parse().map_err(io::Error::other)?],
            connections,
            cpus: vec![self.sink_cpu],
            ramp: Workload::Viewers.ramp(connections),
            duration: seconds + 4 * MARGIN,
            ..Workload::Viewers.load(rate, 1.0)
        };
        let opens_after = load.opens_after() + MARGIN;
        let viewers = Viewers::start(load);
        let reactor = Reactor::new(RingOptions::default())?;
        reactor.run(async move {
            let bytes = Rc::new(Cell::new(0));
            spawn(welcome(OwnedFd::from(listener).into(), Rc::clone(&bytes)));
            while !viewers.have_begun()? {
                sleep(Duration::from_millis(5)).await;
            }
            sleep(opens_after).await;
            let (began, began_cpu, before) = (Instant::now(), thread_time(), bytes.get());
            sleep(seconds).await;
            let cpu = thread_time().saturating_sub(began_cpu);
            let rate = Rate::of(bytes.get() - before, began.elapsed(), cpu);
            // They end by themselves, and need answers until then.
            while !viewers.have_ended() {
                sleep(Duration::from_millis(5)).await;
            }
            viewers.join()?;
            Ok(rate)
        })?
    }
}

impl Turn {
    fn fails(self, ended: io::Result<()>) {
        if let Err(error) = ended {
            self.failure.set(Some(error));
        }
    }

    fn count(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }
}

/// Sends window after window, each as large as what TCP has lately taken.
async fn send_on(socket: &Socket, buffer: &[u8], turn: &Turn) -> io::Result<()> {
    if socket.sends_at_once() {
        socket.ask_below(SEALED_UNSENT_BYTES);
    }
    let mut window = Window::new(buffer.len());
    while !turn.timer.is_over() {
        if !socket.is_writable() {
            socket.writable().await;
        }
        let whole = window.bytes();
        send_window(socket, &[], &buffer[..whole], &mut window, |bytes| turn.count(bytes)).await?;
        yield_now().await;
    }
    Ok(())
}

/// Offers a window, whose first bytes are `head`, until TCP has taken all of it.
async fn send_window(
    socket: &Socket,
    head: &[u8],
    body: &[u8],
    window: &mut Window,
    mut count: impl FnMut(usize),
) -> io::Result<()> {
    let whole = head.len() + body.len();
    let mut sent = match head.is_empty() {
        true => socket.send(body, false)?,
        false => socket.send_parts(&[IoSlice::new(head), IoSlice::new(body)])?,
    };
    count(sent);
    if sent == whole {
        window.taken_whole();
        return Ok(());
    }
    window.taken_in_part(sent);
    while sent < whole {
        socket.writable().await;
        let at = sent.saturating_sub(head.len());
        let more = match head.get(sent..).filter(|rest| !rest.is_empty()) {
            Some(rest) => socket.send_parts(&[IoSlice::new(rest), IoSlice::new(body)])?,
            None => socket.send(&body[at..], false)?,
        };
        count(more);
        sent += more;
    }
    Ok(())
}

fn film(library: &Library, index: usize) -> io::Result<disk::File> {
    let file = File::open(library.path(index % library.files))?;
    disk::File::new(file.into()).map_err(io::Error::other)
}

/// Sends a film again and again. For each window: does TCP take more, what of the film is in memory, is it held still, is it the same.
async fn sendfile_on(socket: &Socket, film: &disk::File, turn: &Turn) -> io::Result<()> {
    if socket.sends_at_once() {
        socket.ask_below(PAGES_UNSENT_BYTES);
    }
    let mut window = Window::new(SENDFILE_BYTES_MAX);
    let (mut start, mut is_corked) = (0, false);
    while !turn.timer.is_over() {
        if !socket.is_writable() {
            if std::mem::take(&mut is_corked) {
                socket.cork(false);
            }
            socket.writable().await;
        }
        let end = film.size().min(start + window.bytes() as u64);
        // Nobody else has the film, so the lease is there; what the kernel does not say is taken to be in memory.
        let end = film.first_missing(start..end).filter(|there| *there > start).unwrap_or(end);
        film.hold_still();
        film.check_unchanged().map_err(io::Error::other)?;
        if !std::mem::replace(&mut is_corked, true) {
            socket.cork(true);
        }
        let bytes = (end - start) as usize;
        let taken = socket.send_file(film.fd().borrowed(), start, bytes)?;
        match taken == bytes {
            true => window.taken_whole(),
            false => window.taken_in_part(taken),
        }
        turn.count(taken);
        start = if end == film.size() && taken == bytes { 0 } else { start + taken as u64 };
        yield_now().await;
    }
    Ok(())
}

/// Answers all who connect.
async fn welcome(listener: Fd, bytes: Rc<Cell<usize>>) {
    let mut incoming = op::Incoming::new(listener);
    let film: Rc<[u8]> = vec![7; WINDOW_BYTES].into();
    while let Ok(connection) = incoming.next().await {
        let (film, bytes) = (Rc::clone(&film), Rc::clone(&bytes));
        // A viewer that is cut off says so itself.
        spawn(async move { drop(answer(&connection.into(), &film, &bytes).await) });
    }
}

/// Answers one viewer's requests until it leaves.
async fn answer(socket: &Socket, film: &[u8], bytes: &Cell<usize>) -> io::Result<()> {
    let mut window = Window::new(film.len());
    let mut request = Vec::with_capacity(REQUEST_BYTES_MAX);
    loop {
        match socket.receive_into(&mut request, REQUEST_BYTES_MAX)? {
            Some(0) => return Ok(()),
            Some(_) => {}
            None => socket.readable().await,
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let (head, Range { start: mut at, end }) = head_of(&request);
        request.clear();
        let mut head = head.as_bytes();
        while at < end || !head.is_empty() {
            if !socket.is_writable() {
                socket.writable().await;
            }
            let body = (end - at).min(window.bytes() as u64) as usize;
            let head = std::mem::take(&mut head);
            let count = |taken| bytes.set(bytes.get() + taken);
            send_window(socket, head, &film[..body], &mut window, count).await?;
            at += body as u64;
            yield_now().await;
        }
    }
}

/// The head of an answer, and the bytes that follow it: of a range if the request names one.
fn head_of(request: &[u8]) -> (String, Range<u64>) {
    let text = String::from_utf8_lossy(request);
    let range = text.split_once("Range: bytes=").and_then(|(_, rest)| {
        let (start, end) = rest.split_once("\r\n")?.0.split_once('-')?;
        Some(start.parse().ok()?..end.parse::<u64>().map_or(FILM_BYTES, |last| last + 1))
    });
    let Some(range) = range.filter(|range| range.start < range.end && range.end <= FILM_BYTES)
    else {
        return (
            format!(
                "HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: {FILM_BYTES}\r\n\r\n"
            ),
            // Whoever asks for the size wants nothing else.
            0..if text.starts_with("HEAD") { 0 } else { FILM_BYTES },
        );
    };
    let (bytes, last) = (range.end - range.start, range.end - 1);
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{last}/{FILM_BYTES}\r\nContent-Length: {bytes}\r\n\r\n",
        range.start
    );
    (head, range)
}

/// Viewers, who are looked after by a thread of their own: they ask for the film before they begin.
struct Viewers {
    begun: mpsc::Receiver<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Viewers {
    fn start(options: load::Options) -> Self {
        let (tell, begun) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let running = Running::start(options)?;
            // Whoever waits for it is gone only if the part has failed.
            let _ = tell.send(());
            let outcome = running.join()?;
            match outcome.errors.is_empty() {
                true => Ok(()),
                false => Err(io::Error::other(format!("viewers failed: {:?}", outcome.errors))),
            }
        });
        Self { begun, thread }
    }

    /// Whether they have begun.
    ///
    /// # Errors
    /// If they cannot.
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
        let (head, range) = head_of(b"GET /film HTTP/1.1\r\nRange: bytes=10-99\r\n\r\n");
        assert_eq!(range, 10..100);
        assert!(head.contains("Content-Range: bytes 10-99/1073741824\r\n"), "{head}");
        assert!(head.contains("Content-Length: 90\r\n"), "{head}");
        let (head, range) = head_of(b"HEAD /film HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && range.is_empty(), "{head}");
    }
}
