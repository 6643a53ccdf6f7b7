//! The figures of eviction.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Options;
use crate::report::{Curve, curves_chart};

/// The edge, with a file for each title.
pub(super) const FILMS: &str = "Fullbore, films";

/// The edge, with a file for each segment.
pub(super) const SEGMENTS: &str = "Fullbore, segments";

/// What a policy misses.
#[derive(Clone, Debug)]
pub(super) struct Missed {
    pub(super) policy: String,
    /// The share of bytes, for each size of the cache.
    pub(super) ratios: Vec<f64>,
    /// Bytes that did not fit, because all other files were in use.
    pub(super) refused_bytes: u64,
}

/// The figures of a demand.
#[derive(Clone, Debug)]
pub(super) struct DemandFigures {
    pub(super) demand: String,
    pub(super) reads: usize,
    /// Of the parts that are read at least once.
    pub(super) footprint_gib: u64,
    pub(super) cache_mib: Vec<u64>,
    pub(super) missed: Vec<Missed>,
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    options: Options,
    pub(super) demands: Vec<DemandFigures>,
    /// Why there are no figures of libcachesim.
    pub(super) lacks: Option<String>,
}

impl Outcome {
    pub(super) fn new(options: &Options) -> Self {
        Self { options: options.clone(), demands: Vec::new(), lacks: None }
    }

    /// The means over all demands.
    fn means(&self) -> Vec<Missed> {
        let policies = self.demands.first().map(|first| &first.missed[..]).unwrap_or_default();
        let mean = |first: &Missed| {
            let is_same = |one: &&Missed| one.policy == first.policy;
            let all: Vec<&Missed> = self
                .demands
                .iter()
                .filter_map(|demand| demand.missed.iter().find(is_same))
                .collect();
            let at = |size: usize| average(all.iter().map(|one| one.ratios[size]));
            let ratios = (0..first.ratios.len()).map(at).collect();
            Missed { policy: first.policy.clone(), ratios, refused_bytes: 0 }
        };
        policies.iter().map(mean).collect()
    }

    /// As text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for figures in &self.demands {
            let DemandFigures { demand, reads, footprint_gib, .. } = figures;
            let heading = format!("{demand} ({reads} reads of {footprint_gib} GiB)");
            self.table(&mut text, &heading, &figures.missed);
        }
        self.table(&mut text, "mean of all demands", &self.means());
        if let Some(lacks) = &self.lacks {
            let _ = writeln!(text, "no other policies, because libcachesim can't be used: {lacks}");
        }
        text
    }

    fn table(&self, text: &mut String, heading: &str, missed: &[Missed]) {
        // Writing to a string can't fail.
        let _ = write!(text, "{heading:40}");
        for percent in &self.options.percents {
            let _ = write!(text, "{percent:>7}%");
        }
        let _ = writeln!(text, "{:>9}", "mean");
        for Missed { policy, ratios, refused_bytes } in missed {
            let _ = write!(text, "  {policy:38}");
            for ratio in ratios {
                let _ = write!(text, "{ratio:>8.4}");
            }
            let _ = write!(text, "{:>9.4}", average(ratios.iter().copied()));
            let refused_gib = *refused_bytes as f64 / f64::from(1 << 30);
            let _ = match *refused_bytes {
                0 => writeln!(text),
                _ => writeln!(text, "  ({refused_gib:.1} GiB found all other files in use)"),
            };
        }
        text.push('\n');
    }

    /// The means as curves, in a file of their own. `None` if there is only one size.
    pub fn chart(&self) -> Option<String> {
        let curve = |Missed { policy, ratios, .. }: Missed| Curve {
            is_ours: policy == FILMS || policy == SEGMENTS,
            label: policy,
            points: self.options.percents.iter().map(|at| f64::from(*at)).zip(ratios).collect(),
        };
        let curves: Vec<Curve> = self.means().into_iter().map(curve).collect();
        let axis =
            "size of the cache, in percent of the bytes that are read; byte miss ratio upwards";
        curves_chart("Byte miss ratios, means of the drawn demands", &curves, axis)
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let Options { size, seed, percents, .. } = &self.options;
        let missed = |missed: &[Missed]| -> Vec<Value> {
            let one = |one: &Missed| json!({ "policy": one.policy, "byte_miss_ratios": one.ratios, "refused_bytes": one.refused_bytes });
            missed.iter().map(one).collect()
        };
        let demand = |one: &DemandFigures| {
            json!({
                "demand": one.demand,
                "reads": one.reads,
                "footprint_gib": one.footprint_gib,
                "cache_mib": one.cache_mib,
                "policies": missed(&one.missed),
            })
        };
        json!({
            "version": 1,
            "kind": "eviction",
            "seed": seed,
            "titles": size.titles,
            "plays": size.plays,
            "days": size.days,
            "cache_percents": percents,
            "demands": self.demands.iter().map(demand).collect::<Vec<_>>(),
            "means": missed(&self.means()),
            "lacks": self.lacks,
        })
    }
}

fn average(figures: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = figures.len().max(1);
    figures.sum::<f64>() / count as f64
}
