//! The limits of this machine.

use super::{INTERRUPTED, Section, Slugs};
use crate::report::chart::limit as chart;
use crate::report::html::{self, Cell};
use crate::report::model::{Chain, Limit};
use crate::report::number::{percent, significant};

/// Two charts for each chain, and the parts.
pub(crate) fn section(limit: &Limit, slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("limit"), "What bounds this machine");
    section.push(&html::paragraph(
        "",
        "Each part of the work is measured alone on the same core in the same run. A byte that goes through all of a chain takes the \
         sum of the parts' times; the inverse of that sum is the ceiling that a server made of these parts can reach.",
    ));
    if limit.interrupted == Some(true) {
        section.push(&html::paragraph("warning", INTERRUPTED));
    }
    if let Some(said) = &limit.bound_by {
        section.push(&html::paragraph("", said));
    }
    for (index, chain) in limit.chains.iter().enumerate() {
        // The bare loop consists of the first chain's parts.
        let pipeline_gbps = limit.pipeline_gbps.filter(|_| index == 0);
        show(&mut section, limit, chain, pipeline_gbps, slugs);
    }
    section.push(&html::details("The figures as tables", &(chains(limit) + &parts(limit))));
    section
}

fn show(
    section: &mut Section,
    limit: &Limit,
    chain: &Chain,
    pipeline_gbps: Option<f64>,
    slugs: &mut Slugs,
) {
    section.push(&html::heading(
        3,
        &chain.share_of_ceiling.map_or_else(
            || chain.workload().to_owned(),
            |share| format!("{}: {} of the ceiling", chain.workload(), percent(share)),
        ),
    ));
    let slug = slugs.take(&format!("limit shares {}", chain.workload()));
    let shares = chart::shares(&slug, chain, limit.parts.as_deref().unwrap_or_default());
    section.show(shares, "Shares are of the time that a byte takes through the whole chain.");
    let slug = slugs.take(&format!("limit ceiling {}", chain.workload()));
    let caption = match pipeline_gbps {
        Some(_) => "The pipeline is the same chain in one bare loop, without a server around it.",
        None => "The ceiling follows from the sum of the chain's parts.",
    };
    section.show(chart::heights(&slug, chain, pipeline_gbps), caption);
}

/// How close the server comes to the ceiling in the first chain.
pub(crate) fn sentence(limit: &Limit) -> Option<String> {
    let chain = limit.chains.first()?;
    let (share, ceiling) = (percent(chain.share_of_ceiling?), significant(chain.ceiling_gbps?));
    let work = chain
        .workload
        .as_deref()
        .map(|name| format!("In {name} the"))
        .unwrap_or_else(|| "The".to_owned());
    Some(format!(
        "{work} server reaches {share} of what this machine's parts add up to, {ceiling} Gb/s per core."
    ))
}

fn chains(limit: &Limit) -> String {
    let rows: Vec<_> = limit
        .chains
        .iter()
        .map(|chain| {
            let server = chain.server.unwrap_or_default();
            vec![
                Cell::Words(chain.workload().to_owned()),
                Cell::number(chain.ceiling_gbps, significant),
                Cell::number(server.gbps_per_cpu_second, significant),
                Cell::number(server.deviation, significant),
                Cell::number(chain.share_of_ceiling, percent),
                Cell::Words(chain.chain.as_deref().unwrap_or_default().join(" + ")),
            ]
        })
        .collect();
    let head = [
        "chain",
        "ceiling, Gb/s per core",
        "server, Gb/s per CPU second",
        "deviation",
        "share",
        "parts",
    ];
    html::table("Servers and their ceilings", &head, &rows)
}

fn parts(limit: &Limit) -> String {
    let mut rows: Vec<_> = limit
        .parts
        .iter()
        .flatten()
        .map(|part| {
            vec![
                Cell::Words(part.name.clone().unwrap_or_default()),
                Cell::number(part.gbps, significant),
                Cell::number(part.deviation, significant),
                Cell::number(part.wall_gbps, significant),
                Cell::words(part.what.as_deref()),
            ]
        })
        .collect();
    let is_listed =
        limit.parts.iter().flatten().any(|part| part.name.as_deref() == Some("pipeline"));
    if !is_listed && limit.pipeline_gbps.is_some() {
        let none = Cell::number(None, significant);
        let pipeline = Cell::number(limit.pipeline_gbps, significant);
        rows.push(vec![
            Cell::Words("pipeline".into()),
            pipeline,
            none.clone(),
            none,
            Cell::words(Some("the chain in a bare loop")),
        ]);
    }
    html::table(
        "Parts alone",
        &["part", "Gb/s per CPU second", "deviation", "Gb/s by the clock", "what"],
        &rows,
    )
}
