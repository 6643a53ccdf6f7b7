//! The Range header: which bytes of a file are asked for (RFC 9110 sections 14.1 and 14.2).
//!
//! A header that is malformed, in another unit or names more than `ranges_max` ranges is ignored, as RFC 9110 section 14.2
//! allows: the answer is the whole file, which costs no more than the plain GET that the client could have sent.
//!
//! Ranges that overlap or touch are merged (RFC 9110 section 15.3.7.2) and take the place of the first of them; otherwise
//! the order asked for is kept. So no byte is sent twice, a flood of overlapping ranges gets at most the file once, and
//! the body cannot exceed the file by more than `ranges_max` part heads.

use std::ops::Range;

use crate::fields::split_list;

/// What a Range header selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Send everything: the header does not apply.
    Whole,
    /// No range lies within the file: 416.
    Unsatisfiable,
    /// At least one range; each non-empty and within the file, none overlapping or touching another.
    Ranges(Vec<Range<u64>>),
}

/// One range-spec as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    /// `first-` or `first-last`, both inclusive.
    From { first: u64, last: u64 },
    /// `-length`: the end of the file.
    Suffix { length: u64 },
}

/// Applies a Range header's value to a file of `size_bytes`.
pub(crate) fn select(value: &[u8], size_bytes: u64, ranges_max: usize) -> Selection {
    let Some(list) = byte_ranges(value) else { return Selection::Whole };
    let mut ranges = Vec::new();
    let mut spec_count = 0;
    let mut empty_file_suffix = false;
    for element in split_list(list) {
        let Some(spec) = Spec::parse(element) else { return Selection::Whole };
        spec_count += 1;
        if spec_count > ranges_max {
            return Selection::Whole;
        }
        empty_file_suffix |= size_bytes == 0 && matches!(spec, Spec::Suffix { length: 1.. });
        if let Some(range) = spec.within(size_bytes) {
            merge(&mut ranges, range);
        }
    }
    match (spec_count, ranges.is_empty()) {
        (0, _) => Selection::Whole,
        // The last bytes of an empty file are satisfiable, yet Content-Range cannot say "no bytes": send it whole.
        (_, true) if empty_file_suffix => Selection::Whole,
        (_, true) => Selection::Unsatisfiable,
        (_, false) => Selection::Ranges(ranges),
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

    /// The part that lies within the file, if any (RFC 9110 section 14.1.2).
    fn within(self, size_bytes: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From { first, last } => first..last.saturating_add(1).min(size_bytes),
            Self::Suffix { length } => size_bytes.saturating_sub(length)..size_bytes,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Digits only; larger than any file is as good as the largest number.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |value, digit| {
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    }))
}

/// Adds `range`, swallowing all that overlap or touch it. At most `ranges_max` squared steps in a header.
fn merge(ranges: &mut Vec<Range<u64>>, mut range: Range<u64>) {
    let mut place = ranges.len();
    // What is already there is pairwise apart, so growing over one may reach another, on either side: look again.
    while let Some(index) =
        ranges.iter().position(|other| other.start <= range.end && range.start <= other.end)
    {
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
        select(value.as_bytes(), size_bytes, 64)
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
        assert_ranges("bytes=7-8, 0-1 ,,-1\t,3-4", 100, &[7..9, 0..2, 99..100, 3..5]);
    }

    #[test]
    fn overlapping_and_touching_ranges_are_merged_in_the_first_ones_place() {
        assert_ranges("bytes=0-4,5-9", 100, &[0..10]);
        assert_ranges("bytes=20-29,0-4,25-40", 100, &[20..41, 0..5]);
        assert_ranges("bytes=50-59,0-9,20-29,5-25", 100, &[50..60, 0..30]);
        assert_ranges("bytes=0-,0-,0-,-100", 100, &[0..100]);
    }

    #[test]
    fn more_ranges_than_allowed_are_ignored() {
        let value = |count: u64| {
            let specs: Vec<_> = (0..count).map(|index| format!("{0}-{0}", index * 2)).collect();
            format!("bytes={}", specs.join(","))
        };
        assert!(
            matches!(selected(&value(64), 1000), Selection::Ranges(ranges) if ranges.len() == 64)
        );
        assert_eq!(selected(&value(65), 1000), Selection::Whole);
        assert_eq!(select(b"bytes=0-0", 10, 0), Selection::Whole);
    }
}
