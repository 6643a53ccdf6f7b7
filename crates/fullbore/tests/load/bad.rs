//! Servers that are wrong on purpose: plain HTTP, a thread per connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Serves until the test ends: its listener ends with the process, its connections with their client.
pub(crate) struct Bad {
    /// Of a file on it.
    pub(crate) url: String,
}

/// A request: its number among all requests, from 0, and the first requested byte, if it is a range.
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) range: Option<(u64, u64)>,
}

impl Bad {
    /// `answer` gets each request; it says whether the connection stays open.
    pub(crate) fn start(
        answer: impl Fn(&mut TcpStream, Asked) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/film.mp4", listener.local_addr().unwrap());
        let (answer, number) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, number) = (Arc::clone(&answer), Arc::clone(&number));
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut stream = stream;
                    while let Some(range) = request(&mut reader) {
                        let number = number.fetch_add(1, Ordering::SeqCst);
                        if !answer(&mut stream, Asked { number, range }) {
                            return;
                        }
                    }
                });
            }
        });
        Self { url }
    }

    /// Waits until the client goes away.
    pub(crate) fn linger(stream: &mut TcpStream) -> bool {
        let _ = stream.read(&mut [0; 1]);
        false
    }
}

/// The range of the next request; none when there is no more request.
#[allow(clippy::option_option, reason = "a request may have no range, and there may be no request")]
fn request(reader: &mut impl BufRead) -> Option<Option<(u64, u64)>> {
    let mut range = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some(range);
        }
        if let Some(bytes) = line.trim_end().strip_prefix("Range: bytes=") {
            let (first, last) = bytes.split_once('-').unwrap();
            range = Some((first.parse().unwrap(), last.parse().unwrap()));
        }
    }
}

/// How long the file is that [`partial`] claims to have.
pub(crate) const PARTIAL_FILE_BYTES: usize = 1_000_000;

/// Answers a range of a file with `body`, claiming `claimed` bytes.
pub(crate) fn partial(stream: &mut TcpStream, asked: &Asked, claimed: u64, body: &[u8]) -> bool {
    let (first, _) = asked.range.expect("a range");
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {claimed}\r\nContent-Range: bytes {first}-{}/{PARTIAL_FILE_BYTES}\r\n\r\n",
        first + claimed - 1
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_ok()
}
