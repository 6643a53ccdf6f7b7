//! SubStation Alpha: a script's header (size, styles) and its events. In Matroska and MP4, the header is apart and each event is a packet.

use super::ass_tags::{self, Tags};
use super::colour::Colour;
use super::cue::{Column, Cue, Look, Place, Row};

/// The size of a script that states none.
const PLAY_SIZE: (f64, f64) = (384.0, 288.0);
/// The most styles of a script; typesetters use some hundreds.
const STYLES_MAX: usize = 1_000;
/// Columns of events and styles that are not declared (a `Format:` line is optional in files from some programs).
const EVENT: &str = "Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text";
const STYLE: &str = "Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
    StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding";
/// The columns of an event as a packet: its number, then those of [`EVENT`] without the times.
const PACKET_STYLE: usize = 2;
const PACKET_TEXT: usize = 8;

/// The height of a line in percent of the picture, in WebVTT's default size.
const LINE_PERCENT: usize = 6;
/// How far left and right text stays from the edges, in percent.
const EDGE_PERCENT: u8 = 5;

/// The header of a script.
#[derive(Debug)]
pub(super) struct Script {
    width: f64,
    height: f64,
    styles: Vec<Style>,
    /// Names of columns.
    event: Vec<String>,
}

#[derive(Debug)]
struct Style {
    name: String,
    look: Look,
    alignment: Option<u8>,
}

/// Whether a text is a script.
pub(super) fn is_script(text: &str) -> bool {
    text.lines().any(|line| is_section(line, "Script Info") || is_section(line, "Events"))
}

/// The cues of a whole script.
pub(super) fn cues(text: &str) -> Vec<Cue> {
    let script = Script::read(text);
    let events = text.lines().filter_map(|line| line.trim_start().strip_prefix("Dialogue:"));
    events.filter_map(|event| script.event(event)).collect()
}

impl Script {
    /// Reads the header: everything before the events. Lines that it does not know are skipped.
    pub(super) fn read(text: &str) -> Self {
        let (width, height) = PLAY_SIZE;
        let mut script = Self { width, height, styles: Vec::new(), event: columns(EVENT) };
        let (mut style_columns, mut is_legacy, mut in_events) = (columns(STYLE), false, false);
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                is_legacy |= is_section(line, "V4 Styles");
                in_events = is_section(line, "Events");
                continue;
            }
            let Some((key, value)) = line.split_once(':') else { continue };
            let size = || value.trim().parse().ok().filter(|&size: &f64| size >= 1.0);
            match key {
                "PlayResX" => script.width = size().unwrap_or(width),
                "PlayResY" => script.height = size().unwrap_or(height),
                "Format" if in_events => script.event = columns(value),
                "Format" => style_columns = columns(value),
                "Style" if script.styles.len() < STYLES_MAX => {
                    script.styles.push(Style::read(value, &style_columns, is_legacy));
                }
                _ => {}
            }
        }
        script
    }

    /// An event of a file: everything after `Dialogue:`.
    fn event(&self, event: &str) -> Option<Cue> {
        let fields: Vec<_> = event.splitn(self.event.len(), ',').collect();
        let field = |name: &str| {
            let at = self.event.iter().position(|one| one.eq_ignore_ascii_case(name))?;
            fields.get(at).copied()
        };
        let (start, end) = (time_ms(field("Start")?)?, time_ms(field("End")?)?);
        self.cue(start, end, field("Style").unwrap_or(""), field("Text")?)
    }

    /// An event of a packet.
    pub(super) fn packet(&self, start_ms: u64, end_ms: u64, packet: &str) -> Option<Cue> {
        let fields: Vec<_> = packet.splitn(PACKET_TEXT + 1, ',').collect();
        self.cue(start_ms, end_ms, fields.get(PACKET_STYLE)?, fields.get(PACKET_TEXT)?)
    }

    fn cue(&self, start_ms: u64, end_ms: u64, style: &str, text: &str) -> Option<Cue> {
        let style = self.style(style);
        let own = style.map_or(Look::default(), |style| style.look);
        let look_of = |name: &str| match name {
            "" => own,
            name => self.style(name).map_or(own, |style| style.look),
        };
        let tags = Tags { look: own, ..Tags::default() };
        // A packet's lines end with line breaks as well as `\N`.
        let (runs, tags) = ass_tags::read(text.trim_end_matches(['\r', '\n']), tags, &look_of);
        let alignment = tags.alignment.or(style.and_then(|style| style.alignment)).unwrap_or(2);
        let lines = runs.iter().map(|run| run.text.matches('\n').count()).sum::<usize>() + 1;
        let position = tags.position.map(|(x, y)| (x / self.width, y / self.height));
        Cue::new(start_ms, end_ms, place(alignment, position, lines), runs)
    }

    /// Names are compared as other programs do, without an asterisk in front, which SSA adds. An unknown style is the default one.
    fn style(&self, name: &str) -> Option<&Style> {
        let name = name.trim().trim_start_matches('*');
        let named = |name: &str| self.styles.iter().rev().find(|one| one.name == name);
        named(name).or_else(|| named("Default"))
    }
}

impl Style {
    fn read(value: &str, columns: &[String], is_legacy: bool) -> Self {
        let fields: Vec<_> = value.split(',').map(str::trim).collect();
        let field = |name: &str| {
            let at = columns.iter().position(|one| one.eq_ignore_ascii_case(name))?;
            fields.get(at).copied()
        };
        // -1 is true.
        let is_set = |name: &str| field(name).is_some_and(|value| !["", "0"].contains(&value));
        let look = Look {
            is_italic: is_set("Italic"),
            is_bold: is_set("Bold"),
            is_underlined: is_set("Underline"),
            colour: field("PrimaryColour").and_then(Colour::of_ass),
        };
        let number = field("Alignment").and_then(|value| value.parse::<u32>().ok());
        let alignment = match is_legacy {
            true => number.and_then(ass_tags::legacy_alignment),
            false => number.and_then(|number| u8::try_from(number).ok()),
        };
        let name = field("Name").unwrap_or("").trim_start_matches('*').to_owned();
        Self { name, look, alignment: alignment.filter(|one| (1..=9).contains(one)) }
    }
}

/// The place of an alignment on the keypad and, if there is one, of a position, in parts of the picture. `lines` is the text's height.
pub(super) fn place(alignment: u8, position: Option<(f64, f64)>, lines: usize) -> Place {
    let alignment = alignment.clamp(1, 9) - 1;
    let (row, column) = (alignment / 3, alignment % 3);
    let height = lines.saturating_mul(LINE_PERCENT).min(100) as f64;
    let above = height * (2 - row.min(2)) as f64 / 2.0;
    let Some((x, y)) = position else {
        let row = match row {
            0 => Row::Bottom,
            1 => Row::At((50.0 - height / 2.0).max(0.0) as u8),
            _ => Row::Top,
        };
        let column = match column {
            0 => Column::Left(EDGE_PERCENT),
            1 => Column::Centre,
            _ => Column::Right(100 - EDGE_PERCENT),
        };
        return Place { row, column };
    };
    let percent = |part: f64, max: f64| part.clamp(0.0, max).round() as u8;
    let across = percent(x * 100.0, 100.0);
    let top = percent(y * 100.0 - above, 100.0 - height);
    let column = match column {
        0 => Column::Left(across),
        // Text in the middle of nearly nothing would be as narrow.
        1 if (48..=52).contains(&across) => Column::Centre,
        1 => Column::Middle(across),
        _ => Column::Right(across),
    };
    // At the bottom anyway: the player knows better where its controls are.
    let is_bottom = row == 0 && f64::from(top) + height >= 85.0;
    Place { row: if is_bottom { Row::Bottom } else { Row::At(top) }, column }
}

/// Styles of version 4+ have 23 columns. Each line is searched for them by name, so more would make a file slow to read.
const COLUMNS_MAX: usize = 64;

fn is_section(line: &str, name: &str) -> bool {
    let name_of = |line: &'_ str| -> Option<bool> {
        let inside = line.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(inside.eq_ignore_ascii_case(name))
    };
    name_of(line).unwrap_or(false)
}

fn columns(line: &str) -> Vec<String> {
    line.split(',').take(COLUMNS_MAX).map(|name| name.trim().to_owned()).collect()
}

/// `H:MM:SS.CC`, in milliseconds. The fraction may have more digits.
fn time_ms(text: &str) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once(['.', ',']).unwrap_or((text.trim(), "0"));
    let mut parts = whole.split(':').map(|part| part.trim().parse::<u32>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    // A number with an exponent would be one, too.
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    let seconds = (u64::from(hours) * 60 + u64::from(minutes)) * 60 + u64::from(seconds);
    Some(seconds * 1000 + (fraction * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "[Script Info]\nScriptType: v4.00+\nPlayResX: 1000\nPlayResY: 500\n[V4+ Styles]\n\
        Format: Name, Fontname, Fontsize, PrimaryColour, Bold, Italic, Underline, Alignment\n\
        Style: Default,Arial,16,&H00FFFFFF,0,0,0,2\nStyle: Sign,Arial,16,&H0000FFFF,-1,-1,0,8\n[Events]\n\
        Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n";

    #[test]
    fn times_have_digits_only() {
        assert_eq!(time_ms("0:00:01.5"), Some(1500));
        assert_eq!(time_ms("1:02:03"), Some(3_723_000));
        for bad in ["0:00:01.1e30", "0:00:01.-5", "0:00", "a:b:c.d"] {
            assert_eq!(time_ms(bad), None, "{bad}");
        }
    }

    fn cues_of(events: &str) -> Vec<Cue> {
        cues(&format!("{HEAD}{events}"))
    }

    fn one(event: &str) -> Cue {
        let [cue] = &cues_of(&format!("Dialogue: 0,0:00:01.50,0:00:02.00,{event}"))[..] else {
            panic!("one cue: {event}")
        };
        cue.clone()
    }

    fn words(cue: &Cue) -> String {
        cue.runs.iter().map(|run| run.text.as_str()).collect()
    }

    #[test]
    fn an_event_has_times_text_and_the_look_of_its_style() {
        let cue = one(r"Sign,,0,0,0,,first, second\N\Nthird{\r}a{\rDefault}b");
        assert_eq!((cue.start_ms, cue.end_ms), (1500, 2000));
        assert_eq!(words(&cue), "first, second\nthirdab");
        let sign = Look {
            is_italic: true,
            is_bold: true,
            colour: Some(Colour::Yellow),
            ..Look::default()
        };
        assert_eq!((cue.runs[0].look, cue.runs[1].look), (sign, Look::default()));
        assert_eq!(cue.place, Place { row: Row::Top, column: Column::Centre });
        // Unknown styles are the default one.
        assert_eq!(one("Other,,0,0,0,,a").place, Place::default());
    }

    #[test]
    fn comments_drawings_and_events_of_no_length_are_no_cues() {
        let events = "Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,a\n\
            Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0{\\p0}\n\
            Dialogue: 0,0:00:05.00,0:00:05.00,Default,,0,0,0,,no length\n\
            Dialogue: 0,0:00:05.00,never,Default,,0,0,0,,no end\nDialogue: 0,0:00:05.00\nDialogue:";
        assert_eq!(cues_of(events), []);
    }

    #[test]
    fn positions_become_those_of_webvtt() {
        for (tags, row, column) in [
            (r"\an1", Row::Bottom, Column::Left(5)),
            (r"\an3", Row::Bottom, Column::Right(95)),
            (r"\an5", Row::At(47), Column::Centre),
            (r"\an8", Row::Top, Column::Centre),
            (r"\an7\pos(100,50)", Row::At(10), Column::Left(10)),
            (r"\pos(500,480)", Row::Bottom, Column::Centre),
            (r"\pos(250,100)", Row::At(14), Column::Middle(25)),
            (r"\an9\pos(900,0)", Row::At(0), Column::Right(90)),
            (r"\an7\pos(-100,9999)", Row::At(94), Column::Left(0)),
        ] {
            let place = one(&format!("Default,,0,0,0,,{{{tags}}}a")).place;
            assert_eq!(place, Place { row, column }, "{tags}");
        }
    }

    #[test]
    fn old_scripts_number_their_alignments_differently() {
        let script = "[Script Info]\nScriptType: v4.00\n[V4 Styles]\nFormat: Name, PrimaryColour, Alignment\n\
            Style: *Default,65535,6\n[Events]\nFormat: Marked, Start, End, Style, Text\n\
            Dialogue: Marked=0,0:00:01.00,0:00:02.00,*Default,a, b\n";
        let [cue] = &cues(script)[..] else { panic!("one cue") };
        assert_eq!((words(cue).as_str(), cue.place.row), ("a, b", Row::Top));
        assert_eq!(cue.runs[0].look.colour, Some(Colour::Yellow));
    }

    #[test]
    fn a_packet_is_an_event_without_times() {
        let script = Script::read(HEAD);
        let cue = script.packet(5, 10, "3,0,Sign,,0,0,0,,a, b").unwrap();
        assert_eq!((words(&cue).as_str(), cue.start_ms, cue.end_ms), ("a, b", 5, 10));
        assert_eq!(script.packet(5, 10, "3,0,Sign"), None);
    }
}
