//! Why a request is not answered with a file.
//!
//! [`Reject`] lists the faults of the bytes themselves: the connection closes after the answer. [`Refusal`] lists all refusals that [`crate::refuse`]
//! can answer.

use std::fmt;

/// A request that cannot be parsed or will not be carried out; the connection closes after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// The request line is not `method SP target SP version` (RFC 9112 section 3).
    BadRequestLine,
    /// The request-target has none of the forms of RFC 9112 section 3.2, or its percent-encoding is broken.
    BadTarget,
    /// A header line is malformed: folded, a space before the colon, NUL or another control (RFC 9112 section 5).
    BadHeader,
    /// A line does not end with CR LF. RFC 9112 section 2.2 allows refusing a bare LF, and requires it for a bare CR.
    BadLineEnd,
    /// Host is missing, doubled or not a host (RFC 9112 section 3.2).
    BadHost,
    /// Content-Length or Transfer-Encoding is malformed, doubled or ambiguous, or a chunk is (RFC 9112 sections 6, 7.1).
    BadFraming,
    /// The request has a body that is not wanted, and a method that is not served.
    MethodNotAllowed,
    /// The body is larger than [`crate::RequestLimits::body_drain_bytes_max`].
    BodyTooLarge,
    /// The body comes in chunks, and its length has to be known before it is taken (RFC 9110 section 15.5.12).
    LengthRequired,
    /// The request-target is longer than [`crate::RequestLimits::uri_bytes_max`].
    UriTooLong,
    /// The client waits for permission to send a body that is not wanted (RFC 9110 section 10.1.1).
    ExpectationFailed,
    /// The head exceeds [`crate::RequestLimits::head_bytes_max`] or [`crate::RequestLimits::headers_max`].
    HeadTooLarge,
    /// The method is unknown, or is CONNECT (RFC 9110 section 9.1).
    MethodNotImplemented,
    /// A transfer coding other than chunked (RFC 9112 section 6.1).
    CodingNotImplemented,
    /// A major version of HTTP other than 1 (RFC 9110 section 15.6.6).
    VersionUnsupported,
}

impl Reject {
    /// Every reason, for registering counters.
    pub const ALL: [Self; 15] = [
        Self::BadRequestLine,
        Self::BadTarget,
        Self::BadHeader,
        Self::BadLineEnd,
        Self::BadHost,
        Self::BadFraming,
        Self::MethodNotAllowed,
        Self::BodyTooLarge,
        Self::LengthRequired,
        Self::UriTooLong,
        Self::ExpectationFailed,
        Self::HeadTooLarge,
        Self::MethodNotImplemented,
        Self::CodingNotImplemented,
        Self::VersionUnsupported,
    ];

    /// The status code to answer with.
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequestLine
            | Self::BadTarget
            | Self::BadHeader
            | Self::BadLineEnd
            | Self::BadHost
            | Self::BadFraming => 400,
            Self::MethodNotAllowed => 405,
            Self::LengthRequired => 411,
            Self::BodyTooLarge => 413,
            Self::UriTooLong => 414,
            Self::ExpectationFailed => 417,
            Self::HeadTooLarge => 431,
            Self::MethodNotImplemented | Self::CodingNotImplemented => 501,
            Self::VersionUnsupported => 505,
        }
    }

    /// The reason as a counter label, in snake case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequestLine => "bad_request_line",
            Self::BadTarget => "bad_target",
            Self::BadHeader => "bad_header",
            Self::BadLineEnd => "bad_line_end",
            Self::BadHost => "bad_host",
            Self::BadFraming => "bad_framing",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTooLarge => "body_too_large",
            Self::LengthRequired => "length_required",
            Self::UriTooLong => "uri_too_long",
            Self::ExpectationFailed => "expectation_failed",
            Self::HeadTooLarge => "head_too_large",
            Self::MethodNotImplemented => "method_not_implemented",
            Self::CodingNotImplemented => "coding_not_implemented",
            Self::VersionUnsupported => "version_unsupported",
        }
    }

    /// One sentence for the person who reads the answer.
    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Self::BadRequestLine => "The first line of the request is malformed.",
            Self::BadTarget => "The address in the request is malformed.",
            Self::BadHeader => "A header line of the request is malformed.",
            Self::BadLineEnd => "Each line of the request must end with CR LF.",
            Self::BadHost => "The request needs exactly one valid Host header.",
            Self::BadFraming => "The length of the request body is malformed or ambiguous.",
            Self::MethodNotAllowed => METHOD_NOT_ALLOWED,
            Self::BodyTooLarge => "This server does not accept request bodies of this size.",
            Self::LengthRequired => {
                "This server needs the length of a request body: send it with Content-Length."
            }
            Self::UriTooLong => "The address in the request is too long.",
            Self::ExpectationFailed => {
                "This server does not support the Expect header; send the request without it."
            }
            Self::HeadTooLarge => "The header lines of the request are too many or too long.",
            Self::MethodNotImplemented => "This server does not support that method.",
            Self::CodingNotImplemented => "This server supports no transfer coding except chunked.",
            Self::VersionUnsupported => "This server speaks HTTP/1.1 and HTTP/1.0 only.",
        }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

impl std::error::Error for Reject {}

const METHOD_NOT_ALLOWED: &str = "This address can only be read: use GET or HEAD.";

/// A refusal that [`crate::refuse`] turns into a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The request itself is malformed; closes.
    Reject(Reject),
    /// No such file, or a path that must not be opened: a peer cannot tell the difference. 404.
    NotFound,
    /// The path needs a permission that the request does not carry. 403.
    Forbidden,
    /// A known method that is not served. 405 with Allow.
    MethodNotAllowed,
    /// A known method other than POST, where only that is served. 405 with Allow.
    PostOnly,
    /// The posted body has nothing that can be read. 400.
    UnreadableBody,
    /// The client sends more requests than it may. 429 with Retry-After.
    TooManyRequests,
    /// The request names a host that this listener does not answer for (RFC 9110 section 15.5.20). 421.
    Misdirected,
    /// If-Match or If-Unmodified-Since does not hold. 412.
    PreconditionFailed,
    /// No range lies within the file (RFC 9110 section 15.5.17). 416 with the size.
    RangeNotSatisfiable {
        /// The file's size, for `Content-Range: bytes */SIZE`.
        size_bytes: u64,
    },
    /// The head did not arrive in time. 408; closes.
    RequestTimeout,
    /// Plain HTTP arrived on a TLS port. 400; closes.
    HttpOnTlsPort,
    /// The file cannot be read. 500; closes.
    Internal,
    /// The server is full or shutting down. 503 with Retry-After; closes.
    Unavailable,
    /// The origin behind a caching edge cannot be reached, or its answer cannot be used. 502.
    BadGateway,
    /// The origin behind a caching edge took too long. 504.
    GatewayTimeout,
}

impl Refusal {
    /// The status code to answer with.
    pub fn status(self) -> u16 {
        match self {
            Self::Reject(reject) => reject.status(),
            Self::HttpOnTlsPort => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::UnreadableBody => 400,
            Self::MethodNotAllowed | Self::PostOnly => 405,
            Self::TooManyRequests => 429,
            Self::RequestTimeout => 408,
            Self::PreconditionFailed => 412,
            Self::Misdirected => 421,
            Self::RangeNotSatisfiable { .. } => 416,
            Self::Internal => 500,
            Self::BadGateway => 502,
            Self::Unavailable => 503,
            Self::GatewayTimeout => 504,
        }
    }

    /// The reason as a counter label, in snake case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reject(reject) => reject.as_str(),
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::MethodNotAllowed | Self::PostOnly => "method_not_allowed",
            Self::UnreadableBody => "unreadable_body",
            Self::TooManyRequests => "too_many_requests",
            Self::Misdirected => "misdirected",
            Self::PreconditionFailed => "precondition_failed",
            Self::RangeNotSatisfiable { .. } => "range_not_satisfiable",
            Self::RequestTimeout => "request_timeout",
            Self::HttpOnTlsPort => "http_on_tls_port",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::BadGateway => "bad_gateway",
            Self::GatewayTimeout => "gateway_timeout",
        }
    }

    /// Returns true if the connection must close after the answer, whatever the client requested.
    pub fn closes(self) -> bool {
        matches!(
            self,
            Self::Reject(_)
                | Self::RequestTimeout
                | Self::HttpOnTlsPort
                | Self::Internal
                | Self::Unavailable
        )
    }

    /// One sentence for the person who reads the answer.
    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Self::Reject(reject) => reject.explanation(),
            Self::NotFound => "There is no such file here.",
            Self::Forbidden => {
                "This link has expired or was never signed. Go back to the page that gave it to you and open it again."
            }
            Self::MethodNotAllowed => METHOD_NOT_ALLOWED,
            Self::PostOnly => "Players post their reports to this address: use POST.",
            Self::UnreadableBody => {
                "No line of the body could be read. See docs/qoe.md for what players post here."
            }
            Self::TooManyRequests => "Too many requests; try again in a few seconds.",
            Self::Misdirected => {
                "This listener does not accept the host name in the address: use an IP address or localhost, \
                 or add the name to admin_hosts in the server's configuration."
            }
            Self::PreconditionFailed => "The file is not the version that the request asks for.",
            Self::RangeNotSatisfiable { .. } => {
                "The file is shorter than the range that the request asks for."
            }
            Self::RequestTimeout => "The request took too long to arrive.",
            Self::HttpOnTlsPort => "This port speaks HTTPS: use https:// in the address.",
            Self::Internal => "The file cannot be read now; the server's log says why.",
            Self::Unavailable => "The server is full or restarting; try again in a few seconds.",
            Self::BadGateway => {
                "The origin of this file cannot be reached, or its answer cannot be used."
            }
            Self::GatewayTimeout => "The origin of this file took too long to answer.",
        }
    }
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}
