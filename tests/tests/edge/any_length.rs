//! Responses that are longer than the cache, or than its disk has room for: they reach their viewers all the same.

use crate::edge;
use crate::origin::Origin;
use crate::{MIB, launch_at};
use fullbore_tests::{Plain, until};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::tempdir;

/// The pieces in which the origin sends.
const PIECE: usize = 64 << 10;

/// What an edge without bounds would take in.
const SENT_MAX: usize = 512 * MIB;

/// More than the buffers of the sockets between the origin and a viewer hold, together with the edge's own 4 MiB.
const ON_THE_WAY_MAX: usize = 96 * MIB;

/// An origin whose response has no end. It ends with the test.
#[derive(Clone)]
struct EndlessOrigin {
    url: String,
    sent: Arc<AtomicUsize>,
    /// Whether nothing more could be sent for a while.
    is_held: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
    /// The heads of its requests.
    seen: Arc<Mutex<Vec<String>>>,
}

/// The byte at an offset.
fn byte_at(offset: usize) -> u8 {
    (offset / PIECE % 251) as u8
}

impl EndlessOrigin {
    /// Its responses have these header lines, and say their length or come in chunks.
    fn start(lines: &'static str, is_chunked: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let [is_held, has_ended] = [0, 1].map(|_| Arc::<AtomicBool>::default());
        let origin = Self { url, sent: Arc::default(), is_held, has_ended, seen: Arc::default() };
        let serving = origin.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let origin = serving.clone();
                // A client that leaves ends its connection's thread.
                std::thread::spawn(move || drop(origin.answer(stream, lines, is_chunked)));
            }
        });
        origin
    }

    fn answer(&self, mut stream: TcpStream, lines: &str, is_chunked: bool) -> std::io::Result<()> {
        let (mut reader, mut head) = (BufReader::new(stream.try_clone()?), String::new());
        while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
        if !head.starts_with("GET ") {
            // A starting edge checks whether the origin is there.
            return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }
        self.seen.lock().unwrap().push(head);
        let framing = match is_chunked {
            true => "Transfer-Encoding: chunked",
            false => "Content-Length: 1099511627776",
        };
        write!(stream, "HTTP/1.1 200 OK\r\n{framing}\r\n{lines}\r\n")?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        for number in 0..SENT_MAX / PIECE {
            let piece = vec![byte_at(number * PIECE); PIECE];
            let framed = match is_chunked {
                true => [format!("{PIECE:x}\r\n").as_bytes(), &piece, b"\r\n"].concat(),
                false => piece,
            };
            if let Err(error) = self.send(&mut stream, &framed) {
                self.has_ended.store(true, Ordering::Relaxed);
                return Err(error);
            }
            self.sent.fetch_add(PIECE, Ordering::Relaxed);
        }
        Ok(())
    }

    fn send(&self, stream: &mut TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.is_held.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[test]
fn what_may_not_be_stored_has_any_length_and_comes_as_fast_as_its_viewer_takes_it() {
    for (lines, is_chunked) in [
        ("Cache-Control: no-store\r\n", false),
        ("Cache-Control: private\r\n", true),
        // Longer than half of the cache.
        ("Cache-Control: max-age=3600\r\n", false),
    ] {
        let (origin, cache) = (EndlessOrigin::start(lines, is_chunked), tempdir().unwrap());
        let server = launch_at(&origin.url, cache.path()).arguments("--tls off --cache-gib 0.1");
        let server = server.start();
        let mut viewer = Plain::connect(server.address);
        viewer.ask("/film");
        let (status, head, length) = viewer.head();
        assert_eq!(status, 200, "{head}");
        assert_eq!(length, if is_chunked { 0 } else { 1 << 40 }, "{head}");
        assert_eq!(head.contains("Transfer-Encoding: chunked\r\n"), is_chunked, "{head}");
        until("the origin to be held", || origin.is_held.load(Ordering::Relaxed));
        let sent = origin.sent.load(Ordering::Relaxed);
        assert!(sent < ON_THE_WAY_MAX, "{lines}: {sent} bytes for a viewer who takes none");
        let mut done = 0;
        while done < sent + 8 * MIB {
            let bytes = if is_chunked { viewer.chunk() } else { viewer.body(PIECE) };
            let is_right = (done..).zip(&bytes).all(|(offset, byte)| *byte == byte_at(offset));
            assert!(is_right, "{lines}: at {done}");
            done += bytes.len();
        }
        drop(viewer);
        until("the origin to be left", || origin.has_ended.load(Ordering::Relaxed));
        assert_eq!(origin.seen.lock().unwrap().len(), 1);
        assert_eq!(server.sum("edge_failures_total"), 0, "{}", server.said());
    }
}

#[test]
fn a_film_that_is_larger_than_the_cache_costs_the_origin_what_each_viewer_asks_for() {
    const LASTING: &str = "Cache-Control: max-age=3600\r\n";
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--cache-gib 0.015625");
    let film = origin.put("/huge", 99, 17 * MIB, LASTING);
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/huge").body == *film);
    for first in [16 * MIB, 5] {
        let range = format!("Range: bytes={first}-{}\r\n", first + 9);
        let part = viewer.fetch_with("/huge", &range);
        assert_eq!((part.status, &part.body[..]), (206, &film[first..first + 10]), "{}", part.head);
        assert_eq!(origin.seen().pop().unwrap().range, Some((first as u64, first as u64 + 9)));
    }
    // What fits is kept as before.
    let small = origin.put("/small", 1, 2 * MIB, LASTING);
    for _ in 0..2 {
        assert!(viewer.fetch("/small").body == *small);
    }
    assert_eq!(origin.count("/small"), 2, "each block once");
    assert_eq!(server.sum("edge_failures_total"), 0, "{}", server.said());
}
