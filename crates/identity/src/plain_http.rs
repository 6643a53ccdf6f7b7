//! Somebody speaks plain HTTP where TLS is spoken: a person has typed `http://`, and is told so in words.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ANSWER: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 53\r\n\
    Connection: close\r\n\r\nThis port speaks HTTPS: use https:// in the address.\n";

/// The rest of a request is read for so long, since closing before would destroy the answer on its way.
const LINGER: Duration = Duration::from_secs(2);

/// The most that is read of it.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// Whether the first byte is that of a method. A TLS record begins with 22 (RFC 8446, section 5.1).
pub(crate) async fn comes(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase()
}

/// Says what is wrong, and closes.
pub(crate) async fn refuse(mut stream: TcpStream) {
    // If it cannot be told, there is nobody to tell it to.
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
