//! A workload, and the servers compared in it.

use super::{INTERRUPTED, Section, Slugs, carried};
use crate::report::chart::bars::{self, Group};
use crate::report::html::{self, Cell};
use crate::report::model::{Counters, Part, Round, Side, Versus};
use crate::report::number::{THIN_SPACE, bytes, percent, significant, with_spread};
use crate::report::svg::escaped;
use crate::report::verdict::{Comparison, Unit};
use std::fmt::Write;

/// Descriptions of this program's workloads.
const WORKLOADS: [(&str, &str); 10] = [
    ("tls-warm", "Whole files over TLS 1.3 (AES-128-GCM), all of them in the page cache."),
    (
        "tls-cold",
        "Whole files over TLS 1.3 (AES-128-GCM), all of them from disk, past the page cache or evicted from it.",
    ),
    ("http-warm", "Whole files over plain HTTP, all of them in the page cache."),
    ("http-cold", "Whole files over plain HTTP, all of them from disk."),
    (
        "http-beside",
        "Paced viewers over plain HTTP whose films are in the page cache, while others take films from disk: how long the slowest viewers of cached films waited for a first byte.",
    ),
    (
        "idle",
        "Idle TLS connections, after one byte each: the memory that each of them costs the server.",
    ),
    ("handshakes", "Full TLS handshakes, each on a new connection; nothing else is requested."),
    ("viewers", "Paced viewers over TLS: each takes what it plays and no more."),
    (
        "mixed",
        "Ranges of 1 MiB over TLS; a set share of the requests is for titles that are in memory, the others come from disk.",
    ),
    (
        "swarm",
        "Viewers who really play films over TLS, from memory: their number rises until one of them stalls. The comparison is by viewers per CPU second of the server.",
    ),
];

/// All comparisons of one workload.
pub(crate) fn section(workload: &str, runs: &[&Versus], slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take(workload), workload);
    if let Some((_, is)) = WORKLOADS.iter().find(|(name, _)| *name == workload) {
        section.push(&html::paragraph("", is));
    }
    for versus in runs {
        run(&mut section, versus, slugs);
    }
    section
}

fn run(section: &mut Section, versus: &Versus, slugs: &mut Slugs) {
    section.push(&html::heading(3, &title(versus)));
    for warning in warnings(versus) {
        section.push(&html::paragraph("warning", &warning));
    }
    let ratios: String =
        versus.parts.iter().map(|part| format!("<div>{}</div>\n", ratio(versus, part))).collect();
    section.push(&format!("<div class=\"ratios\">\n{ratios}</div>\n"));
    for sentence in carried::sentences(versus) {
        section.push(&html::paragraph("", &sentence));
    }
    let client = versus.other_client().map(|client| format!(" {client}")).unwrap_or_default();
    let slug = slugs.take(&format!("versus {} {}{client}", versus.workload(), versus.peer()));
    let groups: Vec<_> = versus
        .parts
        .iter()
        .map(|part| Group {
            heading: part.hit_percent.map(|hit| format!("{} hits", percent(hit / 100.0))),
            part,
        })
        .collect();
    let said: Vec<_> = versus.parts.iter().map(describe).collect();
    let chart = bars::chart(
        &slug,
        &format!("{}, {}", versus.workload(), title(versus)),
        &said.join(". "),
        &groups,
    );
    section
        .show(chart, "Bars are medians, whiskers median absolute deviations, dots single rounds.");
    section.push(&html::details("The figures as tables", &tables(versus)));
}

fn title(versus: &Versus) -> String {
    let mut title = format!("Compared with {}", versus.peer());
    if let Some(client) = versus.other_client() {
        write!(title, ", with {client} as the client").expect("writing to a string cannot fail");
    }
    if let Some(name) = &versus.congestion_control {
        title.push_str(&format!(", congestion control {name}"));
    }
    title
}

/// The ratio in large type, its spread, and what it means.
fn ratio(versus: &Versus, part: &Part) -> String {
    let Some(comparison) = Comparison::of(versus, part) else {
        return html::paragraph(
            "meaning",
            "No ratio: not both sides completed a round, so nothing is compared.",
        );
    };
    let hits = comparison.hit_percent.map(|hit| format!("{} hits", percent(hit / 100.0)));
    let hits = hits.map(|hits| html::paragraph("over", &hits)).unwrap_or_default();
    let spread = with_spread(comparison.ratio, comparison.ratio_deviation);
    let spread = spread.split_once('±').map_or("", |(_, spread)| spread);
    format!(
        "{hits}<p class=\"big\">{} <small>±{}</small></p>\n{}",
        escaped(&comparison.times()),
        escaped(spread),
        html::paragraph("meaning", &format!("{}.", comparison.sentence()))
    )
}

/// Warnings for readers of the figures.
fn warnings(versus: &Versus) -> Vec<String> {
    let mut warnings = Vec::new();
    if versus.interrupted == Some(true) {
        warnings.push(INTERRUPTED.to_owned());
    }
    if versus.is_short() {
        warnings.push("A short run (fewer than 5 rounds, or of less than a second): it shows that the bench works, but do not cite it.".to_owned());
    }
    let is_bound = |round: &Round| round.client_bound == Some(true) && round.swarm.is_none();
    let sides = versus.parts.iter().flat_map(Part::sides);
    let bound = sides.filter(|side| side.rounds().iter().any(is_bound));
    let mut names: Vec<_> = bound.map(|side| side.name().to_owned()).collect();
    names.dedup();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        warnings.push(format!(
            "With {}, the clients' cores were full: Gb/s over the wire are the clients' limit; the comparison by work per CPU second of the server still holds.",
            crate::report::verdict::listed(&names)
        ));
    }
    warnings
}

fn describe(part: &Part) -> String {
    let unit = Unit::of(part);
    let figure = |side: &Side| {
        let figure = side.median.map(|median| unit.figure(median, side.deviation.unwrap_or(0.0)));
        format!("{} {}", side.name(), figure.as_deref().unwrap_or("not measured"))
    };
    let sides: Vec<_> = part.sides().iter().map(figure).collect();
    let hits =
        part.hit_percent.map(|hit| format!("{} hits: ", percent(hit / 100.0))).unwrap_or_default();
    format!("{hits}{}, {}", sides.join(", "), unit.words())
}

fn tables(versus: &Versus) -> String {
    let mut text = String::new();
    for part in &versus.parts {
        let of = part
            .hit_percent
            .map(|hit| format!(", {} hits", percent(hit / 100.0)))
            .unwrap_or_default();
        text.push_str(&medians(part, &of));
        text.push_str(&rounds(part, &of));
        text.push_str(&carried::table(part));
        text.push_str(&counters(part, &of));
    }
    if let Some(why) = &versus.counters_unavailable {
        text.push_str(&html::paragraph(
            "aside",
            &format!("Hardware counters: not available on this machine ({why})."),
        ));
    }
    let commands = versus.parts.first().map(started).unwrap_or_default();
    text + &commands
}

fn medians(part: &Part, of: &str) -> String {
    let unit = Unit::of(part);
    let head = [
        "side",
        unit.words(),
        "deviation",
        "Gb/s over the wire",
        "requests/s",
        "handshakes/s",
        "CPU s",
        "of the core in softirq",
        "wake-ups per MiB",
        "CPU µs per wake-up",
        "memory",
        "first byte p50, ms",
        "p99",
        "p99.9",
        "viewers p1, Mb/s",
        "p50",
        "p99",
        "rounds",
    ];
    let rows: Vec<_> = part.sides().iter().map(|side| medians_of(side, &unit)).collect();
    html::table(&format!("Medians over the rounds{of}"), &head, &rows)
}

fn medians_of(side: &Side, unit: &Unit) -> Vec<Cell> {
    let figure = |figure: f64| match unit {
        Unit::ConnectionBytes => bytes(figure),
        _ => significant(figure),
    };
    let median = |of: &dyn Fn(&Round) -> Option<f64>| Cell::number(side.median_of(of), significant);
    vec![
        Cell::Words(side.name().to_owned()),
        Cell::number(side.median, figure),
        Cell::number(side.deviation, figure),
        median(&|round| round.gbps),
        median(&|round| round.requests_per_second),
        median(&|round| round.handshakes_per_second),
        median(&|round| round.cpu_seconds),
        Cell::number(side.median_of(|round| round.softirq_share), percent),
        median(&|round| round.wakeups_per_mib),
        median(&|round| round.cpu_us_per_wakeup),
        Cell::number(side.median_of(|round| round.rss_bytes), bytes),
        median(&|round| round.first_byte_ms?.p50),
        median(&|round| round.first_byte_ms?.p99),
        median(&|round| round.first_byte_ms?.p999),
        median(&|round| round.viewer_mbps?.p1),
        median(&|round| round.viewer_mbps?.p50),
        median(&|round| round.viewer_mbps?.p99),
        Cell::Number(side.rounds().len().to_string()),
    ]
}

fn rounds(part: &Part, of: &str) -> String {
    let unit = Unit::of(part);
    let count = part.sides().iter().map(|side| side.rounds().len()).max().unwrap_or(0);
    let names: Vec<_> = part.sides().iter().map(Side::name).collect();
    let head: Vec<_> = std::iter::once("round").chain(names).collect();
    let rows: Vec<_> = (0..count)
        .map(|index| {
            let number = Cell::Number((index + 1).to_string());
            let figures = part.sides().iter().map(|side| {
                let figure = side.rounds().get(index).and_then(|round| round.figure);
                Cell::number(figure, |figure| {
                    if unit == Unit::ConnectionBytes { bytes(figure) } else { significant(figure) }
                })
            });
            std::iter::once(number).chain(figures).collect()
        })
        .collect();
    html::table(&format!("Each round, {}{of}", unit.words()), &head, &rows)
}

/// Empty if nothing was counted.
fn counters(part: &Part, of: &str) -> String {
    let counted = |side: &Side| side.rounds().iter().any(|round| round.counters.is_some());
    if !part.sides().iter().any(counted) {
        return String::new();
    }
    let rows = part.sides().iter().map(|side| {
        let median = |of: fn(&Counters) -> Option<f64>| {
            Cell::number(side.median_of(|round| of(round.counters.as_ref()?)), significant)
        };
        vec![
            Cell::Words(side.name().to_owned()),
            median(|counters| counters.cycles_per_byte),
            median(|counters| counters.instructions_per_byte),
            median(|counters| counters.llc_misses_per_byte),
            median(|counters| counters.dram_bytes_per_byte),
            median(|counters| counters.socket_bytes_per_byte),
        ]
    });
    let head = [
        "side",
        "cycles",
        "instructions",
        "last-level cache misses",
        "bytes of memory traffic",
        "bytes between sockets",
    ];
    html::table(&format!("Hardware counts per byte of body{of}"), &head, &rows.collect::<Vec<_>>())
}

/// A description of each side, and the command that started it.
fn started(part: &Part) -> String {
    let rows: Vec<_> = part
        .sides()
        .iter()
        .map(|side| {
            vec![
                Cell::Words(side.name().to_owned()),
                Cell::words(side.version.as_deref()),
                Cell::words(side.command.as_deref()),
            ]
        })
        .collect();
    html::table("How the sides were started", &["side", "version", "command"], &rows)
}

/// The command that runs it again.
pub(crate) fn repeat(versus: &Versus) -> Option<String> {
    let peer = ["nginx", "h2o"].into_iter().find(|name| *name == versus.peer())?;
    let known = WORKLOADS.iter().find(|(name, _)| *name == versus.workload())?.0;
    let connections =
        versus.connections.map(|count| format!(" --connections {count}")).unwrap_or_default();
    let seconds = versus.seconds.map(|seconds| format!(" --seconds {seconds}")).unwrap_or_default();
    let client = versus.other_client().map(|client| format!(" --client {client}"));
    let client = client.unwrap_or_default();
    Some(format!("./run bench versus {peer} --workload {known}{client}{connections}{seconds}"))
}

/// The peers' versions, each once.
pub(crate) fn versions(runs: &[&Versus]) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for side in runs.iter().flat_map(|versus| &versus.parts).flat_map(Part::sides) {
        let version = side.version.as_deref().unwrap_or("version unknown");
        let said = format!("{}:{THIN_SPACE}{version}", side.name());
        if !versions.contains(&said) {
            versions.push(said);
        }
    }
    versions
}
