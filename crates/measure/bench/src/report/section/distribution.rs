//! How long viewers wait for the first byte, and how evenly they are served.

use super::{Section, Slugs};
use crate::report::chart::ladder::{self, Axis, Group, Rungs};
use crate::report::html::{self, Cell};
use crate::report::model::{FirstByte, Load, Part, Side, Versus, ViewerRate};
use crate::report::number::{THIN_SPACE, percent, significant};

/// The smallest share of the median rate that the first percentile gets if viewers are treated alike.
const FAIR_SHARE: f64 = 0.8;

/// Both charts. `None` if nothing was measured.
pub(crate) fn section(
    runs: &[&Versus],
    loads: &[(&str, &Load)],
    slugs: &mut Slugs,
) -> Option<Section> {
    let waits = groups(
        runs,
        loads,
        |round| round.first_byte_ms.map(wait),
        |load| load.first_byte_ms.map(wait),
    );
    // Unpaced viewers get what TCP gives them, which says little about the server's fairness.
    let paced: Vec<_> =
        runs.iter().copied().filter(|versus| versus.workload() == "viewers").collect();
    let rates = groups(
        &paced,
        loads,
        |round| round.viewer_mbps.map(rate),
        |load| load.viewer_mbps.map(rate),
    );
    if waits.is_empty() && rates.is_empty() {
        return None;
    }
    let mut section = Section::new(slugs.take("distributions"), "Beyond averages");
    let waits = Shown {
        title: "Time to first byte",
        caption: "From p50 (the disc) over p99 to p99.9 (the uprights), medians of the rounds; small dots are single rounds. \
                  For handshakes it is the time of the handshake.",
        axis: Axis {
            name: "milliseconds to the first byte, logarithmic, less is better",
            is_logarithmic: true,
        },
        head: ["", "p50, ms", "p99, ms", "p99.9, ms"],
        groups: waits,
    };
    let rates = Shown {
        title: "Rate per viewer",
        caption: "From the slowest percent (p1) over the median (the disc) to the fastest (p99), medians of the rounds. The closer together they are, the more evenly viewers are treated.",
        axis: Axis { name: "Mb/s per viewer", is_logarithmic: false },
        head: ["", "p1, Mb/s", "p50, Mb/s", "p99, Mb/s"],
        groups: rates,
    };
    waits.show(&mut section, slugs);
    rates.show(&mut section, slugs);
    for said in rates.unfair() {
        section.push(&html::paragraph("warning", &said));
    }
    Some(section)
}

/// Three percentiles, and the median's index among them.
type Percentiles = ([Option<f64>; 3], usize);

fn wait(first_byte: FirstByte) -> Percentiles {
    ([first_byte.p50, first_byte.p99, first_byte.p999], 0)
}

fn rate(rate: ViewerRate) -> Percentiles {
    ([rate.p1, rate.p50, rate.p99], 1)
}

fn groups(
    runs: &[&Versus],
    loads: &[(&str, &Load)],
    of_round: impl Fn(&crate::report::model::Round) -> Option<Percentiles>,
    of_load: impl Fn(&Load) -> Option<Percentiles>,
) -> Vec<Group> {
    let mut groups = Vec::new();
    for (versus, part) in
        runs.iter().flat_map(|versus| versus.parts.iter().map(move |part| (versus, part)))
    {
        let rows: Vec<_> = part
            .sides()
            .iter()
            .enumerate()
            .filter_map(|(index, side)| of_side(side, index == 0, &of_round))
            .collect();
        groups.push(Group { heading: heading(versus, part), rows });
    }
    let of_files =
        loads.iter().filter_map(|(file, load)| rungs(file, true, of_load(load)?, Vec::new()));
    groups.push(Group { heading: "load".to_owned(), rows: of_files.collect() });
    groups.retain(|group| !group.rows.is_empty());
    groups
}

fn heading(versus: &Versus, part: &Part) -> String {
    let hits =
        part.hit_percent.map(|hit| format!(", {} hits", percent(hit / 100.0))).unwrap_or_default();
    let connections =
        versus.connections.map(|count| format!(", {count} connections")).unwrap_or_default();
    format!("{}{hits}{connections}", versus.workload())
}

fn of_side(
    side: &Side,
    is_ours: bool,
    of_round: impl Fn(&crate::report::model::Round) -> Option<Percentiles>,
) -> Option<Rungs> {
    let median_index = side.rounds().iter().find_map(&of_round)?.1;
    let figures = [0, 1, 2].map(|index| side.median_of(|round| of_round(round)?.0[index]));
    let rounds = side
        .rounds()
        .iter()
        .filter_map(&of_round)
        .flat_map(|(figures, _)| figures)
        .flatten()
        .collect();
    rungs(side.name(), is_ours, (figures, median_index), rounds)
}

/// `None` if a percentile is missing.
fn rungs(
    label: &str,
    is_ours: bool,
    (figures, median): Percentiles,
    rounds: Vec<f64>,
) -> Option<Rungs> {
    let [Some(first), Some(second), Some(third)] = figures else { return None };
    let figures = vec![first, second, third];
    let words: Vec<_> = figures.iter().map(|figure| significant(*figure)).collect();
    let value = words.join(&format!("{THIN_SPACE}· "));
    Some(Rungs { label: label.to_owned(), is_ours, figures, median, rounds, value })
}

/// A chart and its table.
struct Shown<'a> {
    title: &'a str,
    caption: &'a str,
    axis: Axis<'a>,
    head: [&'a str; 4],
    groups: Vec<Group>,
}

impl Shown<'_> {
    fn show(&self, section: &mut Section, slugs: &mut Slugs) {
        if self.groups.is_empty() {
            return;
        }
        section.push(&html::heading(3, self.title));
        let said = |row: &Rungs| format!("{} {}", row.label, row.value);
        let said: Vec<_> = self
            .groups
            .iter()
            .map(|group| {
                format!(
                    "{}: {}",
                    group.heading,
                    group.rows.iter().map(said).collect::<Vec<_>>().join("; ")
                )
            })
            .collect();
        let slug = slugs.take(self.title);
        let description = format!("{}. {}", self.head[1..].join(", "), said.join(". "));
        section.show(
            ladder::chart(&slug, self.title, &description, &self.groups, self.axis),
            self.caption,
        );
        let rows: Vec<_> = self
            .groups
            .iter()
            .flat_map(|group| group.rows.iter().map(move |row| cells(group, row)))
            .collect();
        section.push(&html::details(
            "The figures as a table",
            &html::table(self.title, &self.head, &rows),
        ));
    }

    fn unfair(&self) -> Vec<String> {
        let rows =
            self.groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, row)));
        rows.filter(|(_, row)| row.figures[0] < FAIR_SHARE * row.figures[1])
            .map(|(group, row)| {
                let share = percent(row.figures[0] / row.figures[1]);
                format!("Unfair: {} in {} gives its slowest percent of viewers {share} of the median viewer's rate.", row.label, group.heading)
            })
            .collect()
    }
}

fn cells(group: &Group, row: &Rungs) -> Vec<Cell> {
    let name = Cell::Words(format!("{}: {}", group.heading, row.label));
    std::iter::once(name)
        .chain(row.figures.iter().map(|figure| Cell::Number(significant(*figure))))
        .collect()
}
