//! A machine's predicted capacity: what each part allows, the machine with its flows, the effect of changes, the arithmetic.

use super::{Section, Slugs};
use crate::report::chart::amounts::{self, Amount};
use crate::report::chart::flows;
use crate::report::html::{self, Cell};
use crate::report::number::{THIN_SPACE, percent, significant};
use serde::Deserialize;

/// The output of `fullbore plan --json`, as far as the page shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) headline: String,
    pub(crate) way: String,
    text: String,
    gbps: f64,
    wanted_gbps: Option<f64>,
    limits: Vec<Limit>,
    moves: Vec<Move>,
    crossing: Crossing,
    fabric_gbytes_per_second: f64,
    nodes: Vec<Node>,
    what_if: Vec<Change>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Limit {
    title: String,
    gbps: f64,
    arithmetic: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Move {
    what: String,
    bytes: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Crossing {
    worst: f64,
    average: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    disk_gbytes_per_second: f64,
    disks: f64,
    memory_gbytes_per_second: f64,
    memory_usable_gbytes_per_second: f64,
    cpu_reads_gbytes_per_second: f64,
    cpu_writes_gbytes_per_second: f64,
    cores_busy: f64,
    cores: f64,
    card_gbps: f64,
    card_usable_gbps: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Change {
    change: String,
    gbps: f64,
    gained_gbps: f64,
}

/// All of the page below its opening.
pub(crate) fn sections(planned: &Planned, slugs: &mut Slugs) -> Vec<Section> {
    let mut begun = |title: &str| Section::alone(slugs.take(title), title);
    let [mut parts, mut flow, mut changes, mut arithmetic] =
        ["What each part allows", "Where bytes go", "What a change would bring", "The arithmetic"]
            .map(&mut begun);
    allowed(&mut parts, planned, slugs);
    flows_of(&mut flow, planned, slugs);
    changed(&mut changes, planned, slugs);
    reckoned(&mut arithmetic, planned);
    vec![parts, flow, changes, arithmetic]
}

/// A verdict on whether the capacity is enough for the viewers, if their demand is known.
pub(crate) fn verdict(planned: &Planned) -> Option<String> {
    let wanted = planned.wanted_gbps?;
    let enough = if wanted <= planned.gbps { "That is enough" } else { "That is not enough" };
    Some(format!("{enough} for your viewers, who take {}{THIN_SPACE}Gb/s.", significant(wanted)))
}

fn allowed(section: &mut Section, planned: &Planned, slugs: &mut Slugs) {
    // Beyond four times the rate a part is mostly idle, and a longer bar would show nothing more.
    let longest = planned.gbps * 4.0;
    let amount = |(at, limit): (usize, &Limit)| Amount {
        label: limit.title.clone(),
        is_ours: at == 0,
        figure: limit.gbps.min(longest),
        value: format!(
            "{}{THIN_SPACE}Gb/s, {} used",
            significant(limit.gbps),
            percent(used(planned.gbps, limit.gbps))
        ),
    };
    let amounts: Vec<_> = planned.limits.iter().enumerate().map(amount).collect();
    let title = "What each part allows by itself";
    section.show(
        amounts::chart(&slugs.take(title), title, &amounts, "Gb/s, cut off at four times the plan"),
        "The part that allows least bounds the machine. The longer another part's bar, the more of it is idle.",
    );
}

fn used(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn flows_of(section: &mut Section, planned: &Planned, slugs: &mut Slugs) {
    let node = |node: &Node| flows::Node {
        disks: node.disks,
        cores: node.cores,
        from_disks: node.disk_gbytes_per_second,
        cpu_reads: node.cpu_reads_gbytes_per_second,
        cpu_writes: node.cpu_writes_gbytes_per_second,
        to_cards: node.card_gbps / 8.0,
        used: [
            used(node.memory_gbytes_per_second, node.memory_usable_gbytes_per_second),
            used(node.cores_busy, node.cores),
            used(node.card_gbps, node.card_usable_gbps),
        ],
    };
    let nodes: Vec<_> = planned.nodes.iter().map(node).collect();
    let title = "The machine with its flows, GB/s";
    let between = planned.fabric_gbytes_per_second;
    section.show(
        flows::chart(&slugs.take(title), title, &nodes, between),
        "The thickness of an arrow shows how much it carries. Percentages are of usable capacity; for cores, of all cores. Where no arrow leads to the cores, no core touches a film's bytes.",
    );
}

fn changed(section: &mut Section, planned: &Planned, slugs: &mut Slugs) {
    let worth: Vec<_> =
        planned.what_if.iter().filter(|change| change.gained_gbps.abs() >= 0.5).collect();
    let amount = |change: &&Change| Amount {
        label: change.change.clone(),
        is_ours: change.gained_gbps > 0.0,
        figure: change.gbps,
        value: format!("{}{THIN_SPACE}Gb/s ({:+.0})", significant(change.gbps), change.gained_gbps),
    };
    let amounts: Vec<_> = worth.iter().map(amount).collect();
    let title = "The rate with one thing changed";
    section.show(
        amounts::chart(&slugs.take(title), title, &amounts, "Gb/s"),
        "Blue is better than the plan, grey worse.",
    );
    let idle = planned.what_if.iter().filter(|change| change.gained_gbps.abs() < 0.5);
    let idle: Vec<_> = idle.map(|change| change.change.clone()).collect();
    if !idle.is_empty() {
        section.push(&html::paragraph("", "These would change nothing:"));
        section.push(&html::list(&idle));
    }
}

fn reckoned(section: &mut Section, planned: &Planned) {
    let moves = planned
        .moves
        .iter()
        .map(|one| vec![Cell::Words(one.what.clone()), Cell::Number(format!("{:.2}", one.bytes))]);
    let all: f64 = planned.moves.iter().map(|one| one.bytes).sum();
    let sum = vec![Cell::Words("in all".into()), Cell::Number(format!("{all:.2}"))];
    let rows: Vec<_> = moves.chain([sum]).collect();
    section.push(&html::table(
        "Bytes moved in memory for each byte served",
        &["move", "bytes"],
        &rows,
    ));
    if planned.nodes.len() > 1 {
        let said = format!(
            "{:.2} of these cross to another node on average, {:.0} at worst.",
            planned.crossing.average, planned.crossing.worst
        );
        section.push(&html::paragraph("", &said));
    }
    let row = |limit: &Limit| {
        vec![
            Cell::Words(limit.title.clone()),
            Cell::Number(significant(limit.gbps)),
            Cell::Words(limit.arithmetic.clone()),
        ]
    };
    let rows: Vec<_> = planned.limits.iter().map(row).collect();
    section.push(&html::table("What each part allows, Gb/s", &["part", "Gb/s", "why"], &rows));
    section.push(&html::details("The same as text", &html::commands(&planned.text)));
}
