//! Ascending numbers in a compact text: `0-4999,6000` are 5,001 of them.
//!
//! If every node should hold every title, a plain list of what 10,000 nodes hold of 5,000 titles would have 250 MB, and a gateway makes, signs and
//! saves one every few seconds. Runs reduce it to a line per node.

use std::fmt::{self, Formatter, Write};

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Most numbers in one text, which bounds the memory that a short text can take: as many as there may be titles in an inventory.
const NUMBERS_MAX: usize = 100_000;

pub(crate) fn serialize<S: Serializer>(numbers: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&written(numbers))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<u32>, D::Error> {
    struct Runs;
    impl Visitor<'_> for Runs {
        type Value = Vec<u32>;

        fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
            f.write_str("rising numbers such as 0-4999,6000")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u32>, E> {
            read(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }
    }
    deserializer.deserialize_str(Runs)
}

fn written(numbers: &[u32]) -> String {
    let mut text = String::new();
    for run in numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next)) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = match run {
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            _ => write!(text, "{comma}{}", run[0]),
        };
    }
    text
}

/// `None` if it is invalid, or has too many numbers. The caller checks that the numbers rise, as with any list.
fn read(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    if text.is_empty() {
        return Some(numbers);
    }
    for run in text.split(',') {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last) = (number(first)?, number(last)?);
        let count = (last.checked_sub(first)? as usize).checked_add(1)?;
        if count > NUMBERS_MAX - numbers.len() {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Accepts only digits: `parse` would accept a sign.
fn number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_are_one_run() {
        for (numbers, text) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![0, 1], "0-1"),
            (vec![0, 1, 2, 4, 6, 7], "0-2,4,6-7"),
            (vec![u32::MAX - 1, u32::MAX], "4294967294-4294967295"),
        ] {
            assert_eq!(written(&numbers), text);
            assert_eq!(read(text), Some(numbers));
        }
    }

    #[test]
    fn a_short_text_cannot_take_much_memory() {
        assert_eq!(read("0-99999").map(|numbers| numbers.len()), Some(NUMBERS_MAX));
        for bad in [
            "0-100000",
            "0-99999,5",
            "0-4294967295",
            "1-0",
            "+1",
            "-1",
            "1-",
            ",",
            "1,",
            "1-2-3",
            "a",
            " 1",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in proptest::collection::btree_set(0..300_u32, 0..200)) {
            let numbers: Vec<_> = numbers.into_iter().collect();
            prop_assert_eq!(read(&written(&numbers)), Some(numbers));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9,-]{0,30}") {
            if let Some(numbers) = read(&text) {
                prop_assert!(numbers.len() <= NUMBERS_MAX);
            }
        }
    }
}
