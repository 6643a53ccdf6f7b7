//! Responses: the head's bytes, and the body as parts that the caller reads.

use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::{FieldLines, HttpDate, Method, Request, RequestLimits, Version};

/// The pages of other origins that may read answers (Fetch, CORS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// Only this server's own pages.
    #[default]
    SameOrigin,
    /// Any page, as players on other sites need it. Answers are the same for every origin, so caches need no Vary.
    AnyOrigin,
}

/// The context of a response, in addition to request and file.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The current time; making it once a second is enough.
    pub date: &'a HttpDate,
    /// The limits that the request was parsed with.
    pub limits: &'a RequestLimits,
    /// `Server` header; visible ASCII.
    pub server: &'a str,
    /// `Cache-Control` for files; visible ASCII. Empty sends none.
    pub cache_control: &'a str,
    /// Additional header lines for files.
    pub fields: Option<&'a FieldLines>,
    /// The media type of the file, instead of [`crate::Entity::content_type`]; visible ASCII.
    pub content_type: Option<&'a str>,
    /// Decides whether pages of other origins may read answers.
    pub cors: Cors,
    /// Headers that pages of other origins may send in addition to the usual ones; each a token (RFC 9110 section 5.6.2).
    pub cors_headers: &'a [String],
    /// For how many seconds browsers must use only HTTPS with this host (RFC 6797); 0 sends no such header. Use 0 over plain HTTP.
    pub hsts_seconds: u64,
    /// Becomes the boundary of a multipart answer. Give each answer its own, from an unpredictable random source. An attacker who can predict it
    /// could store a file that contains it, and confuse a client that requests several ranges.
    pub boundary: u128,
    /// Closes after this answer, whatever the client requested, because the server is shutting down.
    pub closing: bool,
}

impl<'a> Context<'a> {
    /// With `Server: fullbore`, no CORS, and `Cache-Control: no-cache`: caches may keep files but must revalidate them. That is always right and
    /// costs a 304. Libraries whose files never change should set another value.
    pub fn new(date: &'a HttpDate, limits: &'a RequestLimits) -> Self {
        Self {
            date,
            limits,
            server: "fullbore",
            cache_control: "no-cache",
            fields: None,
            content_type: None,
            cors: Cors::SameOrigin,
            cors_headers: &[],
            hsts_seconds: 0,
            boundary: 0,
            closing: false,
        }
    }
}

/// A piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, which are part of the program.
    Static(&'static [u8]),
    /// These bytes, which other responses may share.
    Shared(Arc<[u8]>),
    /// These bytes of the file; not empty.
    Range(Range<u64>),
}

impl Part {
    /// Length in bytes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Static(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::Range(range) => range.end - range.start,
        }
    }
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code, for log and counters.
    pub status: u16,
    /// Status line, header lines and the empty line.
    pub head: Vec<u8>,
    /// The parts that follow the head, in order; empty for HEAD.
    pub body: Vec<Part>,
    /// Sum of the body's parts. Equals Content-Length where that is sent, except for HEAD.
    pub body_bytes: u64,
    /// Set if the connection stays open after the body, as the head announces.
    pub keep_alive: bool,
}

impl Response {
    /// Adds a field at the end of the head. Its value must be free of CR and LF.
    pub fn add_field(&mut self, name: &str, value: impl fmt::Display) {
        let end = self.head.len().saturating_sub(2);
        debug_assert_eq!(
            self.head.get(end..),
            Some(&b"\r\n"[..]),
            "a head ends with an empty line"
        );
        self.head.truncate(end);
        // Writing to a Vec cannot fail.
        let _ = write!(self.head, "{name}: {value}\r\n\r\n");
    }
}

/// Enough for every head that this crate writes with short settings, so that it is allocated once.
const HEAD_CAPACITY_BYTES: usize = 768;

/// The line that lets pages of any origin read the answer (Fetch section 3.2.3).
const ALLOW_ORIGIN: &[u8] = b"Access-Control-Allow-Origin: *\r\n";

/// Further permissions for such a page: headers that a player needs, timings for its bandwidth estimate (Resource Timing), and use by pages that are
/// isolated from other origins (Fetch, Cross-Origin-Resource-Policy).
const EXPOSE: &[u8] =
    b"Access-Control-Expose-Headers: Accept-Ranges, Content-Length, Content-Range, Date, ETag, Retry-After\r\n\
    Timing-Allow-Origin: *\r\n\
    Cross-Origin-Resource-Policy: cross-origin\r\n";

/// A response head being written. Values must be free of CR and LF: they come from this crate or its caller, never from
/// a peer.
pub(crate) struct Head {
    bytes: Vec<u8>,
    status: u16,
    keep_alive: bool,
}

impl Head {
    /// Starts with the fields of every response. `request` is `None` if it could not be parsed; then, or if `closes`,
    /// the connection ends.
    pub(crate) fn new(
        status: u16,
        request: Option<&Request>,
        closes: bool,
        context: &Context<'_>,
    ) -> Self {
        let keep_alive =
            !closes && !context.closing && request.is_some_and(|request| request.keep_alive);
        let mut head = Self { bytes: Vec::with_capacity(HEAD_CAPACITY_BYTES), status, keep_alive };
        head.bytes.extend_from_slice(status_line(status).as_bytes());
        head.field("Server", context.server.as_bytes());
        head.field("Date", context.date.as_bytes());
        if context.hsts_seconds > 0 {
            let value = format!("max-age={}", context.hsts_seconds);
            head.field("Strict-Transport-Security", value.as_bytes());
        }
        match request {
            _ if !keep_alive => head.field("Connection", b"close"),
            // RFC 9112 section 9.3: only 1.1 persists by itself.
            Some(request) if request.version == Version::Http10 => {
                head.field("Connection", b"keep-alive")
            }
            _ => {}
        }
        head
    }

    /// Starts the head of another server's response: its own status and `Date`, and what concerns only this connection, which ends after it if it
    /// `closes`.
    pub(crate) fn relayed(
        status: u16,
        request: &Request,
        (date, closes): (Option<&[u8]>, bool),
        context: &Context<'_>,
    ) -> Self {
        let keep_alive = !closes && !context.closing && request.keep_alive;
        let mut head = Self { bytes: Vec::with_capacity(HEAD_CAPACITY_BYTES), status, keep_alive };
        // Writing to a Vec cannot fail.
        let _ = write!(head.bytes, "HTTP/1.1 {status} {}\r\n", reason(status));
        head.field("Date", date.unwrap_or(context.date.as_bytes()));
        if context.hsts_seconds > 0 {
            let value = format!("max-age={}", context.hsts_seconds);
            head.field("Strict-Transport-Security", value.as_bytes());
        }
        if !keep_alive {
            head.field("Connection", b"close");
        } else if request.version == Version::Http10 {
            head.field("Connection", b"keep-alive");
        }
        head
    }

    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        debug_assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "{name} holds a control");
        for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.bytes.extend_from_slice(piece);
        }
    }

    pub(crate) fn content_length(&mut self, bytes: u64) {
        // Writing to a Vec cannot fail.
        let _ = write!(self.bytes, "Content-Length: {bytes}\r\n");
    }

    /// `range` as in `bytes 0-9/100`.
    pub(crate) fn content_range(&mut self, range: &Range<u64>, size_bytes: u64) {
        write_content_range(&mut self.bytes, range, size_bytes);
    }

    /// `bytes */SIZE`: no range of it (RFC 9110 section 14.4).
    pub(crate) fn content_range_unsatisfied(&mut self, size_bytes: u64) {
        let _ = write!(self.bytes, "Content-Range: bytes */{size_bytes}\r\n");
    }

    pub(crate) fn cors(&mut self, cors: Cors) {
        if cors == Cors::AnyOrigin {
            self.bytes.extend_from_slice(ALLOW_ORIGIN);
            self.bytes.extend_from_slice(EXPOSE);
        }
    }

    /// Adds the operator's header lines for files.
    pub(crate) fn lines(&mut self, lines: Option<&FieldLines>) {
        self.bytes.extend_from_slice(lines.map_or(&[], FieldLines::as_bytes));
    }

    /// `lines` end with a list of headers, which `headers` continue.
    pub(crate) fn cors_preflight(&mut self, lines: &[u8], headers: &[String]) {
        self.bytes.extend_from_slice(ALLOW_ORIGIN);
        self.bytes.extend_from_slice(lines);
        for name in headers {
            self.bytes.extend_from_slice(b", ");
            self.bytes.extend_from_slice(name.as_bytes());
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Ends the head. The body is left out for HEAD (RFC 9110 section 9.3.2).
    pub(crate) fn finish(mut self, method: Option<Method>, body: Vec<Part>) -> Response {
        self.bytes.extend_from_slice(b"\r\n");
        let body = if method == Some(Method::Head) { Vec::new() } else { body };
        let body_bytes = body.iter().map(Part::size_bytes).sum();
        Response {
            status: self.status,
            head: self.bytes,
            body,
            body_bytes,
            keep_alive: self.keep_alive,
        }
    }
}

/// Writes a Content-Range line for a non-empty range of a file.
pub(crate) fn write_content_range(bytes: &mut Vec<u8>, range: &Range<u64>, size_bytes: u64) {
    // Writing to a Vec cannot fail.
    let _ =
        write!(bytes, "Content-Range: bytes {}-{}/{size_bytes}\r\n", range.start, range.end - 1);
}

/// Status lines of the codes that this crate answers with.
fn status_line(status: u16) -> &'static str {
    match status {
        200 => "HTTP/1.1 200 OK\r\n",
        204 => "HTTP/1.1 204 No Content\r\n",
        206 => "HTTP/1.1 206 Partial Content\r\n",
        304 => "HTTP/1.1 304 Not Modified\r\n",
        400 => "HTTP/1.1 400 Bad Request\r\n",
        403 => "HTTP/1.1 403 Forbidden\r\n",
        404 => "HTTP/1.1 404 Not Found\r\n",
        405 => "HTTP/1.1 405 Method Not Allowed\r\n",
        408 => "HTTP/1.1 408 Request Timeout\r\n",
        411 => "HTTP/1.1 411 Length Required\r\n",
        412 => "HTTP/1.1 412 Precondition Failed\r\n",
        413 => "HTTP/1.1 413 Content Too Large\r\n",
        414 => "HTTP/1.1 414 URI Too Long\r\n",
        416 => "HTTP/1.1 416 Range Not Satisfiable\r\n",
        417 => "HTTP/1.1 417 Expectation Failed\r\n",
        421 => "HTTP/1.1 421 Misdirected Request\r\n",
        429 => "HTTP/1.1 429 Too Many Requests\r\n",
        431 => "HTTP/1.1 431 Request Header Fields Too Large\r\n",
        501 => "HTTP/1.1 501 Not Implemented\r\n",
        502 => "HTTP/1.1 502 Bad Gateway\r\n",
        503 => "HTTP/1.1 503 Service Unavailable\r\n",
        504 => "HTTP/1.1 504 Gateway Timeout\r\n",
        505 => "HTTP/1.1 505 HTTP Version Not Supported\r\n",
        _ => "HTTP/1.1 500 Internal Server Error\r\n",
    }
}

/// The reason phrase of a status that another server chose; clients ignore it (RFC 9112 section 4).
fn reason(status: u16) -> &'static str {
    let known = status_line(status).trim_end();
    let code = known.get(9..12).and_then(|code| code.parse().ok());
    if code == Some(status) { known.get(13..).unwrap_or_default() } else { "" }
}

/// Code and reason phrase, as the text of a refusal shows them.
pub(crate) fn status_text(status: u16) -> &'static str {
    status_line(status).trim_start_matches("HTTP/1.1 ").trim_end()
}
