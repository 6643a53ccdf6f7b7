//! Fetches a running server's status.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long the server may take. It answers from memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// A status has some KB, and with 256 titles of long names less than 1 MiB.
const BYTES_MAX: u64 = 16 << 20;

/// `/status.json` of the server whose admin listener is at `url`.
pub(crate) fn fetch(url: &str) -> Result<Value, String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| {
        format!("{url:?} is not the address of an admin listener, such as http://127.0.0.1:9443")
    })?;
    let host = rest.split('/').next().unwrap_or(rest);
    let failed = |why: &dyn std::fmt::Display| {
        format!(
            "cannot ask the server at {url} for its status: {why} (name its admin address with --status)"
        )
    };
    let answer = ask(host).map_err(|error| failed(&error))?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| failed(&"it sent no response"))?;
    let line = head.lines().next().unwrap_or_default();
    if line.split(' ').nth(1) != Some("200") {
        return Err(failed(&format!("it answered {line:?}")));
    }
    let status: Value = serde_json::from_str(body).map_err(|error| failed(&error))?;
    match status["titles"].is_array() {
        true => Ok(status),
        false => Err(failed(&"it names no titles; it may be of an earlier version")),
    }
}

fn ask(host: &str) -> std::io::Result<Vec<u8>> {
    let address = match host.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:80"),
    };
    let addresses: Vec<_> = address.to_socket_addrs()?.collect();
    let first = addresses.first().ok_or(std::io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(first, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET /status.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}
