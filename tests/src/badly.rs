//! Servers that are wrong on purpose: plain HTTP, a thread per connection.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request to such a server.
pub struct Asked {
    /// The path, without a query.
    pub path: String,
    /// Its number among all requests, from 0.
    pub number: u64,
    /// The first and the last requested byte.
    pub range: Option<(u64, u64)>,
}

/// Serves until the test ends: the listener ends with the process, connections with their client. `answer` gets each
/// request, and returns whether the connection stays open.
///
/// # Panics
/// If there is no port to listen on. A request that no client of ours sends ends its connection's thread.
pub fn serve_badly(
    answer: impl Fn(&mut TcpStream, Asked) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, number) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, number) = (Arc::clone(&answer), Arc::clone(&number));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut stream = stream;
                while let Some((path, range)) = request(&mut reader) {
                    let number = number.fetch_add(1, Ordering::SeqCst);
                    if !answer(&mut stream, Asked { path, number, range }) {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Reads a request's head.
fn request(reader: &mut impl BufRead) -> Option<(String, Option<(u64, u64)>)> {
    let (mut path, mut range) = (String::new(), None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some((path, range));
        }
        if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split([' ', '?']).next().unwrap().to_owned();
        }
        if let Some(bytes) = line.trim_end().strip_prefix("Range: bytes=") {
            let (first, last) = bytes.split_once('-').unwrap();
            range = Some((first.parse().unwrap(), last.parse().unwrap()));
        }
    }
}
