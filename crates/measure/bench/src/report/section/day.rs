//! A simulated day of a fleet: where watched bytes came from, how much was filled for it, and which sites carried it.

use super::{Section, Slugs};
use crate::report::chart::amounts::{self, Amount};
use crate::report::chart::hours::{self, Series};
use crate::report::chart::tiles::{self, Region};
use crate::report::html::{self, Cell};
use crate::report::number::{THIN_SPACE, count, significant};
use serde::Deserialize;

/// Bytes of a terabyte.
const TERA: f64 = 1e12;

/// The output of `fullbore fleet simulate`, as far as the page shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Day {
    nodes: u64,
    titles: u64,
    seed: u64,
    hours: u64,
    room_percent: u64,
    healthy: bool,
    plays: u64,
    breaches: u64,
    told: Vec<String>,
    unfilled: u64,
    origin_bytes: f64,
    placement: Share,
    consistent_hashing: Share,
    lru_pull_through: Share,
    by_reason: Reasons,
    by_hour: Vec<Hour>,
    by_site: Vec<Site>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Share {
    first_choice_ppm: f64,
    fill_ppm: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Reasons {
    first_choice: f64,
    content: f64,
    health: f64,
    lost: f64,
    nowhere: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Hour {
    hour: u64,
    plays: f64,
    watched_bytes: f64,
    filled_bytes: f64,
    content: f64,
    health: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Site {
    region: String,
    peak_permille: f64,
}

/// All of the page below its opening.
pub(crate) fn sections(day: &Day, slugs: &mut Slugs) -> Vec<Section> {
    let mut begun = |title: &str| Section::alone(slugs.take(title), title);
    let [mut rules, mut rank, mut fill, mut labels, mut load] = [
        "Compared with other rules",
        "Where bytes came from",
        "Watched and filled bytes",
        "Not the first choice",
        "Load by region and site",
    ]
    .map(&mut begun);
    compared(&mut rules, day, slugs);
    ranks(&mut rank, day, slugs);
    filled(&mut fill, day, slugs);
    labelled(&mut labels, day, slugs);
    loaded(&mut load, day, slugs);
    vec![rules, rank, fill, labels, load]
}

/// The day in a sentence or two.
pub(crate) fn sentence(day: &Day) -> String {
    let health =
        if day.healthy { "Nothing went wrong." } else { "Nodes, sites and gateways failed." };
    format!(
        "{} nodes with {} titles, {} films in {} hours. {health} {} of watched bytes came from the viewer's first choice, and fills amounted to {} of watched bytes.",
        count(day.nodes),
        count(day.titles),
        count(day.plays),
        day.hours,
        percent(day.placement.first_choice_ppm),
        percent(day.placement.fill_ppm)
    )
}

pub(crate) fn doubts(day: &Day) -> Vec<String> {
    if day.breaches == 0 {
        return Vec::new();
    }
    let mut doubts = vec![format!("Invariants were broken {} times.", count(day.breaches))];
    doubts.extend(day.told.iter().cloned());
    doubts
}

/// The parameters that the day was generated from.
pub(crate) fn facts(day: &Day) -> String {
    format!("Seed {}, {}{THIN_SPACE}% of the usual room", day.seed, day.room_percent)
}

fn percent(ppm: f64) -> String {
    format!("{:.2}{THIN_SPACE}%", ppm / 10_000.0)
}

/// One compared figure of each rule: a title, how to read the figure, and its unit.
type Measured = (&'static str, fn(&Share) -> f64, &'static str);

fn compared(section: &mut Section, day: &Day, slugs: &mut Slugs) {
    let rules = [
        ("placement", day.placement),
        ("consistent hashing", day.consistent_hashing),
        ("LRU pull-through", day.lru_pull_through),
    ];
    let charts: [Measured; 2] = [
        (
            "From the first choice",
            |share| share.first_choice_ppm,
            "percent of watched bytes, more is better",
        ),
        ("Filled", |share| share.fill_ppm, "percent of watched bytes, less is better"),
    ];
    for (title, of, axis) in charts {
        let amount = |(name, share): &(&str, Share)| Amount {
            label: (*name).to_owned(),
            is_ours: *name == "placement",
            figure: of(share) / 10_000.0,
            value: percent(of(share)),
        };
        let amounts: Vec<Amount> = rules.iter().map(amount).collect();
        section.show(
            amounts::chart(&slugs.take(title), title, &amounts, axis),
            "All rules have the same room, ceilings and viewers. The assumptions favour the other two: docs/simulation.md.",
        );
    }
}

fn ranks(section: &mut Section, day: &Day, slugs: &mut Slugs) {
    let Reasons { first_choice, content, health, lost, nowhere } = day.by_reason;
    let rows = [
        ("first choice", first_choice),
        ("C: the best site lacks it", content),
        ("H: full or unwell", health),
        ("lost, not yet noticed", lost),
        ("no node", nowhere),
    ];
    let all: f64 = rows.iter().map(|(_, bytes)| bytes).sum::<f64>().max(1.0);
    let amount = |(at, (name, bytes)): (usize, &(&str, f64))| Amount {
        label: (*name).to_owned(),
        is_ours: at == 0,
        figure: bytes / all * 100.0,
        value: percent(bytes / all * 1e6),
    };
    let amounts: Vec<Amount> = rows.iter().enumerate().map(amount).collect();
    let title = "Share of bytes by rank";
    section.show(
        amounts::chart(&slugs.take(title), title, &amounts, "percent of watched bytes"),
        "First choice: the node that ranks first for the viewer if all nodes hold the title and are healthy. Other rows say why another node was used.",
    );
}

fn hours(day: &Day) -> Vec<String> {
    day.by_hour.iter().map(|hour| hour.hour.to_string()).collect()
}

fn filled(section: &mut Section, day: &Day, slugs: &mut Slugs) {
    let of = |bytes: fn(&Hour) -> f64| day.by_hour.iter().map(|hour| bytes(hour) / TERA).collect();
    let series = [
        Series { name: "watched", class: "peer", figures: of(|hour| hour.watched_bytes) },
        Series { name: "filled", class: "ours", figures: of(|hour| hour.filled_bytes) },
    ];
    let title = "Terabytes watched and filled, by hour";
    let axis = "hour of the day; terabytes upwards";
    section.show(
        hours::chart(&slugs.take(title), title, &hours(day), &series, axis),
        "A film's bytes count in the hour in which it begins.",
    );
    let left = format!("{} copies did not fit into the window.", count(day.unfilled));
    let origin =
        format!("{} terabytes came from the origin.", significant(day.origin_bytes / TERA));
    section.push(&html::paragraph("", &format!("{left} {origin}")));
}

fn labelled(section: &mut Section, day: &Day, slugs: &mut Slugs) {
    let of = |label: fn(&Hour) -> f64| {
        day.by_hour.iter().map(|hour| label(hour) / hour.plays.max(1.0) * 100.0).collect()
    };
    let series = [
        Series { name: "C: the best site lacks it", class: "tone1", figures: of(|h| h.content) },
        Series { name: "H: full or unwell", class: "behind", figures: of(|h| h.health) },
    ];
    let title = "Labels C and H over the day";
    section.show(
        hours::chart(
            &slugs.take(title),
            title,
            &hours(day),
            &series,
            "hour of the day; percent of answers upwards",
        ),
        "Answers to new viewers that did not start with the first choice, by reason.",
    );
    let row = |hour: &Hour| {
        let number = |figure: f64| Cell::Number(count(figure as u64));
        let hour = (hour.hour, hour.plays, hour.content, hour.health);
        vec![Cell::Words(hour.0.to_string()), number(hour.1), number(hour.2), number(hour.3)]
    };
    let rows: Vec<_> = day.by_hour.iter().map(row).collect();
    let table = html::table("Answers by hour", &["hour", "plays", "label C", "label H"], &rows);
    section.push(&html::details("The figures", &table));
}

fn loaded(section: &mut Section, day: &Day, slugs: &mut Slugs) {
    let mut regions: Vec<Region> = Vec::new();
    for site in &day.by_site {
        let percent = site.peak_permille / 10.0;
        match regions.last_mut() {
            Some(last) if last.name == site.region => last.percents.push(percent),
            _ => regions.push(Region { name: site.region.clone(), percents: vec![percent] }),
        }
    }
    let title = "The most that each site carried";
    section.show(
        tiles::chart(&slugs.take(title), title, &regions),
        "In percent of the ceilings of the site's nodes, in its busiest five minutes.",
    );
}
