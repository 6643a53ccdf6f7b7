//! The header fields that an answer can depend on, kept as spans of the head.
//!
//! A field on several lines is joined with commas (RFC 9110 section 5.3). For a list, that is the meaning; for a field that may appear only once
//! (Range, dates), the joined value is malformed, and malformed values of these are ignored.

use httparse::Header;

/// A header field for [`crate::Request::field`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `Host`; if the target is in absolute form, its authority instead (RFC 9112 section 3.2.2).
    Host,
    /// `Range` (RFC 9110 section 14.2).
    Range,
    /// `If-Range` (RFC 9110 section 13.1.5).
    IfRange,
    /// `If-Match` (RFC 9110 section 13.1.1).
    IfMatch,
    /// `If-None-Match` (RFC 9110 section 13.1.2).
    IfNoneMatch,
    /// `If-Modified-Since` (RFC 9110 section 13.1.3).
    IfModifiedSince,
    /// `If-Unmodified-Since` (RFC 9110 section 13.1.4).
    IfUnmodifiedSince,
    /// `Origin` (RFC 6454 section 7).
    Origin,
    /// `User-Agent` (RFC 9110 section 10.1.5).
    UserAgent,
    /// `Referer` (RFC 9110 section 10.1.3).
    Referer,
    /// `Accept-Encoding` (RFC 9110 section 12.5.3).
    AcceptEncoding,
    /// `Fullbore-Copy`: a node's proof that it copies a title.
    Copy,
    /// `CMCD-Object`, `CMCD-Request`, `CMCD-Session` and `CMCD-Status` (CTA-5004), which are one list in four parts.
    Cmcd,
}

const FIELD_COUNT: usize = 13;

/// Names in the order of [`Field`]'s variants.
const FIELD_NAMES: [&[&str]; FIELD_COUNT] = [
    &["host"],
    &["range"],
    &["if-range"],
    &["if-match"],
    &["if-none-match"],
    &["if-modified-since"],
    &["if-unmodified-since"],
    &["origin"],
    &["user-agent"],
    &["referer"],
    &["accept-encoding"],
    &["fullbore-copy"],
    &["cmcd-object", "cmcd-request", "cmcd-session", "cmcd-status"],
];

/// A value's place in the head. A head begins with its method, so no value starts at 0: that marks an absent one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The span of `part`, which must be a slice of `head`.
    pub(crate) fn of(part: &[u8], head: &[u8]) -> Self {
        let start = part.as_ptr() as usize - head.as_ptr() as usize;
        assert!(start + part.len() <= head.len(), "a value lies within its head");
        Self::between(start, start + part.len())
    }

    fn between(start: usize, end: usize) -> Self {
        // A head is at most `head_bytes_max` long, and joined values at most as long again: far from 4 GiB.
        Self { start: start as u32, end: end as u32 }
    }

    /// The bytes, or `None` if absent.
    pub(crate) fn slice(self, text: &[u8]) -> Option<&[u8]> {
        if self.start == 0 { None } else { text.get(self.start as usize..self.end as usize) }
    }
}

/// The spans of all [`Field`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields([Span; FIELD_COUNT]);

impl Fields {
    /// Finds the fields of `head`; joined values are appended to `text`, which must begin as a copy of `head`.
    pub(crate) fn collect(headers: &[Header<'_>], head: &[u8], text: &mut Vec<u8>) -> Self {
        let mut spans = [Span::default(); FIELD_COUNT];
        for (span, names) in spans.iter_mut().zip(FIELD_NAMES) {
            let mut lines = values_of_any(headers, names);
            let Some(first) = lines.next() else { continue };
            *span = if lines.next().is_none() {
                Span::of(first, head)
            } else {
                join(values_of_any(headers, names), text)
            };
        }
        Self(spans)
    }

    pub(crate) fn span(&self, field: Field) -> Span {
        self.0[field as usize]
    }

    pub(crate) fn replace(&mut self, field: Field, span: Span) {
        self.0[field as usize] = span;
    }
}

fn values_of_any<'h>(
    headers: &'h [Header<'h>],
    names: &'h [&'h str],
) -> impl Iterator<Item = &'h [u8]> {
    let is_called =
        move |header: &&Header<'_>| names.iter().any(|name| header.name.eq_ignore_ascii_case(name));
    headers.iter().filter(is_called).map(|header| header.value)
}

/// The values of all lines called `name`, in order.
pub(crate) fn values<'h>(
    headers: &'h [Header<'h>],
    name: &'h str,
) -> impl Iterator<Item = &'h [u8]> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

/// The comma-separated elements of all lines called `name`, trimmed, empty ones left out (RFC 9110 section 5.6.1).
pub(crate) fn elements<'h>(
    headers: &'h [Header<'h>],
    name: &'h str,
) -> impl Iterator<Item = &'h [u8]> {
    values(headers, name).flat_map(split_list)
}

/// The elements of one list value, as [`elements`].
pub(crate) fn split_list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

fn join<'h>(lines: impl Iterator<Item = &'h [u8]>, text: &mut Vec<u8>) -> Span {
    let start = text.len();
    for line in lines {
        if text.len() > start {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line);
    }
    Span::between(start, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_its_own_name() {
        assert_eq!(FIELD_NAMES[Field::Host as usize], ["host"]);
        assert_eq!(FIELD_NAMES[Field::IfUnmodifiedSince as usize], ["if-unmodified-since"]);
        assert_eq!(FIELD_NAMES[Field::Referer as usize], ["referer"]);
        assert_eq!(FIELD_NAMES[Field::AcceptEncoding as usize], ["accept-encoding"]);
        assert_eq!(FIELD_NAMES[Field::Copy as usize], ["fullbore-copy"]);
        assert_eq!(Field::Cmcd as usize, FIELD_COUNT - 1);
        assert_eq!(FIELD_NAMES[Field::Cmcd as usize][3], "cmcd-status");
    }

    #[test]
    fn repeated_lines_are_joined_and_a_single_one_is_not_copied() {
        let head = b"XRange: a\r\nif-match: b\r\nIF-MATCH: c\r\n";
        let line = |name, value: std::ops::Range<usize>| Header { name, value: &head[value] };
        let headers = [line("Range", 8..9), line("if-match", 21..22), line("IF-MATCH", 34..35)];
        let mut text = head.to_vec();
        let fields = Fields::collect(&headers, head, &mut text);
        assert_eq!(fields.span(Field::Range).slice(&text), Some(&b"a"[..]));
        assert_eq!(fields.span(Field::IfMatch).slice(&text), Some(&b"b, c"[..]));
        assert_eq!(fields.span(Field::Host).slice(&text), None);
        assert_eq!(text.len(), head.len() + 4);
    }

    #[test]
    fn the_four_parts_of_cmcd_are_one_list() {
        let head = b"XCMCD-Status: bs\r\nCMCD-Object: d=1\r\n";
        let line = |name, value: std::ops::Range<usize>| Header { name, value: &head[value] };
        let headers = [line("CMCD-Status", 14..16), line("cmcd-object", 31..34)];
        let mut text = head.to_vec();
        let fields = Fields::collect(&headers, head, &mut text);
        assert_eq!(fields.span(Field::Cmcd).slice(&text), Some(&b"bs, d=1"[..]));
    }
}
