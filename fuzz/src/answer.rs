//! Checks that hold for every answer of `http`, for any request: no client can misread the head, the length is right, and ranges are inside
//! the file and do not overlap.

use std::ops::Range;

use fullbore_http::{Method, Part, Response};

/// The parts of a response head.
struct Head<'a> {
    status_line: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Head<'a> {
    /// Parses a head. Fails on anything that another program could read differently: heads have visible ASCII and spaces only.
    fn read(bytes: &'a [u8]) -> Self {
        let text = std::str::from_utf8(bytes).expect("a head is ASCII");
        let lines = text.strip_suffix("\r\n\r\n").expect("an empty line ends the head");
        let visible = |line: &str| line.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        let mut lines = lines
            .split("\r\n")
            .inspect(|line| assert!(visible(line) && !line.is_empty(), "{line:?}"));
        let status_line = lines.next().expect("split gives at least one line");
        let fields = lines.map(|line| line.split_once(": ").expect("a name and a value")).collect();
        Self { status_line, fields }
    }

    /// The value of a field that may occur at most once.
    fn field(&self, name: &str) -> Option<&'a str> {
        let mut values = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| *value);
        assert!(values.next().is_none(), "{name} occurs twice");
        value
    }
}

/// Checks the answer to a request with `method` for a file of `size_bytes`. The method is none if the request could not be read.
pub fn check(response: &Response, method: Option<Method>, size_bytes: u64) {
    let head = Head::read(&response.head);
    let prefix = format!("HTTP/1.1 {} ", response.status);
    assert!(head.status_line.starts_with(&prefix), "{}", head.status_line);
    assert!(head.field("Date").is_some() && head.field("Server").is_some());
    let says_close = head.field("Connection") == Some("close");
    assert_eq!(
        response.keep_alive, !says_close,
        "the head and the session agree on what comes next"
    );
    check_length(response, &head, method);
    check_ranges(response, &head, size_bytes);
}

/// Content-Length is the sum of the parts, and is present where RFC 9110 section 8.6 wants it.
fn check_length(response: &Response, head: &Head<'_>, method: Option<Method>) {
    let sum = response.body.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.size_bytes()));
    assert_eq!(Some(response.body_bytes), sum);
    let length = head.field("Content-Length").map(|value| value.parse::<u64>().expect("a number"));
    if matches!(response.status, 204 | 304) {
        assert_eq!((length, response.body_bytes), (None, 0));
    } else if method == Some(Method::Head) {
        assert!(length.is_some() && response.body.is_empty());
    } else {
        assert_eq!(length, Some(response.body_bytes));
    }
}

fn check_ranges(response: &Response, head: &Head<'_>, size_bytes: u64) {
    let ranges: Vec<_> = response.body.iter().filter_map(range_of).collect();
    for (index, range) in ranges.iter().enumerate() {
        assert!(range.start < range.end && range.end <= size_bytes, "{range:?} of {size_bytes}");
        let apart = |other: &&Range<u64>| other.end <= range.start || range.end <= other.start;
        assert!(ranges[..index].iter().all(apart), "a byte is sent twice: {ranges:?}");
    }
    match (response.status, &ranges[..]) {
        (200, []) => {}
        (200, [range]) => assert_eq!(**range, 0..size_bytes),
        (206, [range]) if response.body.len() == 1 => {
            assert_eq!(
                head.field("Content-Range"),
                Some(content_range(range, size_bytes).as_str())
            );
        }
        (206, _) => check_multipart(&response.body, head, size_bytes),
        (416, []) => {
            assert_eq!(head.field("Content-Range"), Some(format!("bytes */{size_bytes}").as_str()));
        }
        (status, ranges) => assert!(ranges.is_empty(), "{status} sends bytes of the file"),
    }
}

/// Delimiter, range, delimiter, range, ..., closing delimiter (RFC 9110 section 14.6).
fn check_multipart(body: &[Part], head: &Head<'_>, size_bytes: u64) {
    let content_type = head.field("Content-Type").expect("multipart says so");
    let boundary =
        content_type.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
    assert!(head.field("Content-Range").is_none(), "RFC 9110 section 15.3.7.2");
    let (last, pairs) = body.split_last().expect("a body");
    assert_eq!(*last, Part::Bytes(format!("\r\n--{boundary}--\r\n").into_bytes()));
    assert!(pairs.len() >= 4 && pairs.len() % 2 == 0, "several parts");
    for (index, pair) in pairs.chunks(2).enumerate() {
        let [Part::Bytes(bytes), Part::Range(range)] = pair else {
            panic!("out of order: {pair:?}")
        };
        let delimiter = format!("{}--{boundary}\r\n", if index == 0 { "" } else { "\r\n" });
        let part_head = bytes.strip_prefix(delimiter.as_bytes()).expect("a delimiter");
        let fields = [b"HTTP/1.1 206 \r\n", part_head].concat();
        let wanted = content_range(range, size_bytes);
        assert_eq!(Head::read(&fields).field("Content-Range"), Some(wanted.as_str()));
    }
}

fn content_range(range: &Range<u64>, size_bytes: u64) -> String {
    format!("bytes {}-{}/{size_bytes}", range.start, range.end - 1)
}

fn range_of(part: &Part) -> Option<&Range<u64>> {
    match part {
        Part::Range(range) => Some(range),
        Part::Bytes(_) | Part::Static(_) | Part::Shared(_) => None,
    }
}
