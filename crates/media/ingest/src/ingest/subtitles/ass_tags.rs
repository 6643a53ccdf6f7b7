//! The text of an event of ASS: override tags (`{\i1\pos(10,20)}`), line breaks, and drawings, which are no text.
//!
//! Tags of things that WebVTT does not have (fonts, borders, animation) are skipped. SubRip files use some of these tags, too.

use super::colour::Colour;
use super::cue::{Look, Run, push};

/// The state that tags change, from left to right.
#[derive(Clone, Debug, Default)]
pub(super) struct Tags {
    pub(super) look: Look,
    /// As on a numeric keypad: 1 is at the bottom left, 9 at the top right. The first tag counts.
    pub(super) alignment: Option<u8>,
    /// In pixels of the script. The first tag counts.
    pub(super) position: Option<(f64, f64)>,
    pub(super) is_drawing: bool,
    /// Whether `\n` breaks a line (`\q2`); else it is a space.
    pub(super) wraps_nothing: bool,
}

/// The look of a style, by its name; that of the event itself for an empty name.
pub(super) type LookOf<'a> = &'a dyn Fn(&str) -> Look;

/// Reads an event's text.
pub(super) fn read(text: &str, mut tags: Tags, look_of: LookOf<'_>) -> (Vec<Run>, Tags) {
    let mut runs = Vec::new();
    let mut rest = text;
    // Blocks end here. Without this, a text of nothing but `{` would take quadratic time.
    let last_end = text.rfind('}').unwrap_or(0);
    while let Some(letter) = rest.chars().next() {
        let may_be_block = text.len() - rest.len() < last_end;
        let block = if may_be_block { block(rest) } else { None };
        if let Some((block, after)) = block {
            tags.apply(block, look_of);
            rest = after;
            continue;
        }
        let (shown, bytes) = match letter {
            '\\' => tags.escape(&rest[1..]),
            letter => (letter, letter.len_utf8()),
        };
        if !tags.is_drawing {
            push(&mut runs, shown.encode_utf8(&mut [0; 4]), tags.look);
        }
        rest = rest.get(bytes..).unwrap_or("");
    }
    (runs, tags)
}

/// The content of a block at the beginning of `text`, and the text after it. A brace that is never closed is text.
pub(super) fn block(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('{')?.split_once('}')
}

impl Tags {
    /// The letter that a backslash and the text after it stand for, and how many bytes both have.
    fn escape(&self, after: &str) -> (char, usize) {
        match after.chars().next() {
            Some('N') => ('\n', 2),
            Some('n') if self.wraps_nothing => ('\n', 2),
            Some('n') => (' ', 2),
            Some('h') => ('\u{a0}', 2),
            Some(brace @ ('{' | '}')) => (brace, 2),
            _ => ('\\', 1),
        }
    }

    /// Applies the tags of one block. Text between them is a comment.
    pub(super) fn apply(&mut self, block: &str, look_of: LookOf<'_>) {
        let mut rest = block;
        while let Some((_, after)) = rest.split_once('\\') {
            let end = end_of_tag(after);
            self.apply_one(after[..end].trim(), look_of);
            rest = &after[end..];
        }
    }

    fn apply_one(&mut self, tag: &str, look_of: LookOf<'_>) {
        let argument = |name: &str| tag.strip_prefix(name).map(str::trim);
        let number = |name: &str| argument(name).and_then(whole_number);
        if let Some(place) = argument("pos").or_else(|| argument("move")) {
            self.position = self.position.or_else(|| point(place));
        } else if let Some(alignment) = number("an").flatten() {
            self.align(u8::try_from(alignment).ok());
        } else if let Some(alignment) = number("a").flatten() {
            self.align(legacy_alignment(alignment));
        } else if let Some(italic) = number("i") {
            self.look.is_italic = italic.map_or(look_of("").is_italic, |on| on != 0);
        } else if let Some(weight) = number("b") {
            // 1, or a weight as in CSS, of which 400 is regular.
            self.look.is_bold = weight.map_or(look_of("").is_bold, is_bold);
        } else if let Some(underlined) = number("u") {
            self.look.is_underlined = underlined.map_or(look_of("").is_underlined, |on| on != 0);
        } else if let Some(scale) = number("p") {
            self.is_drawing = scale.is_some_and(|scale| scale != 0);
        } else if let Some(style) = number("q") {
            self.wraps_nothing = style == Some(2);
        } else if let Some(colour) = argument("1c").or_else(|| argument("c")) {
            self.colour(colour, look_of);
        } else if let Some(style) = argument("r") {
            self.look = look_of(style);
        }
    }

    fn align(&mut self, alignment: Option<u8>) {
        self.alignment = self.alignment.or(alignment.filter(|one| (1..=9).contains(one)));
    }

    /// `c` is also the first letter of `clip`.
    fn colour(&mut self, colour: &str, look_of: LookOf<'_>) {
        if colour.is_empty() {
            self.look.colour = look_of("").colour;
        } else if colour.starts_with('&') {
            self.look.colour = Colour::of_ass(colour);
        }
    }
}

/// Where a tag ends: at the next backslash that is not in parentheses.
fn end_of_tag(text: &str) -> usize {
    let mut depth = 0_usize;
    let end = text.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b'\\' && depth == 0
    });
    end.unwrap_or(text.len())
}

/// `Some(None)` for no number at all, which resets a tag; `None` if this is another tag's name.
fn whole_number(text: &str) -> Option<Option<u32>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

fn is_bold(weight: u32) -> bool {
    weight == 1 || weight >= 600
}

/// The alignment of SSA: 1 to 3 at the bottom, 5 to 7 at the top, 9 to 11 in the middle.
pub(super) fn legacy_alignment(number: u32) -> Option<u8> {
    let row = match number {
        1..=3 => 0,
        5..=7 => 6,
        9..=11 => 3,
        _ => return None,
    };
    Some(row + (number % 4) as u8)
}

/// The first two numbers of `(x,y,...)`.
fn point(text: &str) -> Option<(f64, f64)> {
    let mut numbers = text.strip_prefix('(')?.split([',', ')']).map(|one| one.trim().parse());
    let (x, y): (f64, f64) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (x.is_finite() && y.is_finite()).then_some((x, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_plain(text: &str) -> (Vec<Run>, Tags) {
        read(text, Tags::default(), &|_| Look::default())
    }

    fn shown(text: &str) -> String {
        read_plain(text).0.into_iter().map(|run| run.text).collect()
    }

    #[test]
    fn drawings_and_comments_are_no_text() {
        assert_eq!(shown(r"{\p1}m 0 0 l 100 0{\p0}"), "");
        assert_eq!(shown(r"a{\p2\pos(1,2)}m 0 0{\pbo3} l 1 1{\p0}b"), "ab");
        assert_eq!(shown("a{a note to the translator}b"), "ab");
        assert_eq!(shown("{never closed"), "{never closed");
    }

    #[test]
    fn breaks_spaces_and_braces_are_text() {
        assert_eq!(shown(r"a\Nb\nc\hd\{e\}\"), "a\nb c\u{a0}d{e}\\");
        assert_eq!(shown(r"{\q2}a\nb"), "a\nb");
        assert_eq!(shown("<i> & C:\\dir"), "<i> & C:\\dir");
    }

    #[test]
    fn looks_change_where_tags_say_so() {
        let (runs, _) =
            read_plain(r"a{\i1\b700}b{\i0\b0\u1}c{\c&H00FFFF&}d{\r}e{\iclip(1,2)\bord2\be1}f");
        let looks: Vec<_> = runs.iter().map(|run| (run.text.as_str(), run.look)).collect();
        let none = Look::default();
        assert_eq!(
            looks,
            [
                ("a", none),
                ("b", Look { is_italic: true, is_bold: true, ..none }),
                ("c", Look { is_underlined: true, ..none }),
                ("d", Look { is_underlined: true, colour: Some(Colour::Yellow), ..none }),
                ("ef", none),
            ]
        );
    }

    #[test]
    fn the_first_place_counts_and_animations_are_skipped() {
        let (runs, tags) =
            read_plain(r"{\an8\pos(100, 20.5)}a{\an2\move(1,2,3,4)\t(0,100,\i1\an1)\alpha&HFF&}b");
        assert_eq!((tags.alignment, tags.position), (Some(8), Some((100.0, 20.5))));
        assert_eq!(runs.len(), 1);
        assert_eq!(read_plain(r"{\a6}a").1.alignment, Some(8));
        assert_eq!(read_plain(r"{\a10}a").1.alignment, Some(5));
        assert_eq!(read_plain(r"{\an0\a4\an77\pos(a,b)\pos(1}a").1.alignment, None);
    }
}
