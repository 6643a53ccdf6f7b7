//! Servers that are wrong on purpose: plain HTTP, a thread per connection.

use fullbore_tests::{Asked, serve_badly};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Serves until the test ends: its listener ends with the process, its connections with their client.
pub(crate) struct Bad {
    /// The URL of a file on it.
    pub(crate) url: String,
}

impl Bad {
    /// `answer` gets each request, and returns whether the connection stays open.
    pub(crate) fn start(
        answer: impl Fn(&mut TcpStream, Asked) -> bool + Send + Sync + 'static,
    ) -> Self {
        let url = format!("http://{}/film.mp4", serve_badly(answer));
        Self { url }
    }

    /// Waits until the client goes away.
    pub(crate) fn linger(stream: &mut TcpStream) -> bool {
        let _ = stream.read(&mut [0; 1]);
        false
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
