//! Asks the admin listener of a running server.

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
    let failed = |why: &dyn std::fmt::Display| {
        format!(
            "cannot ask the server at {url} for its status: {why} (name its admin address with --status)"
        )
    };
    host_of(url)?;
    let (code, body) = get(url, "/status.json").map_err(|why| failed(&why))?;
    if code != 200 {
        return Err(failed(&format!("it answered {code}")));
    }
    let status: Value = serde_json::from_str(&body).map_err(|error| failed(&error))?;
    match status["titles"].is_array() {
        true => Ok(status),
        false => Err(failed(&"it names no titles; it may be of an earlier version")),
    }
}

/// The status code and the body of what the server whose admin listener is at `url` answers at `path`.
pub(crate) fn get(url: &str, path: &str) -> Result<(u16, String), String> {
    let answer = ask(host_of(url)?, path).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&answer);
    let parsed = text.split_once("\r\n\r\n").and_then(|(head, body)| {
        let code = head.lines().next()?.split(' ').nth(1)?.parse().ok()?;
        Some((code, body.to_owned()))
    });
    parsed.ok_or_else(|| "it sent no response of HTTP".to_owned())
}

/// The host and port in the address of an admin listener.
pub(crate) fn host_of(url: &str) -> Result<&str, String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| {
        format!("{url:?} is not the address of an admin listener, such as http://127.0.0.1:9443")
    })?;
    Ok(rest.split('/').next().unwrap_or(rest))
}

fn ask(host: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let address = match host.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:80"),
    };
    let addresses: Vec<_> = address.to_socket_addrs()?.collect();
    let first = addresses.first().ok_or(std::io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(first, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}
