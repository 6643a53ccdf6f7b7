//! The results of a simulated day.

use std::fmt::Write;

use serde::Serialize;

/// The results of a simulated day. All shares are in millionths, so that reports are equal byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DayReport {
    /// Version of this format: 1.
    pub version: u32,
    /// Always `day`.
    pub kind: &'static str,
    /// Nodes of the fleet.
    pub nodes: u32,
    /// Titles of the fleet.
    pub titles: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// Simulated hours.
    pub hours: u32,
    /// The nodes' room, in percent of the room that was drawn.
    pub room_percent: u32,
    /// Set if nothing failed.
    pub healthy: bool,
    /// Films that were started.
    pub plays: u64,
    /// Plays for which no node was found.
    pub nowhere: u64,
    /// Viewers who had to leave a lost node.
    pub moved: u64,
    /// Requests of playing viewers to steering.
    pub asked_again: u64,
    /// Bytes that viewers watched.
    pub watched_bytes: u64,
    /// Bytes that a day's plan may move.
    pub churn_bytes_max: u64,
    /// Bytes that the plan moves.
    pub planned_bytes: u64,
    /// Copies that did not fit into the window.
    pub unfilled: u64,
    /// Bytes that came from the origin.
    pub origin_bytes: u64,
    /// Our placement.
    pub placement: RuleShare,
    /// Plain consistent hashing.
    pub consistent_hashing: RuleShare,
    /// LRU pull-through.
    pub lru_pull_through: RuleShare,
    /// New titles alone.
    pub new_titles: NewShare,
    /// Where watched bytes came from.
    pub by_reason: ReasonShares,
    /// By hour of the simulated day.
    pub by_hour: Vec<HourOfDay>,
    /// By site.
    pub by_site: Vec<SiteOfDay>,
    /// How often an invariant was broken.
    pub breaches: u64,
    /// The first breaches, as text.
    pub told: Vec<String>,
}

/// The result of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleShare {
    /// Share of watched bytes that came from the first choice.
    pub first_choice_ppm: u64,
    /// Bytes filled, relative to bytes watched.
    pub fill_ppm: u64,
}

/// How well viewers of new titles were served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewShare {
    /// Bytes of new titles that were watched.
    pub watched_bytes: u64,
    /// How many of these came from the first choice.
    pub first_choice_bytes: u64,
}

/// One hour of the day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HourOfDay {
    /// Local time, 0 to 23.
    pub hour: u32,
    /// Films that were started.
    pub plays: u64,
    /// Bytes of these films.
    pub watched_bytes: u64,
    /// Bytes that nodes fetched.
    pub filled_bytes: u64,
    /// Answers with the label C: the best site lacks the title.
    pub content: u64,
    /// Answers with the label H: the first choice is full or unhealthy.
    pub health: u64,
}

/// Bytes of films, by the node on which they were started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReasonShares {
    /// The first choice.
    pub first_choice: u64,
    /// Another, because the best site lacks the title.
    pub content: u64,
    /// Another, because the first choice is full or unhealthy.
    pub health: u64,
    /// Another one from the answer, because the first was lost and no gateway had noticed.
    pub lost: u64,
    /// No node.
    pub nowhere: u64,
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteOfDay {
    /// Its name.
    pub site: String,
    /// Its region.
    pub region: String,
    /// Its highest load in a step, in thousandths of its ceilings.
    pub peak_permille: u32,
    /// Bytes watched by viewers near it.
    pub watched_bytes: u64,
    /// How many of these came from their first choice.
    pub near_bytes: u64,
}

impl RuleShare {
    pub(crate) fn new(near: u64, fill: u64, watched: u64) -> Self {
        let ppm = |part: u64| (u128::from(part) * 1_000_000 / u128::from(watched.max(1))) as u64;
        Self { first_choice_ppm: ppm(near), fill_ppm: ppm(fill) }
    }
}

fn percent(ppm: u64) -> String {
    format!("{}.{:02} %", ppm / 10_000, ppm / 100 % 100)
}

impl DayReport {
    /// As text.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "{} nodes at {} sites, {} titles, {} hours, seed {}\n\n{:<24}{:>18}{:>18}\n",
            self.nodes,
            self.by_site.len(),
            self.titles,
            self.hours,
            self.seed,
            "rule of equal room",
            "first choice",
            "fill/watched"
        );
        let rules = [
            ("placement", self.placement),
            ("consistent hashing", self.consistent_hashing),
            ("LRU pull-through", self.lru_pull_through),
        ];
        for (name, rule) in rules {
            let (first, fill) = (percent(rule.first_choice_ppm), percent(rule.fill_ppm));
            let _ = writeln!(text, "{name:<24}{first:>18}{fill:>18}");
        }
        let new = self.new_titles;
        if new.watched_bytes > 0 {
            let share = RuleShare::new(new.first_choice_bytes, 0, new.watched_bytes);
            let (name, first) = ("  of new titles", percent(share.first_choice_ppm));
            let _ = writeln!(text, "{name:<24}{first:>18}");
        }
        let _ =
            write!(text, "\n{:>4} {:>12} {:>10} {:>10}\n", "hour", "plays", "label C", "label H");
        for hour in &self.by_hour {
            let HourOfDay { hour, plays, content, health, .. } = hour;
            let _ = writeln!(text, "{hour:>4} {plays:>12} {content:>10} {health:>10}");
        }
        let _ = writeln!(
            text,
            "\n{} plays, {} without a node, {} viewers moved from lost nodes, {} copies unfilled",
            self.plays, self.nowhere, self.moved, self.unfilled
        );
        let _ = writeln!(text, "{} breaches", self.breaches);
        self.told.iter().for_each(|told| text.extend(["  ", told.as_str(), "\n"]));
        text
    }
}
