//! 3GPP timed text (TS 26.245): in MP4, each sample has a text and a table of styles.

use super::colour::Colour;
use super::cue::{Cue, Look, Place, Run, push};
use super::text::{NotUnicode, decode};
use crate::mp4::child;

/// Bytes of one style: two offsets, a font, a face, a size, a colour.
const STYLE_BYTES: usize = 12;
/// Where the default style is in the description of a track: after flags, justification, background and box.
const DEFAULT_STYLE: usize = 18;

/// The most styles of one text. Each character is looked up in them.
const STYLES_MAX: usize = 256;

/// A style, and the characters that have it.
#[derive(Clone, Copy, Debug)]
struct Style {
    from: usize,
    to: usize,
    look: Look,
}

/// The look of text without a style, by the track's description.
pub(super) fn default_look(description: &[u8]) -> Look {
    let style = description.get(DEFAULT_STYLE..DEFAULT_STYLE + STYLE_BYTES);
    style.and_then(Style::read).map_or(Look::default(), |style| style.look)
}

/// The cue of a sample. A sample without text is a pause.
pub(super) fn cue(
    start_ms: u64,
    end_ms: u64,
    sample: &[u8],
    own: Look,
) -> Result<Option<Cue>, NotUnicode> {
    let Some((length, rest)) = sample.split_first_chunk::<2>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
    let (text, boxes) = rest.split_at(length);
    let styles = styles(boxes);
    let mut runs: Vec<Run> = Vec::new();
    for (index, letter) in decode(text)?.chars().enumerate() {
        let style = styles.iter().find(|style| (style.from..style.to).contains(&index));
        let look = style.map_or(own, |style| style.look);
        push(&mut runs, letter.encode_utf8(&mut [0; 4]), look);
    }
    Ok(Cue::new(start_ms, end_ms, Place::default(), runs))
}

/// The styles in the boxes after a text.
fn styles(boxes: &[u8]) -> Vec<Style> {
    let table = child(boxes, b"styl").and_then(|content| content.get(2..)).unwrap_or(&[]);
    table.chunks_exact(STYLE_BYTES).take(STYLES_MAX).filter_map(Style::read).collect()
}

impl Style {
    fn read(record: &[u8]) -> Option<Self> {
        let [from_high, from_low, to_high, to_low, _, _, face, _, red, green, blue, _] = *record
        else {
            return None;
        };
        let look = Look {
            is_bold: face & 1 != 0,
            is_italic: face & 2 != 0,
            is_underlined: face & 4 != 0,
            colour: Colour::nearest((red, green, blue)),
        };
        let offset = |high, low| usize::from(u16::from_be_bytes([high, low]));
        Some(Self { from: offset(from_high, from_low), to: offset(to_high, to_low), look })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample with one style.
    fn sample(text: &str, from: u8, to: u8, face: u8) -> Vec<u8> {
        let mut sample = (text.len() as u16).to_be_bytes().to_vec();
        sample.extend(text.as_bytes());
        sample.extend([0, 0, 0, 9]);
        sample.extend(b"hclr.");
        sample.extend([0, 0, 0, 22]);
        sample.extend(b"styl");
        sample.extend([0, 1, 0, from, 0, to, 0, 1, face, 16, 255, 255, 0, 255]);
        sample
    }

    #[test]
    fn a_sample_has_a_text_and_styles() {
        let cue = cue(1, 2, &sample("ä {b} <i>", 2, 5, 3), Look::default()).unwrap().unwrap();
        let runs: Vec<_> = cue.runs.iter().map(|run| (run.text.as_str(), run.look)).collect();
        let styled = Look {
            is_bold: true,
            is_italic: true,
            colour: Some(Colour::Yellow),
            ..Look::default()
        };
        assert_eq!(runs, [("ä ", Look::default()), ("{b}", styled), (" <i>", Look::default())]);
    }

    #[test]
    fn pauses_and_incomplete_samples_are_no_cues() {
        let whole = sample("a", 0, 1, 1);
        assert_eq!(cue(1, 2, &[0, 0], Look::default()), Ok(None));
        for length in 0..whole.len() {
            let read = cue(1, 2, &whole[..length], Look::default()).unwrap();
            assert_eq!(read.is_some(), length > 2, "{length}");
        }
        assert!(cue(1, 2, &[0, 1, 0xff], Look::default()).is_err());
    }

    #[test]
    fn the_default_style_is_that_of_the_track() {
        let mut description = vec![0; 18];
        description.extend([0, 0, 0, 0, 0, 1, 2, 16, 255, 255, 255, 255]);
        assert_eq!(default_look(&description), Look { is_italic: true, ..Look::default() });
        assert_eq!(default_look(&description[..20]), Look::default());
    }
}
