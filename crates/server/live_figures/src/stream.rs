//! Snapshots as server-sent events (WHATWG HTML, section 9.2): first the history, then one event a second, until the dashboard
//! is closed.
//!
//! The server keeps no queue for slow clients: each one gets the latest snapshot when it is ready for it. A client that falls five
//! seconds behind is dropped; a browser's `EventSource` then reconnects by itself.

use super::Live;
use net::Socket;
use reactor::timeout_at;
use serde_json::Value;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Streams at once: enough for the people who operate a server, and their wall screens.
const STREAMS_MAX: usize = 16;

/// How long a client may take for one event.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the browser waits before it reconnects, in milliseconds.
const RETRY: &[u8] = b"retry: 2000\n\n";

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n\
Content-Type: text/event-stream\r\n\
Cache-Control: no-store\r\n\
X-Content-Type-Options: nosniff\r\n\
X-Accel-Buffering: no\r\n\
Connection: close\r\n\r\n";

/// Counts a stream for as long as it lives.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(streams: &'a Cell<usize>) -> Option<Self> {
        if streams.get() >= STREAMS_MAX {
            return None;
        }
        streams.set(streams.get() + 1);
        Some(Self(streams))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A named event with one line of data.
pub(super) fn event(name: &str, data: &Value) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

/// Streams to `socket` until it is gone. Returns false, without streaming, if there are too many streams already.
pub async fn stream(live: &Live, socket: &Socket) -> bool {
    stream_with(live, socket, PATIENCE).await
}

async fn stream_with(live: &Live, socket: &Socket, patience: Duration) -> bool {
    let Some(_counted) = Counted::new(&live.streams) else { return false };
    let mut seen = live.sequence.get();
    let mut first = [HEAD, RETRY, &event("history", &live.history.borrow().json())].concat();
    first.extend_from_slice(&live.event.borrow());
    let mut next: Rc<[u8]> = first.into();
    loop {
        match timeout_at(Instant::now() + patience, send(socket, &next)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return true,
            Err(_) => {
                live.streams_dropped.set(live.streams_dropped.get() + 1);
                return true;
            }
        }
        next = live.next(&mut seen).await;
    }
}

async fn send(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.send(bytes, false)? {
            0 => socket.writable_again().await,
            taken => bytes = &bytes[taken..],
        }
    }
    Ok(())
}

impl Live {
    /// Waits for an event after number `seen`, and returns the newest.
    async fn next(&self, seen: &mut u64) -> Rc<[u8]> {
        poll_fn(|context| {
            if self.sequence.get() != *seen {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        *seen = self.sequence.get();
        Rc::clone(&self.event.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Fd, Reactor, RingOptions, spawn};
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    fn run<R: 'static>(test: impl Future<Output = R> + 'static) -> R {
        let options = RingOptions { submission_entries: 16, completion_entries: 64 };
        Reactor::new(options).unwrap().run(test).unwrap()
    }

    /// Our end and the viewer's.
    fn connection() -> (Socket, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Socket::from(Fd::from(std::os::fd::OwnedFd::from(ours))), theirs)
    }

    #[test]
    fn who_takes_nothing_is_let_go_of() {
        let (dropped, left) = run(async {
            let live = Live::new();
            live.publish(vec![b'x'; 64 << 20]);
            let (socket, _theirs) = connection();
            assert!(stream_with(&live, &socket, Duration::from_millis(20)).await);
            (live.streams_dropped(), live.streams())
        });
        assert_eq!((dropped, left), (1, 0));
    }

    #[test]
    fn streams_are_bounded_and_a_place_is_free_again_when_one_ends() {
        run(async {
            let live = Live::new();
            let taken: Vec<_> = (0..STREAMS_MAX).map(|_| Counted::new(&live.streams)).collect();
            let (socket, _theirs) = connection();
            assert!(!stream(&live, &socket).await);
            drop(taken);
            assert_eq!(live.streams(), 0);
        });
    }

    #[test]
    fn the_newest_event_follows_what_was() {
        let text = run(async {
            let live = Live::new();
            let (socket, mut theirs) = connection();
            let streamed = Rc::clone(&live);
            spawn(async move {
                stream(&streamed, &socket).await;
            });
            // sleeps: the stream's task has to get its turn, which it does on this thread while this one sleeps
            reactor::sleep(Duration::from_millis(1)).await;
            live.publish(event("snapshot", &serde_json::json!({ "number": 1 })));
            // sleeps: as above: the first event is sent before the second one replaces it
            reactor::sleep(Duration::from_millis(1)).await;
            live.publish(event("snapshot", &serde_json::json!({ "number": 2 })));
            let mut text = String::new();
            while !text.contains("\"number\":2") {
                reactor::sleep(Duration::from_millis(1)).await;
                let mut chunk = [0; 4096];
                let bytes = theirs.read(&mut chunk).unwrap();
                text.push_str(std::str::from_utf8(&chunk[..bytes]).unwrap());
            }
            text
        });
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
        let events: Vec<_> = text.lines().filter(|line| line.starts_with("event: ")).collect();
        assert_eq!(events, ["event: history", "event: snapshot", "event: snapshot"]);
    }
}
