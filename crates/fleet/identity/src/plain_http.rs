//! Plain HTTP on a TLS port: someone typed `http://`, and gets a clear answer.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ANSWER: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 53\r\n\
    Connection: close\r\n\r\nThis port speaks HTTPS: use https:// in the address.\n";

/// The rest of a request is read for this long, since closing the connection earlier would destroy the answer in flight.
const LINGER: Duration = Duration::from_secs(2);

/// Most bytes of it that are read.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// Whether the first byte belongs to an HTTP method. A TLS record starts with 22 (RFC 8446, section 5.1).
pub(crate) async fn comes(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase()
}

/// Sends the explanation, and closes.
pub(crate) async fn refuse(mut stream: TcpStream) {
    // On an error the client is gone, so there is no more to do.
    if stream.write_all(ANSWER.as_bytes()).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let (mut rest, mut nowhere) = (stream.take(REQUEST_BYTES_MAX), tokio::io::sink());
    let _ = timeout(LINGER, tokio::io::copy(&mut rest, &mut nowhere)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let (head, body) = ANSWER.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
