//! Viewers that play like real ones: their experience, as distributions, over time, and by pathway.

use super::{INTERRUPTED, Section, Slugs};
use crate::report::chart::course;
use crate::report::chart::ladder::{self, Axis, Group, Rungs};
use crate::report::html::{self, Cell};
use crate::report::model::{Sessions, Spread, Swarm, Watched};
use crate::report::number::{THIN_SPACE, bytes, count, percent, significant};

/// Only this many pathways or titles are shown. The figures in the page's source have all.
const ROWS_MAX: usize = 12;

/// A quantity to chart.
struct Quantity {
    title: &'static str,
    caption: &'static str,
    axis: &'static str,
    of: fn(&Watched) -> Option<Spread>,
    /// Factor from the figures to the axis.
    factor: f64,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        title: "Time until the first picture",
        caption: "From the moment a viewer pressed play. From the luckiest percent over the median (the disc) to the unluckiest.",
        axis: "seconds, less is better",
        of: |watched| watched.play_delay_seconds,
        factor: 1.0,
    },
    Quantity {
        title: "Time stalled",
        caption: "The share of a viewer's watching time in which the picture stood still, because no data had arrived.",
        axis: "percent of the time, less is better",
        of: |watched| watched.stall_ratio,
        factor: 100.0,
    },
    Quantity {
        title: "Bit rate",
        caption: "The mean of what each viewer saw.",
        axis: "Mb/s, more is better",
        of: |watched| watched.mbps,
        factor: 1.0,
    },
    Quantity {
        title: "Time to quality",
        caption: "From the moment a viewer pressed play to the first four seconds in a row at 80% of the title's best bit rate or more. \
                  Viewers who never got that far are not included.",
        axis: "seconds, less is better",
        of: |watched| watched.time_to_quality_seconds,
        factor: 1.0,
    },
];

/// One run in a report of many.
pub(crate) fn section(file: &str, swarm: &Swarm, slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("swarm"), &format!("Viewers that play: {file}"));
    section.push(&html::paragraph("", &sentence(swarm)));
    warn(&mut section, swarm);
    over_time(&mut section, swarm, slugs);
    distributions(&mut section, swarm, slugs);
    by_pathway(&mut section, swarm);
    section
}

/// The sections of a page about one run.
pub(crate) fn alone(swarm: &Swarm, slugs: &mut Slugs) -> Vec<Section> {
    let mut begun = |title: &str| Section::alone(slugs.take(title), title);
    let [mut time, mut seen, mut where_from, mut trust] =
        ["Over time", "What viewers saw", "By pathway", "Can these figures be trusted?"]
            .map(&mut begun);
    over_time(&mut time, swarm, slugs);
    distributions(&mut seen, swarm, slugs);
    by_pathway(&mut where_from, swarm);
    stalls_and_errors(&mut seen, swarm);
    own(&mut trust, swarm);
    let mut sections = vec![time, seen, where_from, trust];
    sections.retain(|section| !section.body.is_empty());
    sections
}

/// The run in a sentence or two.
pub(crate) fn sentence(swarm: &Swarm) -> String {
    let Sessions { count: all, started, without_stall, gave_up } =
        swarm.all.sessions.unwrap_or_default();
    let number = |figure: Option<u64>| figure.map_or_else(|| "an unknown number".to_owned(), count);
    let mut text = format!(
        "Of {} viewers, {} saw a picture and {} saw the film without a stall",
        number(all),
        number(started),
        number(without_stall)
    );
    if let Some(gave_up) = gave_up.filter(|gave_up| *gave_up > 0) {
        text.push_str(&format!("; {} gave up", count(gave_up)));
    }
    text.push('.');
    if let Some(ratio) = swarm.stall_ratio_of_all {
        text.push_str(&format!(
            " Overall, pictures stood still for {} of the time.",
            percent(ratio)
        ));
    }
    text
}

/// Reasons to doubt the figures.
pub(crate) fn warn(section: &mut Section, swarm: &Swarm) {
    doubts(swarm).iter().for_each(|doubt| section.push(&html::paragraph("warning", doubt)));
}

pub(crate) fn doubts(swarm: &Swarm) -> Vec<String> {
    let mut doubts = Vec::new();
    if swarm.interrupted == Some(true) {
        doubts.push(INTERRUPTED.to_owned());
    }
    if swarm.own.and_then(|own| own.too_slow) == Some(true) {
        doubts.push(
            "The swarm itself was too slow on this machine: its viewers waited for it as well. These figures show its limits, not the \
             server's."
                .to_owned(),
        );
    }
    doubts
}

fn over_time(section: &mut Section, swarm: &Swarm, slugs: &mut Slugs) {
    let moments = swarm.course.as_deref().unwrap_or_default();
    let title = "Viewers over time";
    let chart = course::chart(&slugs.take(title), title, moments);
    section.show(chart, "How many viewers played, waited for their first picture, or had stalled.");
}

/// All viewers, then those of each pathway and each title if there are several, each with a name.
fn groups(swarm: &Swarm) -> Vec<(String, Vec<(String, &Watched)>)> {
    let mut groups = vec![("all viewers".to_owned(), vec![("all".to_owned(), &swarm.all)])];
    let pathways = swarm.pathways.iter().flatten().take(ROWS_MAX);
    let pathways: Vec<_> = pathways.map(|(name, watched)| (name.clone(), watched)).collect();
    if pathways.len() > 1 {
        groups.push(("by pathway".to_owned(), pathways));
    }
    let titles = swarm.titles.iter().flatten().take(ROWS_MAX);
    let name = |title: Option<u64>| {
        title.map_or_else(
            || "a title".to_owned(),
            |rank| format!("title {}", rank.saturating_add(1)),
        )
    };
    let titles: Vec<_> = titles.map(|watched| (name(watched.title), watched)).collect();
    if titles.len() > 1 {
        groups.push(("by title".to_owned(), titles));
    }
    groups
}

fn distributions(section: &mut Section, swarm: &Swarm, slugs: &mut Slugs) {
    let groups = groups(swarm);
    QUANTITIES.iter().for_each(|quantity| quantity.show(section, &groups, slugs));
}

impl Quantity {
    fn show(
        &self,
        section: &mut Section,
        groups: &[(String, Vec<(String, &Watched)>)],
        slugs: &mut Slugs,
    ) {
        let drawn: Vec<Group> = groups
            .iter()
            .map(|(heading, rows)| Group {
                heading: heading.clone(),
                rows: rows.iter().filter_map(|(name, watched)| self.rungs(name, watched)).collect(),
            })
            .filter(|group| !group.rows.is_empty())
            .collect();
        if drawn.is_empty() {
            return;
        }
        section.push(&html::heading(3, self.title));
        let axis = Axis { name: self.axis, is_logarithmic: false };
        let said: Vec<_> = drawn.iter().flat_map(|group| &group.rows).map(words).collect();
        let description = format!("{}: {}", self.axis, said.join("; "));
        let chart = ladder::chart(&slugs.take(self.title), self.title, &description, &drawn, axis);
        let caption = format!("{} The numbers are p5, the median and p95.", self.caption);
        section.show(chart, &caption);
        let head = ["", "p1", "p5", "p25", "p50", "p75", "p95", "p99"];
        let rows: Vec<_> = drawn.iter().flat_map(|group| &group.rows).map(cells).collect();
        let table = html::table(&format!("{}, {}", self.title, self.axis), &head, &rows);
        section.push(&html::details("The figures as a table", &table));
    }

    /// `None` if a percentile is missing.
    fn rungs(&self, name: &str, watched: &Watched) -> Option<Rungs> {
        let Spread { p1, p5, p25, p50, p75, p95, p99 } = (self.of)(watched)?;
        let figures: Option<Vec<f64>> = [p1, p5, p25, p50, p75, p95, p99].into_iter().collect();
        let figures: Vec<f64> = figures?.into_iter().map(|figure| figure * self.factor).collect();
        let (low, middle, high) = (figures[1], figures[3], figures[5]);
        let value = [low, middle, high].map(significant).join(&format!("{THIN_SPACE}· "));
        let (label, rounds) = (name.to_owned(), Vec::new());
        Some(Rungs { label, is_ours: true, figures, median: 3, rounds, value })
    }
}

fn words(row: &Rungs) -> String {
    format!("{} p5, p50, p95 {}", row.label, row.value)
}

fn cells(row: &Rungs) -> Vec<Cell> {
    let figures = row.figures.iter().map(|figure| Cell::Number(significant(*figure)));
    std::iter::once(Cell::Words(row.label.clone())).chain(figures).collect()
}

fn by_pathway(section: &mut Section, swarm: &Swarm) {
    let pathways: Vec<_> = swarm.pathways.iter().flatten().take(ROWS_MAX).collect();
    if pathways.is_empty() {
        return;
    }
    let figure = |figure: Option<u64>| Cell::Number(figure.map_or_else(|| "–".to_owned(), count));
    let rows: Vec<_> = pathways
        .iter()
        .map(|(name, watched)| {
            let sessions = watched.sessions.unwrap_or_default();
            vec![
                Cell::Words((*name).clone()),
                Cell::number(watched.bytes.map(|bytes| bytes as f64), bytes),
                figure(sessions.count),
                figure(sessions.without_stall),
            ]
        })
        .collect();
    let head = ["pathway", "bytes", "viewers mostly served by it", "of them without a stall"];
    section.push(&html::table("Where the bytes came from", &head, &rows));
    let moves: Vec<_> = swarm.moves.iter().flatten().filter(|(_, times)| **times > 0).collect();
    if !moves.is_empty() {
        let moves: Vec<_> = moves
            .iter()
            .map(|(reason, times)| format!("{} times: {reason}", count(**times)))
            .collect();
        section.push(&html::paragraph("", "Changes of pathway, by reason:"));
        section.push(&html::list(&moves));
    }
    if let Some(share) = swarm.probe_share {
        section.push(&html::paragraph(
            "aside",
            &format!("Measuring other pathways took {} of all bytes.", percent(share)),
        ));
    }
}

fn stalls_and_errors(section: &mut Section, swarm: &Swarm) {
    let stalls = swarm.stalls.as_ref().and_then(|stalls| stalls.by_reason.as_ref());
    let stalls: Vec<_> = stalls
        .into_iter()
        .flatten()
        .filter(|(_, times)| **times > 0)
        .map(|(reason, times)| format!("{} stalls: {reason}", count(*times)))
        .collect();
    let errors = swarm.errors.iter().flatten().map(|(kind, error)| {
        let example = error["example"].as_str().unwrap_or_default();
        format!("{} requests failed: {kind}, the first: {example}", error["count"])
    });
    let items: Vec<_> = stalls.into_iter().chain(errors).collect();
    if !items.is_empty() {
        section.push(&html::heading(3, "What went wrong"));
        section.push(&html::list(&items));
    }
}

fn own(section: &mut Section, swarm: &Swarm) {
    let Some(own) = swarm.own else { return };
    let lag = own.lag_ms.unwrap_or_default();
    let milliseconds = |figure: Option<f64>| {
        figure.map_or_else(
            || "–".to_owned(),
            |figure| format!("{}{THIN_SPACE}ms", significant(figure)),
        )
    };
    section.push(&html::paragraph(
        "",
        "Simulating viewers takes time. This is how late the program's tasks woke up, compared with the time they asked for. A viewer cannot notice up to 20 ms at the 99th percentile.",
    ));
    section.push(&html::definitions(&[
        ("lag, median", milliseconds(lag.p50)),
        ("lag, p99", milliseconds(lag.p99)),
        ("lag, greatest", milliseconds(lag.max)),
        ("busiest thread", own.busiest_thread.map_or_else(|| "–".to_owned(), percent)),
    ]));
}
