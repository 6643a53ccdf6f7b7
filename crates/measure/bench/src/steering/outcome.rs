//! The figures of steering.

use ::steering::{Decision, Label};
use serde_json::{Value, json};

use super::Options;
use crate::machine_json::machine_json;
use crate::stats::Summary;

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub(super) options: Option<Options>,
    pub(super) per_cpu_second: Vec<f64>,
    /// In ascending order.
    pub(super) latencies_ns: Vec<u32>,
    pub(super) build_seconds: f64,
    pub(super) rebuild_seconds: f64,
    pub(super) resident_bytes: u64,
    pub(super) resident_bytes_max: u64,
    pub(super) checked: u64,
    pub(super) content: u64,
    pub(super) health: u64,
}

impl Outcome {
    pub(super) fn count(&mut self, decision: &Decision) {
        self.checked += 1;
        self.content += u64::from(decision.label == Some(Label::Content));
        self.health += u64::from(decision.label == Some(Label::Health));
    }

    /// The latency that this share of all decisions stays below, in microseconds.
    fn latency_us(&self, share: f64) -> f64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        let at = (last as f64 * share) as usize;
        self.latencies_ns.get(at).map_or(0.0, |ns| f64::from(*ns) / 1000.0)
    }

    fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.checked.max(1) as f64
    }

    /// As text.
    pub fn describe(&self) -> String {
        let Summary { median, deviation } = Summary::of(&self.per_cpu_second);
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let machine = machine_json();
        format!(
            "{median:.0} +- {deviation:.0} decisions per CPU second, on {}\n\
             half of them take less than {:.1} us, 99 % less than {:.1} us, 99.9 % less than {:.1} us\n\
             {:.2} GiB resident, {:.2} GiB at most while the next snapshot's index is built\n\
             index built in {:.1} s; in {:.2} s when only loads have changed\n\
             {} answers checked: all name three nodes at three sites that hold the title; label C: {:.1} %, label H: {:.1} %\n",
            machine["cpu"].as_str().unwrap_or("an unknown processor"),
            self.latency_us(0.5),
            self.latency_us(0.99),
            self.latency_us(0.999),
            gib(self.resident_bytes),
            gib(self.resident_bytes_max),
            self.build_seconds,
            self.rebuild_seconds,
            self.checked,
            self.percent(self.content),
            self.percent(self.health),
        )
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let Summary { median, deviation } = Summary::of(&self.per_cpu_second);
        let options = self.options.map(|options| {
            json!({
                "nodes": options.nodes,
                "held": options.held,
                "titles": options.titles,
                "sites": options.sites,
                "prefixes": options.prefixes,
                "seconds": options.seconds,
            })
        });
        json!({
            "version": 1,
            "kind": "steering",
            "machine": machine_json(),
            "fleet": options,
            "decisions_per_cpu_second": self.per_cpu_second,
            "median": median,
            "deviation": deviation,
            "p50_us": self.latency_us(0.5),
            "p99_us": self.latency_us(0.99),
            "p999_us": self.latency_us(0.999),
            "max_us": self.latency_us(1.0),
            "resident_bytes": self.resident_bytes,
            "resident_bytes_max": self.resident_bytes_max,
            "build_seconds": self.build_seconds,
            "rebuild_seconds": self.rebuild_seconds,
            "checked": self.checked,
            "label_c": self.content,
            "label_h": self.health,
        })
    }
}
