//! Connections that send exactly the bytes given, from an address of their own.

use fullbore_tests::PATIENCE;
use fullbore_tests::tls::client;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

/// Source addresses of hostile machines and viewers: one for each kind, so that limits by address affect only one kind.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Node = 1,
    SlowViewers,
    AskingViewers,
}

/// Connects from an address of theirs.
pub(super) fn connected(from: Source, to: SocketAddr) -> io::Result<TcpStream> {
    let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&descriptor, &SocketAddr::from((Ipv4Addr::new(127, 9, 9, from as u8), 0)))?;
    connect(&descriptor, &to)?;
    let stream = TcpStream::from(descriptor);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads an answer: its status and its body, by its length.
pub(super) fn answer(stream: &mut impl BufRead) -> io::Result<(u16, String)> {
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        }
        if let Some((name, value)) = line.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// A connection over TLS that shows a certificate.
pub(super) struct Line(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Line {
    pub(super) fn open(config: &Arc<ClientConfig>, to: SocketAddr) -> io::Result<Self> {
        let client = client(config, &to.ip().to_string());
        Ok(Self(BufReader::new(StreamOwned::new(client, connected(Source::Node, to)?))))
    }

    /// Sends a request's head, and the given part of the body.
    pub(super) fn begin(&mut self, request: &str, length: usize, body: &[u8]) -> io::Result<()> {
        let head = format!(
            "{request} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(&[head.as_bytes(), body].concat())
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.0.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// A request and its answer.
    pub(super) fn ask(&mut self, request: &str, body: &[u8]) -> io::Result<(u16, String)> {
        self.begin(request, body.len(), body)?;
        answer(&mut self.0)
    }
}
