//! HTTP/1.1 as far as the bench needs it: one request, one answer with a length. With ten thousand nodes, this costs less than a general
//! client.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use fullbore_http::ResponseHead;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// An answer.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Bytes of head and body.
    pub(super) bytes: u64,
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}

/// Builds a whole request.
pub(super) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: gateway\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if method != "GET" {
        head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Sends a request and reads its answer. The connection can be reused.
///
/// # Errors
/// If the connection fails, or the answer has no length.
pub(super) async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
) -> io::Result<HttpAnswer> {
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut read = Vec::with_capacity(1024);
    let (head, head_bytes) = loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        let parsed = ResponseHead::parse(&read, HEAD_BYTES_MAX);
        let parsed = parsed.map_err(|fault| invalid(format!("its answer is unusable: {fault}")))?;
        if let Some(found) = parsed {
            break found;
        }
    };
    let status = head.status;
    let length = head.content_length.or((status == 204).then_some(0));
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or_else(|| invalid("its answer has no length"))?;
    let mut body = read.split_off(head_bytes);
    let missing = length.checked_sub(body.len());
    let missing = missing.ok_or_else(|| invalid("its answer is longer than its Content-Length"))?;
    body.reserve_exact(missing);
    let got = (&mut *stream).take(missing as u64).read_to_end(&mut body).await?;
    if got < missing {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "its answer is cut off"));
    }
    Ok(HttpAnswer { status, bytes: (head_bytes + body.len()) as u64, body })
}

/// Requests one path on a new connection.
///
/// # Errors
/// As for [`exchange`], and if nothing listens there.
pub(crate) async fn get(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<HttpAnswer> {
    let mut stream = TcpStream::connect(address).await?;
    exchange(&mut stream, &request("GET", path, headers, b"")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(answer: &[u8]) -> io::Result<HttpAnswer> {
        let (mut here, mut there) = tokio::io::duplex(1 << 16);
        there.write_all(answer).await?;
        drop(there);
        exchange(&mut here, b"").await
    }

    #[tokio::test]
    async fn an_answer_is_read_by_its_length_or_refused() {
        let answer = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        assert_eq!((answer.status, &answer.body[..], answer.bytes), (200, &b"ok"[..], 40));
        let nothing = read(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        assert_eq!((nothing.status, nothing.body.len()), (204, 0));
        for bad in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nok",
            b"nonsense\r\n\r\n",
        ] {
            assert!(read(bad).await.is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_body_has_its_length_in_the_head() {
        let sent = request("POST", "/a", &[("X", "y")], b"{}");
        let head = "POST /a HTTP/1.1\r\nHost: gateway\r\nX: y\r\n";
        let rest = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(String::from_utf8(sent).unwrap(), format!("{head}{rest}"));
    }
}
