//! Reads a file of WebVTT, strictly: a cue with invalid times, or a block where none may be, is dropped and counted.

use super::super::cue::{CUE_BYTES_MAX, CUES_MAX, MS_MAX};
use super::{Cue, Document, payload, settings};

/// The longest STYLE and REGION blocks together.
const HEAD_BYTES_MAX: usize = 64 << 10;

impl Document {
    /// Whether a text is a file of WebVTT, by its first line.
    pub(in super::super) fn is_webvtt(text: &str) -> bool {
        let rest = text.strip_prefix("WEBVTT");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n']))
    }

    /// Reads a whole file, whose lines end with `\n`.
    pub(in super::super) fn read(text: &str) -> Self {
        let mut document = Self::default();
        let mut blocks = text.split("\n\n").map(|block| block.trim_matches('\n'));
        // The header has a comment and metadata, which is for streams; its cues may follow without an empty line.
        let head = blocks.next().unwrap_or("");
        if let Some((before, _)) = head.split_once("-->") {
            let begin = before.rfind('\n').unwrap_or(0);
            document.block(head[begin..].trim_matches('\n'));
        }
        blocks.filter(|block| !block.is_empty()).for_each(|block| document.block(block));
        document.sort();
        document
    }

    fn block(&mut self, block: &str) {
        // Readers allow only these behind a word.
        let first = block.lines().next().unwrap_or("").trim_end_matches([' ', '\t']);
        match first {
            _ if is_comment(first) => {}
            _ if block.contains("-->") => match Cue::read(block) {
                Some(cue) if self.cues.len() < CUES_MAX => self.cues.push(cue),
                _ => self.dropped += 1,
            },
            "STYLE" | "REGION" => self.head_block(block),
            // Text without times: an identifier alone, or what followed an empty line inside a cue.
            _ => self.dropped += 1,
        }
    }

    /// STYLE and REGION may only be in front of all cues.
    fn head_block(&mut self, block: &str) {
        let bytes: usize = self.head.iter().map(String::len).sum();
        let is_shown = |letter: &char| !letter.is_control() || *letter == '\t';
        // Without control characters, a line may be empty, which would end the block, or have an arrow, which would make it a cue.
        let lines = block.lines().map(|line| line.chars().filter(is_shown).collect::<String>());
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        let has_arrow = lines.iter().any(|line| line.contains("-->"));
        if self.cues.is_empty() && bytes + block.len() <= HEAD_BYTES_MAX && !has_arrow {
            self.head.push(lines.join("\n"));
        } else {
            self.dropped += 1;
        }
    }
}

/// Whether a block is a comment, by its first line.
fn is_comment(first: &str) -> bool {
    first.strip_prefix("NOTE").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

impl Cue {
    /// Reads a block with an optional identifier, a line of times, and text.
    fn read(block: &str) -> Option<Self> {
        let (id, rest) = match block.split_once('\n') {
            Some((first, rest)) if !first.contains("-->") => (first, rest),
            _ => ("", block),
        };
        let (times, text) = rest.split_once('\n').unwrap_or((rest, ""));
        let (start, after) = times.split_once("-->")?;
        let after = after.trim_start();
        let end_bytes = after.find(char::is_whitespace).unwrap_or(after.len());
        let (end, settings) = after.split_at(end_bytes);
        // An arrow in the text would begin another cue; it is the text's only if no valid times are around it.
        Self::new(time_ms(start.trim())?, time_ms(end)?, id, settings, text)
    }

    /// A cue as it is in a file or a packet; `None` if it has no length or no text.
    pub(in super::super) fn new(
        start_ms: u64,
        end_ms: u64,
        id: &str,
        settings: &str,
        text: &str,
    ) -> Option<Self> {
        if start_ms >= end_ms || end_ms > MS_MAX || text.len() > CUE_BYTES_MAX {
            return None;
        }
        let payload = payload::valid(text);
        let id = id.trim();
        let is_plain = !id.contains("-->") && !id.contains(char::is_control) && !is_comment(id);
        let id = if is_plain { id.to_owned() } else { String::new() };
        let settings = settings::valid(settings);
        (!payload.is_empty()).then_some(Self { start_ms, end_ms, id, settings, payload })
    }
}

/// `MM:SS.mmm` or `HH:MM:SS.mmm`, with two digits or more for hours.
pub(super) fn time_ms(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>, below: u64| -> Option<u64> {
        let is_number =
            digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number < below)
    };
    let parts: Vec<_> = whole.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes, seconds] => (number(hours, 2..=6, u64::MAX)?, minutes, seconds),
        [minutes, seconds] => (0, minutes, seconds),
        _ => return None,
    };
    let (minutes, seconds) = (number(minutes, 2..=2, 60)?, number(seconds, 2..=2, 60)?);
    Some(((hours * 60 + minutes) * 60 + seconds) * 1000 + number(fraction, 3..=3, 1000)?)
}
