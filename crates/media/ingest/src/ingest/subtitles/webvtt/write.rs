//! Writes WebVTT.

use std::fmt::Write;

use escape::xml::escape_text;

use super::super::cue::{self, CUE_BYTES_MAX, CUES_MAX, Column, Look, Place, Row, Run};
use super::{Cue, Document};

impl Document {
    /// The cues of another format, in order.
    pub(in super::super) fn of(cues: Vec<cue::Cue>) -> Self {
        let mut document = Self::default();
        for cue in cue::in_order(cues) {
            let bytes: usize = cue.runs.iter().map(|run| run.text.len()).sum();
            if bytes <= CUE_BYTES_MAX && document.cues.len() < CUES_MAX {
                document.cues.push(Cue::of(&cue));
            } else {
                document.dropped += 1;
            }
        }
        document
    }

    /// The file.
    pub(in super::super) fn write(&self) -> String {
        let mut text = String::from("WEBVTT\n");
        for block in &self.head {
            text.extend(["\n", block, "\n"]);
        }
        for cue in &self.cues {
            text.push('\n');
            if !cue.id.is_empty() {
                text.extend([&cue.id, "\n"]);
            }
            write_time(&mut text, cue.start_ms);
            text.push_str(" --> ");
            write_time(&mut text, cue.end_ms);
            if !cue.settings.is_empty() {
                text.extend([" ", &cue.settings]);
            }
            text.extend(["\n", &cue.payload, "\n"]);
        }
        text
    }
}

impl Cue {
    fn of(cue: &cue::Cue) -> Self {
        Self {
            start_ms: cue.start_ms,
            end_ms: cue.end_ms,
            id: String::new(),
            settings: settings(cue.place),
            payload: cue.runs.iter().map(marked_up).collect(),
        }
    }
}

/// Hours are left out if there are none.
fn write_time(text: &mut String, ms: u64) {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    // Writing to a String cannot fail.
    let _ = match hours {
        0 => write!(text, "{minutes:02}:{seconds:02}.{ms:03}"),
        hours => write!(text, "{hours:02}:{minutes:02}:{seconds:02}.{ms:03}"),
    };
}

/// Only settings that all browsers have: Chromium ignores a setting with a second value, such as `line:10%,end`.
fn settings(place: Place) -> String {
    let line = match place.row {
        Row::Top => Some("line:0".to_owned()),
        Row::At(percent) => Some(format!("line:{percent}%")),
        Row::Bottom => None,
    };
    let column = match place.column {
        Column::Left(percent) => Some(format!("position:{percent}% align:start")),
        Column::Middle(percent) => Some(format!("position:{percent}%")),
        Column::Right(percent) => Some(format!("position:{percent}% align:end")),
        Column::Centre => None,
    };
    line.into_iter().chain(column).collect::<Vec<_>>().join(" ")
}

fn marked_up(run: &Run) -> String {
    let Look { is_italic, is_bold, is_underlined, colour } = run.look;
    let class = colour.map(|colour| (format!("c.{}", colour.class()), "c"));
    let tag = |is_set: bool, name: &'static str| is_set.then(|| (name.to_owned(), name));
    let tags = [class, tag(is_bold, "b"), tag(is_italic, "i"), tag(is_underlined, "u")];
    let tags: Vec<_> = tags.into_iter().flatten().collect();
    let begin: String = tags.iter().map(|(begin, _)| format!("<{begin}>")).collect();
    let end: String = tags.iter().rev().map(|(_, end)| format!("</{end}>")).collect();
    format!("{begin}{}{end}", escape_text(&run.text))
}
