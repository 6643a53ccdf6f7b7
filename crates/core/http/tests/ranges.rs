//! Compares bodies of range answers with a reference that knows only bytes: a set of positions, and a naive reader of
//! multipart/byteranges.

use std::ops::Range;

use fullbore_http::{
    Context, Entity, FileForm, HttpDate, Parse, Part, RequestLimits, Response, parse, respond,
};
use proptest::collection::vec;
use proptest::prelude::*;

const RANGES_MAX: usize = 6;

/// Few enough that cases exceed it.
const SMALL_RANGES_MAX: usize = 3;

/// Gaps of up to this many bytes between two ranges are sent too.
const GAP_BYTES_MAX: u64 = 79;

/// Size of files: every range of one is small, and some have room for several ranges that are apart.
const SIZE_MAX: u64 = 1200;

/// A range-spec as a client writes it.
#[derive(Clone, Debug)]
enum Spec {
    Closed(u64, u64),
    Open(u64),
    Suffix(u64),
}

impl Spec {
    fn text(&self) -> String {
        match self {
            Self::Closed(first, last) => format!("{first}-{last}"),
            Self::Open(first) => format!("{first}-"),
            Self::Suffix(length) => format!("-{length}"),
        }
    }

    fn is_invalid(&self) -> bool {
        matches!(self, Self::Closed(first, last) if first > last)
    }

    /// Returns true if it covers the position below `size`.
    fn covers(&self, position: u64, size: u64) -> bool {
        match self {
            Self::Closed(first, last) => (first..=last).contains(&&position),
            Self::Open(first) => position >= *first,
            Self::Suffix(length) => size - position <= *length,
        }
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        12 => (0..SIZE_MAX, 0_u64..40).prop_map(|(first, more)| Spec::Closed(first, first + more)),
        1 => (0..SIZE_MAX, 0..SIZE_MAX).prop_map(|(first, last)| Spec::Closed(first, last)),
        1 => (0..SIZE_MAX).prop_map(Spec::Open),
        2 => (0..SIZE_MAX / 10).prop_map(Spec::Suffix),
        1 => Just(Spec::Closed(0, u64::MAX)),
    ]
}

fn answer(specs: &[Spec], size: u64) -> Response {
    let list: Vec<_> = specs.iter().map(Spec::text).collect();
    let head = format!("GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes={}\r\n\r\n", list.join(","));
    let limits = RequestLimits {
        ranges_max: RANGES_MAX,
        small_ranges_max: SMALL_RANGES_MAX,
        ..RequestLimits::default()
    };
    let date = HttpDate::new(1_000);
    let Ok(Parse::Complete { request, .. }) = parse(head.as_bytes(), &limits) else {
        panic!("{head:?}")
    };
    let entity = Entity {
        size_bytes: size,
        modified_unix_seconds: Some(5),
        age_seconds: None,
        fields: &[],
        date_is_strong: true,
        etag: "\"e\"",
        form: FileForm::Only,
        content_type: "video/mp4",
    };
    respond(&request, &entity, &Context { boundary: 77, ..Context::new(&date, &limits) })
}

/// The body that a client would receive.
fn body_of(response: &Response, file: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in &response.body {
        match part {
            Part::Bytes(bytes) => body.extend_from_slice(bytes),
            Part::Static(bytes) => body.extend_from_slice(bytes),
            Part::Shared(bytes) => body.extend_from_slice(bytes),
            Part::Range(range) => {
                body.extend_from_slice(&file[range.start as usize..range.end as usize])
            }
        }
    }
    body
}

/// The positions sent for the wanted ones, in ascending order: these and the small gaps between them.
fn with_gaps_filled(wanted: &[u64]) -> Vec<u64> {
    let mut filled: Vec<u64> = Vec::new();
    for &position in wanted {
        let next = filled.last().map_or(position, |last| last + 1);
        let start = if position - next <= GAP_BYTES_MAX { next } else { position };
        filled.extend(start..=position);
    }
    filled
}

/// How many runs without a gap `positions` form.
fn stretches(positions: &[u64]) -> usize {
    let breaks = positions.windows(2).filter(|pair| pair[0] + 1 < pair[1]).count();
    breaks + usize::from(!positions.is_empty())
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// `bytes 2-5/10` as (2..6, 10).
fn content_range(value: &str) -> (Range<u64>, u64) {
    let (range, size) = value.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
    let (first, last) = range.split_once('-').unwrap();
    (first.parse().unwrap()..last.parse::<u64>().unwrap() + 1, size.parse().unwrap())
}

/// Reads a multipart body by its delimiters alone.
fn read_multipart(body: &[u8], boundary: &str) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let inner = text.strip_prefix(&format!("--{boundary}\r\n")).unwrap();
    let inner = inner.strip_suffix(&format!("\r\n--{boundary}--\r\n")).unwrap();
    let part = |part: &str| {
        let (head, content) = part.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), content.as_bytes().to_vec())
    };
    inner.split(&format!("\r\n--{boundary}\r\n")).map(part).collect()
}

/// The (range, bytes) pairs of a 206, whichever form it has.
fn received(response: &Response, file: &[u8]) -> Vec<(Range<u64>, Vec<u8>)> {
    let head = String::from_utf8(response.head.clone()).unwrap();
    let body = body_of(response, file);
    let content_type = field(&head, "Content-Type").unwrap();
    let parts = match content_type.strip_prefix("multipart/byteranges; boundary=") {
        None => return vec![(content_range(field(&head, "Content-Range").unwrap()).0, body)],
        Some(boundary) => read_multipart(&body, boundary),
    };
    assert!(parts.len() > 1, "one range must not be multipart");
    let part = |(head, content): (String, Vec<u8>)| {
        assert_eq!(field(&head, "Content-Type"), Some("video/mp4"));
        let (range, size) = content_range(field(&head, "Content-Range").unwrap());
        assert_eq!(size, file.len() as u64);
        (range, content)
    };
    parts.into_iter().map(part).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

    #[test]
    fn range_answers_equal_the_reference(specs in vec(spec(), 1..RANGES_MAX + 2), size in 0..SIZE_MAX) {
        // Letters only, so that no file holds a delimiter.
        let file: Vec<u8> = (0..size).map(|position| b'a' + (position % 26) as u8).collect();
        let response = answer(&specs, size);
        let head = String::from_utf8(response.head.clone()).unwrap();
        let body = body_of(&response, &file);
        prop_assert_eq!(field(&head, "Content-Length").map(str::to_owned), Some(body.len().to_string()));
        prop_assert_eq!(response.body_bytes, body.len() as u64);

        let wanted: Vec<u64> =
            (0..size).filter(|&position| specs.iter().any(|spec| spec.covers(position, size))).collect();
        let due = with_gaps_filled(&wanted);
        let end_of_empty = size == 0 && specs.iter().any(|spec| matches!(spec, Spec::Suffix(1..)));
        if specs.len() > RANGES_MAX || specs.iter().any(Spec::is_invalid) || end_of_empty {
            prop_assert_eq!(response.status, 200);
            prop_assert_eq!(body, file);
        } else if wanted.is_empty() {
            prop_assert_eq!(response.status, 416);
            prop_assert_eq!(field(&head, "Content-Range").map(str::to_owned), Some(format!("bytes */{size}")));
        } else if stretches(&due) > SMALL_RANGES_MAX {
            prop_assert_eq!(response.status, 200, "many small ranges");
            prop_assert_eq!(body, file);
        } else {
            prop_assert_eq!(response.status, 206);
            let mut sent = Vec::new();
            for (range, bytes) in received(&response, &file) {
                prop_assert_eq!(&bytes[..], &file[range.start as usize..range.end as usize]);
                sent.extend(range);
            }
            sent.sort_unstable();
            prop_assert_eq!(sent, due, "each requested byte, once");
        }
    }

    #[test]
    fn ranges_apart_come_in_the_order_asked(picks in vec(0_u64..20, 2..SMALL_RANGES_MAX + 1)) {
        let mut distinct: Vec<u64> = Vec::new();
        for pick in picks {
            if !distinct.contains(&pick) {
                distinct.push(pick);
            }
        }
        // Never near each other.
        let specs: Vec<Spec> = distinct.iter().map(|pick| Spec::Closed(pick * 90, pick * 90 + 1)).collect();
        let file = vec![b'x'; 1800];
        let ranges: Vec<Range<u64>> =
            received(&answer(&specs, 1800), &file).into_iter().map(|(range, _)| range).collect();
        let expected: Vec<Range<u64>> = distinct.iter().map(|pick| pick * 90..pick * 90 + 2).collect();
        prop_assert_eq!(ranges, expected);
    }
}
