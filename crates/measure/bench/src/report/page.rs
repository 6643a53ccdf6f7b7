//! The page: one file without scripts that loads nothing from elsewhere.

use super::chart::{Chart, overview};
use super::html::{self, Cell};
use super::model::{Ablate, Bench, Connections, Disk, Limit, Load, Start, Swarm, Versus};
use super::section::{
    Section, Slugs, ablate, connections, disk, distribution, limit, load, machine, method, start,
    swarm, versus,
};
use super::source::{Skipped, Source};
use super::steps::{Fate, Taken};
use super::style;
use super::svg::escaped;
use super::verdict::{Comparison, Verdict, headline, listed, worst_cases};
use crate::versus::Workload;
use serde_json::{Value, json};

/// The data for a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Material<'a> {
    pub(crate) sources: &'a [Source],
    pub(crate) skipped: &'a [Skipped],
    pub(crate) steps: &'a [Taken],
}

/// Returns the page's text, and the charts to write as files next to it.
pub(crate) fn render(material: Material<'_>) -> (String, Vec<Chart>) {
    let mut slugs = Slugs::default();
    // Reserve the names that the page itself uses, in its own elements and in its charts.
    for taken in ["data", "overview"] {
        slugs.take(taken);
    }
    let title = title(material.sources);
    let sections = sections(material, &mut slugs);
    let page = document(&title, &opening(material, &title), &sections, &raw(material.sources));
    (page, sections.into_iter().flat_map(|section| section.charts).collect())
}

/// A whole page: an opening, links to the sections, the sections, and the raw figures.
pub(crate) fn document(title: &str, opening: &str, sections: &[Section], raw: &str) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
        escaped(title),
        style::page()
    );
    page.push_str(opening);
    page.push_str(&contents(sections));
    for section in sections {
        let (id, title) = (&section.id, escaped(&section.title));
        page.push_str(&format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-heading\">\n<h2 id=\"{id}-heading\">{title}</h2>\n{}</section>\n",
            section.body
        ));
    }
    page.push_str(&format!("</main>\n{raw}</body>\n</html>\n"));
    page
}

fn title(sources: &[Source]) -> String {
    machine::name(sources)
        .map_or_else(|| "Fullbore, measured".to_owned(), |name| format!("Fullbore on {name}"))
}

fn of_kind<'a, T: 'a>(
    sources: &'a [Source],
    pick: impl Fn(&'a Bench) -> Option<&'a T>,
) -> Vec<&'a T> {
    sources.iter().filter_map(|source| pick(&source.bench)).collect()
}

/// Comparisons in the program's order of workloads; unknown workloads last.
fn versus_runs(sources: &[Source]) -> Vec<&Versus> {
    let mut runs = of_kind(sources, |bench| match bench {
        Bench::Versus(versus) => Some(versus),
        _ => None,
    });
    let place = |versus: &&Versus| {
        Workload::ALL.iter().position(|(_, name)| *name == versus.workload()).unwrap_or(usize::MAX)
    };
    runs.sort_by_key(place);
    runs
}

fn limits(sources: &[Source]) -> Vec<&Limit> {
    of_kind(sources, |bench| match bench {
        Bench::Limit(limit) => Some(limit),
        _ => None,
    })
}

fn ablates(sources: &[Source]) -> Vec<&Ablate> {
    of_kind(sources, |bench| match bench {
        Bench::Ablate(ablate) => Some(ablate),
        _ => None,
    })
}

fn starts(sources: &[Source]) -> Vec<&Start> {
    of_kind(sources, |bench| match bench {
        Bench::Start(start) => Some(start),
        _ => None,
    })
}

fn connections_runs(sources: &[Source]) -> Vec<&Connections> {
    of_kind(sources, |bench| match bench {
        Bench::Connections(connections) => Some(connections),
        _ => None,
    })
}

fn disks(sources: &[Source]) -> Vec<&Disk> {
    of_kind(sources, |bench| match bench {
        Bench::Disk(disk) => Some(disk),
        _ => None,
    })
}

/// Runs of load with the names of their files, because nothing else tells them apart.
fn loads(sources: &[Source]) -> Vec<(&str, &Load)> {
    sources
        .iter()
        .filter_map(|source| match &source.bench {
            Bench::Load(load) => Some((source.file.as_str(), load)),
            _ => None,
        })
        .collect()
}

/// Runs of the swarm with the names of their files.
fn swarms(sources: &[Source]) -> Vec<(&str, &Swarm)> {
    sources
        .iter()
        .filter_map(|source| match &source.bench {
            Bench::Swarm(swarm) => Some((source.file.as_str(), &**swarm)),
            _ => None,
        })
        .collect()
}

fn comparisons(runs: &[&Versus]) -> Vec<Comparison> {
    let parts = runs.iter().flat_map(|versus| versus.parts.iter().map(move |part| (versus, part)));
    parts.filter_map(|(versus, part)| Comparison::of(versus, part)).collect()
}

/// Title, introduction, and the headline figures in words.
fn opening(material: Material<'_>, title: &str) -> String {
    let runs = versus_runs(material.sources);
    let comparisons = comparisons(&runs);
    let date = machine::date(material.sources).map(|date| format!(" · {date}")).unwrap_or_default();
    let mut text = html::paragraph("over", &format!("Bench report{date}"));
    text.push_str(&html::heading(1, title));
    text.push_str(&html::paragraph("lead", &what_this_is(&runs)));
    text.push_str(&verdicts(&comparisons));
    let mut further: Vec<String> = Vec::new();
    further.extend(limits(material.sources).into_iter().filter_map(limit::sentence));
    further.extend(ablates(material.sources).into_iter().filter_map(ablate::sentence));
    further.extend(starts(material.sources).into_iter().filter_map(start::sentence));
    for sentence in further {
        text.push_str(&html::paragraph("", &sentence));
    }
    if runs.iter().any(|versus| versus.is_short()) {
        text.push_str(&html::paragraph(
            "warning",
            "Some of these runs are short: they show that the bench works, but do not cite them.",
        ));
    }
    text
}

fn what_this_is(runs: &[&Versus]) -> String {
    let mut peers: Vec<String> = Vec::new();
    for versus in runs {
        if !peers.iter().any(|peer| peer == versus.peer()) {
            peers.push(versus.peer().to_owned());
        }
    }
    let beside = if peers.is_empty() {
        String::new()
    } else {
        format!(
            " and compares it with {}, which did the same work in turn on the same core",
            listed(&peers)
        )
    };
    let compared = if peers.is_empty() {
        ""
    } else {
        " The comparison is by work per CPU second of the server: how much a core gets done, not how fast the wire is."
    };
    format!(
        "Fullbore serves video over HTTPS. This page shows what it did on one machine{beside}.{compared}"
    )
}

fn verdicts(comparisons: &[Comparison]) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let items: String = headline(comparisons)
        .iter()
        .map(|(verdict, sentence)| {
            let class = match verdict {
                Verdict::Ahead => "is-ahead",
                Verdict::Level => "is-level",
                Verdict::Behind => "is-behind",
            };
            format!("<li class=\"{class}\">{}</li>\n", escaped(sentence))
        })
        .collect();
    let worst = worst_cases(comparisons).map(|sentence| format!("<p>{}</p>\n", escaped(&sentence)));
    format!("<ul class=\"verdicts\">\n{items}</ul>\n{}", worst.unwrap_or_default())
}

fn contents(sections: &[Section]) -> String {
    let links: String = sections
        .iter()
        .map(|section| format!("<a href=\"#{}\">{}</a> ", section.id, escaped(&section.title)))
        .collect();
    format!("<nav class=\"contents\" aria-label=\"Contents\">{links}</nav>\n")
}

fn sections(material: Material<'_>, slugs: &mut Slugs) -> Vec<Section> {
    let sources = material.sources;
    let runs = versus_runs(sources);
    let mut sections = Vec::new();
    sections.extend(at_a_glance(&comparisons(&runs), slugs));
    sections.push(machine::section(sources, &runs, slugs));
    sections.push(method::section(&runs, slugs));
    for alike in runs.chunk_by(|a, b| a.workload() == b.workload()) {
        sections.push(versus::section(alike[0].workload(), alike, slugs));
    }
    sections.extend(distribution::section(&runs, &loads(sources), slugs));
    sections.extend(limits(sources).iter().map(|limit| limit::section(limit, slugs)));
    sections.extend(ablates(sources).iter().map(|ablate| ablate::section(ablate, slugs)));
    sections.extend(starts(sources).iter().map(|start| start::section(start, slugs)));
    let grown = connections_runs(sources);
    sections.extend(grown.iter().map(|run| connections::section(run, slugs)));
    sections.extend(disks(sources).iter().map(|run| disk::section(run, slugs)));
    sections.extend(load::section(&loads(sources), slugs));
    let swarms = swarms(sources);
    sections.extend(swarms.iter().map(|(file, swarm)| swarm::section(file, swarm, slugs)));
    sections.push(method::limits(slugs));
    sections.extend(missing(material, slugs));
    sections.push(figures(slugs));
    sections
}

fn at_a_glance(comparisons: &[Comparison], slugs: &mut Slugs) -> Option<Section> {
    let chart = overview::chart(comparisons)?;
    let mut section = Section::new(slugs.take("at-a-glance"), "At a glance");
    section.show(
        Some(chart),
        "Median of the rounds' ratios ± its median absolute deviation. Discs are ahead, diamonds behind, squares level. Where less is \
         better (memory), the inverse is drawn, so that right is better in every row.",
    );
    let rows: Vec<_> = comparisons
        .iter()
        .map(|one| {
            let spread = super::number::with_spread(one.ratio, one.ratio_deviation);
            vec![
                Cell::Words(one.work()),
                Cell::Words(one.peer.clone()),
                Cell::words(one.congestion_control.as_deref()),
                Cell::Number(spread),
                Cell::Words(one.unit.words().to_owned()),
                Cell::Words(format!("{}.", one.sentence())),
            ]
        })
        .collect();
    let head = ["workload", "compared with", "congestion control", "ratio", "of", "that is"];
    section.push(&html::details("The figures as a table", &html::table("Ratios", &head, &rows)));
    Some(section)
}

/// Steps that failed or were not run, and files that could not be read. `None` if there are none.
fn missing(material: Material<'_>, slugs: &mut Slugs) -> Option<Section> {
    let failed = material.steps.iter().filter_map(|taken| match &taken.fate {
        Fate::Done => None,
        Fate::Failed(why) => Some(format!("{}: failed. {why}", taken.name)),
        Fate::NotRun(why) => Some(format!("{}: not run, {why}", taken.name)),
    });
    let unread = material
        .skipped
        .iter()
        .map(|skipped| format!("{}: left out, {}", skipped.file, skipped.why));
    let items: Vec<_> = failed.chain(unread).collect();
    if items.is_empty() {
        return None;
    }
    let mut section = Section::new(slugs.take("missing"), "Missing from this page");
    section.push(&html::list(&items));
    Some(section)
}

fn figures(slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("figures"), "Raw figures");
    section.push(&html::paragraph(
        "",
        "This page's source contains everything that the benches wrote, unrounded: a list of file names and their JSON in the element with the \
         id “data”. Each chart is also a file next to this page.",
    ));
    section
}

fn raw(sources: &[Source]) -> String {
    embedded(
        &sources.iter().map(|source| json!({ "file": source.file, "data": source.raw })).collect(),
    )
}

/// JSON to embed in HTML. It must not contain `<`, because a name could end the element, nor characters that change the direction of the
/// text around it.
pub(crate) fn embedded(all: &Value) -> String {
    let mut text = String::new();
    for character in all.to_string().chars() {
        match character {
            '<' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => text.push(other),
        }
    }
    format!("<script type=\"application/json\" id=\"data\">{text}</script>\n")
}
