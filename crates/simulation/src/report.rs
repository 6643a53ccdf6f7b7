//! What a simulated day has shown.

use std::fmt::Write;

use serde::Serialize;

/// What a simulated day has shown. All shares are in millionths, so that reports are equal to the byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DayReport {
    /// The version of this form: 1.
    pub version: u32,
    /// `day`.
    pub kind: &'static str,
    /// Nodes of the fleet.
    pub nodes: u32,
    /// Its titles.
    pub titles: u32,
    /// What it was drawn from.
    pub seed: u64,
    /// Simulated hours.
    pub hours: u32,
    /// The nodes' room in hundredths of what is drawn.
    pub room_percent: u32,
    /// Whether nothing went wrong.
    pub healthy: bool,
    /// Films that were begun.
    pub plays: u64,
    /// Of them, those for which no node was found.
    pub nowhere: u64,
    /// Viewers who had to leave a lost node.
    pub moved: u64,
    /// Of playing viewers who asked again.
    pub asked_again: u64,
    /// Bytes that viewers took.
    pub watched_bytes: u64,
    /// Bytes that a day's plan may move.
    pub churn_bytes_max: u64,
    /// Bytes that it moves.
    pub planned_bytes: u64,
    /// Copies that the window was too short for.
    pub unfilled: u64,
    /// Bytes that came from the origin.
    pub origin_bytes: u64,
    /// Our placement.
    pub placement: RuleShare,
    /// Plain consistent hashing.
    pub consistent_hashing: RuleShare,
    /// LRU pull-through.
    pub lru_pull_through: RuleShare,
    /// Of new titles alone.
    pub new_titles: NewShare,
    /// From where what was watched came.
    pub by_reason: ReasonShares,
    /// By hour of the simulated day.
    pub by_hour: Vec<HourOfDay>,
    /// By site.
    pub by_site: Vec<SiteOfDay>,
    /// How often something did not hold.
    pub breaches: u64,
    /// The first of them, in words.
    pub told: Vec<String>,
}

/// How well a rule has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleShare {
    /// Of what was watched, what came from the first choice.
    pub first_choice_ppm: u64,
    /// Bytes brought beside bytes watched.
    pub fill_ppm: u64,
}

/// How well viewers of new titles were served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewShare {
    /// What was watched of them.
    pub watched_bytes: u64,
    /// How much of that came from the first choice.
    pub first_choice_bytes: u64,
}

/// An hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HourOfDay {
    /// Local time, 0 to 23.
    pub hour: u32,
    /// Films that were begun.
    pub plays: u64,
    /// Bytes of these films.
    pub watched_bytes: u64,
    /// Bytes that nodes brought.
    pub filled_bytes: u64,
    /// Answers with the label C: the best site lacks the title.
    pub content: u64,
    /// Answers with the label H: the first choice is full or unwell.
    pub health: u64,
}

/// Bytes of films, by the node that they were begun from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReasonShares {
    /// The first choice.
    pub first_choice: u64,
    /// Another, because the best site lacks the title.
    pub content: u64,
    /// Another, because the first choice is full or unwell.
    pub health: u64,
    /// Another of the answer, because the first was lost and no gateway knew.
    pub lost: u64,
    /// None.
    pub nowhere: u64,
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteOfDay {
    /// Its name.
    pub site: String,
    /// Its region.
    pub region: String,
    /// What it carried at most in a step, in thousandths of its ceilings.
    pub peak_permille: u32,
    /// What viewers near it watched.
    pub watched_bytes: u64,
    /// How much of that came from their first choice.
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
    /// For people.
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
