//! A plan in an operator's terms: first the rate and the scarcest part, then shares, then the arithmetic.

use crate::demand::{PlannedRoute, PlannedSilo, SealedBy};
use crate::scarce::PartLimit;
use crate::solve::Capacity;
use std::fmt::Write;

/// Characters of a full bar.
const BAR: usize = 20;

/// A part used less than this is called idle.
const IDLE: f64 = 0.5;

/// Gains below this are not worth a line.
const GAIN_GBPS_MIN: f64 = 0.5;

impl PartLimit {
    /// A name such as `memory bandwidth (node 3)`.
    pub fn title(&self) -> String {
        match &self.place {
            Some(place) => format!("{} ({place})", self.scarce.name()),
            None => self.scarce.name().to_owned(),
        }
    }
}

/// A rate with about three digits: `9.5`, `380`.
pub(crate) fn rate(gbps: f64) -> String {
    if gbps < 9.95 {
        format!("{gbps:.2}")
    } else if gbps < 99.5 {
        format!("{gbps:.1}")
    } else {
        format!("{gbps:.0}")
    }
}

impl Capacity {
    /// The plan in one line.
    pub fn headline(&self) -> String {
        format!("{}: {} Gb/s. Scarce first: {}.", self.name, rate(self.gbps), self.scarce().title())
    }

    /// The configuration, in a few words.
    pub fn way(&self) -> String {
        let tls = match self.tls {
            SealedBy::None => "no TLS",
            SealedBy::Software => "TLS in software",
            SealedBy::Card => "TLS by the cards",
        };
        let route = match self.route {
            PlannedRoute::Userspace => "userspace",
            PlannedRoute::Kernel => "kernel",
            PlannedRoute::Copies => "copies",
        };
        let silo = match self.silo {
            PlannedSilo::Off => "off",
            PlannedSilo::Network => "network",
            PlannedSilo::MemoryAtDisk => "memory-at-disk",
            PlannedSilo::Disk => "disk",
        };
        format!("{tls}, route {route}, silo {silo}")
    }

    /// Parts used less than half, least used first.
    pub fn idle(&self) -> Vec<&PartLimit> {
        self.limits.iter().rev().filter(|limit| self.used(limit) < IDLE).collect()
    }

    /// The whole plan, as text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "{}", self.headline())?;
        writeln!(text, "({})", self.way())?;
        if let Some(wanted) = self.wanted_gbps {
            let share = if self.gbps > 0.0 { wanted / self.gbps * 100.0 } else { f64::INFINITY };
            let verdict = if wanted <= self.gbps { "enough" } else { "not enough" };
            writeln!(
                text,
                "Your viewers take {} Gb/s, {share:.0}% of that: {verdict}.",
                rate(wanted)
            )?;
        }
        writeln!(text, "\n{:44} {:>12}  used", "part", "allows")?;
        for limit in &self.limits {
            let used = self.used(limit);
            let bar = "#".repeat(((used * BAR as f64).round() as usize).min(BAR));
            let line = format!(
                "{:44} {:>7} Gb/s {:>4.0}%  {bar}",
                limit.title(),
                rate(limit.gbps),
                used * 100.0
            );
            writeln!(text, "{}", line.trim_end())?;
        }
        let idle: Vec<_> = self.idle().iter().map(|limit| limit.title()).collect();
        if !idle.is_empty() {
            writeln!(text, "\nUsed less than half: {}.", idle.join(", "))?;
        }
        self.write_changes(text)?;
        self.write_arithmetic(text)
    }

    fn write_changes(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\nWhat a change would bring")?;
        let mut nothing = Vec::new();
        for what_if in &self.what_if {
            if what_if.gained_gbps.abs() < GAIN_GBPS_MIN {
                nothing.push(what_if.change.as_str());
                continue;
            }
            writeln!(
                text,
                "  {:>+7.0} Gb/s, to {:>5}: {}",
                what_if.gained_gbps,
                rate(what_if.gbps),
                what_if.change
            )?;
        }
        if !nothing.is_empty() {
            writeln!(text, "  nothing: {}", nothing.join(", "))?;
        }
        Ok(())
    }

    fn write_arithmetic(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\nThe arithmetic\n  Bytes moved in memory for each byte served:")?;
        for one in &self.moves {
            writeln!(text, "    {:.2}  {}", one.bytes, one.what)?;
        }
        let all: f64 = self.moves.iter().map(|one| one.bytes).sum();
        let served = self.gbps / 8.0;
        writeln!(
            text,
            "    {all:.2}  in all: {:.1} GB/s moved for {served:.1} GB/s served",
            all * served
        )?;
        if self.nodes.len() > 1 {
            writeln!(
                text,
                "  Of these, {:.2} cross to another node on average ({:.0} at worst): {:.1} GB/s between nodes",
                self.crossing.average, self.crossing.worst, self.fabric_gbytes_per_second
            )?;
        }
        for limit in &self.limits {
            writeln!(text, "  {}: {}", limit.title(), limit.arithmetic)?;
        }
        Ok(())
    }
}
