//! The results, as a table for people and as JSON for programs.

use super::list::{Ablation, Work};
use super::trial::Trial;
use crate::search::Found;
use serde_json::{Value, json};

/// The greatest stable load of one workload, with everything on or with one optimisation off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) viewers: usize,
    pub(crate) gbps: f64,
    pub(crate) handshakes_per_second: f64,
    pub(crate) cpu_percent: f64,
}

impl From<&Trial> for Figures {
    fn from(trial: &Trial) -> Self {
        let Trial { viewers, gbps, handshakes_per_second, cpu_percent, .. } = *trial;
        Self { viewers, gbps, handshakes_per_second, cpu_percent }
    }
}

impl Figures {
    /// Work per percent of the cores: Gb/s, or handshakes per second if the workload is handshakes.
    fn per_cpu_percent(&self, work: Work) -> f64 {
        self.achieved(work) / self.cpu_percent
    }

    fn achieved(&self, work: Work) -> f64 {
        if work == Work::Handshakes { self.handshakes_per_second } else { self.gbps }
    }

    fn to_json(self, work: Work) -> Value {
        let is_handshakes = work == Work::Handshakes;
        json!({
            "viewers": self.viewers,
            "gbps": self.gbps,
            "cpu_percent": self.cpu_percent,
            "gbps_per_cpu_percent": self.gbps / self.cpu_percent,
            "handshakes_per_second": is_handshakes.then_some(self.handshakes_per_second),
        })
    }
}

/// One workload with everything on.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    pub(crate) work: Work,
    /// `None` if no load was stable.
    pub(crate) figures: Option<Figures>,
    pub(crate) stopped_by: String,
}

impl Baseline {
    pub(crate) fn new(work: Work, found: &Found<Trial>) -> Self {
        let figures = found.best.as_ref().map(Figures::from);
        Self { work, figures, stopped_by: found.stopped_by.clone() }
    }
}

/// One optimisation, switched off.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) ablation: Ablation,
    pub(crate) figures: Option<Figures>,
    pub(crate) stopped_by: Option<String>,
    /// Why it was not measured.
    pub(crate) skipped: Option<String>,
}

impl Row {
    pub(crate) fn new(ablation: Ablation, found: &Found<Trial>) -> Self {
        let figures = found.best.as_ref().map(Figures::from);
        Self { ablation, figures, stopped_by: Some(found.stopped_by.clone()), skipped: None }
    }

    pub(crate) fn skipped(ablation: Ablation, why: String) -> Self {
        Self { ablation, figures: None, stopped_by: None, skipped: Some(why) }
    }
}

/// The results of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(crate) rate_bits_per_second: u64,
    pub(crate) machine: Value,
    pub(crate) baselines: Vec<Baseline>,
    pub(crate) rows: Vec<Row>,
    /// Ctrl-C ended the run before everything was measured.
    pub(crate) interrupted: bool,
}

impl Outcome {
    /// Whether Ctrl-C ended it before everything was measured.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns true if every measurement found a stable load.
    pub fn is_stable(&self) -> bool {
        let of_rows = self.rows.iter().all(|row| row.skipped.is_some() || row.figures.is_some());
        of_rows && self.baselines.iter().all(|baseline| baseline.figures.is_some())
    }

    fn baseline(&self, work: Work) -> Option<Figures> {
        self.baselines.iter().find(|baseline| baseline.work == work)?.figures
    }

    /// Work per CPU percent, as a ratio to the baseline's.
    fn change(&self, row: &Row) -> Option<f64> {
        let work = row.ablation.work;
        let (without, with) = (row.figures?, self.baseline(work)?);
        Some(without.per_cpu_percent(work) / with.per_cpu_percent(work))
    }

    /// As text.
    pub fn describe(&self) -> String {
        let rate = self.rate_bits_per_second as f64 * 1e-6;
        let mut text = format!(
            "greatest stable load, viewers of {rate} Mb/s each; CPU % is the share of the server's own cores\n\n{HEADING}\n"
        );
        for baseline in &self.baselines {
            let work = baseline.work;
            text.push_str(&line(work, "(nothing)", baseline.figures, None, ""));
            if baseline.figures.is_none() {
                text.push_str(&format!("           nothing was stable: {}\n", baseline.stopped_by));
            }
            for row in
                self.rows.iter().filter(|row| row.ablation.work == work && row.skipped.is_none())
            {
                let seed = row.ablation.seed.map(|seed| seed.describe()).unwrap_or_default();
                text.push_str(&line(work, row.ablation.name, row.figures, self.change(row), &seed));
            }
        }
        text.push_str(&self.notes());
        text
    }

    fn notes(&self) -> String {
        let mut text = String::from("\n");
        for baseline in &self.baselines {
            text.push_str(&format!("{:10} {}\n", baseline.work.name(), baseline.work.describe()));
        }
        for row in &self.rows {
            let Row { ablation, skipped, stopped_by, .. } = row;
            match (skipped, stopped_by) {
                (Some(why), _) => text.push_str(&format!("SKIPPED {}: {why}\n", ablation.name)),
                (None, Some(why)) => {
                    text.push_str(&format!(
                        "without {}: {}; no more because {why}\n",
                        ablation.name, ablation.what
                    ));
                }
                (None, None) => {}
            }
        }
        if self.interrupted {
            text.push_str("interrupted: the rest was not measured\n");
        }
        text
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let first = self.baselines.first();
        let baseline = |work| self.baseline(work).map(|figures| figures.to_json(work));
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                let work = row.ablation.work;
                let figures = row.figures.map(|figures| figures.to_json(work)).unwrap_or_default();
                json!({
                    "switch": row.ablation.name,
                    "what": row.ablation.what,
                    "workload": work.name(),
                    "unit": if work == Work::Handshakes { "handshakes_per_second" } else { "gbps" },
                    "baseline": baseline(work),
                    "viewers": figures["viewers"],
                    "gbps": figures["gbps"],
                    "cpu_percent": figures["cpu_percent"],
                    "gbps_per_cpu_percent": figures["gbps_per_cpu_percent"],
                    "handshakes_per_second": figures["handshakes_per_second"],
                    "change": self.change(row),
                    "stopped_by": row.stopped_by,
                    "skipped": row.skipped,
                    "seed": row.ablation.seed.map(|seed| seed.to_json()),
                })
            })
            .collect();
        json!({
            "version": 1,
            "kind": "ablate",
            "machine": self.machine,
            "workload": first.map(|baseline| baseline.work.name()),
            "rate_bits_per_second": self.rate_bits_per_second,
            "baseline": first.and_then(|first| baseline(first.work)),
            "rows": rows,
            "interrupted": self.interrupted,
        })
    }
}

const HEADING: &str =
    "work       without        viewers     Gb/s   CPU %   per CPU %   change   Netflix's own row";

fn line(
    work: Work,
    name: &str,
    figures: Option<Figures>,
    change: Option<f64>,
    seed: &str,
) -> String {
    let Some(figures) = figures else {
        return format!(
            "{:10} {name:13}       -        -       -           -        -\n",
            work.name()
        );
    };
    let achieved = match work {
        Work::Handshakes => format!("{:6.0}/s", figures.handshakes_per_second),
        _ => format!("{:8.2}", figures.gbps),
    };
    let change = change.map_or_else(|| "       ".into(), |change| format!("x{change:6.2}"));
    let line = format!(
        "{:10} {name:13} {:8} {achieved:>8} {:7.1} {:11.3}  {change}   {seed}",
        work.name(),
        figures.viewers,
        figures.cpu_percent,
        figures.per_cpu_percent(work),
    );
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::list::ALL;
    use super::super::trial::tests::trial;
    use super::*;

    fn found(viewers: usize) -> Found<Trial> {
        Found { best: Some(trial(viewers, 1.0)), worst: None, stopped_by: "errors".into() }
    }

    fn outcome() -> Outcome {
        let heat = ALL.iter().find(|ablation| ablation.name == "heat").unwrap();
        let lifo = ALL.iter().find(|ablation| ablation.name == "lifo").unwrap();
        let vaes = ALL.iter().find(|ablation| ablation.name == "vaes").unwrap();
        Outcome {
            rate_bits_per_second: 10_000_000,
            machine: json!({}),
            baselines: vec![
                Baseline::new(Work::Warm, &found(1000)),
                Baseline::new(Work::Scarce, &found(800)),
            ],
            rows: vec![
                Row::new(*lifo, &found(900)),
                Row::skipped(*vaes, "no such instructions".into()),
                Row::new(*heat, &found(200)),
            ],
            interrupted: false,
        }
    }

    #[test]
    fn each_row_is_compared_with_the_baseline_of_its_own_work() {
        let json = outcome().to_json();
        let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-9;
        assert!(near(&json["rows"][0]["change"], 0.9));
        assert!(near(&json["rows"][2]["change"], 0.25));
        assert_eq!(json["rows"][2]["baseline"]["viewers"], 800);
        assert_eq!(json["rows"][2]["seed"]["gbps"], 120.0);
        assert_eq!(json["baseline"]["viewers"], 1000);
    }

    #[test]
    fn what_was_skipped_has_a_reason_and_no_figures() {
        let json = outcome().to_json();
        let row = &json["rows"][1];
        assert_eq!(row["skipped"], "no such instructions");
        assert!(row["gbps"].is_null() && row["change"].is_null());
        assert!(outcome().describe().contains("SKIPPED vaes: no such instructions"));
    }

    #[test]
    fn the_table_has_a_line_for_each() {
        let said = outcome().describe();
        for expected in
            ["warm       (nothing)         1000    10.00    50.0", "x  0.25   SF_NOCACHE: 375 @ 53"]
        {
            assert!(said.contains(expected), "{expected:?} is not in\n{said}");
        }
    }

    #[test]
    fn nothing_stable_is_said() {
        let mut outcome = outcome();
        let nothing = Found { best: None, worst: None, stopped_by: "3 x refused".into() };
        outcome.baselines[0] = Baseline::new(Work::Warm, &nothing);
        assert!(
            !outcome.is_stable() && outcome.describe().contains("nothing was stable: 3 x refused")
        );
        assert!(outcome.to_json()["rows"][0]["change"].is_null());
    }
}
