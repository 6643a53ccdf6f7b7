//! Parses the head of a response, for Fullbore's own clients.
//!
//! Refused: line ends other than CR LF, transfer codings other than chunked, and fields that leave the body's end or its place in the file ambiguous
//! (RFC 9112 section 6.3). Each client adds its own rules: which versions, codings and statuses it takes.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use httparse::{Header, Status};

use crate::Version;
use crate::fields::values;
use crate::request::{has_bare_line_feed, keep_alive};

const FIELDS_MAX: usize = 100;

/// The fields of a response that matter to our clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// The server's version of HTTP.
    pub version: Version,
    /// `Content-Length`.
    pub content_length: Option<u64>,
    /// The body is chunked, so only its end shows its length.
    pub is_chunked: bool,
    /// The response has a `Content-Encoding`.
    pub is_content_coded: bool,
    /// The range of the body's bytes, and the total size if the server gave it (RFC 9110 section 14.4). `None` if the field makes no sense.
    pub content_range: Option<(Range<u64>, Option<u64>)>,
    /// How long the server asks the client to wait, if it says so in seconds (RFC 9110 section 10.2.3).
    pub retry_after: Option<Duration>,
    /// The server closes the connection after this response.
    pub closes: bool,
}

/// Why a response cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseFault {
    /// It does not begin with a well-formed head of HTTP/1.1 or HTTP/1.0.
    NotHttp,
    /// The head is longer than the client allows.
    HeadTooLong,
    /// `Content-Length` is not a number.
    BadLength,
    /// Two values of `Content-Length` differ.
    TwoLengths,
    /// A transfer coding other than chunked.
    UnknownCoding,
    /// It has a length and chunks.
    LengthAndChunks,
    /// `Content-Range` appears twice.
    TwoRanges,
}

impl ResponseFault {
    /// The reason, for messages that name the response first.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotHttp => "it is not HTTP/1.1",
            Self::HeadTooLong => "its head is too long",
            Self::BadLength => "its length is not a number",
            Self::TwoLengths => "it has two lengths",
            Self::UnknownCoding => "its transfer coding is unknown",
            Self::LengthAndChunks => "it has a length and chunks",
            Self::TwoRanges => "it has two ranges",
        }
    }
}

impl fmt::Display for ResponseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for ResponseFault {}

impl ResponseHead {
    /// Parses the head at the front of `bytes`. Returns it with its length; `None` if more bytes are needed. The result does not depend on how the
    /// head was cut in arriving.
    ///
    /// # Errors
    /// If it is ambiguous, malformed, or longer than `head_bytes_max`.
    pub fn parse(
        bytes: &[u8],
        head_bytes_max: usize,
    ) -> Result<Option<(Self, usize)>, ResponseFault> {
        let bytes = &bytes[..bytes.len().min(head_bytes_max)];
        // `httparse` skips empty lines before the status line.
        if bytes.first().is_some_and(|first| *first != b'H') {
            return Err(ResponseFault::NotHttp);
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut raw = httparse::Response::new(&mut fields);
        match raw.parse(bytes) {
            Ok(Status::Complete(length)) if !has_bare_line_feed(&bytes[..length]) => {
                Ok(Some((Self::read(&raw)?, length)))
            }
            Ok(Status::Partial) if bytes.len() == head_bytes_max => Err(ResponseFault::HeadTooLong),
            Ok(Status::Partial) => Ok(None),
            _ => Err(ResponseFault::NotHttp),
        }
    }

    fn read(raw: &httparse::Response<'_, '_>) -> Result<Self, ResponseFault> {
        let headers: &[Header<'_>] = raw.headers;
        let version = if raw.version == Some(1) { Version::Http11 } else { Version::Http10 };
        let content_length = content_length(headers)?;
        // RFC 9112, section 6.1: chunked only once, and not in HTTP/1.0.
        let mut codings = values(headers, "transfer-encoding");
        let is_chunked = match (codings.next(), codings.next()) {
            (None, _) => false,
            (Some(coding), None)
                if version == Version::Http11 && coding.eq_ignore_ascii_case(b"chunked") =>
            {
                true
            }
            _ => return Err(ResponseFault::UnknownCoding),
        };
        if is_chunked && content_length.is_some() {
            return Err(ResponseFault::LengthAndChunks);
        }
        let mut ranges = values(headers, "content-range");
        let content_range = ranges.next().and_then(content_range);
        if ranges.next().is_some() {
            return Err(ResponseFault::TwoRanges);
        }
        let retry_after = values(headers, "retry-after").last().and_then(number);
        Ok(Self {
            status: raw.code.unwrap_or_default(),
            version,
            content_length,
            is_chunked,
            is_content_coded: values(headers, "content-encoding").next().is_some(),
            content_range,
            retry_after: retry_after.map(Duration::from_secs),
            closes: !keep_alive(headers, version),
        })
    }
}

/// `Content-Length`. It may appear several times with one value.
fn content_length(headers: &[Header<'_>]) -> Result<Option<u64>, ResponseFault> {
    let mut length = None;
    for value in values(headers, "content-length") {
        let bytes = number(value).ok_or(ResponseFault::BadLength)?;
        if length.replace(bytes).is_some_and(|before| before != bytes) {
            return Err(ResponseFault::TwoLengths);
        }
    }
    Ok(length)
}

fn number(digits: &[u8]) -> Option<u64> {
    // Without this check, `parse` would take a plus sign.
    let plain = digits.iter().all(u8::is_ascii_digit);
    if plain { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// Parses `bytes 0-99/200` or `bytes 0-99/*`; `None` for anything else, such as `bytes */200`.
fn content_range(value: &[u8]) -> Option<(Range<u64>, Option<u64>)> {
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

    const MAX: usize = 16 << 10;

    fn parse(text: &str) -> Result<Option<(ResponseHead, usize)>, ResponseFault> {
        ResponseHead::parse(text.as_bytes(), MAX)
    }

    fn good(text: &str) -> ResponseHead {
        let (head, bytes) = parse(text).unwrap().unwrap();
        assert_eq!(bytes, text.len());
        head
    }

    #[test]
    fn a_head_is_read_however_it_arrives_and_whatever_follows() {
        let text = "HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\ncontent-range: bytes 5-104/2000\r\nRETRY-AFTER: 7\r\n\r\n";
        let expected = ResponseHead {
            status: 206,
            version: Version::Http11,
            content_length: Some(100),
            is_chunked: false,
            is_content_coded: false,
            content_range: Some((5..105, Some(2000))),
            retry_after: Some(Duration::from_secs(7)),
            closes: false,
        };
        assert_eq!(good(text), expected);
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), Ok(None));
        }
        assert_eq!(parse(&format!("{text}\r\nbody")), Ok(Some((expected, text.len()))));
    }

    #[test]
    fn a_head_may_have_as_many_bytes_as_the_client_allows() {
        let text = "HTTP/1.1 200 OK\r\n\r\n";
        let of = |bytes_max| ResponseHead::parse(text.as_bytes(), bytes_max);
        assert!(of(text.len()).is_ok_and(|found| found.is_some()));
        assert_eq!(of(text.len() - 1), Err(ResponseFault::HeadTooLong));
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(MAX));
        assert_eq!(parse(&endless), Err(ResponseFault::HeadTooLong));
    }

    #[test]
    fn closing_is_announced_by_version_and_field() {
        for (text, closes) in [
            ("HTTP/1.1 200 OK\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", false),
        ] {
            assert_eq!(good(text).closes, closes, "{text}");
        }
    }

    #[test]
    fn codings_and_pauses_are_reported() {
        let of = |fields: &str| good(&format!("HTTP/1.1 503 Busy\r\n{fields}\r\n\r\n"));
        assert!(of("Transfer-Encoding: Chunked").is_chunked);
        assert!(of("Content-Encoding: gzip").is_content_coded);
        assert_eq!(of("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT").retry_after, None);
        assert_eq!(of("Retry-After: -1").retry_after, None);
        assert_eq!(of("Content-Length: 3\r\nContent-Length: 3").content_length, Some(3));
    }

    #[test]
    fn ambiguous_heads_are_refused_with_their_reason() {
        for (fields, fault) in [
            ("Transfer-Encoding: gzip, chunked", ResponseFault::UnknownCoding),
            ("Transfer-Encoding: chunked, chunked", ResponseFault::UnknownCoding),
            ("Transfer-Encoding: chunked\r\nContent-Length: 2", ResponseFault::LengthAndChunks),
            ("Content-Length: 1\r\nContent-Length: 2", ResponseFault::TwoLengths),
            ("Content-Length: -1", ResponseFault::BadLength),
            ("Content-Length: +1", ResponseFault::BadLength),
            ("Content-Length: 3, 3", ResponseFault::BadLength),
            ("Content-Length:", ResponseFault::BadLength),
            ("Content-Length: 99999999999999999999", ResponseFault::BadLength),
            ("Content-Range: x\r\nContent-Range: bytes 0-1/2", ResponseFault::TwoRanges),
            ("no colon", ResponseFault::NotHttp),
            ("Content-Length : 1", ResponseFault::NotHttp),
            ("X: a\nContent-Length: 1", ResponseFault::NotHttp),
            ("X: a\n\nHTTP/1.1 200 OK", ResponseFault::NotHttp),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
            assert_eq!(parse(&text), Err(fault), "{text}");
        }
        for text in ["SSH-2.0-OpenSSH_9.2\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 2000 x"] {
            assert_eq!(parse(text), Err(ResponseFault::NotHttp), "{text}");
        }
    }

    #[test]
    fn a_range_that_makes_no_sense_is_none() {
        assert_eq!(content_range(b"bytes 0-0/*"), Some((0..1, None)));
        for value in
            ["bytes */200", "bytes 5-4/200", "bytes 0-18446744073709551615/*", "lines 0-1/2", ""]
        {
            assert_eq!(content_range(value.as_bytes()), None, "{value}");
        }
    }
}
