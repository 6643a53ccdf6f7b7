//! A cue: text with its times, its place on the picture, and its look, as far as WebVTT has them. Readers of other formats make cues; the
//! writer of WebVTT takes them.

use std::collections::HashSet;

use super::colour::Colour;

/// The most cues of one track. A film with every word a cue of its own has some 30,000.
pub(super) const CUES_MAX: usize = 100_000;
/// The longest text of a cue. A full screen has some 500 bytes.
pub(super) const CUE_BYTES_MAX: usize = 16 << 10;
/// The latest time, to keep sums far from overflow: a year.
pub(super) const MS_MAX: u64 = 366 * 24 * 3_600_000;

/// One cue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cue {
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
    pub(super) place: Place,
    pub(super) runs: Vec<Run>,
}

/// Text of one look. Lines end with `\n`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) text: String,
    pub(super) look: Look,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Look {
    pub(super) is_italic: bool,
    pub(super) is_bold: bool,
    pub(super) is_underlined: bool,
    /// `None`: the viewer's own, usually white.
    pub(super) colour: Option<Colour>,
}

/// Where a cue is shown. The default is at the bottom, in the middle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) row: Row,
    pub(super) column: Column,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Row {
    Top,
    /// The upper edge of the text, in percent of the picture's height.
    At(u8),
    #[default]
    Bottom,
}

/// How lines are aligned, and at which percentage of the picture's width their edge or middle is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Column {
    Left(u8),
    Middle(u8),
    Right(u8),
    #[default]
    Centre,
}

impl Cue {
    /// A cue without empty lines, which would end it in WebVTT. `None` if there is nothing to show, or no time to show it.
    pub(super) fn new(start_ms: u64, end_ms: u64, place: Place, runs: Vec<Run>) -> Option<Self> {
        let runs = without_empty_lines(runs);
        let is_shown = start_ms < end_ms && end_ms <= MS_MAX && !runs.is_empty();
        is_shown.then_some(Self { start_ms, end_ms, place, runs })
    }
}

/// Adds text to runs, and joins it to the last one if that has the same look.
pub(super) fn push(runs: &mut Vec<Run>, text: &str, look: Look) {
    match runs.last_mut() {
        Some(last) if last.look == look => last.text.push_str(text),
        _ if text.is_empty() => {}
        _ => runs.push(Run { text: text.to_owned(), look }),
    }
}

/// Puts cues in order, and removes exact copies: typesetters draw a line's border and shadow as lines of their own.
pub(super) fn in_order(mut cues: Vec<Cue>) -> Vec<Cue> {
    let mut known = HashSet::with_capacity(cues.len());
    cues.retain(|cue| known.insert(cue.clone()));
    cues.sort_by_key(|cue| cue.start_ms);
    cues
}

/// Removes lines with nothing but space, and control characters, which WebVTT has no use for.
fn without_empty_lines(runs: Vec<Run>) -> Vec<Run> {
    let mut lines: Vec<Vec<Run>> = vec![Vec::new()];
    for run in &runs {
        for (index, part) in run.text.split(['\n', '\r']).enumerate() {
            if index > 0 {
                lines.push(Vec::new());
            }
            let part: String =
                part.chars().filter(|letter| *letter == '\t' || !letter.is_control()).collect();
            if let Some(line) = lines.last_mut() {
                push(line, &part, run.look);
            }
        }
    }
    lines.retain(|line| line.iter().any(|run| !run.text.trim().is_empty()));
    let mut kept = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        for (place, run) in line.iter().enumerate() {
            // The line's end belongs to its first run, so that a look that spans lines stays one run.
            if index > 0 && place == 0 {
                end_line(&mut kept, run.look);
            }
            push(&mut kept, &run.text, run.look);
        }
    }
    kept
}

fn end_line(runs: &mut Vec<Run>, next: Look) {
    match runs.last_mut() {
        Some(last) => last.text.push('\n'),
        None => push(runs, "\n", next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Vec<Run> {
        vec![Run { text: text.into(), look: Look::default() }]
    }

    fn text(cue: &Cue) -> String {
        cue.runs.iter().map(|run| run.text.as_str()).collect()
    }

    #[test]
    fn empty_lines_and_control_characters_are_removed() {
        let cue =
            Cue::new(0, 1, Place::default(), plain("\n\na\u{0}\r\n \t\n\u{7}\nb\tc\n")).unwrap();
        assert_eq!(text(&cue), "a\nb\tc");
    }

    #[test]
    fn no_text_or_no_length_is_no_cue() {
        assert_eq!(Cue::new(0, 1, Place::default(), plain(" \n\u{a0}\n")), None);
        assert_eq!(Cue::new(5, 5, Place::default(), plain("a")), None);
        assert_eq!(Cue::new(5, 4, Place::default(), plain("a")), None);
        assert_eq!(Cue::new(5, MS_MAX + 1, Place::default(), plain("a")), None);
    }

    #[test]
    fn cues_are_in_order_and_copies_are_removed() {
        let cue = |start, words: &str| Cue::new(start, 9, Place::default(), plain(words)).unwrap();
        let cues = in_order(vec![cue(3, "c"), cue(1, "a"), cue(3, "c"), cue(1, "b")]);
        let words: Vec<_> = cues.iter().map(text).collect();
        assert_eq!(words, ["a", "b", "c"]);
    }

    #[test]
    fn a_look_that_spans_lines_stays_one_run() {
        let italic = Look { is_italic: true, ..Look::default() };
        let runs = vec![
            Run { text: "a".into(), look: Look::default() },
            Run { text: "b\n\nc".into(), look: italic },
        ];
        let cue = Cue::new(0, 1, Place::default(), runs).unwrap();
        assert_eq!(cue.runs.len(), 2);
        assert_eq!(cue.runs[1].text, "b\nc");
    }
}
