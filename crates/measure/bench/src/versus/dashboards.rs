//! Dashboards that are open on a server while it is measured: they receive the events that a browser would.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;

/// Open dashboards; closed when dropped.
#[derive(Debug)]
pub(crate) struct Dashboards(Vec<(TcpStream, JoinHandle<u64>)>);

impl Dashboards {
    /// Opens `count` dashboards on a server's admin listener.
    ///
    /// # Errors
    /// If the server does not accept them.
    pub(crate) fn open(admin: SocketAddr, count: usize) -> io::Result<Self> {
        let open = |_| {
            let mut stream = TcpStream::connect(admin)?;
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            let events = stream.try_clone()?;
            Ok((stream, std::thread::spawn(|| bytes_of(events))))
        };
        (0..count).map(open).collect::<io::Result<_>>().map(Self)
    }

    /// Closes them.
    ///
    /// # Errors
    /// If one of them received nothing.
    pub(crate) fn close(mut self) -> io::Result<()> {
        for (stream, reader) in self.0.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
            if reader.join().unwrap_or(0) == 0 {
                return Err(io::Error::other("an open dashboard received no events"));
            }
        }
        Ok(())
    }
}

impl Drop for Dashboards {
    fn drop(&mut self) {
        for (stream, _) in &self.0 {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Counts the bytes that arrive, to the end; 0 for a refusal.
fn bytes_of(mut events: TcpStream) -> u64 {
    let (mut chunk, mut sum) = ([0; 16 << 10], 0);
    while let Ok(bytes @ 1..) = events.read(&mut chunk) {
        if sum == 0 && !chunk.starts_with(b"HTTP/1.1 200 ") {
            return 0;
        }
        sum += bytes as u64;
    }
    sum
}
