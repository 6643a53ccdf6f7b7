//! The cost of a restart for viewers.

use super::{Section, Slugs};
use crate::report::chart::strip;
use crate::report::html::{self, Cell};
use crate::report::model::Start;
use crate::report::number::{THIN_SPACE, significant, with_spread};

/// The starts, one by one.
pub(crate) fn section(start: &Start, slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("start"), "From start to first byte");
    section.push(&html::paragraph(
        "",
        "From starting the process to the first byte of a body over TLS, handshake included.",
    ));
    let milliseconds = start.milliseconds.as_deref().unwrap_or_default();
    let slug = slugs.take("start strip");
    section.show(strip::chart(&slug, milliseconds), "Each start, and their median.");
    let rows: Vec<_> = milliseconds
        .iter()
        .enumerate()
        .map(|(index, figure)| {
            vec![Cell::Number((index + 1).to_string()), Cell::Number(significant(*figure))]
        })
        .collect();
    section.push(&html::details(
        "The figures as a table",
        &html::table("Each start", &["start", "ms"], &rows),
    ));
    section
}

/// The result in one line.
pub(crate) fn sentence(start: &Start) -> Option<String> {
    let figure = with_spread(start.median?, start.deviation.unwrap_or(0.0));
    Some(format!("The first byte is served {figure}{THIN_SPACE}ms after the process starts."))
}
