//! A viewer without TLS that sends exactly the given bytes.

use crate::wait::PATIENCE;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

/// A plain HTTP/1.1 connection.
pub struct Plain {
    stream: BufReader<TcpStream>,
}

/// A complete answer.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its status line and fields, as they arrived.
    pub head: String,
    /// Its body, with the length from Content-Length, or in chunks.
    pub body: Vec<u8>,
}

impl Plain {
    /// Connects.
    ///
    /// # Panics
    /// If no server listens there.
    pub fn connect(address: SocketAddr) -> Self {
        let stream =
            TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        Self::over(stream)
    }

    /// Connects from the address `from`, as another machine would.
    ///
    /// # Panics
    /// If no server listens there, or `from` isn't an address of this machine.
    pub fn connect_from(from: IpAddr, address: SocketAddr) -> Self {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let connect = || {
            let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            bind(&socket, &SocketAddr::new(from, 0))?;
            connect(&socket, &address)?;
            Ok(TcpStream::from(socket))
        };
        let connected: Result<_, rustix::io::Errno> = connect();
        Self::over(connected.unwrap_or_else(|error| panic!("{from}: {address}: {error}")))
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
        Self { stream: BufReader::new(stream) }
    }

    /// Requests `path`, and does not wait for the answer.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn ask(&mut self, path: &str) {
        self.ask_with(path, "");
    }

    /// As [`Self::ask`], with header `lines`, each with its line end.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn ask_with(&mut self, path: &str, lines: &str) {
        self.ask_by("GET", path, lines);
    }

    /// As [`Self::ask_with`], by another method. The answer to HEAD has no body: read its [`Self::head`].
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn ask_by(&mut self, method: &str, path: &str, lines: &str) {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
    }

    /// Sends `bytes` as they are.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the server reads");
    }

    /// Posts `body` to `path` as players do, and reads the answer.
    ///
    /// # Panics
    /// If there is none.
    pub fn post(&mut self, path: &str, body: &[u8]) -> Response {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat());
        self.answer()
    }

    /// Closes the sending half of the connection.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn finish(&self) {
        self.stream.get_ref().shutdown(std::net::Shutdown::Write).expect("an open connection");
    }

    /// Reads an answer's head. Returns the status, the head, and the length of the body.
    ///
    /// # Panics
    /// If it is not an answer.
    pub fn head(&mut self) -> (u16, String, usize) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let bytes = self.stream.read_line(&mut head).expect("an answer");
            assert!(bytes > 0, "the server closed after {head:?}");
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        (status.expect("a status"), head, length.unwrap_or(0))
    }

    /// Reads `length` bytes of a body.
    ///
    /// # Panics
    /// If they do not arrive.
    pub fn body(&mut self, length: usize) -> Vec<u8> {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the whole body");
        body
    }

    /// Reads until the connection ends, however it does.
    pub fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset ends it as well.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    /// Requests `path` and reads the answer.
    ///
    /// # Panics
    /// If there is none.
    pub fn fetch(&mut self, path: &str) -> Response {
        self.fetch_with(path, "")
    }

    /// As [`Self::fetch`], with header `lines`, each with its line end.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn fetch_with(&mut self, path: &str, lines: &str) -> Response {
        self.ask_with(path, lines);
        self.answer()
    }

    /// Reads the answer to a request that was sent.
    ///
    /// # Panics
    /// If there is none.
    pub fn answer(&mut self) -> Response {
        let (status, head, length) = self.head();
        let mut body = self.body(length);
        if head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked\r\n") {
            while let chunk @ [_, ..] = &*self.chunk() {
                body.extend_from_slice(chunk);
            }
        }
        Response { status, head, body }
    }

    /// Reads a chunk of a body; an empty one is the last.
    ///
    /// # Panics
    /// If there is none.
    pub fn chunk(&mut self) -> Vec<u8> {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the size of a chunk");
        let size = usize::from_str_radix(line.trim_end(), 16);
        let chunk = self.body(size.unwrap_or_else(|_| panic!("no size of a chunk: {line:?}")));
        assert_eq!(self.body(2), b"\r\n", "a chunk ends with a line end");
        chunk
    }

    /// Waits for the server to close.
    ///
    /// # Panics
    /// If it does not, or sends something instead.
    pub fn wait_for_close(&mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the server closes");
        assert_eq!(String::from_utf8_lossy(&rest), "", "the server closes without a word");
    }
}
