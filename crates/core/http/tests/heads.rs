//! Properties of parsing: arbitrary bytes, cut and concatenated heads and bodies, and paths that try to escape.

use fullbore_http::{
    BodyDrain, BodyFraming, BodyProgress, Context, Entity, FileForm, HttpDate, Parse, Refusal,
    RefusedRequest, Reject, Request, RequestLimits, Resource, looks_like_http, parse, refuse,
    respond,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Takes whole requests and their bodies from the front of `bytes`, as a session would.
fn parse_all(mut bytes: &[u8], limits: &RequestLimits) -> Result<Vec<Request>, Reject> {
    let mut requests = Vec::new();
    while let Parse::Complete { request, consumed } = parse(bytes, limits)? {
        bytes = &bytes[consumed..];
        let BodyProgress::Complete { consumed } =
            BodyDrain::new(request.body, limits).advance(bytes)?
        else {
            break;
        };
        bytes = &bytes[consumed..];
        requests.push(request);
    }
    Ok(requests)
}

/// Heads of players and browsers, with bodies to read past.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let line = select(vec![
        "Range: bytes=0-99\r\n",
        "Range: bytes=5-,-7\r\n",
        "If-Range: \"x\"\r\n",
        "If-None-Match: \"a\", W/\"b\"\r\n",
        "If-None-Match: \"c\"\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "User-Agent: caf\u{e9} 1.0 \t\r\n",
        "Accept:\r\n",
        "X: a:b  c\r\n",
    ]);
    let body = select(vec![
        ("", ""),
        ("Content-Length: 0\r\n", ""),
        ("Content-Length: 12\r\n", "GET / HTTP/1"),
        ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "a;x=1\r\n0123456789\r\n1\r\n\n\r\n0\r\nT: v\r\n\r\n"),
    ]);
    let blank = select(vec!["", "", "\r\n", "\r\n\r\n"]);
    let method = select(vec!["GET", "HEAD", "OPTIONS", "POST"]);
    let target = select(vec!["/", "/a%20b/c.mp4?q=1", "http://x:1/y", "/-/status.json", "/../x"]);
    (blank, method, target, select(vec!["1.0", "1.1", "1.2"]), vec(line, 0..6), body).prop_map(
        |(blank, method, target, version, lines, (framing, content))| {
            let framing_fits = version != "1.0" || !framing.starts_with("Transfer");
            let (framing, content) = if framing_fits { (framing, content) } else { ("", "") };
            let lines = lines.concat();
            format!("{blank}{method} {target} HTTP/{version}\r\nHost: h\r\n{lines}{framing}\r\n{content}").into_bytes()
        },
    )
}

/// Bytes that get far into the parser: a good beginning, then pieces of HTTP in any order, some of them broken.
fn almost_http() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        select(vec![
            "GET ",
            "/",
            " HTTP/1.1\r\n",
            "Host: h\r\n",
            "\r\n",
            "\n",
            "\r",
            " ",
            ":",
            "%2e",
            "%",
            "..",
            "Range: ",
            "bytes=",
            "0-1",
            ",",
            "-",
            "Content-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\n",
            "\0",
            "If-Match: ",
            "\"",
            "W/",
            "*",
            "http://",
            "Expect: 100-continue\r\n",
            "abcdefgh",
            "HTTP/2.0",
            "HTTP/1.2",
            " HTTP/1.",
            "1",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        vec(any::<u8>(), 1..4),
    ];
    let beginning =
        select(vec!["", "GET ", "GET /", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: h\r\n"]);
    (beginning, vec(piece, 0..24))
        .prop_map(|(beginning, pieces)| [beginning.as_bytes(), &pieces.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn arbitrary_bytes_never_panic_and_are_answered_with_a_framed_response(
        bytes in prop_oneof![vec(any::<u8>(), 0..200), almost_http()],
        size_bytes in any::<u64>(),
    ) {
        let limits = RequestLimits { head_bytes_max: 256, uri_bytes_max: 64, headers_max: 8, ..RequestLimits::default() };
        let date = HttpDate::new(1);
        let context = Context::new(&date, &limits);
        let entity = Entity { size_bytes, modified_unix_seconds: Some(0), date_is_strong: true, etag: "\"e\"", form: FileForm::Only, content_type: "video/mp4", age_seconds: None, fields: &[] };
        looks_like_http(&bytes);
        let response = match parse(&bytes, &limits) {
            Ok(Parse::Partial) => {
                prop_assert!(bytes.len() < limits.head_bytes_max);
                return Ok(());
            }
            Ok(Parse::Complete { request, consumed }) => {
                prop_assert!(consumed <= bytes.len() && consumed <= limits.head_bytes_max);
                respond(&request, &entity, &context)
            }
            Err(reject) => refuse(Refusal::Reject(reject), RefusedRequest::Unparsed(&bytes), &context),
        };
        prop_assert!(response.head.starts_with(b"HTTP/1.1 ") && response.head.ends_with(b"\r\n\r\n"));
        let sum = response.body.iter().fold(0_u64, |sum, part| sum + part.size_bytes());
        prop_assert_eq!(response.body_bytes, sum);
    }

    #[test]
    fn a_cut_head_is_partial_and_then_the_same(message in message()) {
        let limits = RequestLimits::default();
        let whole = parse(&message, &limits);
        let Ok(Parse::Complete { consumed, .. }) = &whole else { return Err(TestCaseError::fail("not whole")) };
        for cut in 0..*consumed {
            prop_assert_eq!(parse(&message[..cut], &limits), Ok(Parse::Partial), "cut at {}", cut);
        }
        prop_assert_eq!(&parse(&message[..*consumed], &limits), &whole);
    }

    #[test]
    fn an_answer_does_not_depend_on_how_the_bytes_were_cut(bytes in almost_http()) {
        let limits = RequestLimits { head_bytes_max: 60, uri_bytes_max: 12, headers_max: 3, ..RequestLimits::default() };
        let whole = parse(&bytes, &limits);
        for cut in 0..bytes.len() {
            let early = parse(&bytes[..cut], &limits);
            prop_assert!(early == Ok(Parse::Partial) || early == whole, "cut at {cut}: {early:?}, then {whole:?}");
        }
    }

    #[test]
    fn pipelined_messages_are_the_same_as_single_ones(messages in vec(message(), 1..6)) {
        let limits = RequestLimits::default();
        let mut single = Vec::new();
        for message in &messages {
            single.extend(parse_all(message, &limits));
        }
        prop_assert_eq!(single.iter().map(Vec::len).collect::<Vec<_>>(), vec![1; messages.len()]);
        prop_assert_eq!(parse_all(&messages.concat(), &limits), Ok(single.concat()));
    }

    #[test]
    fn a_body_ends_at_the_same_byte_however_it_is_cut(
        chunks in vec(vec(any::<u8>(), 1..40), 0..5),
        read_bytes in 1_usize..9,
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend_from_slice(format!("{:x};n\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\nT: v\r\n\r\n");
        let body_bytes = body.len();
        body.extend_from_slice(b"GET / HTTP/1.1\r\n");

        let mut drain = BodyDrain::new(BodyFraming::Chunked, &RequestLimits::default());
        let mut read = 0;
        for bytes in body.chunks(read_bytes) {
            match drain.advance(bytes) {
                Ok(BodyProgress::Partial) => read += bytes.len(),
                Ok(BodyProgress::Complete { consumed }) => {
                    read += consumed;
                    break;
                }
                Err(reject) => return Err(TestCaseError::fail(reject.as_str())),
            }
        }
        prop_assert_eq!(read, body_bytes);
    }

    #[test]
    fn arbitrary_chunks_never_panic_nor_exceed_the_limit(
        bytes in prop_oneof![vec(any::<u8>(), 0..100), vec(select(b"01fF;\r\n x".to_vec()), 0..100)],
    ) {
        let limits = RequestLimits { body_drain_bytes_max: 32, ..RequestLimits::default() };
        let mut drain = BodyDrain::new(BodyFraming::Chunked, &limits);
        let outcome = drain.advance(&bytes);
        let read = match outcome {
            Ok(BodyProgress::Partial) => bytes.len(),
            Ok(BodyProgress::Complete { consumed }) => consumed,
            Err(_) => 0,
        };
        prop_assert!(read <= 32, "{:?} read {}", outcome, read);
    }

    #[test]
    fn no_target_leads_out_of_the_library(
        pieces in vec(
            prop_oneof![
                select(vec![
                    "/", ".", "..", "%2e", "%2E", "%2f", "%5c", "\\", "%00", "%0a", "%25", "-", "a", "?", "%c0%ae",
                    "http://h", "%252e",
                ])
                .prop_map(str::to_owned),
                "[!-~]{1,3}",
            ],
            0..12,
        ),
        absolute in any::<bool>(),
    ) {
        let prefix = if absolute { "" } else { "/" };
        let head = format!("GET {prefix}{} HTTP/1.1\r\nHost: h\r\n\r\n", pieces.concat());
        if let Ok(Parse::Complete { request, .. }) = parse(head.as_bytes(), &RequestLimits::default()) {
            let (Resource::File(path) | Resource::Directory(path) | Resource::Reserved(path)) = request.resource else {
                return Ok(());
            };
            let bytes = path.as_bytes();
            prop_assert!(!bytes.iter().any(u8::is_ascii_control));
            prop_assert!(bytes.is_empty() || bytes.split(|&byte| byte == b'/').all(|segment| !segment.is_empty()));
            let plain = |part| matches!(part, std::path::Component::Normal(_));
            prop_assert!(path.as_path().components().all(plain), "{path:?}");
            prop_assert!(!bytes.split(|&byte| byte == b'/').any(|segment| segment == b"." || segment == b".."));
        }
    }
}
