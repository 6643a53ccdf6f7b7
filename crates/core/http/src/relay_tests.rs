//! Stored responses against requests.

use super::*;
use crate::{Parse, RequestLimits, parse};

fn request(method: &str, lines: &str) -> Request {
    let text = format!("{method} /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    match parse(text.as_bytes(), &RequestLimits::default()) {
        Ok(Parse::Complete { request, .. }) => request,
        other => panic!("{other:?}"),
    }
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn answer(status: u16, fields: &[(&str, &str)], method: &str, lines: &str) -> (String, Response) {
    let (limits, date, fields) = (RequestLimits::default(), HttpDate::new(9), owned(fields));
    let relayed = Relayed {
        status,
        fields: &fields,
        size_bytes: Some(100),
        is_growing: false,
        age_seconds: Some(7),
    };
    let response = relay(&request(method, lines), &relayed, &Context::new(&date, &limits));
    (String::from_utf8(response.head.clone()).unwrap(), response)
}

const DATED: &[(&str, &str)] = &[
    ("Date", "Sun, 06 Nov 1994 08:49:40 GMT"),
    ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("ETag", "W/\"a\""),
    ("Content-Type", "text/plain"),
    ("Content-Length", "100"),
    ("Age", "3"),
    ("X-Own", "1"),
];

#[test]
fn a_response_keeps_its_status_its_date_and_its_fields() {
    let (head, response) = answer(299, DATED, "GET", "");
    assert!(head.starts_with("HTTP/1.1 299 \r\n"), "{head}");
    for line in ["Date: Sun, 06 Nov 1994 08:49:40 GMT\r\n", "Age: 7\r\n", "X-Own: 1\r\n"] {
        assert_eq!(head.matches(line).count(), 1, "{head}");
    }
    assert_eq!((head.matches("Age:").count(), head.matches("Content-Length").count()), (1, 1));
    assert_eq!(response.body, [Part::Range(0..100)]);
    let (head, response) = answer(204, DATED, "GET", "");
    assert!(!head.contains("Content-Length") && response.body.is_empty(), "{head}");
}

#[test]
fn a_body_of_unknown_length_is_in_chunks_or_ends_with_the_connection() {
    let (limits, date, fields) = (RequestLimits::default(), HttpDate::new(9), owned(DATED));
    let growing = Relayed {
        status: 200,
        fields: &fields,
        size_bytes: None,
        is_growing: true,
        age_seconds: None,
    };
    let planned = |request: &Request| {
        let response = relay(request, &growing, &Context::new(&date, &limits));
        assert!(response.body.is_empty());
        (String::from_utf8(response.head).unwrap(), response.keep_alive)
    };
    let new = request("GET", "Range: bytes=0-9\r\n");
    let (head, stays) = planned(&new);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && stays && is_chunked(&new), "{head}");
    assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
    assert!(!head.contains("Content-Length"), "{head}");
    let text = b"GET /a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    let Ok(Parse::Complete { request: old, .. }) = parse(text, &limits) else { panic!() };
    let (head, stays) = planned(&old);
    assert!(head.contains("Connection: close\r\n") && !stays && !is_chunked(&old), "{head}");
    assert!(!head.contains("Transfer-Encoding") && !head.contains("Content-Length"), "{head}");
    let (head, _) = planned(&request("GET", "If-None-Match: \"a\"\r\n"));
    assert!(head.starts_with("HTTP/1.1 304 ") && !head.contains("Transfer-Encoding"), "{head}");
}

#[test]
fn a_media_type_of_the_operator_takes_the_place_of_a_files_own() {
    let (limits, date, fields) = (RequestLimits::default(), HttpDate::new(9), owned(DATED));
    let context = Context { content_type: Some("video/x-own"), ..Context::new(&date, &limits) };
    for (status, lines, expected) in [
        (200, "", "video/x-own"),
        (200, "Range: bytes=0-9\r\n", "video/x-own"),
        (404, "", "text/plain"),
    ] {
        let relayed = Relayed {
            status,
            fields: &fields,
            size_bytes: Some(100),
            is_growing: false,
            age_seconds: None,
        };
        let head = relay(&request("GET", lines), &relayed, &context).head;
        let head = String::from_utf8(head).unwrap();
        assert_eq!(head.matches("Content-Type").count(), 1, "{head}");
        assert!(head.contains(&format!("Content-Type: {expected}\r\n")), "{head}");
    }
}

#[test]
fn conditions_are_weak_comparisons_and_a_304_keeps_the_validator() {
    for lines in [
        "If-None-Match: \"a\"\r\n",
        "If-None-Match: \"x\", W/\"a\"\r\n",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
    ] {
        let (head, response) = answer(200, DATED, "GET", lines);
        assert_eq!(response.status, 304, "{lines}");
        assert!(head.contains("ETag: W/\"a\"\r\n") && !head.contains("Content-"), "{head}");
    }
    assert_eq!(answer(200, DATED, "GET", "If-None-Match: \"b\"\r\n").1.status, 200);
    assert_eq!(answer(404, DATED, "GET", "If-None-Match: \"a\"\r\n").1.status, 404);
    let undated = &DATED[..1];
    let since = "If-Modified-Since: Sun, 06 Nov 1994 08:49:40 GMT\r\n";
    assert_eq!(answer(200, undated, "GET", since).1.status, 304, "RFC 9111 section 4.3.2");
}

#[test]
fn ranges_come_from_a_whole_200_and_if_range_needs_a_strong_validator() {
    let part = |lines: &str| {
        let (head, response) = answer(200, DATED, "GET", lines);
        (response.status, response.body.first().cloned(), head)
    };
    let (status, body, head) = part("Range: bytes=1-\r\n");
    assert_eq!((status, body), (206, Some(Part::Range(1..100))));
    assert!(head.contains("Content-Range: bytes 1-99/100\r\n"), "{head}");
    assert_eq!(part("Range: bytes=-1\r\n").1, Some(Part::Range(99..100)));
    assert_eq!(part("Range: bytes=100-\r\n").0, 416);
    let weak = "Range: bytes=0-1\r\nIf-Range: W/\"a\"\r\n";
    assert_eq!(part(weak).0, 200, "a weak tag does not combine ranges");
    let dated = "Range: bytes=0-1\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert_eq!(part(dated).0, 206, "the date is older than the response by a second and more");
    let (_, response) = answer(200, DATED, "GET", "Range: bytes=0-0,90-91\r\n");
    assert_eq!((response.status, response.body.len()), (206, 5));
    let coded = [DATED, &[("Content-Encoding", "gzip")]].concat();
    assert_eq!(answer(200, &coded, "GET", "Range: bytes=0-0,90-91\r\n").1.status, 200);
    assert_eq!(answer(200, &coded, "GET", "Range: bytes=0-0\r\n").1.status, 206);
    assert_eq!(answer(200, DATED, "HEAD", "Range: bytes=0-1\r\n").1.status, 200);
    assert_eq!(answer(404, DATED, "GET", "Range: bytes=0-1\r\n").1.status, 404);
}
