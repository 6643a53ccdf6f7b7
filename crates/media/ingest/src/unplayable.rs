//! Streams of a film in which there is nothing to play: attachments, such as fonts, and data, such as a timecode. They don't become part of a
//! title, and one note names them.

use crate::text_kind::UNNAMED;

/// A film may have some hundred fonts.
const NAMED_MAX: usize = 4;

/// A stream with nothing to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unplayable {
    /// ffprobe's name: `attachment` or `data`.
    pub(crate) kind: String,
    pub(crate) codec: Option<String>,
    pub(crate) index: u32,
}

/// A message that names `streams`, if there are any.
pub(crate) fn left_out(streams: &[Unplayable]) -> Option<String> {
    let kinds = [("attachments", "attachment"), ("data", "data")].map(|(words, kind)| {
        let of_kind = || streams.iter().filter(|one| one.kind == kind);
        let named = of_kind().take(NAMED_MAX).map(|Unplayable { codec, index, .. }| {
            let codec = codec.as_ref().filter(|codec| *codec != UNNAMED);
            let codec = codec.map_or_else(String::new, |codec| format!(" ({codec})"));
            format!("stream {index}{codec}")
        });
        let mut named: Vec<_> = named.collect();
        let more = of_kind().count() - named.len();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        (!named.is_empty()).then(|| format!("{words}: {}", named.join(", ")))
    });
    let kinds: Vec<_> = kinds.into_iter().flatten().collect();
    (!kinds.is_empty()).then(|| kinds.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_and_data_are_named_in_one_line() {
        let stream = |kind: &str, codec: &str, index| Unplayable {
            kind: kind.to_owned(),
            codec: Some(codec.to_owned()),
            index,
        };
        assert_eq!(left_out(&[]), None);
        let mixed = [("attachment", "ttf", 2), ("data", "unknown", 3), ("data", "klv", 5)];
        let mixed = mixed.map(|(kind, codec, index)| stream(kind, codec, index));
        let expected = "attachments: stream 2 (ttf); data: stream 3, stream 5 (klv)";
        assert_eq!(left_out(&mixed).as_deref(), Some(expected));
        let fonts: Vec<_> = (1..=30).map(|index| stream("attachment", "ttf", index)).collect();
        let line = left_out(&fonts).expect("fonts");
        assert!(line.ends_with("stream 4 (ttf), 26 more"), "{line}");
    }
}
