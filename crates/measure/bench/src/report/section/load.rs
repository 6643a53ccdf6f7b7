//! Runs of the load generator alone.

use super::{Section, Slugs};
use crate::report::html::{self, Cell};
use crate::report::model::Load;
use crate::report::number::{count, significant};

/// A table of all runs, with errors and warnings below. `None` if there are no runs.
pub(crate) fn section(loads: &[(&str, &Load)], slugs: &mut Slugs) -> Option<Section> {
    if loads.is_empty() {
        return None;
    }
    let mut section = Section::new(slugs.take("load"), "Load alone");
    section
        .push(&html::paragraph("", "What viewers got from a single server, without a comparison."));
    let head = [
        "file",
        "seconds",
        "Gb/s",
        "requests/s",
        "handshakes/s",
        "connections",
        "verified",
        "first byte p50, ms",
        "p99",
        "p99.9",
        "errors",
    ];
    let rows: Vec<_> = loads.iter().map(|(file, load)| cells(file, load)).collect();
    section.push(&html::table("Runs of load", &head, &rows));
    for (file, load) in loads {
        for doubt in doubts(load) {
            section.push(&html::paragraph("warning", &format!("{file}: {doubt}")));
        }
    }
    Some(section)
}

fn cells(file: &str, load: &Load) -> Vec<Cell> {
    let number = |figure| Cell::number(figure, significant);
    let first_byte = load.first_byte_ms.unwrap_or_default();
    vec![
        Cell::Words(file.to_owned()),
        number(load.measured_seconds),
        number(load.gbps),
        number(load.requests_per_second),
        number(load.handshakes_per_second),
        Cell::Number(load.connections_opened.map_or_else(|| "–".to_owned(), count)),
        Cell::Number(load.verified.map_or_else(|| "–".to_owned(), count)),
        number(first_byte.p50),
        number(first_byte.p99),
        number(first_byte.p999),
        Cell::Words(errors(load)),
    ]
}

fn errors(load: &Load) -> String {
    let errors: Vec<_> = load
        .errors
        .iter()
        .flatten()
        .map(|(kind, error)| format!("{} × {kind}", error["count"]))
        .collect();
    if errors.is_empty() { "none".to_owned() } else { errors.join(", ") }
}

fn doubts(load: &Load) -> Vec<&'static str> {
    let doubts = [
        (load.interrupted, super::INTERRUPTED),
        (
            load.client_bound,
            "The generator was out of CPU time: these are its limits, not the server's.",
        ),
    ];
    doubts.into_iter().filter(|(is, _)| *is == Some(true)).map(|(_, said)| said).collect()
}
