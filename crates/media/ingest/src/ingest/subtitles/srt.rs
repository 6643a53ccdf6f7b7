//! SubRip: cues with numbers and times, and text with some tags of HTML, character references, and tags of ASS.
//!
//! Files are often written by hand. So only a line of times begins a cue; empty lines and arrows inside a text are text.

use super::ass;
use super::ass_tags::{self, Tags};
use super::colour::Colour;
use super::cue::{Cue, Look, Place, Run, push};
use super::text::reference;

/// The longest tag, from `<` to `>`: a font with a name, a size and a colour.
const TAG_BYTES_MAX: usize = 200;
/// Open tags of one cue.
const DEPTH_MAX: usize = 64;

/// The cues of a file.
pub(super) fn cues(text: &str) -> Vec<Cue> {
    let lines: Vec<&str> = text.lines().collect();
    let timed: Vec<_> =
        lines.iter().enumerate().filter_map(|(index, line)| Some((index, times(line)?))).collect();
    let mut cues = Vec::new();
    for (place, (index, (start, end))) in timed.iter().enumerate() {
        let begin = index + 1;
        let end_line = match timed.get(place + 1) {
            Some((next, _)) => before_number(&lines, begin, *next),
            None => lines.len(),
        };
        cues.extend(cue(*start, *end, &lines[begin..end_line].join("\n")));
    }
    cues
}

/// Where a cue's text ends that begins at the line `begin`: at the number of the next cue, whose times are in the line `next`.
fn before_number(lines: &[&str], begin: usize, next: usize) -> usize {
    let is_empty = |index: usize| lines[index].trim().is_empty();
    let mut end = next;
    while end > begin && is_empty(end - 1) {
        end -= 1;
    }
    let is_number = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    if end <= begin || !is_number(lines[end - 1].trim()) {
        return end;
    }
    // A number directly after text belongs to the next cue only if it is the one that comes next.
    let own = begin.checked_sub(2).and_then(|own| lines[own].trim().parse::<u64>().ok());
    let counts_on = own.and_then(|own| own.checked_add(1)) == lines[end - 1].trim().parse().ok();
    let stands_alone = end - 1 == begin || is_empty(end - 2);
    if stands_alone || counts_on { end - 1 } else { end }
}

/// A line of times: `00:00:01,000 --> 00:00:02,500`, in milliseconds. Coordinates after them are skipped.
fn times(line: &str) -> Option<(u64, u64)> {
    let (start, rest) = line.split_once("-->")?;
    let end = rest.split_whitespace().next()?;
    Some((time_ms(start.trim())?, time_ms(end)?))
}

/// `HH:MM:SS,mmm` or `MM:SS.mmm`. A negative time is the beginning.
fn time_ms(text: &str) -> Option<u64> {
    let (text, is_negative) = text.strip_prefix('-').map_or((text, false), |text| (text, true));
    let (whole, fraction) = text.split_once([',', '.']).unwrap_or((text, "0"));
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_number).map(u64::from)
    };
    let parts: Option<Vec<u64>> = whole.split(':').map(number).collect();
    let (hours, minutes, seconds) = match parts?[..] {
        [hours, minutes, seconds] => (hours, minutes, seconds),
        [minutes, seconds] => (0, minutes, seconds),
        _ => return None,
    };
    let ms = number(fraction).filter(|ms| *ms < 1000)?;
    let total = ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms;
    Some(if is_negative { 0 } else { total })
}

/// A cue from a text as in a file or packet.
pub(super) fn cue(start_ms: u64, end_ms: u64, text: &str) -> Option<Cue> {
    let (runs, tags) = read(text.trim());
    let lines = text.trim().lines().count();
    let place = match (tags.alignment, tags.position) {
        (None, None) => Place::default(),
        (alignment, position) => {
            // SubRip has no size; programs that use these tags assume that of ASS.
            let position = position.map(|(x, y)| (x / 384.0, y / 288.0));
            ass::place(alignment.unwrap_or(2), position, lines)
        }
    };
    Cue::new(start_ms, end_ms, place, runs)
}

/// A tag that changes the look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Italic,
    Bold,
    Underlined,
    Font(Option<Colour>),
    /// A tag that is markup, and for which WebVTT has nothing.
    Other,
}

#[derive(Debug, PartialEq)]
enum Tag {
    Open(Mark),
    Close(Mark),
    Break,
}

fn read(text: &str) -> (Vec<Run>, Tags) {
    let (mut runs, mut open, mut tags) = (Vec::new(), Vec::new(), Tags::default());
    let mut rest = text;
    // Blocks of tags end here. Without this, a text of nothing but `{\` would take quadratic time.
    let last_end = text.rfind('}').unwrap_or(0);
    while let Some(letter) = rest.chars().next() {
        let may_be_block = text.len() - rest.len() < last_end;
        let mut buffer = [0; 4];
        let (shown, bytes): (&str, usize) = if let Some((tag, bytes)) = tag(rest) {
            match tag {
                Tag::Open(mark) if open.len() < DEPTH_MAX => open.push(mark),
                Tag::Open(_) => {}
                Tag::Close(mark) => close(&mut open, mark),
                Tag::Break => push(&mut runs, "\n", look(&open, &tags)),
            }
            ("", bytes)
        } else if let Some((letter, bytes)) = reference(rest) {
            (letter.encode_utf8(&mut buffer), bytes)
        } else if let Some(block) = may_be_block.then(|| tags_of_ass(rest)).flatten() {
            tags.apply(block, &|_| Look::default());
            ("", block.len() + 2)
        } else if let Some(after) = rest.strip_prefix("\\N").or(rest.strip_prefix("\\h")) {
            (if rest.starts_with("\\N") { "\n" } else { "\u{a0}" }, rest.len() - after.len())
        } else {
            (letter.encode_utf8(&mut buffer), letter.len_utf8())
        };
        push(&mut runs, shown, look(&open, &tags));
        rest = rest.get(bytes..).unwrap_or("");
    }
    (runs, tags)
}

/// Closes the innermost tag of the kind of `mark`; a tag that was never opened closes nothing.
fn close(open: &mut Vec<Mark>, mark: Mark) {
    let kind = std::mem::discriminant(&mark);
    if let Some(index) = open.iter().rposition(|one| std::mem::discriminant(one) == kind) {
        open.remove(index);
    }
}

fn look(open: &[Mark], tags: &Tags) -> Look {
    let colour = open.iter().rev().find_map(|mark| match mark {
        Mark::Font(colour) => Some(*colour),
        _ => None,
    });
    Look {
        is_italic: tags.look.is_italic || open.contains(&Mark::Italic),
        is_bold: tags.look.is_bold || open.contains(&Mark::Bold),
        is_underlined: tags.look.is_underlined || open.contains(&Mark::Underlined),
        colour: colour.unwrap_or(tags.look.colour),
    }
}

/// A block of tags as in ASS: braces with a backslash. Other braces are text.
fn tags_of_ass(text: &str) -> Option<&str> {
    let (block, _) = text.starts_with("{\\").then(|| ass_tags::block(text))??;
    Some(block)
}

/// A known tag at the beginning of `text`, and its length in bytes. Anything else in angle brackets is text: people write `<sigh>`.
fn tag(text: &str) -> Option<(Tag, usize)> {
    let rest = text.strip_prefix('<')?;
    let end = rest.bytes().take(TAG_BYTES_MAX).position(|byte| byte == b'>')?;
    let inside = rest.get(..end)?.trim();
    let (inside, is_closing) =
        inside.strip_prefix('/').map_or((inside, false), |inside| (inside.trim(), true));
    let name_end = inside.find(|letter: char| !letter.is_ascii_alphanumeric());
    let (name, attributes) = inside.split_at(name_end.unwrap_or(inside.len()));
    let is_plain = attributes.trim().is_empty();
    let mark = match name.to_ascii_lowercase().as_str() {
        "i" | "em" if is_plain => Mark::Italic,
        "b" | "strong" if is_plain => Mark::Bold,
        "u" if is_plain => Mark::Underlined,
        "s" | "strike" if is_plain => Mark::Other,
        "font" => Mark::Font(colour(attributes)),
        "br" if ["", "/"].contains(&attributes.trim()) => return Some((Tag::Break, end + 2)),
        _ => return None,
    };
    Some((if is_closing { Tag::Close(mark) } else { Tag::Open(mark) }, end + 2))
}

/// The value of `color` among a tag's attributes, with or without quotes.
fn colour(attributes: &str) -> Option<Colour> {
    let lower = attributes.to_ascii_lowercase();
    let (_, after) = lower.split_once("color")?;
    let value = after.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|letter| ['"', '\''].contains(letter));
    let value = match quote {
        Some(quote) => value[1..].split(quote).next()?,
        None => value.split_whitespace().next()?,
    };
    Colour::of_html(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::subtitles::cue::{Column, Row};

    fn all(text: &str) -> Vec<(u64, u64, String)> {
        let words = |cue: &Cue| cue.runs.iter().map(|run| run.text.as_str()).collect();
        cues(text).iter().map(|cue| (cue.start_ms, cue.end_ms, words(cue))).collect()
    }

    fn one(text: &str) -> Cue {
        cue(0, 1, text).expect("a cue")
    }

    fn words(text: &str) -> String {
        one(text).runs.iter().map(|run| run.text.as_str()).collect()
    }

    #[test]
    fn text_that_looks_like_markup_or_times_is_text() {
        let file = "1\n00:00:01,000 --> 00:00:02,000\nQ&A: I <3 you\n\n2\n00:00:02,000 --> 00:00:03,000\nif a < b && c > d\n\n\
            3\n00:00:03,000 --> 00:00:04,000\narrow --> here &amp; there &lt;3\n\n\nafter two empty lines\n\n1984\n";
        assert_eq!(
            all(file),
            [
                (1000, 2000, "Q&A: I <3 you".to_owned()),
                (2000, 3000, "if a < b && c > d".to_owned()),
                (3000, 4000, "arrow --> here & there <3\nafter two empty lines\n1984".to_owned()),
            ]
        );
        assert_eq!(
            words("<sigh> <v Ann> {note} a\\b &copy &lt;i&gt;"),
            "<sigh> <v Ann> {note} a\\b &copy <i>"
        );
    }

    #[test]
    fn numbers_may_be_missing_doubled_or_text() {
        let file = "00:01,000 --> 00:02,000 X1:1 X2:2\nfirst\n2\n00:00:03.000-->00:00:04.000\n42\n3\n\n00:00:05,000 --> 00:00:06,000\nlast";
        assert_eq!(
            all(file),
            [
                (1000, 2000, "first\n2".to_owned()),
                (3000, 4000, "42".to_owned()),
                (5000, 6000, "last".to_owned())
            ]
        );
        assert_eq!(all("1\n00:00:01,000 --> 00:00:01,000\nno length\n"), []);
        assert_eq!(all("no --> times\n1:2:3:4 --> 5\n00:00:01,5000 --> 00:00:02,000\na"), []);
    }

    #[test]
    fn tags_change_the_look_however_they_are_nested() {
        let cue = one(
            "<I>a<b>b</I>c</b> <FONT face=x Color=\"#ffff00\">d</font><font>e</font></u>f<s>g<br/>h",
        );
        let looks: Vec<_> = cue.runs.iter().map(|run| (run.text.as_str(), run.look)).collect();
        let none = Look::default();
        assert_eq!(
            looks,
            [
                ("a", Look { is_italic: true, ..none }),
                ("b", Look { is_italic: true, is_bold: true, ..none }),
                ("c", Look { is_bold: true, ..none }),
                (" ", none),
                ("d", Look { colour: Some(Colour::Yellow), ..none }),
                ("efg\nh", none),
            ]
        );
    }

    #[test]
    fn places_of_ass_are_known() {
        let place = Place { row: Row::Top, column: Column::Centre };
        assert_eq!(one(r"{\an8}up {\i1}here{\i0}").place, place);
        assert_eq!(words(r"{\an8}up\Nhere"), "up\nhere");
        assert_eq!(one("down").place, Place::default());
    }
}
