//! The results of parts and servers, the ceilings that follow from the parts, and a verdict on this machine.

use super::Rates;
use super::chain::{CHAINS, Chain, FILL, ceiling, shares};
use super::parts::{Part, Rate};
use crate::counters;
use crate::machine_json::machine_json;
use crate::namespace;
use crate::stats::Summary;
use crate::versus::Workload;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The results.
#[derive(Clone, Debug)]
pub struct Outcome {
    parts: BTreeMap<Part, Vec<Rate>>,
    servers: Vec<(Workload, Vec<f64>)>,
    fills: Vec<Rate>,
    /// Speed of the fastest network card, if known.
    nic_gbps: Option<f64>,
    /// The user interrupted.
    pub interrupted: bool,
}

/// A chain with its figures.
struct Link {
    workload: Workload,
    parts: Vec<(Part, f64)>,
    ceiling_gbps: f64,
    server: Summary,
}

impl Link {
    fn share(&self) -> f64 {
        self.server.median / self.ceiling_gbps
    }

    /// The part that takes most of a byte's time.
    fn dearest(&self) -> Option<(Part, f64)> {
        let rates: Vec<_> = self.parts.iter().map(|(_, rate)| *rate).collect();
        let shares = self.parts.iter().map(|(part, _)| *part).zip(shares(&rates));
        shares.max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

impl Outcome {
    pub(super) fn new() -> Self {
        Self {
            parts: BTreeMap::new(),
            servers: CHAINS.iter().map(|chain| (chain.workload, Vec::new())).collect(),
            fills: Vec::new(),
            nic_gbps: nic_gbps(),
            interrupted: false,
        }
    }

    pub(super) fn add_part(&mut self, part: Part, rate: Rate) {
        self.parts.entry(part).or_default().push(rate);
    }

    pub(super) fn add_server(&mut self, workload: Workload, gbps_per_cpu_second: f64) {
        let server = self.servers.iter_mut().find(|(known, _)| *known == workload);
        server.expect("there is one for each chain").1.push(gbps_per_cpu_second);
    }

    pub(super) fn add_fill(&mut self, rate: Rate) {
        self.fills.push(rate);
    }

    /// A fill's rate, and the ceiling from its parts.
    fn fill(&self) -> Option<(Rates, f64)> {
        let of = |part: Part| Some(self.rates(part)?.per_cpu.median);
        let parts: Vec<_> = FILL.into_iter().map(of).collect::<Option<_>>()?;
        Some((Rates::of(&self.fills)?, ceiling(&parts)))
    }

    fn fill_json(&self) -> Option<Value> {
        let (Rates { per_cpu, wall }, ceiling) = self.fill()?;
        Some(json!({
            "chain": FILL.map(Part::name),
            "ceiling_gbps": ceiling,
            "gbps_per_cpu_second": per_cpu.median,
            "deviation": per_cpu.deviation,
            "wall_gbps": wall.median,
            "share_of_ceiling": per_cpu.median / ceiling,
        }))
    }

    fn rates(&self, part: Part) -> Option<Rates> {
        Rates::of(self.parts.get(&part)?)
    }

    fn link(&self, chain: &Chain) -> Option<Link> {
        let with_rate = |part: &Part| Some((*part, self.rates(*part)?.per_cpu.median));
        let parts: Vec<_> = chain.parts.iter().map(with_rate).collect::<Option<_>>()?;
        let rates: Vec<_> = parts.iter().map(|(_, rate)| *rate).collect();
        let (workload, rounds) =
            self.servers.iter().find(|(workload, _)| *workload == chain.workload)?;
        let server = (!rounds.is_empty()).then(|| Summary::of(rounds))?;
        Some(Link { workload: *workload, ceiling_gbps: ceiling(&rates), parts, server })
    }

    fn links(&self) -> Vec<Link> {
        CHAINS.iter().filter_map(|chain| self.link(chain)).collect()
    }

    /// What limits this machine, as text.
    pub fn verdict(&self) -> Option<String> {
        let links = self.links();
        let of = |workload| links.iter().find(|link| link.workload == workload);
        let (warm, cold) = (of(Workload::TlsWarm)?, of(Workload::TlsCold)?);
        let (dearest, share) = warm.dearest()?;
        let disk_gbps = self.rates(Part::ReadDirect)?.wall.median;
        let cores = crate::machine_json()["cores"].as_f64().unwrap_or(1.0);
        let all_cores = cold.server.median * cores;
        let mut text = format!(
            "From memory over TLS, the server reaches {:.0}% of its parts' sum; {:.0}% of a byte's time goes to `{}`. ",
            100.0 * warm.share(),
            100.0 * share,
            dearest.name()
        );
        let bound = match self.nic_gbps {
            Some(nic) if nic < disk_gbps.min(all_cores) => format!("the network ({nic:.0} Gb/s)"),
            _ if disk_gbps < all_cores => format!("the disk ({disk_gbps:.1} Gb/s)"),
            _ => format!("the cores ({all_cores:.0} Gb/s)"),
        };
        let _ = write!(
            text,
            "Data from disk is bound by {bound}: the disk delivers {disk_gbps:.1} Gb/s, {cores} cores serve {all_cores:.0} \
             Gb/s of it."
        );
        Some(text)
    }

    /// As text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "{}: each part alone, Gb/s per CPU second; median and median deviation",
            namespace::congestion_control()
        )?;
        for part in Part::ALL {
            let Some(Rates { per_cpu, wall }) = self.rates(part) else { continue };
            writeln!(
                text,
                "  {:16} {:7.1} +- {:<5.1} {:7.1} Gb/s by the clock   {}",
                part.name(),
                per_cpu.median,
                per_cpu.deviation,
                wall.median,
                part.what()
            )?;
        }
        for link in self.links() {
            let names: Vec<_> = link.parts.iter().map(|(part, _)| part.name()).collect();
            writeln!(
                text,
                "  {:16} {:7.1} +- {:<5.1} of at most {:.1} ({}): {:.0}%",
                link.workload.name(),
                link.server.median,
                link.server.deviation,
                link.ceiling_gbps,
                names.join(" + "),
                100.0 * link.share()
            )?;
        }
        if let Some((Rates { per_cpu, wall }, ceiling)) = self.fill() {
            writeln!(
                text,
                "  {:16} {:7.1} +- {:<5.1} of at most {ceiling:.1} ({}): {:.0}%, {:.1} Gb/s by the clock",
                "fill over tls",
                per_cpu.median,
                per_cpu.deviation,
                FILL.map(Part::name).join(" + "),
                100.0 * per_cpu.median / ceiling,
                wall.median
            )?;
        }
        if let Some(verdict) = self.verdict() {
            writeln!(text, "{verdict}")?;
        }
        if let Some(reason) = counters::unavailable() {
            writeln!(text, "Hardware counters: not available on this machine ({reason}).")?;
        }
        Ok(())
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let parts: Vec<_> = Part::ALL
            .iter()
            .filter_map(|part| {
                let Rates { per_cpu, wall } = self.rates(*part)?;
                Some(json!({
                    "name": part.name(),
                    "what": part.what(),
                    "gbps": per_cpu.median,
                    "deviation": per_cpu.deviation,
                    "wall_gbps": wall.median,
                }))
            })
            .collect();
        let links = self.links();
        let chains: Vec<_> = links.iter().map(link_json).collect();
        let mut whole = json!({
            "version": 1,
            "kind": "limit",
            "machine": machine_json(),
            "congestion_control": namespace::congestion_control(),
            "interrupted": self.interrupted,
            "parts": parts,
            "chains": chains,
            "fill": self.fill_json(),
            "pipeline_gbps": self.rates(Part::Pipeline).map(|rates| rates.per_cpu.median),
            "nic_gbps": self.nic_gbps,
            "bound_by": self.verdict(),
            "counters_unavailable": counters::unavailable(),
        });
        // The first chain stands for the machine as a whole, so its members are repeated at the top level.
        if let Some(Value::Object(first)) = chains.first() {
            let members = whole.as_object_mut().expect("it was made as an object");
            members.extend(first.clone());
        }
        whole
    }
}

fn link_json(link: &Link) -> Value {
    json!({
        "workload": link.workload.name(),
        "chain": link.parts.iter().map(|(part, _)| part.name()).collect::<Vec<_>>(),
        "ceiling_gbps": link.ceiling_gbps,
        "server": {
            "gbps_per_cpu_second": link.server.median,
            "deviation": link.server.deviation,
        },
        "share_of_ceiling": link.share(),
    })
}

/// The speed of the fastest network card that is up, in Gb/s; `None` if unknown.
fn nic_gbps() -> Option<f64> {
    let cards = std::fs::read_dir("/sys/class/net").ok()?;
    let speeds = cards.flatten().filter_map(|card| {
        // Virtual cards have no device behind them and report any speed.
        card.path().join("device").exists().then_some(())?;
        let speed = std::fs::read_to_string(card.path().join("speed")).ok()?;
        speed.trim().parse::<f64>().ok().filter(|megabits| *megabits > 0.0)
    });
    speeds.max_by(f64::total_cmp).map(|megabits| megabits / 1e3)
}
