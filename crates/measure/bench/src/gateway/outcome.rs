//! The figures of a gateway's answers.

use serde_json::{Value, json};

use super::Options;
use super::asked::Asked;
use crate::machine_json::machine_json;
use crate::stats::Summary;

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) options: Options,
    /// All sides, the plain server first.
    pub(super) sides: Vec<Side>,
    /// Percentage of one core that the gateway uses with heartbeats but without requests.
    pub(super) at_rest_cpu_percent: f64,
    /// Lines missing from the log of decisions, because they came faster than it could be written.
    pub(super) decisions_dropped: u64,
    pub(super) beats_lost: u64,
}

/// A side's turns.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) path: String,
    pub(super) answer_bytes: usize,
    pub(super) rounds: Vec<Round>,
}

/// One turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) answers: u64,
    /// CPU seconds of all the server's threads.
    pub(super) cpu_seconds: f64,
    pub(super) wall_seconds: f64,
}

impl Round {
    fn per_cpu_second(&self) -> f64 {
        self.answers as f64 / self.cpu_seconds
    }
}

/// A side relative to the plain server, turn by turn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    summary: Summary,
    least: f64,
    most: f64,
}

impl Side {
    fn per_cpu_second(&self) -> Vec<f64> {
        self.rounds.iter().map(Round::per_cpu_second).collect()
    }

    fn per_second(&self) -> f64 {
        let rates = self.rounds.iter().map(|round| round.answers as f64 / round.wall_seconds);
        Summary::of(&rates.collect::<Vec<_>>()).median
    }

    fn ratio(&self, hello: &Self) -> Ratio {
        let ratios: Vec<_> = self
            .per_cpu_second()
            .iter()
            .zip(hello.per_cpu_second())
            .map(|(own, hello)| own / hello)
            .collect();
        Ratio {
            summary: Summary::of(&ratios),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            most: ratios.iter().copied().fold(0.0, f64::max),
        }
    }

    fn to_json(&self, hello: &Self) -> Value {
        let per_cpu_second = self.per_cpu_second();
        let Summary { median, deviation } = Summary::of(&per_cpu_second);
        let ratio = self.ratio(hello);
        json!({
            "name": self.name,
            "path": self.path,
            "answer_bytes": self.answer_bytes,
            "answers_per_cpu_second": per_cpu_second,
            "median": median,
            "deviation": deviation,
            "cpu_us": 1e6 / median,
            "answers_per_second": self.per_second(),
            "ratio": ratio.summary.median,
            "ratio_deviation": ratio.summary.deviation,
            "ratio_min": ratio.least,
            "ratio_max": ratio.most,
        })
    }
}

impl Outcome {
    pub(super) fn new(options: &Options, asked: &[Asked]) -> Self {
        let side = |asked: &Asked| Side {
            name: asked.name,
            path: asked.paths.first().cloned().unwrap_or_default(),
            answer_bytes: asked.answer_bytes,
            rounds: Vec::new(),
        };
        Self {
            options: options.clone(),
            sides: asked.iter().map(side).collect(),
            at_rest_cpu_percent: 0.0,
            decisions_dropped: 0,
            beats_lost: 0,
        }
    }

    pub(super) fn describe_round(&self, number: usize, asked: &Asked, round: &Round) -> String {
        format!(
            "round {number} of {}: {}: {:.0} answers per CPU second ({:.0} a second)",
            self.options.rounds,
            asked.name,
            round.per_cpu_second(),
            round.answers as f64 / round.wall_seconds
        )
    }

    /// As text.
    pub fn describe(&self) -> String {
        let machine = machine_json();
        let options = &self.options;
        let mut text = format!(
            "a gateway of {} nodes with {} titles each{} compared with a plain axum server, on {}\n",
            options.nodes,
            options.titles,
            if options.signed { ", addresses signed," } else { "" },
            machine["cpu"].as_str().unwrap_or("an unknown processor"),
        );
        text += &format!(
            "{:<10}{:>24}{:>10}{:>26}{:>12}{:>10}\n",
            "", "answers per CPU second", "CPU us", "ratio to hello", "a second", "bytes"
        );
        for side in &self.sides {
            let Summary { median, deviation } = Summary::of(&side.per_cpu_second());
            let ratio = side.ratio(&self.sides[0]);
            text += &format!(
                "{:<10}{:>24}{:>10.1}{:>26}{:>12.0}{:>10}\n",
                side.name,
                format!("{median:.0} +- {deviation:.0}"),
                1e6 / median,
                format!("{:.3} ({:.3} to {:.3})", ratio.summary.median, ratio.least, ratio.most),
                side.per_second(),
                side.answer_bytes,
            );
        }
        text += &format!(
            "at rest, with its nodes' heartbeats, the gateway takes {:.1} % of the core; {} heartbeats were lost; \
             {} lines did not get into the log of decisions\n",
            self.at_rest_cpu_percent, self.beats_lost, self.decisions_dropped,
        );
        text
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let Self { options, sides, .. } = self;
        json!({
            "version": 1,
            "kind": "gateway",
            "machine": machine_json(),
            "nodes": options.nodes,
            "titles": options.titles,
            "signed": options.signed,
            "connections": options.connections,
            "seconds": options.seconds,
            "at_rest_cpu_percent": self.at_rest_cpu_percent,
            "beats_lost": self.beats_lost,
            "decision_lines_dropped": self.decisions_dropped,
            "sides": sides.iter().map(|side| side.to_json(&sides[0])).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &'static str, answers: [u64; 3]) -> Side {
        let round = |answers| Round { answers, cpu_seconds: 2.0, wall_seconds: 4.0 };
        let rounds = answers.map(round).to_vec();
        Side { name, path: "/".to_owned(), answer_bytes: 1, rounds }
    }

    #[test]
    fn a_ratio_is_taken_turn_by_turn() {
        let (hello, hls) = (side("hello", [100, 200, 400]), side("hls", [50, 50, 100]));
        let ratio = hls.ratio(&hello);
        assert_eq!((ratio.least, ratio.summary.median, ratio.most), (0.25, 0.25, 0.5));
        let json = hls.to_json(&hello);
        assert_eq!((&json["median"], &json["ratio"]), (&25.0.into(), &0.25.into()));
        assert_eq!(json["answers_per_second"], 12.5);
    }
}
