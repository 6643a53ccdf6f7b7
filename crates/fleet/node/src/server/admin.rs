//! Queries the server's admin listener for its status, its metrics, and its reports for the fleet.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::experience::ServerViewing;

/// The server answers from memory. One that takes longer is in trouble.
const PATIENCE: Duration = Duration::from_secs(2);
/// A status has a few KB, and less than 1 MiB with 256 titles of long names.
const BYTES_MAX: u64 = 16 << 20;

/// Reads `/status.json` from the admin listener at `address`.
///
/// # Errors
/// If it does not answer in time, or the answer is not valid.
pub(crate) fn status(address: SocketAddr) -> io::Result<Value> {
    Ok(serde_json::from_slice(&get(address, "/status.json")?)?)
}

/// Reads `/metrics` from the admin listener at `address`.
///
/// # Errors
/// If it does not answer in time, or the answer is not valid.
pub(crate) fn metrics(address: SocketAddr) -> io::Result<String> {
    String::from_utf8(get(address, "/metrics")?).map_err(io::Error::other)
}

/// Reads the reports for the fleet at `path` from the admin listener at `address`.
///
/// # Errors
/// If it does not answer in time, or the answer is not valid. A server of an older release has no such path.
pub(crate) fn viewing(address: SocketAddr, path: &str) -> io::Result<ServerViewing> {
    Ok(serde_json::from_slice(&get(address, path)?)?)
}

fn get(address: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut answer)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "this is not the answer of a server");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(wrong)?;
    let is_ok = answer.split(|byte| *byte == b' ').nth(1) == Some(b"200");
    if !is_ok {
        return Err(wrong());
    }
    Ok(answer.split_off(end + 4))
}
