//! The cost of additional viewers on the bypass route.

use super::{Section, Slugs};
use crate::report::chart::growth::{self, Step};
use crate::report::html::{self, Cell};
use crate::report::model::{Connections, ConnectionsRow};
use crate::report::number::{bytes, count, significant};

/// Two charts, and a table with all figures.
pub(crate) fn section(connections: &Connections, slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("connections"), "Increasing numbers of viewers");
    let rate = connections.total_bits_per_second.map_or_else(
        || "one total rate".to_owned(),
        |bits| format!("{} Gb/s for all of them together", significant(bits * 1e-9)),
    );
    section.push(&html::paragraph(
        "",
        &format!(
            "The bypass route without a network: the server's own TCP, keys, records and buffers, and viewers simulated by one thread, at {rate}. It leaves out handshakes, parsing and the cost of a device."
        ),
    ));
    let rows = connections.rows.as_deref().unwrap_or_default();
    let (slug, title) = (slugs.take("cost by connections"), "CPU time per byte");
    let cost = steps(rows, |row| row.cpu_ns_per_byte, |ns| format!("{} ns", significant(ns)));
    let axis = "nanoseconds of CPU time per byte, less is better";
    section.show(growth::chart(&slug, title, &cost, axis), "By the number of viewers.");
    let (slug, title) = (slugs.take("memory by connections"), "Memory per viewer");
    let memory = steps(rows, |row| row.bytes_per_connection, bytes);
    let axis = "bytes of resident memory per viewer, less is better";
    section.show(growth::chart(&slug, title, &memory, axis), "By the number of viewers.");
    section.push(&html::details("The figures as a table", &table(rows)));
    section
}

fn steps(
    rows: &[ConnectionsRow],
    of: fn(&ConnectionsRow) -> Option<f64>,
    value: impl Fn(f64) -> String,
) -> Vec<Step> {
    let step = |row: &ConnectionsRow| {
        let figure = of(row)?;
        let label = format!("{} viewers", count(row.connections?));
        Some(Step { label, figure, value: value(figure) })
    };
    rows.iter().filter_map(step).collect()
}

fn table(rows: &[ConnectionsRow]) -> String {
    let head = [
        "viewers",
        "Gb/s",
        "CPU %",
        "ns per byte",
        "wake-ups per MiB",
        "timers per MiB",
        "records re-encrypted, %",
        "memory each",
        "Jain's index",
    ];
    let cells = |row: &ConnectionsRow| {
        let number = |figure| Cell::number(figure, significant);
        vec![
            Cell::Number(row.connections.map_or_else(|| "–".to_owned(), count)),
            number(row.gbps),
            number(row.cpu_percent),
            number(row.cpu_ns_per_byte),
            number(row.wakeups_per_mib),
            number(row.timers_per_mib),
            number(row.records_again_percent),
            Cell::number(row.bytes_per_connection, bytes),
            number(row.jain),
        ]
    };
    html::table("Each number of viewers", &head, &rows.iter().map(cells).collect::<Vec<_>>())
}
