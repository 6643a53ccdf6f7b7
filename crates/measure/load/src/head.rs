//! Parses a response's head, as far as measurements need it.
//!
//! Refused: transfer codings other than chunked, and lengths that contradict each other (RFC 9112 section 6.3). Interim responses (1xx) are
//! skipped.

use std::ops::Range;
use std::time::Duration;

use crate::failure::Failure;

/// The longest allowed head. Servers' own limits are similar.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

const FIELDS_MAX: usize = 100;

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
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        match response.parse(&bytes[start..]) {
            Ok(httparse::Status::Complete(head_bytes)) => start += head_bytes,
            Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
                return Err(Failure::BadResponse("its head is longer than 64 KiB"));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Failure::BadResponse("it is not HTTP/1.1")),
        }
        let status = response.code.unwrap_or_default();
        if status == 101 {
            return Err(Failure::BadResponse("the server changes the protocol"));
        }
        if !(100..200).contains(&status) {
            return Ok(Some((read(&response, status, without_body)?, start)));
        }
    }
}

fn read(
    response: &httparse::Response<'_, '_>,
    status: u16,
    without_body: bool,
) -> Result<Head, Failure> {
    let mut length = None;
    let mut is_chunked = false;
    let mut content_range = None;
    let mut retry_after = None;
    // HTTP/1.0 closes unless the server announces otherwise.
    let mut closes = response.version == Some(0);
    for field in response.headers.iter() {
        let value = field.value.trim_ascii();
        if field.name.eq_ignore_ascii_case("content-length") {
            let bytes = number(value).ok_or(Failure::BadResponse("its length is not a number"))?;
            if length.is_some_and(|length| length != bytes) {
                return Err(Failure::BadResponse("it has two lengths"));
            }
            length = Some(bytes);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Failure::BadResponse("its transfer coding is unknown"));
            }
            is_chunked = true;
        } else if field.name.eq_ignore_ascii_case("content-range") {
            content_range = read_content_range(value);
        } else if field.name.eq_ignore_ascii_case("retry-after") {
            retry_after = number(value).map(Duration::from_secs);
        } else if field.name.eq_ignore_ascii_case("connection") {
            closes |= value.eq_ignore_ascii_case(b"close");
            closes &= !value.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    if is_chunked && length.is_some() {
        return Err(Failure::BadResponse("it has a length and chunks"));
    }
    let is_empty = without_body || matches!(status, 204 | 304);
    let body_bytes = if is_empty { Some(0) } else { length };
    let is_chunked = is_chunked && !is_empty;
    let closes = closes || (body_bytes.is_none() && !is_chunked);
    Ok(Head { status, body_bytes, is_chunked, content_range, retry_after, closes })
}

fn number(digits: &[u8]) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if plain { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// Parses `bytes 0-99/200` or `bytes 0-99/*`; `None` for anything else, such as `bytes */200`.
fn read_content_range(value: &[u8]) -> Option<(Range<u64>, Option<u64>)> {
    let text = std::str::from_utf8(value).ok()?.strip_prefix("bytes ")?;
    let (range, total) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first.as_bytes())?, number(last.as_bytes())?);
    let total = if total == "*" { None } else { Some(number(total.as_bytes())?) };
    (first <= last).then_some((first..last.checked_add(1)?, total))
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
    fn a_server_may_ask_for_a_pause_in_seconds() {
        let asked = |value: &str| {
            let text = format!(
                "HTTP/1.1 429 Slow Down\r\nContent-Length: 0\r\nRetry-After: {value}\r\n\r\n"
            );
            good(&text).retry_after
        };
        assert_eq!(asked("120"), Some(Duration::from_secs(120)));
        assert_eq!(asked("Fri, 31 Dec 1999 23:59:59 GMT"), None);
        assert_eq!(asked("-1"), None);
    }

    #[test]
    fn closing_is_announced_by_version_and_field() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", false),
        ];
        for (text, closes) in cases {
            assert_eq!(good(text).closes, closes, "{text}");
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
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                "its transfer coding is unknown",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
                "it has a length and chunks",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "it has two lengths",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "its length is not a number"),
            ("HTTP/1.1 101 Switching\r\n\r\n", "the server changes the protocol"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "it is not HTTP/1.1"),
        ];
        for (text, why) in cases {
            assert_eq!(head(text), Err(Failure::BadResponse(why)), "{text}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(HEAD_BYTES_MAX));
        assert!(matches!(head(&endless), Err(Failure::BadResponse(_))));
    }

    #[test]
    fn a_range_that_makes_no_sense_is_none() {
        for value in
            ["bytes */200", "bytes 5-4/200", "bytes 0-18446744073709551615/*", "lines 0-1/2", ""]
        {
            assert_eq!(read_content_range(value.as_bytes()), None, "{value}");
        }
    }
}
