//! What a player says that it requests next: `nor` and `nrr` of CMCD.
//!
//! In the first version, `nor` is a relative reference as a string, percent-encoded as a whole, and `nrr` a range of it, or without `nor` of the same
//! object. In the second version, `nor` is a list of such strings, each perhaps with its range as the parameter `r`.

use crate::cmcd::{TEXT_BYTES_MAX, quoted, split_member};

/// The most objects of one request that are read. Players name one, or one for each type of media.
const OBJECTS_MAX: usize = 4;

/// An object that a player will request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextObject<'a> {
    /// Its address relative to the requested one, percent-encoded as a whole; none if it is the same object.
    pub reference: Option<&'a [u8]>,
    /// The first byte of its range, and the last one if that is known.
    pub range: Option<(u64, Option<u64>)>,
}

/// The objects that a text of CMCD announces. What can't be parsed is left out.
pub fn next_objects(text: &[u8]) -> Vec<NextObject<'_>> {
    let (mut objects, mut of_all) = (Vec::new(), None);
    let mut rest = if text.len() > TEXT_BYTES_MAX { &[] } else { text };
    while !rest.is_empty() {
        let (member, after) = split_member(rest);
        rest = after;
        let member = member.trim_ascii();
        if let Some(value) = member.strip_prefix(b"nor=") {
            objects = listed(value.trim_ascii());
        } else if let Some(value) = member.strip_prefix(b"nrr=") {
            of_all = quoted(value.trim_ascii()).and_then(|(range, _)| range_of(range));
        }
    }
    match (&mut objects[..], of_all) {
        ([], Some(range)) => return vec![NextObject { reference: None, range: Some(range) }],
        ([one], Some(range)) => one.range = one.range.or(Some(range)),
        _ => {}
    }
    objects
}

/// A string, or a list of strings, with their parameters.
fn listed(value: &[u8]) -> Vec<NextObject<'_>> {
    let mut rest = value.strip_prefix(b"(").unwrap_or(value);
    let mut objects = Vec::new();
    while let Some((reference, after)) = quoted(rest.trim_ascii_start()) {
        let range = after.strip_prefix(b";r=").and_then(quoted);
        let parameters = range.map_or(after, |(_, after)| after);
        let range = range.and_then(|(range, _)| range_of(range));
        if !reference.is_empty() && objects.len() < OBJECTS_MAX {
            objects.push(NextObject { reference: Some(reference), range });
        }
        let end = parameters.iter().position(|byte| *byte == b' ').unwrap_or(parameters.len());
        rest = &parameters[end..];
    }
    objects
}

/// The numbers of `12323-48763` or `12323-`.
fn range_of(text: &[u8]) -> Option<(u64, Option<u64>)> {
    let (first, last) = std::str::from_utf8(text).ok()?.split_once('-')?;
    // `parse` would take a sign as well.
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| is_number(text));
    let first = number(first)?;
    match last {
        "" => Some((first, None)),
        last => number(last).filter(|last| *last >= first).map(|last| (first, Some(last))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Range = Option<(u64, Option<u64>)>;

    fn next(text: &str) -> Vec<(Option<&str>, Range)> {
        let text_of = |bytes| std::str::from_utf8(bytes).unwrap();
        let objects = next_objects(text.as_bytes()).into_iter();
        objects.map(|one| (one.reference.map(text_of), one.range)).collect()
    }

    #[test]
    fn both_versions_are_read() {
        let one = |text, range| vec![(Some(text), range)];
        let text = "bl=21300,nor=\"..%2F300kbps%2Ftrack.m4v\",nrr=\"12323-48763\",sid=\"x\"";
        assert_eq!(next(text), one("..%2F300kbps%2Ftrack.m4v", Some((12_323, Some(48_763)))));
        assert_eq!(next("nor=\"a.m4s\""), one("a.m4s", None));
        assert_eq!(next("nrr=\"5-\",br=1"), [(None, Some((5, None)))]);
        let text = "v=2,nor=(\"a.m4s\" \"b,c.m4s\";r=\"0-99\" \"d\"),su";
        let list =
            [(Some("a.m4s"), None), (Some("b,c.m4s"), Some((0, Some(99)))), (Some("d"), None)];
        assert_eq!(next(text), list);
    }

    #[test]
    fn what_is_no_announcement_is_left_out() {
        for text in [
            "",
            "br=1",
            "nor",
            "nor=",
            "nor=a.m4s",
            "nor=\"\"",
            "nor=\"a",
            "nrr=\"9-5\"",
            "nrr=\"+1-5\"",
            "nrr=\"-5\"",
            "xnor=\"a\"",
        ] {
            assert_eq!(next(text), [], "{text}");
        }
        let many = format!("nor=({})", "\"a\" ".repeat(100));
        assert_eq!(next(&many).len(), OBJECTS_MAX);
        assert_eq!(next(&format!("nor=\"{}\"", "a".repeat(TEXT_BYTES_MAX))), [], "it is too long");
    }
}
