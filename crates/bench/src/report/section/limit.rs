//! What bounds this machine.

use super::{INTERRUPTED, Section, Slugs};
use crate::report::chart::limit as chart;
use crate::report::html::{self, Cell};
use crate::report::model::Limit;
use crate::report::number::{percent, significant};

/// The two charts and the parts.
pub(crate) fn section(limit: &Limit, slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("limit"), "What bounds this machine");
    section.push(&html::paragraph(
        "",
        "Each part of the work is measured alone on the same core in the same run. A byte that goes through all of the chain takes the \
         sum of the parts' times; the inverse of that sum is the ceiling that a server made of these parts can reach.",
    ));
    if limit.interrupted == Some(true) {
        section.push(&html::paragraph("warning", INTERRUPTED));
    }
    if let Some(said) = sentence(limit) {
        section.push(&html::paragraph("", &said));
    }
    let slug = slugs.take("limit shares");
    section.show(
        chart::shares(&slug, limit),
        "Shares are of the time that a byte takes through the whole chain.",
    );
    let slug = slugs.take("limit ceiling");
    section.show(
        chart::heights(&slug, limit),
        "The pipeline is the same chain in one bare loop, without a server around it.",
    );
    section.push(&html::details("The figures as a table", &table(limit)));
    section
}

/// How near the server comes, and what bounds it.
pub(crate) fn sentence(limit: &Limit) -> Option<String> {
    let share = limit.share_of_ceiling?;
    let ceiling = limit
        .ceiling_gbps
        .map(|gbps| format!(" of {} Gb/s per core", significant(gbps)))
        .unwrap_or_default();
    let bound = limit
        .bound_by
        .as_deref()
        .map(|part| format!("; what bounds it most is: {part}"))
        .unwrap_or_default();
    Some(format!("The server reaches {} of the ceiling{ceiling}{bound}.", percent(share)))
}

fn table(limit: &Limit) -> String {
    let mut rows: Vec<_> = limit
        .parts
        .iter()
        .flatten()
        .map(|part| {
            vec![
                Cell::Words(part.name.clone().unwrap_or_default()),
                Cell::number(part.gbps, significant),
                Cell::number(part.deviation, significant),
                Cell::words(part.what.as_deref()),
            ]
        })
        .collect();
    let server = limit.server.unwrap_or_default();
    let chain = limit.chain.as_deref().unwrap_or_default().join(" + ");
    let further = [
        ("ceiling", limit.ceiling_gbps, None, chain.as_str()),
        ("pipeline", limit.pipeline_gbps, None, "the chain in one loop"),
        (
            "server",
            server.gbps_per_cpu_second,
            server.deviation,
            "the whole server, per CPU second",
        ),
    ];
    for (name, gbps, deviation, what) in further {
        let number = |figure| Cell::number(figure, significant);
        rows.push(vec![
            Cell::Words(name.to_owned()),
            number(gbps),
            number(deviation),
            Cell::words(Some(what)),
        ]);
    }
    html::table(
        "Parts alone, their sum, and the server",
        &["part", "Gb/s per core", "deviation", "what"],
        &rows,
    )
}
