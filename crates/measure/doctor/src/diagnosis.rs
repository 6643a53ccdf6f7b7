//! All findings, ordered by cost: for people, and as JSON for programs.

use crate::finding::{Cost, Finding, Unread, Worth};
use crate::inventory::HardwareDevice;
use machine::Machine;
use serde_json::{Value, json};
use std::fmt::Write;

/// The most devices named per finding; more would scroll the rest away.
const NAMES_SHOWN: usize = 6;

/// The findings, the most costly first.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// The machine, in one line.
    pub machine: String,
    /// Its disks and network cards.
    pub devices: Vec<HardwareDevice>,
    /// Faults.
    pub findings: Vec<Finding>,
    /// Values that could not be read.
    pub unread: Vec<Unread>,
}

impl Diagnosis {
    pub(crate) fn new(
        machine: String,
        devices: Vec<HardwareDevice>,
        mut findings: Vec<Finding>,
        unread: Vec<Unread>,
    ) -> Self {
        // Stable: findings of equal cost stay in the order of the areas.
        findings.sort_by(|one, other| one.cost.worth.order(other.cost.worth));
        Self { machine, devices, findings, unread }
    }

    /// Whether something may cost more than a tenth of the machine's possible rate.
    pub fn is_large(&self) -> bool {
        self.findings.iter().any(|finding| finding.cost.worth.is_large())
    }

    /// The diagnosis for people.
    pub fn describe(&self) -> String {
        let mut text = format!("machine   {}\n", self.machine);
        for device in &self.devices {
            text.push_str(&format!("{}\n", device.describe()));
        }
        for (number, finding) in (1..).zip(&self.findings) {
            write_finding(&mut text, number, finding).expect("writing to a string cannot fail");
        }
        if !self.unread.is_empty() {
            text.push_str("\nNot known:\n");
        }
        for Unread { what, why, of } in &self.unread {
            text.push_str(&format!("   {what} ({}): {why}\n", some_of(of)));
        }
        text.push('\n');
        text.push_str(&self.sum());
        text
    }

    fn sum(&self) -> String {
        let large = self.findings.iter().filter(|finding| finding.cost.worth.is_large()).count();
        match (self.findings.len(), large) {
            (0, _) => "Nothing to change in what could be read.\n".to_owned(),
            (all, 0) => format!("{all} to change; none is known to cost more than 10%.\n"),
            (all, large) => {
                format!(
                    "{all} to change; {large} may cost more than 10%, or leave films unprotected.\n"
                )
            }
        }
    }

    /// The diagnosis for programs.
    pub fn to_json(&self) -> Value {
        let findings: Vec<_> = self.findings.iter().map(finding_json).collect();
        let unread = self
            .unread
            .iter()
            .map(|Unread { what, why, of }| json!({ "what": what, "why": why, "of": of }));
        json!({
            "version": 1,
            "kind": "doctor",
            "machine": self.machine,
            "devices": self.devices.iter().map(HardwareDevice::to_json).collect::<Vec<_>>(),
            "findings": findings,
            "unknown": unread.collect::<Vec<_>>(),
            "costs_more_than_10_percent": self.is_large(),
        })
    }
}

fn write_finding(text: &mut String, number: usize, finding: &Finding) -> std::fmt::Result {
    let Finding { area, name, on, found, wanted, cost, mend, check } = finding;
    let of = if on.is_empty() { String::new() } else { format!(": {}", some_of(on)) };
    writeln!(text, "\n{number}. {} {name}{of} ({})", area.name(), describe_worth(cost.worth))?;
    writeln!(text, "   found   {found}")?;
    writeln!(text, "   wanted  {wanted}")?;
    writeln!(text, "   cost    {}", describe_cost(cost))?;
    writeln!(text, "   mend    {mend}")?;
    writeln!(text, "   check   {check}")
}

fn describe_worth(worth: Worth) -> String {
    match worth {
        Worth::Safety => "may leave films unprotected".to_owned(),
        Worth::Percent(percent) if percent < 1.0 => "less than 1%".to_owned(),
        Worth::Percent(percent) => format!("up to {percent:.0}%"),
        Worth::Unmeasured => "not measured".to_owned(),
    }
}

fn describe_cost(cost: &Cost) -> String {
    let Cost { worth, what, source } = cost;
    let what = match worth {
        // "up to 42% of what a core carries"
        Worth::Percent(_) if what.starts_with("of ") => {
            format!("{} {what}", describe_worth(*worth))
        }
        _ => what.clone(),
    };
    if source.is_empty() { what } else { format!("{what} [{source}]") }
}

fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn finding_json(finding: &Finding) -> Value {
    let Finding { area, name, on, found, wanted, cost, mend, check } = finding;
    let percent = match cost.worth {
        Worth::Percent(percent) => Some(percent),
        Worth::Safety | Worth::Unmeasured => None,
    };
    json!({
        "area": area.name(),
        "name": name,
        "on": on,
        "found": found,
        "wanted": wanted,
        "cost": {
            "percent": percent,
            "safety": cost.worth == Worth::Safety,
            "what": cost.what,
            "source": cost.source,
        },
        "mend": mend,
        "check": check,
    })
}

/// A machine in one line; `sockets` is 0 if unknown.
pub(crate) fn describe(machine: &Machine, sockets: usize) -> String {
    let unknown = || "unknown".to_owned();
    let memory = machine
        .memory_bytes
        .map_or_else(unknown, |bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30)));
    let nodes = machine.nodes.len();
    // AMD's firmware setup calls this NPS, Intel's SNC.
    let of_each = match nodes.checked_div(sockets) {
        Some(of_each) if of_each > 1 && nodes % sockets == 0 => {
            format!(" ({of_each} in each socket)")
        }
        _ => String::new(),
    };
    let sockets = if sockets > 0 { format!(", sockets: {sockets}") } else { String::new() };
    format!(
        "{}; CPUs for this process: {}{sockets}, nodes: {nodes}{of_each}; memory: {memory}; Linux {}",
        machine.cpu_model.as_deref().unwrap_or("processor unknown"),
        machine.cpus.len(),
        machine.kernel.map_or_else(unknown, |kernel| kernel.to_string()),
    )
}
