//! The head of a response, as far as measurements need it.
//!
//! Whatever [`ResponseHead`] refuses cannot be measured. Interim responses (1xx) are skipped.

use std::ops::Range;
use std::time::Duration;

use fullbore_http::ResponseHead;

use crate::failure::Failure;

/// The longest allowed head. Servers' own limits are similar.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Length of the body that follows; `None` if it is chunked or ends with the connection.
    pub body_bytes: Option<u64>,
    /// The body is chunked, so only its end shows its length.
    pub is_chunked: bool,
    /// The range of these bytes, and the total size if the server gave it (RFC 9110 section 14.4).
    pub content_range: Option<(Range<u64>, Option<u64>)>,
    /// How long the server asks the client to wait, if it says so in seconds (RFC 9110 section 10.2.3).
    pub retry_after: Option<Duration>,
    /// The server will close the connection after this response.
    pub closes: bool,
}

/// Finds a complete head at the front of `bytes`. Returns it with its length, including interim responses before it; `None` if more bytes
/// are needed. `without_body`: the request was HEAD.
///
/// # Errors
/// [`Failure::BadResponse`].
pub(crate) fn parse(bytes: &[u8], without_body: bool) -> Result<Option<(Head, usize)>, Failure> {
    let mut start = 0;
    loop {
        let bytes_max = HEAD_BYTES_MAX.saturating_sub(start);
        let parsed = ResponseHead::parse(&bytes[start..], bytes_max)
            .map_err(|fault| Failure::BadResponse(fault.as_str()))?;
        let Some((head, head_bytes)) = parsed else { return Ok(None) };
        start += head_bytes;
        match head.status {
            101 => return Err(Failure::BadResponse("the server changes the protocol")),
            100..200 => {}
            _ => return Ok(Some((Head::of(head, without_body), start))),
        }
    }
}

impl Head {
    fn of(head: ResponseHead, without_body: bool) -> Self {
        let ResponseHead { status, content_length, content_range, retry_after, .. } = head;
        let is_empty = without_body || matches!(status, 204 | 304);
        let body_bytes = if is_empty { Some(0) } else { content_length };
        let is_chunked = head.is_chunked && !is_empty;
        let closes = head.closes || (body_bytes.is_none() && !is_chunked);
        Self { status, body_bytes, is_chunked, content_range, retry_after, closes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<(Head, usize)>, Failure> {
        parse(text.as_bytes(), false)
    }

    fn good(text: &str) -> Head {
        let (head, bytes) = head(text).unwrap().unwrap();
        assert_eq!(bytes, text.len());
        head
    }

    #[test]
    fn a_partial_response_is_read_with_its_range() {
        let text = "HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\ncontent-range: bytes 5-104/2000\r\n\r\n";
        let expected = Head {
            status: 206,
            body_bytes: Some(100),
            is_chunked: false,
            content_range: Some((5..105, Some(2000))),
            retry_after: None,
            closes: false,
        };
        assert_eq!(good(text), expected);
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end], false), Ok(None));
        }
    }

    #[test]
    fn a_body_without_length_goes_on_until_the_end() {
        let head = good("HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!((head.body_bytes, head.closes), (None, true));
    }

    #[test]
    fn responses_that_have_no_body_have_none_whatever_length_they_state() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
        assert_eq!(parse(text.as_bytes(), true).unwrap().unwrap().0.body_bytes, Some(0));
        for status in [204, 304] {
            let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 10\r\n\r\n");
            assert_eq!(good(&text).body_bytes, Some(0));
        }
    }

    #[test]
    fn interim_responses_are_passed_over() {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        assert_eq!(head(interim), Ok(None));
        let text = format!("{interim}HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(good(&text).status, 404);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_its_reason() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "its length is not a number"),
            ("HTTP/1.1 101 Switching\r\n\r\n", "the server changes the protocol"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "it is not HTTP/1.1"),
        ];
        for (text, why) in cases {
            assert_eq!(head(text), Err(Failure::BadResponse(why)), "{text}");
        }
        let interim = "HTTP/1.1 102 Processing\r\n\r\n";
        let endless = interim.repeat(HEAD_BYTES_MAX / interim.len() + 1);
        assert_eq!(head(&endless), Err(Failure::BadResponse("its head is too long")));
    }
}
