//! The worth of each optimisation, in the format of the published table.

use super::{INTERRUPTED, Section, Slugs};
use crate::report::chart::waterfall::{self, change};
use crate::report::html::{self, Cell};
use crate::report::model::{Ablate, AblateRow, Stable};
use crate::report::number::{percent, significant};

/// The chart, the table, and the rows that were left out, with reasons.
pub(crate) fn section(ablate: &Ablate, slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("ablate"), "What each optimisation is worth");
    let rate = ablate
        .rate_bits_per_second
        .map(|rate| format!(" of {} Mb/s each", significant(rate / 1e6)))
        .unwrap_or_default();
    section.push(&html::paragraph(
        "",
        &format!(
            "The greatest stable load of paced viewers{rate}: no errors, and no viewer starved. It is divided by the CPU percent that the server used, \
             with everything on, and then with each optimisation left out alone. Losses do not add up, since each is measured against \
             everything on."
        ),
    ));
    if ablate.interrupted == Some(true) {
        section.push(&html::paragraph("warning", INTERRUPTED));
    }
    if let Some(said) = sentence(ablate) {
        section.push(&html::paragraph("", &said));
    }
    let mut caption = "Solid: what is left without it. Dashed: what is lost.".to_owned();
    if ablate
        .rows
        .iter()
        .flatten()
        .any(|row| row.seed.as_ref().and_then(|seed| seed.ratio()).is_some())
    {
        caption.push_str(
            " Diamonds: what Netflix, whose method this is, measured on its own machine (32 cores, network cards) without something similar; compare directions, not sizes.",
        );
    }
    let slug = slugs.take("ablate waterfall");
    section.show(waterfall::chart(&slug, ablate), &caption);
    section.push(&html::details("The figures as tables", &(table(ablate) + &seeds(ablate))));
    section.push(&skipped(ablate));
    section
}

/// A sentence about the greatest loss.
pub(crate) fn sentence(ablate: &Ablate) -> Option<String> {
    let worst = ablate
        .rows
        .iter()
        .flatten()
        .filter_map(|row| Some((row, row.ratio()?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .filter(|(_, ratio)| *ratio < 0.95)?;
    let what = worst.0.what.as_deref().map(|what| format!(" ({what})")).unwrap_or_default();
    Some(format!(
        "Of the optimisations, {}{what} is worth most: without it, a CPU percent does {} less in the workload {}.",
        worst.0.switch(),
        percent(1.0 - worst.1),
        worst.0.workload()
    ))
}

fn table(ablate: &Ablate) -> String {
    let head = [
        "work",
        "left out",
        "viewers",
        "Gb/s",
        "CPU %",
        "per CPU %",
        "of what",
        "change",
        "what it is",
        "why no more was stable",
    ];
    let mut rows = Vec::new();
    let mut works: Vec<&str> = Vec::new();
    for row in ablate.rows.iter().flatten().filter(|row| row.skipped.is_none()) {
        if let (false, Some(baseline)) = (works.contains(&row.workload()), &row.baseline) {
            works.push(row.workload());
            rows.push(cells(row, "nothing", baseline, [None, Some(""), Some("")]));
        }
        let change = row.ratio().map(change);
        rows.push(cells(
            row,
            row.switch(),
            &row.stable,
            [change.as_deref(), row.what.as_deref(), row.stopped_by.as_deref()],
        ));
    }
    html::table("Greatest stable load", &head, &rows)
}

fn cells(
    row: &AblateRow,
    name: &str,
    stable: &Stable,
    [change, what, stopped_by]: [Option<&str>; 3],
) -> Vec<Cell> {
    vec![
        Cell::Words(row.workload().to_owned()),
        Cell::Words(name.to_owned()),
        Cell::number(stable.viewers, significant),
        Cell::number(stable.gbps, significant),
        Cell::number(stable.cpu_percent, significant),
        Cell::number(row.per_cpu_percent(stable), significant),
        Cell::words(Some(row.unit_words())),
        Cell::Number(change.unwrap_or("–").to_owned()),
        Cell::words(what),
        Cell::words(stopped_by),
    ]
}

fn seeds(ablate: &Ablate) -> String {
    let rows: Vec<_> = ablate
        .rows
        .iter()
        .flatten()
        .filter_map(|row| {
            let seed = row.seed.as_ref()?;
            Some(vec![
                Cell::Words(row.switch().to_owned()),
                Cell::words(seed.switched_off.as_deref()),
                Cell::number(seed.baseline_gbps, significant),
                Cell::number(seed.baseline_cpu_percent, significant),
                Cell::number(seed.gbps, significant),
                Cell::number(seed.cpu_percent, significant),
                Cell::Number(seed.ratio().map_or_else(|| "–".to_owned(), change)),
                Cell::Number(row.ratio().map_or_else(|| "–".to_owned(), change)),
                Cell::words(seed.source.as_deref()),
            ])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "ours",
        "Netflix left out",
        "with it, Gb/s",
        "CPU %",
        "without, Gb/s",
        "CPU %",
        "its change",
        "our change",
        "source",
    ];
    html::table("Netflix's rows next to ours", &head, &rows)
}

fn skipped(ablate: &Ablate) -> String {
    let why = |row: &AblateRow| match (&row.skipped, row.ratio()) {
        (Some(why), _) => Some(format!("{}: skipped, {why}", row.switch())),
        (None, None) => {
            let why = row.stopped_by.as_deref().unwrap_or("there is nothing to compare it with");
            Some(format!("{}: no ratio, {why}", row.switch()))
        }
        (None, Some(_)) => None,
    };
    let said: Vec<_> = ablate.rows.iter().flatten().filter_map(why).collect();
    if said.is_empty() {
        return String::new();
    }
    html::paragraph("", "Not in the chart:") + &html::list(&said)
}
