//! Tables of accepted and refused heads.

use super::*;

fn parse_default(head: &str) -> Result<Parse, Reject> {
    parse(head.as_bytes(), &RequestLimits::default())
}

#[track_caller]
fn request(head: &str) -> Request {
    match parse_default(head) {
        Ok(Parse::Complete { request, consumed }) => {
            assert_eq!(consumed, head.len());
            request
        }
        other => panic!("{head:?} gave {other:?}"),
    }
}

fn get_with(lines: &str) -> String {
    format!("GET /a.mp4 HTTP/1.1\r\nHost: h\r\n{lines}\r\n")
}

#[test]
fn a_players_request_is_taken_apart() {
    let request = request(
        "GET /film/video%201.m4s?session=7 HTTP/1.1\r\nHost: tv.example:8443\r\nUser-Agent: player/1.0\r\n\
         Range:  bytes=0-99 \r\nif-range: \"x\"\r\nAccept: */*\r\n\r\n",
    );
    assert_eq!(request.method, Method::Get);
    assert_eq!(request.version, Version::Http11);
    assert!(
        matches!(&request.resource, Resource::File(path) if path.as_bytes() == b"film/video 1.m4s")
    );
    assert!(request.keep_alive);
    assert_eq!(request.body, BodyFraming::None);
    assert_eq!(request.target(), b"/film/video%201.m4s?session=7");
    assert_eq!(request.query(), Some(&b"session=7"[..]));
    assert_eq!(request.field(Field::Host), Some(&b"tv.example:8443"[..]));
    assert_eq!(request.field(Field::UserAgent), Some(&b"player/1.0"[..]));
    assert_eq!(request.field(Field::Range), Some(&b"bytes=0-99"[..]));
    assert_eq!(request.field(Field::IfRange), Some(&b"\"x\""[..]));
    assert_eq!(request.field(Field::Origin), None);
}

#[test]
fn malformed_heads_are_refused_for_their_reason() {
    let table: &[(&str, Reject)] = &[
        ("GET\r\n\r\n", Reject::BadRequestLine),
        ("GET /\r\n\r\n", Reject::BadRequestLine),
        ("GET  / HTTP/1.1\r\n\r\n", Reject::BadRequestLine),
        ("GET / x HTTP/1.1\r\n\r\n", Reject::BadRequestLine),
        ("GET /\0 HTTP/1.1\r\n\r\n", Reject::BadRequestLine),
        ("\x16\x03\x01\x02\x00", Reject::BadRequestLine),
        (" GET / HTTP/1.1\r\n\r\n", Reject::BadRequestLine),
        ("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", Reject::BadRequestLine),
        ("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", Reject::BadTarget),
        ("GET * HTTP/1.1\r\nHost: h\r\n\r\n", Reject::BadTarget),
        ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", Reject::BadLineEnd),
        ("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", Reject::BadLineEnd),
        ("GET / HTTP/1.1\nHost: h\r\n\r\n", Reject::BadLineEnd),
        ("GET / HTTP/1.1\r\nHost: h\n\r\n", Reject::BadLineEnd),
        ("GET / HTTP/1.1\r\nHost: h\r\n\n", Reject::BadLineEnd),
        ("GET / HTTP/1.1\rHost: h\r\n\r\n", Reject::BadLineEnd),
        ("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", Reject::BadLineEnd),
        ("GET / HTTP/1.1\r\n Host: h\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\tc\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", Reject::BadHeader),
        ("GET / HTTP/1.1\r\n\r\n", Reject::BadHost),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Reject::BadHost),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", Reject::BadHost),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Reject::BadHost),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Reject::BadHost),
        ("GET http://a/ HTTP/1.1\r\n\r\n", Reject::BadHost),
        ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", Reject::BadHost),
        ("get / HTTP/1.1\r\nHost: h\r\n\r\n", Reject::MethodNotImplemented),
        ("PURGE / HTTP/1.1\r\nHost: h\r\n\r\n", Reject::MethodNotImplemented),
        ("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", Reject::MethodNotImplemented),
        ("AVERYLONGMETHODNAME", Reject::MethodNotImplemented),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Reject::VersionUnsupported),
        ("GET / HTTP/1\r\nHost: h\r\n\r\n", Reject::BadRequestLine),
        ("GET / HTTP/11\r\nHost: h\r\n\r\n", Reject::BadRequestLine),
        ("GET / HTTP/2\r\nHost: h\r\n\r\n", Reject::BadRequestLine),
        ("GET / HTTP/01.01\r\nHost: h\r\n\r\n", Reject::BadRequestLine),
        ("GET / HTTP/1.25\r\nHost: h\r\n\r\n", Reject::BadRequestLine),
        ("GET / HTTP/1.2\nHost: h\r\n\r\n", Reject::BadLineEnd),
        ("GET / HTTP/1.2\r\n\r\n", Reject::BadHost),
        ("GET / HTTP/0.9\r\nHost: h\r\n\r\n", Reject::VersionUnsupported),
        ("GET / http/1.1\r\nHost: h\r\n\r\n", Reject::BadRequestLine),
    ];
    for (head, reject) in table {
        assert_eq!(parse_default(head), Err(*reject), "{head:?}");
    }
}

#[test]
fn a_later_minor_version_is_served_as_the_highest_that_we_speak() {
    for version in ["1.2", "1.9"] {
        let head = format!("GET /a?b HTTP/{version}\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n");
        let Ok(Parse::Complete { request, consumed }) = parse_default(&head) else {
            panic!("{head:?}")
        };
        assert_eq!(
            (request.version, request.keep_alive, consumed),
            (Version::Http11, true, head.len())
        );
        assert_eq!(request.target(), b"/a?b");
        assert_eq!(request.field(Field::Range), Some(&b"bytes=0-1"[..]));
        for cut in 0..head.len() {
            assert_eq!(parse_default(&head[..cut]), Ok(Parse::Partial), "cut at {cut}");
        }
    }
}

#[test]
fn ambiguous_framing_is_refused() {
    for lines in [
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: 1 2\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
    ] {
        assert_eq!(parse_default(&get_with(lines)), Err(Reject::BadFraming), "{lines:?}");
    }
    let gzip = get_with("Transfer-Encoding: gzip, chunked\r\n");
    assert_eq!(parse_default(&gzip), Err(Reject::CodingNotImplemented));
    let old = "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(parse_default(old), Err(Reject::BadFraming));
}

#[test]
fn bodies_are_framed_by_length_or_chunks() {
    assert_eq!(request(&get_with("Content-Length: 0\r\n")).body, BodyFraming::None);
    assert_eq!(request(&get_with("Content-Length: 0012\r\n")).body, BodyFraming::Length(12));
    assert_eq!(request(&get_with("Transfer-Encoding: Chunked\r\n")).body, BodyFraming::Chunked);
    assert_eq!(parse_default(&get_with("Content-Length: 65537\r\n")), Err(Reject::BodyTooLarge));
}

#[test]
fn unwanted_expectations_fail() {
    let body = "Content-Length: 3\r\n";
    let table = [
        (get_with("Expect: 100-continue\r\n"), None),
        (get_with(&format!("Expect: 100-Continue\r\n{body}")), Some(Reject::ExpectationFailed)),
        (get_with("Expect: a-miracle\r\n"), Some(Reject::ExpectationFailed)),
        (format!("GET / HTTP/1.0\r\nExpect: 100-continue\r\n{body}\r\n"), None),
        (
            format!("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n{body}\r\n"),
            Some(Reject::MethodNotAllowed),
        ),
        (
            "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n".to_owned(),
            Some(Reject::MethodNotAllowed),
        ),
    ];
    for (head, reject) in table {
        assert_eq!(parse_default(&head).err(), reject, "{head:?}");
    }
}

#[test]
fn a_large_body_is_too_large_where_posts_are_taken() {
    let limits = RequestLimits { posts_at: Some("/-/post"), ..RequestLimits::default() };
    let large = "Content-Length: 65537";
    for (method, target, lines, reject) in [
        ("POST", "/-/post", large, Reject::BodyTooLarge),
        ("POST", "/t/x/-/post?a=/b", large, Reject::BodyTooLarge),
        ("POST", "/-/post", "Content-Length: 5\r\nExpect: 100-continue", Reject::ExpectationFailed),
        ("POST", "/-/posts", large, Reject::MethodNotAllowed),
        ("POST", "/a?/-/post", large, Reject::MethodNotAllowed),
        ("PUT", "/-/post", large, Reject::MethodNotAllowed),
    ] {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n");
        assert_eq!(parse(head.as_bytes(), &limits).err(), Some(reject), "{head:?}");
    }
}

#[test]
fn connections_persist_as_version_and_header_say() {
    let table = [
        ("HTTP/1.1", "", true),
        ("HTTP/1.1", "Connection: close\r\n", false),
        ("HTTP/1.1", "Connection: Upgrade, CLOSE\r\n", false),
        ("HTTP/1.1", "Connection: a\r\nConnection: close\r\n", false),
        ("HTTP/1.1", "Connection: closed\r\n", true),
        ("HTTP/1.0", "", false),
        ("HTTP/1.0", "Connection: Keep-Alive\r\n", true),
        ("HTTP/1.0", "Connection: keep-alive, close\r\n", false),
    ];
    for (version, line, keep_alive) in table {
        let head = format!("GET / {version}\r\nHost: h\r\n{line}\r\n");
        assert_eq!(request(&head).keep_alive, keep_alive, "{head:?}");
    }
}

#[test]
fn known_methods_are_told_from_served_ones() {
    for (token, reads, served) in [
        ("GET", true, true),
        ("HEAD", true, true),
        ("OPTIONS", false, true),
        ("POST", false, false),
    ] {
        let request = request(&format!("{token} / HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(
            (request.method.reads(), request.method.is_served()),
            (reads, served),
            "{token}"
        );
        assert_eq!(request.method.as_str(), token);
    }
}

#[test]
fn the_authority_of_an_absolute_target_replaces_host() {
    let request = request("GET http://real.example/a HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_eq!(request.field(Field::Host), Some(&b"real.example"[..]));
    assert_eq!(request.target(), b"http://real.example/a");
}

#[test]
fn a_few_empty_lines_may_come_first() {
    let head = "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(request(head).method, Method::Get);
    assert_eq!(parse_default(""), Ok(Parse::Partial));
    assert_eq!(parse_default("\r"), Ok(Parse::Partial));
    assert_eq!(parse_default("\r\n"), Ok(Parse::Partial));
}

#[test]
fn a_head_over_its_limit_is_refused_whole_or_partial() {
    let limits = RequestLimits { head_bytes_max: 64, ..RequestLimits::default() };
    let fits = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(32));
    assert_eq!(fits.len(), 64);
    assert!(matches!(parse(fits.as_bytes(), &limits), Ok(Parse::Complete { consumed: 64, .. })));
    assert_eq!(parse(&fits.as_bytes()[..63], &limits), Ok(Parse::Partial));
    let over = fits.replace("A: ", "A: x");
    assert_eq!(parse(over.as_bytes(), &limits), Err(Reject::HeadTooLarge));
    assert_eq!(parse(&over.as_bytes()[..64], &limits), Err(Reject::HeadTooLarge));
}

#[test]
fn a_target_over_its_limit_is_refused_before_its_line_ends() {
    let limits = RequestLimits { uri_bytes_max: 10, ..RequestLimits::default() };
    assert_eq!(parse(b"GET /23456789a", &limits), Ok(Parse::Partial));
    assert_eq!(parse(b"GET /23456789ab", &limits), Err(Reject::UriTooLong));
    assert_eq!(
        parse(b"GET /23456789ab HTTP/1.1\r\nHost: h\r\n\r\n", &limits),
        Err(Reject::UriTooLong)
    );
    assert!(matches!(
        parse(b"GET /23456789 HTTP/1.1\r\nHost: h\r\n\r\n", &limits),
        Ok(Parse::Complete { .. })
    ));
}

#[test]
fn too_many_header_lines_are_refused() {
    let lines = |count: usize| get_with(&"A: b\r\n".repeat(count - 1));
    let limits = RequestLimits { headers_max: 5, ..RequestLimits::default() };
    assert!(matches!(parse(lines(5).as_bytes(), &limits), Ok(Parse::Complete { .. })));
    assert_eq!(parse(lines(6).as_bytes(), &limits), Err(Reject::HeadTooLarge));
    let unbounded = RequestLimits { headers_max: usize::MAX, ..RequestLimits::default() };
    let ceiling = RequestLimits::HEADERS_CEILING;
    assert!(matches!(parse(lines(ceiling).as_bytes(), &unbounded), Ok(Parse::Complete { .. })));
    assert_eq!(parse(lines(ceiling + 1).as_bytes(), &unbounded), Err(Reject::HeadTooLarge));
}

#[test]
fn repeated_fields_do_not_grow_a_request_beyond_twice_its_head() {
    let head = get_with(&"If-Match: \"aaaaaaaa\"\r\nRange: bytes=0-1\r\n".repeat(49));
    let request = request(&head);
    assert_eq!(request.field(Field::IfMatch).map(<[u8]>::len), Some(49 * 12 - 2));
    assert!(request.text.len() <= 2 * head.len());
}
