//! Passes what the server counted of viewers' quality of experience on to gateways.
//!
//! The server counts and numbers the reports, and serves the last few at `/viewing.json` of its admin listener. Here they become the node's, and
//! wait for gateways. Titles that are not the fleet's lose their names. A server that starts again counts from 1 under another boot name, so that
//! gateways don't take its reports for old ones.

use std::collections::VecDeque;
use std::sync::Arc;

use fleet_protocol::{ExperienceReport, Name, SumsCell};
use serde::Deserialize;

/// Reports kept for gateways: an hour of them. A gateway that is away for longer misses the first ones.
const REPORTS_KEPT: usize = 60;

/// Groups in all of them: some 20 MB.
const CELLS_KEPT: usize = 20_000;

/// The server's reports that were asked for.
#[derive(Debug, Deserialize)]
pub(crate) struct ServerViewing {
    version: u32,
    boot: String,
    reports: Vec<ServerReport>,
}

#[derive(Debug, Deserialize)]
struct ServerReport {
    number: u64,
    seconds: u32,
    ended_unix_seconds: u64,
    cells: Vec<SumsCell>,
}

/// The reports of this node that gateways may not have yet.
pub(crate) struct ExperienceRelay {
    node: Name,
    /// The server's last report.
    boot: String,
    number: u64,
    /// The reports, each with its place, which rises across the server's runs.
    kept: VecDeque<(u64, Arc<ExperienceReport>)>,
    place: u64,
}

impl ExperienceRelay {
    /// No reports yet.
    pub(crate) fn new(node: Name) -> Self {
        Self { node, boot: String::new(), number: 0, kept: VecDeque::new(), place: 0 }
    }

    /// Where the server's admin listener has its further reports.
    pub(crate) fn path(&self) -> String {
        format!("/viewing.json?boot={}&after={}", self.boot, self.number)
    }

    /// Takes the server's further reports. `is_fleets` knows the paths of the fleet's titles.
    pub(crate) fn handle(&mut self, viewing: ServerViewing, is_fleets: impl Fn(&str) -> bool) {
        if viewing.version != 1 {
            return;
        }
        if viewing.boot != self.boot {
            (self.boot, self.number) = (viewing.boot, 0);
        }
        for ServerReport { number, seconds, ended_unix_seconds, cells } in viewing.reports {
            if number <= self.number {
                continue;
            }
            self.number = number;
            let (node, boot) = (self.node.clone(), self.boot.clone());
            let seconds = seconds.clamp(1, 3600);
            let mut report = ExperienceReport {
                version: 1,
                node,
                boot,
                number,
                seconds,
                ended_unix_seconds,
                cells,
            };
            report.hide_titles(&is_fleets);
            match report.check() {
                Ok(()) => self.keep(report),
                Err(why) => crate::tell(&format!(
                    "the server's report of viewers' experience can't be used: {why}"
                )),
            }
        }
    }

    fn keep(&mut self, report: ExperienceReport) {
        self.place += 1;
        self.kept.push_back((self.place, Arc::new(report)));
        let cells = |kept: &VecDeque<(u64, Arc<ExperienceReport>)>| {
            kept.iter().map(|(_, report)| report.cells.len()).sum::<usize>()
        };
        while self.kept.len() > REPORTS_KEPT || cells(&self.kept) > CELLS_KEPT {
            self.kept.pop_front();
        }
    }

    /// The oldest kept report after this place, and its place.
    pub(crate) fn after(&self, place: u64) -> Option<(u64, Arc<ExperienceReport>)> {
        self.kept.iter().find(|(at, _)| *at > place).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cell(by: &str, name: &str) -> Value {
        let sessions = if by == "all" { 24 } else { 12 };
        json!({ "by": by, "name": name, "sums": { "sessions": sessions, "not_started": 2 } })
    }

    fn viewing(boot: &str, numbers: std::ops::RangeInclusive<u64>) -> ServerViewing {
        let cells = [cell("all", ""), cell("title", "films/a"), cell("title", "private/b")];
        let reports = numbers.map(|number| {
            json!({ "number": number, "seconds": 60, "ended_unix_seconds": 1_800_000_000, "cells": cells })
        });
        let reports: Vec<_> = reports.collect();
        serde_json::from_value(json!({ "version": 1, "boot": boot, "reports": reports })).unwrap()
    }

    fn is_fleets(path: &str) -> bool {
        path.starts_with("films/")
    }

    #[test]
    fn each_report_is_passed_on_once_also_after_the_server_has_started_again() {
        let mut relay = ExperienceRelay::new("n1".parse().unwrap());
        assert_eq!(relay.path(), "/viewing.json?boot=&after=0");
        relay.handle(viewing("a1", 1..=2), is_fleets);
        assert_eq!(relay.path(), "/viewing.json?boot=a1&after=2");
        relay.handle(viewing("a1", 1..=3), is_fleets);
        relay.handle(viewing("b1", 1..=1), is_fleets);
        let mut place = 0;
        let mut passed = Vec::new();
        while let Some((at, report)) = relay.after(place) {
            place = at;
            passed.push((report.boot.clone(), report.number));
        }
        let expected = [("a1", 1), ("a1", 2), ("a1", 3), ("b1", 1)];
        assert_eq!(passed, expected.map(|(boot, number)| (boot.to_owned(), number)));
    }

    #[test]
    fn private_titles_have_no_names() {
        let mut relay = ExperienceRelay::new("n1".parse().unwrap());
        relay.handle(viewing("a1", 1..=1), is_fleets);
        let (_, report) = relay.after(0).unwrap();
        let names: Vec<_> = report.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["", "", "films/a"]);
        assert_eq!(report.cells[1].sums.sessions, 12);
    }

    #[test]
    fn reports_are_bounded_and_unsound_ones_are_left_out() {
        let mut relay = ExperienceRelay::new("n1".parse().unwrap());
        relay.handle(viewing("a1", 1..=100), is_fleets);
        assert_eq!((relay.kept.len(), relay.after(0).unwrap().1.number), (REPORTS_KEPT, 41));
        let mut few = viewing("a1", 101..=101);
        few.reports[0].cells[0].sums.sessions = 9;
        relay.handle(few, is_fleets);
        assert_eq!(relay.after(100).map(|(_, report)| report.number), None);
    }
}
