//! The Range header: selects the requested bytes of a file (RFC 9110 sections 14.1 and 14.2).
//!
//! Ranges that overlap, touch or are less than [`GAP_BYTES`] apart are merged (RFC 9110 section 15.3.7.2) into the
//! place of the first of them; otherwise the requested order is kept. So no byte is sent twice, a flood of overlapping
//! ranges gets at most the file once, and the body cannot exceed the file by more than `ranges_max` part heads.
//!
//! A header is ignored if it is malformed, uses another unit, names more than `ranges_max` ranges, or leaves more than
//! `small_ranges_max` small ones after merging. RFC 9110 section 14.2 allows that: the answer is the whole file, which
//! costs no more than the plain GET that the client could have sent. Apache httpd (`MaxRanges`), nginx (`max_ranges`)
//! and Go's net/http do the same, and clients must expect it, because no server has to support ranges. A 416 would say
//! that the file is shorter than it is.

use std::ops::Range;

use crate::RequestLimits;
use crate::fields::split_list;

/// A gap of up to this many bytes between two ranges is cheaper to send than to leave out. A part of a multipart answer
/// costs "around 80 bytes" in addition to its content (RFC 9110 section 15.3.7.2), and always more here.
const GAP_BYTES: u64 = 80;

/// A range below this size is small: it costs a read and a send of its own for less than one TLS record.
const SMALL_BYTES: u64 = 16 << 10;

/// The selection of a Range header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Send everything: the header does not apply.
    Whole,
    /// No range is within the file: 416.
    Unsatisfiable,
    /// At least one range; each is non-empty and within the file, and none is nearer than [`GAP_BYTES`] to another.
    Ranges(Vec<Range<u64>>),
}

/// One range-spec as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    /// `first-` or `first-last`, both inclusive.
    From { first: u64, last: u64 },
    /// `-length`: the end of the file.
    Suffix { length: u64 },
}

/// Applies a Range header's value to a file of `size_bytes`.
pub(crate) fn select(value: &[u8], size_bytes: u64, limits: &RequestLimits) -> Selection {
    let Some(list) = byte_ranges(value) else { return Selection::Whole };
    let mut ranges = Vec::new();
    let mut spec_count = 0;
    let mut empty_file_suffix = false;
    for element in split_list(list) {
        let Some(spec) = Spec::parse(element) else { return Selection::Whole };
        spec_count += 1;
        if spec_count > limits.ranges_max {
            return Selection::Whole;
        }
        empty_file_suffix |= size_bytes == 0 && matches!(spec, Spec::Suffix { length: 1.. });
        if let Some(range) = spec.within(size_bytes) {
            merge(&mut ranges, range);
        }
    }
    match (spec_count, ranges.is_empty()) {
        (0, _) => Selection::Whole,
        // The last bytes of an empty file are satisfiable, but Content-Range cannot express "no bytes": send it whole.
        (_, true) if empty_file_suffix => Selection::Whole,
        (_, true) => Selection::Unsatisfiable,
        _ if ranges.iter().filter(|range| is_small(range)).count() > limits.small_ranges_max => {
            Selection::Whole
        }
        _ => Selection::Ranges(ranges),
    }
}

/// The range-set if the unit is bytes; units are case-insensitive (RFC 9110 section 14.1).
fn byte_ranges(value: &[u8]) -> Option<&[u8]> {
    let equals = value.iter().position(|&byte| byte == b'=')?;
    value[..equals].eq_ignore_ascii_case(b"bytes").then_some(&value[equals + 1..])
}

impl Spec {
    fn parse(element: &[u8]) -> Option<Self> {
        let dash = element.iter().position(|&byte| byte == b'-')?;
        match (&element[..dash], &element[dash + 1..]) {
            (b"", length) => Some(Self::Suffix { length: number(length)? }),
            (first, b"") => Some(Self::From { first: number(first)?, last: u64::MAX }),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                // RFC 9110 section 14.1.1: a range that ends before it starts is invalid.
                (first <= last).then_some(Self::From { first, last })
            }
        }
    }

    /// The part of it within the file, if any (RFC 9110 section 14.1.2).
    fn within(self, size_bytes: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From { first, last } => first..last.saturating_add(1).min(size_bytes),
            Self::Suffix { length } => size_bytes.saturating_sub(length)..size_bytes,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Digits only; a number above any file's size becomes the largest number.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |value, digit| {
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    }))
}

fn is_small(range: &Range<u64>) -> bool {
    range.end - range.start < SMALL_BYTES
}

/// Returns true if two ranges overlap, touch, or are too close to be worth two parts.
fn are_near(one: &Range<u64>, other: &Range<u64>) -> bool {
    let reaches =
        |from: &Range<u64>, to: &Range<u64>| to.start < from.end.saturating_add(GAP_BYTES);
    reaches(one, other) && reaches(other, one)
}

/// Adds `range`, merged with all ranges near it. At most `ranges_max` squared steps per header.
fn merge(ranges: &mut Vec<Range<u64>>, mut range: Range<u64>) {
    let mut place = ranges.len();
    // The present ranges are pairwise apart, but a merged one may reach another, on either side: check again.
    while let Some(index) = ranges.iter().position(|other| are_near(other, &range)) {
        let other = ranges.remove(index);
        range = other.start.min(range.start)..other.end.max(range.end);
        place = place.min(index);
    }
    ranges.insert(place, range);
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;

    fn selected(value: &str, size_bytes: u64) -> Selection {
        select(value.as_bytes(), size_bytes, &RequestLimits::default())
    }

    #[track_caller]
    fn assert_ranges(value: &str, size_bytes: u64, ranges: &[Range<u64>]) {
        assert_eq!(
            selected(value, size_bytes),
            Selection::Ranges(ranges.to_vec()),
            "{value} of {size_bytes}"
        );
    }

    #[test]
    fn single_ranges_are_clipped_to_the_file() {
        assert_ranges("bytes=0-0", 10, &[0..1]);
        assert_ranges("bytes=2-5", 10, &[2..6]);
        assert_ranges("bytes=9-", 10, &[9..10]);
        assert_ranges("bytes=0-99", 10, &[0..10]);
        assert_ranges("bytes=-3", 10, &[7..10]);
        assert_ranges("bytes=-99", 10, &[0..10]);
        assert_ranges("Bytes= 1-2 ", 10, &[1..3]);
    }

    #[test]
    fn huge_numbers_neither_overflow_nor_wrap() {
        assert_ranges("bytes=0-18446744073709551615", 10, &[0..10]);
        assert_ranges("bytes=1-99999999999999999999999999", 10, &[1..10]);
        assert_ranges("bytes=-99999999999999999999999999", 10, &[0..10]);
        assert_ranges("bytes=18446744073709551614-", u64::MAX, &[u64::MAX - 1..u64::MAX]);
        assert_eq!(
            selected("bytes=99999999999999999999999999-", u64::MAX),
            Selection::Unsatisfiable
        );
    }

    #[test]
    fn ranges_outside_the_file_are_unsatisfiable_and_left_out_beside_others() {
        assert_eq!(selected("bytes=10-", 10), Selection::Unsatisfiable);
        assert_eq!(selected("bytes=10-20,30-40", 10), Selection::Unsatisfiable);
        assert_eq!(selected("bytes=-0", 10), Selection::Unsatisfiable);
        assert_ranges("bytes=10-,1-1,-0", 10, &[1..2]);
    }

    #[test]
    fn an_empty_file_has_no_first_byte_but_an_empty_end() {
        assert_eq!(selected("bytes=0-", 0), Selection::Unsatisfiable);
        assert_eq!(selected("bytes=0-0", 0), Selection::Unsatisfiable);
        assert_eq!(selected("bytes=-0", 0), Selection::Unsatisfiable);
        assert_eq!(selected("bytes=-1", 0), Selection::Whole);
    }

    #[test]
    fn malformed_headers_and_other_units_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=5",
            "bytes=5-4",
            "bytes=0-1,5-4",
            "bytes=a-b",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=1 - 2",
            "bytes =1-2",
            "seconds=1-2",
            "bytes=0-1, bytes=2-3",
        ] {
            assert_eq!(selected(value, 10), Selection::Whole, "{value}");
        }
    }

    #[test]
    fn several_ranges_keep_their_order() {
        assert_ranges(
            "bytes=700-801, 0-1 ,,-1\t,300-400",
            1000,
            &[700..802, 0..2, 999..1000, 300..401],
        );
    }

    #[test]
    fn overlapping_and_touching_ranges_are_merged_in_the_first_ones_place() {
        assert_ranges("bytes=0-4,5-9", 100, &[0..10]);
        assert_ranges("bytes=2000-2900,0-4,2500-4000", 10_000, &[2000..4001, 0..5]);
        assert_ranges("bytes=5000-5900,0-900,2000-2900,500-2500", 10_000, &[5000..5901, 0..2901]);
        assert_ranges("bytes=0-,0-,0-,-100", 100, &[0..100]);
    }

    #[test]
    fn ranges_with_less_between_them_than_a_part_costs_are_merged() {
        assert_ranges("bytes=0-9,89-99", 1000, &[0..100]);
        assert_ranges("bytes=0-9,90-99", 1000, &[0..10, 90..100]);
        assert_ranges("bytes=90-99,0-9,50-50", 1000, &[0..100]);
        let end = u64::MAX - 1;
        assert_ranges(&format!("bytes={end}-,0-0"), u64::MAX, &[end..u64::MAX, 0..1]);
    }

    #[test]
    fn more_ranges_than_allowed_are_ignored() {
        let value = |count: u64| {
            let specs: Vec<_> = (0..count).map(|index| format!("{0}-{0}", index * 2)).collect();
            format!("bytes={}", specs.join(","))
        };
        assert_ranges(&value(64), 1000, &[0..127]);
        assert_eq!(selected(&value(65), 1000), Selection::Whole);
        let none = RequestLimits { ranges_max: 0, ..RequestLimits::default() };
        assert_eq!(select(b"bytes=0-0", 10, &none), Selection::Whole);
    }

    #[test]
    fn many_small_ranges_are_ignored_and_many_large_ones_are_not() {
        let value = |count: u64, bytes: u64| {
            let spec = |index: u64| format!("{}-{}", index * 100_000, index * 100_000 + bytes - 1);
            format!("bytes={}", (0..count).map(spec).collect::<Vec<_>>().join(","))
        };
        let count_of = |value: &str| match selected(value, 1 << 30) {
            Selection::Ranges(ranges) => ranges.len(),
            other => panic!("{value}: {other:?}"),
        };
        assert_eq!(count_of(&value(8, 1)), 8);
        assert_eq!(selected(&value(9, 1), 1 << 30), Selection::Whole);
        assert_eq!(selected(&value(9, SMALL_BYTES - 1), 1 << 30), Selection::Whole);
        assert_eq!(count_of(&value(64, SMALL_BYTES)), 64);
        assert_eq!(count_of(&(value(8, 1) + ",50000000-60000000")), 9);
    }
}
