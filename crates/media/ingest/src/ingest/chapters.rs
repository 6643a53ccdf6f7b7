//! Chapters as JSON, in Apple's format ("Providing JavaScript Object Notation (JSON) chapters"). Apple's players, Shaka Player and this server's
//! own page read it.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::error::{Attempt, IngestError};
use super::made::Made;
use crate::source;

/// The name of the file in a version's folder.
pub(super) const CHAPTERS: &str = "chapters.json";

/// The language of a title if it is unknown. ffprobe doesn't report a chapter's language.
const UNKNOWN: &str = "und";

/// One chapter of the list.
#[derive(Debug, PartialEq, Serialize)]
struct Chapter<'a> {
    /// Counted from 1.
    chapter: usize,
    #[serde(rename = "start-time")]
    start_seconds: f64,
    #[serde(rename = "duration")]
    seconds: f64,
    /// None if the source has no title for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    titles: Vec<Title<'a>>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Title<'a> {
    language: &'static str,
    title: &'a str,
}

/// Writes the chapters of the source into `folder`, if it has any, and notes that in `made`.
pub(super) fn write(
    chapters: &[source::Chapter],
    folder: &Path,
    made: &mut Made,
) -> Result<(), IngestError> {
    let list = list(chapters, made.seconds());
    // A single chapter without a title says nothing.
    if list.iter().all(|one| one.titles.is_empty()) && list.len() < 2 {
        return Ok(());
    }
    let path = folder.join(CHAPTERS);
    let text = serde_json::to_string_pretty(&list).map_err(std::io::Error::from);
    fs::write(&path, text.attempt("write", &path)? + "\n").attempt("write", &path)?;
    made.has_chapters = true;
    Ok(())
}

/// The chapters in order, each up to the next one. Those that begin after the film's end, or together with another one, are left out.
fn list(chapters: &[source::Chapter], film_seconds: f64) -> Vec<Chapter<'_>> {
    let mut sorted: Vec<_> =
        chapters.iter().filter(|one| one.start_seconds < film_seconds).collect();
    sorted.sort_by(|a, b| a.start_seconds.total_cmp(&b.start_seconds));
    sorted.dedup_by_key(|one| milliseconds(one.start_seconds) as u64);
    let ends = sorted.iter().skip(1).map(|one| one.start_seconds).chain([film_seconds]);
    let ends: Vec<_> = ends.collect();
    let chapters = sorted.into_iter().zip(ends).enumerate();
    chapters.map(|(index, (one, next))| one.until(next, index + 1)).collect()
}

impl source::Chapter {
    /// The chapter of this `number`, which ends before the next one begins.
    fn until(&self, next_seconds: f64, number: usize) -> Chapter<'_> {
        let own_end = self.end_seconds.filter(|&end| end > self.start_seconds);
        let end = milliseconds(own_end.unwrap_or(next_seconds).min(next_seconds));
        let start = milliseconds(self.start_seconds);
        Chapter {
            chapter: number,
            start_seconds: start / 1000.0,
            seconds: (end - start).max(1.0) / 1000.0,
            titles: self.title.iter().map(|title| Title { language: UNKNOWN, title }).collect(),
        }
    }
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chapter(start_seconds: f64, end_seconds: f64, title: &str) -> source::Chapter {
        let title = Some(title.to_owned()).filter(|title| !title.is_empty());
        source::Chapter { start_seconds, end_seconds: Some(end_seconds), title }
    }

    #[test]
    fn chapters_are_in_order_do_not_overlap_and_end_with_the_film() {
        let source = [
            chapter(4.0, 99.0, "Last"),
            chapter(0.0, 4.0, "Whole"),
            chapter(0.0, 2.0, "First"),
            chapter(2.0004, 3.0, ""),
            chapter(10.0, 11.0, "After the end"),
        ];
        let list = list(&source, 6.0);
        let times: Vec<_> = list.iter().map(|one| (one.start_seconds, one.seconds)).collect();
        assert_eq!(times, [(0.0, 2.0), (2.0, 1.0), (4.0, 2.0)]);
        let titles: Vec<_> = list.iter().map(|one| one.titles.len()).collect();
        assert_eq!(titles, [1, 0, 1]);
        assert_eq!(list[0].titles[0].title, "Whole");
    }
}
