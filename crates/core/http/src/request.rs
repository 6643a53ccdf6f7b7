//! Parses request heads from the bytes of a connection.
//!
//! `httparse` finds the lines; this module adds the limits and the rules by which an origin server must or may refuse.
//! Heads that two readers could understand differently are refused, even where RFC 9112 leaves the choice.
//!
//! Parsing starts over when more bytes have arrived. A head that arrives slowly costs at most `head_bytes_max` passes over a few KiB, and a session's
//! header timeout limits that further.

use std::mem::MaybeUninit;

use httparse::{Header, Status};

use crate::fields::{Field, Fields, Span, elements, values};
use crate::target::{Target, is_host, parse_target, split_authority};
use crate::version::{self, Word};
use crate::{BodyFraming, Reject, RequestLimits, Resource};

/// Empty lines skipped before a request line (RFC 9112 section 2.2 asks for at least one).
const LEADING_LINE_ENDS_MAX: usize = 4;

/// No known method is this long (RFC 9112 section 3: answer 501).
const METHOD_BYTES_MAX: usize = 16;

/// The result of [`parse`].
#[derive(Debug, PartialEq, Eq)]
pub enum Parse {
    /// The head is incomplete and valid so far: read more, then parse again from its beginning.
    Partial,
    /// The head is complete.
    Complete {
        /// The request.
        request: Request,
        /// The length of the head in the buffer; the body or the next request follows.
        consumed: usize,
    },
}

/// A request method (RFC 9110 section 9.3, RFC 5789).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// OPTIONS
    Options,
    /// POST: known, not served, except where [`RequestLimits::posts_at`] says
    Post,
    /// PUT: known, not served
    Put,
    /// PATCH: known, not served
    Patch,
    /// DELETE: known, not served
    Delete,
    /// TRACE: known, not served
    Trace,
    /// Any other method, if [`RequestLimits::are_other_methods_taken`]: see [`Request::method_token`]
    Other,
}

impl Method {
    /// Methods are case-sensitive (RFC 9110 section 9.1). CONNECT is missing on purpose: the bytes after it are not HTTP, so it ends the connection
    /// like an unknown method.
    fn of(token: &str) -> Option<Self> {
        const ALL: [Method; 8] = [
            Method::Get,
            Method::Head,
            Method::Options,
            Method::Post,
            Method::Put,
            Method::Patch,
            Method::Delete,
            Method::Trace,
        ];
        ALL.into_iter().find(|method| method.as_str() == token)
    }

    /// The method at the beginning of a request that could not be parsed, if its end has arrived.
    pub(crate) fn of_unparsed(received: &[u8]) -> Option<Self> {
        let rest = &received[leading_line_ends(received).ok()?..];
        let token =
            rest.split(|byte| *byte == b' ').next().filter(|token| token.len() < rest.len());
        Self::of(std::str::from_utf8(token?).ok()?)
    }

    /// The method's token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Trace => "TRACE",
            Self::Other => "OTHER",
        }
    }

    /// Returns true if this server supports it at all; otherwise the answer is 405.
    pub fn is_served(self) -> bool {
        self.reads() || self == Self::Options
    }

    /// Returns true if it requests a file's head or bytes.
    pub fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// The protocol version of the answer: later minor versions of HTTP/1 are answered as 1.1 (RFC 9110 section 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// A well-formed request head. It owns its text (one copy of the head), so the read buffer is free again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The client's protocol version.
    pub version: Version,
    /// The resource that the target names.
    pub resource: Resource,
    /// Set if the client wants to keep the connection open (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// The framing of the body after the head; at most [`RequestLimits::body_drain_bytes_max`] if its length is known.
    pub body: BodyFraming,
    text: Box<[u8]>,
    /// Like a span's ends, in 32 bits: idle sessions keep room for a request.
    head_bytes: u32,
    target: Span,
    query: Span,
    fields: Fields,
}

impl Request {
    /// The request-target as sent, for the access log. May contain non-ASCII bytes, never controls or spaces.
    pub fn target(&self) -> &[u8] {
        self.target.slice(&self.text).unwrap_or_default()
    }

    /// The length of the head in bytes.
    pub fn head_bytes(&self) -> usize {
        self.head_bytes as usize
    }

    /// The target's path and query as sent, without the scheme and host of absolute form: `http://host` has none. `None` for `OPTIONS *`.
    pub fn path_and_query(&self) -> Option<&str> {
        let target = std::str::from_utf8(self.target()).ok()?;
        split_authority(target).ok().map(|(_, path_and_query)| path_and_query)
    }

    /// The method as sent.
    pub fn method_token(&self) -> &str {
        match self.method {
            Method::Other => {
                let token = self.text.split(|byte| *byte == b' ').next().unwrap_or_default();
                std::str::from_utf8(token).unwrap_or_default()
            }
            known => known.as_str(),
        }
    }

    /// Calls `each` with the name and the value of every header line, in order.
    pub fn each_line(&self, mut each: impl FnMut(&str, &[u8])) {
        let mut lines = [httparse::EMPTY_HEADER; RequestLimits::HEADERS_CEILING];
        let mut raw = httparse::Request::new(&mut lines);
        // The head was parsed before with the same parser, so it is parsed again without a fault.
        if raw.parse(&self.text[..self.head_bytes()]).is_ok() {
            raw.headers.iter().for_each(|line| each(line.name, line.value));
        }
    }

    /// The query, without `?`, not decoded.
    pub fn query(&self) -> Option<&[u8]> {
        self.query.slice(&self.text)
    }

    /// A header field's value, trimmed; several lines joined with commas.
    pub fn field(&self, field: Field) -> Option<&[u8]> {
        self.fields.span(field).slice(&self.text)
    }
}

/// Parses the head at the start of `buf`.
///
/// # Errors
/// Why the head is refused, as soon as that is certain, even while it is incomplete. Answer with [`crate::refuse`] and
/// close.
pub fn parse(buf: &[u8], limits: &RequestLimits) -> Result<Parse, Reject> {
    // Bytes beyond the limit are ignored: a head that is incomplete at the limit is too large.
    let window = &buf[..buf.len().min(limits.head_bytes_max)];
    let skipped_bytes = leading_line_ends(window)?;
    match parse_lines(&window[skipped_bytes..], limits)? {
        Parse::Complete { request, consumed } => {
            Ok(Parse::Complete { request, consumed: skipped_bytes + consumed })
        }
        Parse::Partial if window.len() == limits.head_bytes_max => Err(Reject::HeadTooLarge),
        Parse::Partial => Ok(Parse::Partial),
    }
}

/// Parses the head that begins with its request line at the start of `rest`.
fn parse_lines(rest: &[u8], limits: &RequestLimits) -> Result<Parse, Reject> {
    let mut lines = [MaybeUninit::uninit(); RequestLimits::HEADERS_CEILING];
    let lines = &mut lines[..limits.headers_max.min(RequestLimits::HEADERS_CEILING)];
    let mut raw = httparse::Request::new(&mut []);
    let outcome = raw.parse_with_uninit_headers(rest, lines);
    check_request_line_length(&raw, rest, limits)?;
    match outcome {
        Ok(Status::Complete(consumed)) => {
            let request = build(&raw, &rest[..consumed], limits)?;
            Ok(Parse::Complete { request, consumed })
        }
        Ok(Status::Partial) => Ok(Parse::Partial),
        Err(httparse::Error::Version) => {
            let word_at = after_word(raw.method) + after_word(raw.path);
            match version::judge(rest.get(word_at..).unwrap_or_default()) {
                Word::Partial => Ok(Parse::Partial),
                Word::LaterMinor => parse_lines(&as_http11(rest, word_at), limits),
                Word::OtherMajor => Err(Reject::VersionUnsupported),
                Word::Malformed => Err(Reject::BadRequestLine),
            }
        }
        Err(error) => Err(reject_of(error)),
    }
}

/// The length of a word of the request line, with the space after it.
fn after_word(word: Option<&str>) -> usize {
    word.map_or(0, |word| word.len() + 1)
}

/// A copy of a head, with the minor version that this server supports. Hardly any client needs it.
fn as_http11(rest: &[u8], version_at: usize) -> Vec<u8> {
    let mut copy = rest.to_vec();
    copy[version_at + version::MINOR_AT] = b'1';
    copy
}

/// The length of the empty lines at the beginning.
fn leading_line_ends(buf: &[u8]) -> Result<usize, Reject> {
    let mut skipped_bytes = 0;
    for _ in 0..=LEADING_LINE_ENDS_MAX {
        match &buf[skipped_bytes..] {
            [b'\r', b'\n', ..] => skipped_bytes += 2,
            [b'\r', _, ..] | [b'\n', ..] => return Err(Reject::BadLineEnd),
            _ => return Ok(skipped_bytes),
        }
    }
    Err(Reject::BadRequestLine)
}

/// Refuses an overlong method or target even before it is complete, and before any fault after it: the answer must not
/// depend on how reads cut the bytes.
fn check_request_line_length(
    raw: &httparse::Request<'_, '_>,
    rest: &[u8],
    limits: &RequestLimits,
) -> Result<(), Reject> {
    // `httparse` reports a word only once the space after it has arrived; until then, count the bytes that may belong to it.
    let leading_bytes = |bytes: &[u8], belongs: fn(u8) -> bool| {
        bytes.iter().take_while(|byte| belongs(**byte)).count()
    };
    let method_bytes = raw.method.map_or_else(|| leading_bytes(rest, is_token_byte), str::len);
    if method_bytes > METHOD_BYTES_MAX {
        return Err(Reject::MethodNotImplemented);
    }
    let Some(method) = raw.method else { return Ok(()) };
    let target_bytes =
        raw.path.map_or_else(|| leading_bytes(&rest[method.len() + 1..], is_visible), str::len);
    if target_bytes > limits.uri_bytes_max { Err(Reject::UriTooLong) } else { Ok(()) }
}

/// tchar (RFC 9110 section 5.6.2), the bytes of methods.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The bytes that `httparse` accepts in a target: neither space nor control.
fn is_visible(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

fn reject_of(error: httparse::Error) -> Reject {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => Reject::BadHeader,
        httparse::Error::NewLine => Reject::BadLineEnd,
        httparse::Error::TooManyHeaders => Reject::HeadTooLarge,
        httparse::Error::Version | httparse::Error::Token | httparse::Error::Status => {
            Reject::BadRequestLine
        }
    }
}

fn build(
    raw: &httparse::Request<'_, '_>,
    head: &[u8],
    limits: &RequestLimits,
) -> Result<Request, Reject> {
    let (Some(token), Some(target_text)) = (raw.method, raw.path) else {
        return Err(Reject::BadRequestLine);
    };
    if has_bare_line_feed(head) {
        return Err(Reject::BadLineEnd);
    }
    let headers: &[Header<'_>] = raw.headers;
    let other = limits.are_other_methods_taken.then_some(Method::Other);
    // CONNECT changes what the bytes after the head mean, so it is never taken.
    let other = other.filter(|_| token != "CONNECT");
    let method = Method::of(token).or(other).ok_or(Reject::MethodNotImplemented)?;
    let version = if raw.version == Some(1) { Version::Http11 } else { Version::Http10 };
    check_host(headers, version)?;
    let Target { resource, authority, query } = parse_target(method, target_text)?;
    let body = BodyFraming::of(headers, version)?;
    check_body_wanted((method, target_text), version, body, headers, limits)?;

    let mut text = head.to_vec();
    let mut fields = Fields::collect(headers, head, &mut text);
    if let Some(authority) = authority {
        fields.replace(Field::Host, Span::of(authority.as_bytes(), head));
    }
    Ok(Request {
        method,
        version,
        resource,
        keep_alive: keep_alive(headers, version),
        body,
        target: Span::of(target_text.as_bytes(), head),
        query: query.map_or(Span::default(), |query| Span::of(query.as_bytes(), head)),
        fields,
        head_bytes: head.len() as u32,
        text: text.into_boxed_slice(),
    })
}

/// `httparse` accepts a bare LF as a line end. No early exit: a head is short, and the loop vectorises this way.
pub(crate) fn has_bare_line_feed(head: &[u8]) -> bool {
    head.windows(2).fold(false, |found, pair| found | ((pair[1] == b'\n') & (pair[0] != b'\r')))
}

/// RFC 9112 section 3.2: exactly one valid Host; an HTTP/1.0 request may lack it.
fn check_host(headers: &[Header<'_>], version: Version) -> Result<(), Reject> {
    let mut hosts = values(headers, "host");
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::Http10 => Ok(()),
        (Some(host), None) if is_host(host) => Ok(()),
        _ => Err(Reject::BadHost),
    }
}

/// RFC 9112 section 9.3: 1.1 persists unless the peer asks to close, 1.0 closes unless it asks to keep alive.
pub(crate) fn keep_alive(headers: &[Header<'_>], version: Version) -> bool {
    let says = |option: &[u8]| {
        elements(headers, "connection").any(|element| element.eq_ignore_ascii_case(option))
    };
    !says(b"close") && (version == Version::Http11 || says(b"keep-alive"))
}

/// Refuses at once a body that would not be read past later. An unsupported method gets its own answer, so that an upload learns the real obstacle.
fn check_body_wanted(
    (method, target): (Method, &str),
    version: Version,
    body: BodyFraming,
    headers: &[Header<'_>],
    limits: &RequestLimits,
) -> Result<(), Reject> {
    if limits.are_bodies_taken {
        let is_met = |expectation: &[u8]| expectation.eq_ignore_ascii_case(b"100-continue");
        let is_unmet = version == Version::Http11 && !elements(headers, "expect").all(is_met);
        return if is_unmet { Err(Reject::ExpectationFailed) } else { Ok(()) };
    }
    let reject = match body {
        BodyFraming::Length(bytes) if bytes > limits.body_drain_bytes_max => Reject::BodyTooLarge,
        _ if waits_in_vain(version, body, headers) => Reject::ExpectationFailed,
        _ => return Ok(()),
    };
    let path = target.split('?').next().unwrap_or_default();
    let takes_posts = limits.posts_at.is_some_and(|end| path.ends_with(end));
    let is_served = method.is_served() || (method == Method::Post && takes_posts);
    Err(if is_served { reject } else { Reject::MethodNotAllowed })
}

/// RFC 9110 section 10.1.1: a client that expects 100 (Continue) holds its body back until the server asks for it, and a final answer makes it drop
/// the body. Other expectations cannot be met; without a body, or in HTTP/1.0, there is nothing to meet.
fn waits_in_vain(version: Version, body: BodyFraming, headers: &[Header<'_>]) -> bool {
    version == Version::Http11
        && elements(headers, "expect").any(|expectation| {
            body != BodyFraming::None || !expectation.eq_ignore_ascii_case(b"100-continue")
        })
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
