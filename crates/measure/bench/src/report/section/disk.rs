//! How a disk's reads complete: by interrupts, by polling, by commands to its driver.

use super::{INTERRUPTED, Section, Slugs};
use crate::report::chart::growth::{self, Step};
use crate::report::html::{self, Cell};
use crate::report::model::{Disk, DiskWay};
use crate::report::number::{bytes, count, significant};

/// Two charts, and a table with all figures. Ways that were not available appear in the table, with the reason.
pub(crate) fn section(disk: &Disk, slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("disk"), "How a disk's reads complete");
    section.push(&html::paragraph("", &sentence(disk)));
    if disk.interrupted == Some(true) {
        section.push(&html::paragraph("warning", INTERRUPTED));
    }
    let ways = disk.ways.as_deref().unwrap_or_default();
    let (slug, title) = (slugs.take("disk cpu"), "Work per CPU second");
    let work = steps(ways, |way| way.gbps_per_cpu_second, significant);
    let axis = "Gb/s per CPU second of the reading thread, more is better";
    section.show(growth::chart(&slug, title, &work, axis), "A thread that polls is never idle.");
    let (slug, title) =
        (slugs.take("disk wait"), "Time until the program sees that a read is done");
    let wait = steps(ways, |way| way.us_median, |us| format!("{} us", significant(us)));
    let axis = "microseconds, median, less is better";
    section.show(growth::chart(&slug, title, &wait, axis), "From submitting a read.");
    section.push(&html::details("The figures as a table", &table(ways)));
    section
}

fn sentence(disk: &Disk) -> String {
    let known = |figure: Option<f64>, say: fn(f64) -> String| {
        figure.map_or_else(|| "an unknown number".to_owned(), say)
    };
    format!(
        "One thread reads {}: {} reads of {} in flight, past the page cache.",
        disk.read.as_deref().unwrap_or("a disk"),
        disk.in_flight.map_or_else(|| "an unknown number of".to_owned(), count),
        known(disk.read_bytes, bytes),
    )
}

fn steps(
    ways: &[DiskWay],
    of: fn(&DiskWay) -> Option<f64>,
    value: impl Fn(f64) -> String,
) -> Vec<Step> {
    let step = |way: &DiskWay| {
        let figure = of(way)?;
        Some(Step { label: way.name.clone()?, figure, value: value(figure) })
    };
    ways.iter().filter_map(step).collect()
}

fn table(ways: &[DiskWay]) -> String {
    let head = [
        "way",
        "Gb/s per CPU second",
        "±",
        "Gb/s",
        "reads/s",
        "us",
        "done at once",
        "interrupts per read",
        "not available",
    ];
    let cells = |way: &DiskWay| {
        let number = |figure| Cell::number(figure, significant);
        vec![
            Cell::words(way.name.as_deref()),
            number(way.gbps_per_cpu_second),
            number(way.deviation),
            number(way.gbps),
            number(way.reads_per_second),
            number(way.us_median),
            number(way.reads_at_once),
            number(way.interrupts_per_read),
            Cell::words(way.unavailable.as_deref()),
        ]
    };
    html::table("Each way", &head, &ways.iter().map(cells).collect::<Vec<_>>())
}
