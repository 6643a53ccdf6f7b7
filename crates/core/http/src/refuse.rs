//! Answers without a file: refusals that a person can read, OPTIONS, and plain HTTP on a TLS port.

use crate::response::{Head, status_text};
use crate::{Context, Cors, Method, Part, Refusal, Reject, Request, Response};

/// The methods served (RFC 9110 section 10.2.1).
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// The requests that a page of another origin may send: conditions and ranges, the headers that browsers and players add, and the media metrics of
/// CTA-5004 (CMCD). Browsers remember this for at most a day (Firefox; Chromium remembers two hours). The list of headers is last, so that an
/// operator's can follow.
const PREFLIGHT: &[u8] = b"Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n\
    Access-Control-Max-Age: 86400\r\n\
    Access-Control-Allow-Headers: Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, \
    Cache-Control, Pragma, X-Requested-With, CMCD-Object, CMCD-Request, CMCD-Session, CMCD-Status";

/// The methods served where clients post.
const ALLOW_POSTS: &[u8] = b"POST, OPTIONS";

/// What a page of another origin may post. Browsers ask for it, because no HTML form sends the `Content-Type` of players' events.
const POST_PREFLIGHT: &[u8] = b"Access-Control-Allow-Methods: POST, OPTIONS\r\n\
    Access-Control-Max-Age: 86400\r\nAccess-Control-Allow-Headers: Content-Type";

/// Seconds until a client should try a full server again. A guess: most overloads here are restarts.
const RETRY_AFTER_SECONDS: &[u8] = b"5";

/// The request that is refused.
#[derive(Clone, Copy, Debug)]
pub enum RefusedRequest<'a> {
    /// A request.
    Parsed(&'a Request),
    /// The received part of a request that could not be parsed, from its beginning. The connection closes after the answer.
    Unparsed(&'a [u8]),
}

impl<'a> From<&'a Request> for RefusedRequest<'a> {
    fn from(request: &'a Request) -> Self {
        Self::Parsed(request)
    }
}

impl<'a> RefusedRequest<'a> {
    /// The request, if it could be parsed.
    pub fn request(self) -> Option<&'a Request> {
        match self {
            Self::Parsed(request) => Some(request),
            Self::Unparsed(_) => None,
        }
    }

    /// The method, which may be known even if the rest is malformed: no answer to HEAD has content (RFC 9110 section 9.3.2).
    pub(crate) fn method(self) -> Option<Method> {
        match self {
            Self::Parsed(request) => Some(request.method),
            Self::Unparsed(received) => Method::of_unparsed(received),
        }
    }
}

/// Answers with a refusal and one readable sentence. If the request could not be parsed, or if [`Refusal::closes`], the connection closes after
/// the answer.
pub fn refuse<'a>(
    refusal: Refusal,
    asked: impl Into<RefusedRequest<'a>>,
    context: &Context<'_>,
) -> Response {
    refuse_because(refusal, refusal.explanation(), asked, context)
}

/// As [`refuse`], with the caller's explanation.
pub fn refuse_because<'a>(
    refusal: Refusal,
    explanation: &str,
    asked: impl Into<RefusedRequest<'a>>,
    context: &Context<'_>,
) -> Response {
    let asked = asked.into();
    let text = format!("{}\n{explanation}\n", status_text(refusal.status()));
    let mut head = Head::new(refusal.status(), asked.request(), refusal.closes(), context);
    head.field("Content-Type", b"text/plain; charset=utf-8");
    head.content_length(text.len() as u64);
    // A file that is missing now may exist a moment later.
    head.field("Cache-Control", b"no-store");
    head.field("X-Content-Type-Options", b"nosniff");
    match refusal {
        Refusal::MethodNotAllowed | Refusal::Reject(Reject::MethodNotAllowed) => {
            head.field("Allow", ALLOW)
        }
        Refusal::RangeNotSatisfiable { size_bytes } => head.content_range_unsatisfied(size_bytes),
        Refusal::PostOnly => head.field("Allow", ALLOW_POSTS),
        Refusal::Unavailable | Refusal::TooManyRequests => {
            head.field("Retry-After", RETRY_AFTER_SECONDS);
        }
        _ => {}
    }
    head.cors(context.cors);
    head.finish(asked.method(), vec![Part::Bytes(text.into_bytes())])
}

/// Answers OPTIONS, including CORS preflights (RFC 9110 section 9.3.7; Fetch section 3.2.2). The answer is the same for
/// every path, so it reveals nothing about the library.
pub fn options(request: &Request, context: &Context<'_>) -> Response {
    let mut head = Head::new(204, Some(request), false, context);
    head.field("Allow", ALLOW);
    if context.cors == Cors::AnyOrigin {
        head.cors_preflight(PREFLIGHT, context.cors_headers);
    }
    head.finish(Some(request.method), Vec::new())
}

/// As [`options`], where clients post.
pub fn post_options(request: &Request, context: &Context<'_>) -> Response {
    let mut head = Head::new(204, Some(request), false, context);
    head.field("Allow", ALLOW_POSTS);
    if context.cors == Cors::AnyOrigin {
        head.cors_preflight(POST_PREFLIGHT, context.cors_headers);
    }
    head.finish(Some(request.method), Vec::new())
}

/// Answers a post that was taken: 204.
pub fn post_taken(request: &Request, context: &Context<'_>) -> Response {
    let mut head = Head::new(204, Some(request), false, context);
    head.field("Cache-Control", b"no-store");
    head.cors(context.cors);
    head.finish(Some(request.method), Vec::new())
}

/// Returns true if a connection's first bytes are an HTTP request in plain text rather than TLS: a method and a space, or the start of that. TLS
/// records begin with a byte from 20 to 24 (RFC 8446 section 5.1), so one letter decides. Answer with [`Refusal::HttpOnTlsPort`].
pub fn looks_like_http(first_bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 10] = [
        b"GET ",
        b"HEAD ",
        b"OPTIONS ",
        b"POST ",
        b"PUT ",
        b"PATCH ",
        b"DELETE ",
        b"TRACE ",
        b"CONNECT ",
        b"PRI ",
    ];
    let begins = |method: &[u8]| {
        let common_bytes = method.len().min(first_bytes.len());
        method[..common_bytes] == first_bytes[..common_bytes]
    };
    !first_bytes.is_empty() && METHODS.into_iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpDate, Parse, RequestLimits, parse};

    /// An unknown request.
    const NOTHING: RefusedRequest<'_> = RefusedRequest::Unparsed(b"");

    fn request(head: &str, limits: &RequestLimits) -> Request {
        match parse(head.as_bytes(), limits) {
            Ok(Parse::Complete { request, .. }) => request,
            other => panic!("{head:?} gave {other:?}"),
        }
    }

    fn with_context<T>(cors: Cors, run: impl FnOnce(&Context<'_>) -> T) -> T {
        let (date, limits) = (HttpDate::new(0), RequestLimits::default());
        run(&Context { cors, ..Context::new(&date, &limits) })
    }

    fn text(response: &Response) -> String {
        let mut text = String::from_utf8_lossy(&response.head).into_owned();
        for part in &response.body {
            if let Part::Bytes(bytes) = part {
                text.push_str(&String::from_utf8_lossy(bytes));
            }
        }
        text
    }

    #[test]
    fn a_refusal_is_readable_and_framed() {
        let answer = with_context(Cors::SameOrigin, |context| {
            refuse(Reject::BadHost.into(), NOTHING, context)
        });
        let expected = "HTTP/1.1 400 Bad Request\r\nServer: fullbore\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
            Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 65\r\n\
            Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\n\
            400 Bad Request\nThe request needs exactly one valid Host header.\n";
        assert_eq!(text(&answer), expected);
        assert!(!answer.keep_alive);
    }

    #[test]
    fn every_refusal_names_its_status_and_the_length_of_its_text() {
        let others = [
            Refusal::NotFound,
            Refusal::Forbidden,
            Refusal::MethodNotAllowed,
            Refusal::PostOnly,
            Refusal::UnreadableBody,
            Refusal::TooManyRequests,
            Refusal::Misdirected,
            Refusal::PreconditionFailed,
            Refusal::RangeNotSatisfiable { size_bytes: 7 },
            Refusal::RequestTimeout,
            Refusal::HttpOnTlsPort,
            Refusal::Internal,
            Refusal::Unavailable,
            Refusal::BadGateway,
            Refusal::GatewayTimeout,
        ];
        let limits = RequestLimits::default();
        let asked = request("GET /a HTTP/1.1\r\nHost: h\r\n\r\n", &limits);
        for refusal in Reject::ALL.into_iter().map(Refusal::Reject).chain(others) {
            let answer = with_context(Cors::AnyOrigin, |context| refuse(refusal, &asked, context));
            let head = String::from_utf8_lossy(&answer.head).into_owned();
            assert!(head.starts_with(&format!("HTTP/1.1 {} ", refusal.status())), "{head}");
            assert!(head.contains(&format!("Content-Length: {}\r\n", answer.body_bytes)), "{head}");
            assert_eq!(answer.keep_alive, !refusal.closes(), "{refusal:?}");
            assert_eq!(head.contains("Connection: close\r\n"), refusal.closes(), "{refusal:?}");
        }
    }

    #[test]
    fn special_refusals_carry_their_header() {
        for (refusal, line) in [
            (Refusal::MethodNotAllowed, "Allow: GET, HEAD, OPTIONS\r\n"),
            (Refusal::Reject(Reject::MethodNotAllowed), "Allow: GET, HEAD, OPTIONS\r\n"),
            (Refusal::RangeNotSatisfiable { size_bytes: 7 }, "Content-Range: bytes */7\r\n"),
            (Refusal::Unavailable, "Retry-After: 5\r\n"),
            (Refusal::PostOnly, "Allow: POST, OPTIONS\r\n"),
            (Refusal::TooManyRequests, "Retry-After: 5\r\n"),
        ] {
            let answer =
                with_context(Cors::SameOrigin, |context| refuse(refusal, NOTHING, context));
            assert!(text(&answer).contains(line), "{refusal:?}");
        }
    }

    #[test]
    fn a_refused_head_request_has_the_length_but_not_the_text() {
        let limits = RequestLimits::default();
        let asked = request("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n", &limits);
        let answer =
            with_context(Cors::SameOrigin, |context| refuse(Refusal::NotFound, &asked, context));
        assert!(text(&answer).contains("Content-Length: 42\r\n"), "{}", text(&answer));
        assert_eq!((answer.body_bytes, answer.body.len()), (0, 0));
    }

    #[test]
    fn a_refused_head_request_that_cannot_be_parsed_has_no_content_either() {
        for (received, is_head) in [
            ("HEAD /a HTTP/1.1\r\nno colon\r\n\r\n", true),
            ("HEAD ", true),
            ("\r\n\r\nHEAD  /", true),
            ("HEAD", false),
            ("HEADS / HTTP/1.1", false),
            ("head / HTTP/1.1", false),
            ("GET /a HTTP/1.1\r\nA: HEAD \r\n", false),
            ("", false),
        ] {
            for refusal in [Reject::BadHeader.into(), Refusal::RequestTimeout] {
                let asked = RefusedRequest::Unparsed(received.as_bytes());
                let answer =
                    with_context(Cors::SameOrigin, |context| refuse(refusal, asked, context));
                assert!(text(&answer).contains("Content-Length: "), "{received:?}");
                assert!(!answer.keep_alive, "{received:?}");
                assert_eq!(answer.body_bytes == 0, is_head, "{received:?}");
                assert_eq!(answer.body.is_empty(), is_head, "{received:?}");
            }
        }
    }

    #[test]
    fn options_is_a_preflight_only_where_other_origins_may_read() {
        let limits = RequestLimits::default();
        let asked = request("OPTIONS * HTTP/1.1\r\nHost: h\r\nOrigin: https://a\r\n\r\n", &limits);
        let closed = text(&with_context(Cors::SameOrigin, |context| options(&asked, context)));
        assert!(
            closed.starts_with("HTTP/1.1 204 No Content\r\n")
                && closed.contains("Allow: GET, HEAD, OPTIONS\r\n")
        );
        assert!(!closed.contains("Access-Control") && !closed.contains("Content-Length"));
        let open = text(&with_context(Cors::AnyOrigin, |context| options(&asked, context)));
        assert!(open.contains(
            "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n"
        ));
        assert!(
            open.contains("Access-Control-Allow-Headers: Range, If-Range,")
                && !open.contains("Content-Length")
        );
        let names = ["Authorization".to_owned(), "X-Player".to_owned()];
        let further = with_context(Cors::AnyOrigin, |context| {
            options(&asked, &Context { cors_headers: &names, ..context.clone() })
        });
        assert!(text(&further).contains(", CMCD-Status, Authorization, X-Player\r\n"));
    }

    #[test]
    fn a_page_of_another_origin_may_post_only_where_other_origins_may_read() {
        let limits = RequestLimits::default();
        let asked = request("OPTIONS /-/post HTTP/1.1\r\nHost: h\r\n\r\n", &limits);
        let closed = text(&with_context(Cors::SameOrigin, |context| post_options(&asked, context)));
        assert!(closed.contains("Allow: POST, OPTIONS\r\n") && !closed.contains("Access-Control"));
        let open = text(&with_context(Cors::AnyOrigin, |context| post_options(&asked, context)));
        assert!(
            open.contains("Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: POST")
        );
        assert!(open.contains("Access-Control-Allow-Headers: Content-Type\r\n"), "{open}");
        let taken = with_context(Cors::AnyOrigin, |context| post_taken(&asked, context));
        assert!(taken.status == 204 && text(&taken).contains("Access-Control-Allow-Origin: *"));
        assert!(!text(&taken).contains("\r\nContent-Length"));
    }

    #[test]
    fn plain_http_is_told_from_tls_by_its_first_bytes() {
        for bytes in ["G", "GET", "GET / HTTP/1.1\r\n", "HEAD /", "PRI * HTTP/2.0", "CONNECT "] {
            assert!(looks_like_http(bytes.as_bytes()), "{bytes}");
        }
        for bytes in [&b""[..], b"\x16\x03\x01", b"GOT / ", b"GETX", b"SSH-2.0-", b"\x80"] {
            assert!(!looks_like_http(bytes), "{bytes:?}");
        }
        let answer = with_context(Cors::SameOrigin, |context| {
            refuse(Refusal::HttpOnTlsPort, NOTHING, context)
        });
        assert_eq!(answer.status, 400);
        assert!(text(&answer).contains("https://"));
    }
}
