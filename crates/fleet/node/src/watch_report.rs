//! Counts what viewers watch here, by title: turns the server's list of titles into a report a minute for gateways.
//!
//! The server remembers 256 titles with the bytes sent of each, and forgets the least busy ones when there are more. So a title is counted
//! while it is among the 256 busiest; other bytes are in the report's rest: all that the server has sent, less what it lists by title.
//!
//! Other nodes that copy titles from here are not viewers. The server leaves them out of its titles and reports their sum, which is
//! subtracted from the rest.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{Name, REPORT_TITLES_MAX, WatchCount, WatchReport, WatchedTitle};
use serde_json::Value;

/// Reports kept for gateways: an hour of them. A gateway that is away for longer misses the first ones.
const REPORTS_KEPT: usize = 60;

/// A server with a longer uptime when it is first seen has already counted for an earlier agent.
const NEW_SERVER_SECONDS: f64 = 10.0;

/// The server's counts since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerTitles {
    uptime_seconds: f64,
    sent_bytes: u64,
    /// Bytes sent to nodes that copy titles. A server of an older release does not report them.
    to_nodes_bytes: u64,
    titles: HashMap<String, WatchCount>,
}

impl ServerTitles {
    /// From `/status.json`.
    pub(crate) fn of(status: &Value) -> Self {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let titles = status["titles"].as_array().into_iter().flatten().filter_map(|title| {
            let count =
                WatchCount { starts: number(&title["starts"]), bytes: number(&title["bytes"]) };
            Some((title["title"].as_str()?.to_owned(), count))
        });
        Self {
            uptime_seconds: status["uptime_seconds"].as_f64().unwrap_or(0.0),
            sent_bytes: number(&status["total"]["response_sent_bytes_total"]),
            to_nodes_bytes: number(&status["total"]["sent_to_nodes_bytes_total"]),
            titles: titles.collect(),
        }
    }
}

/// Sums up the server's counts, and closes a report each minute.
pub(crate) struct WatchTally {
    node: Name,
    boot: String,
    /// The time that a report covers.
    every: Duration,
    seen: Option<ServerTitles>,
    /// Of the current report.
    began: Duration,
    titles: BTreeMap<String, WatchCount>,
    rest_starts: u64,
    /// Bytes sent and not yet attributed to a title. The server counts a response's bytes as they go, and attributes them to a title when
    /// it ends: so this may fall below 0 for bytes that an earlier report had in its rest.
    unnamed_bytes: i128,
    number: u64,
    closed: VecDeque<Arc<WatchReport>>,
}

impl WatchTally {
    /// `boot` is drawn at each start of the agent.
    pub(crate) fn new(node: Name, boot: String, every: Duration) -> Self {
        let (titles, closed) = Default::default();
        Self {
            node,
            boot,
            every,
            seen: None,
            began: Duration::ZERO,
            titles,
            rest_starts: 0,
            unnamed_bytes: 0,
            number: 0,
            closed,
        }
    }

    /// Reports closed from now on belong to `boot`.
    pub(crate) fn rename(&mut self, boot: String) {
        self.boot = boot;
    }

    /// Takes the server's counts at `now`, a monotonic clock. Titles that are not the fleet's are counted without their names.
    pub(crate) fn handle(
        &mut self,
        server: Option<ServerTitles>,
        is_fleets: impl Fn(&str) -> bool,
        now: Duration,
    ) {
        if let Some(server) = server {
            self.count(&server, is_fleets);
            self.seen = Some(server);
        }
        if now.saturating_sub(self.began) >= self.every {
            self.close(now);
        }
    }

    fn count(&mut self, server: &ServerTitles, is_fleets: impl Fn(&str) -> bool) {
        let is_same = |seen: &&ServerTitles| seen.uptime_seconds <= server.uptime_seconds;
        let nothing = ServerTitles::default();
        let seen = match &self.seen {
            Some(seen) => Some(seen).filter(is_same).unwrap_or(&nothing),
            None if server.uptime_seconds < NEW_SERVER_SECONDS => &nothing,
            None => return,
        };
        let to_nodes_bytes = server.to_nodes_bytes.saturating_sub(seen.to_nodes_bytes);
        self.unnamed_bytes += i128::from(server.sent_bytes.saturating_sub(seen.sent_bytes));
        self.unnamed_bytes -= i128::from(to_nodes_bytes);
        for (path, count) in &server.titles {
            let before = seen.titles.get(path).copied().unwrap_or_default();
            // The server had forgotten it, and counts from 0 again.
            let before = if before.bytes <= count.bytes { before } else { WatchCount::default() };
            let grown = WatchCount {
                starts: count.starts.saturating_sub(before.starts),
                bytes: count.bytes - before.bytes,
            };
            if grown.is_none() {
                continue;
            }
            if is_fleets(path) {
                self.titles.entry(path.clone()).or_default().add(grown);
                self.unnamed_bytes -= i128::from(grown.bytes);
            } else {
                self.rest_starts = self.rest_starts.saturating_add(grown.starts);
            }
        }
    }

    /// Closes the current report, if there were any views, and begins the next one.
    fn close(&mut self, now: Duration) {
        let seconds = now.saturating_sub(self.began).as_secs();
        self.began = now;
        let mut titles: Vec<_> = std::mem::take(&mut self.titles).into_iter().collect();
        let mut rest = WatchCount { starts: std::mem::take(&mut self.rest_starts), bytes: 0 };
        if titles.len() > REPORT_TITLES_MAX {
            titles.sort_by_key(|(_, count)| std::cmp::Reverse(count.bytes));
            titles.drain(REPORT_TITLES_MAX..).for_each(|(_, count)| rest.add(count));
            titles.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        if let Ok(bytes) = u64::try_from(self.unnamed_bytes) {
            rest.bytes = rest.bytes.saturating_add(bytes);
            self.unnamed_bytes = 0;
        }
        if titles.is_empty() && rest.is_none() {
            return;
        }
        self.number += 1;
        let titled = |(path, WatchCount { starts, bytes })| WatchedTitle { path, starts, bytes };
        let report = WatchReport {
            version: 1,
            node: self.node.clone(),
            boot: self.boot.clone(),
            number: self.number,
            seconds: u32::try_from(seconds).unwrap_or(u32::MAX).clamp(1, 3600),
            titles: titles.into_iter().map(titled).collect(),
            rest,
        };
        if self.closed.len() == REPORTS_KEPT {
            self.closed.pop_front();
        }
        self.closed.push_back(Arc::new(report));
    }

    /// The oldest kept report that is newer than `number`.
    pub(crate) fn after(&self, number: u64) -> Option<Arc<WatchReport>> {
        self.closed.iter().find(|report| report.number > number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(uptime: u64, sent_bytes: u64, titles: &[(&str, u64, u64)]) -> Option<ServerTitles> {
        let titles = titles.iter();
        Some(ServerTitles {
            uptime_seconds: uptime as f64,
            sent_bytes,
            to_nodes_bytes: 0,
            titles: titles
                .map(|(path, starts, bytes)| {
                    ((*path).to_owned(), WatchCount { starts: *starts, bytes: *bytes })
                })
                .collect(),
        })
    }

    fn tally() -> WatchTally {
        let minute = Duration::from_secs(60);
        WatchTally::new("n1".parse().unwrap(), "b1".to_owned(), minute)
    }

    fn told(report: &WatchReport) -> Vec<(&str, u64, u64)> {
        assert_eq!(report.check(), Ok(()));
        let titles = report.titles.iter();
        titles.map(|title| (title.path.as_str(), title.starts, title.bytes)).collect()
    }

    #[test]
    fn what_grows_within_a_minute_is_a_report_and_a_quiet_minute_is_none() {
        let mut tally = tally();
        let mut see = |second: u64, server| {
            let is_fleets = |path: &str| path != "private";
            tally.handle(server, is_fleets, Duration::from_secs(second));
        };
        see(1, server(1, 1000, &[("a", 1, 900)]));
        see(30, None);
        see(59, server(59, 9000, &[("a", 2, 5000), ("b", 1, 3000), ("private", 1, 500)]));
        see(60, server(60, 9000, &[("a", 2, 5000), ("b", 1, 3000), ("private", 1, 500)]));
        see(130, server(130, 9000, &[("a", 2, 5000)]));
        // The server forgot b, and b came back.
        see(190, server(190, 9700, &[("a", 2, 5000), ("b", 1, 700)]));
        let first = tally.after(0).unwrap();
        assert_eq!(told(&first), [("a", 2, 5000), ("b", 1, 3000)]);
        assert_eq!((first.rest, first.seconds), (WatchCount { starts: 1, bytes: 1000 }, 60));
        let second = tally.after(1).unwrap();
        assert_eq!((told(&second), second.rest.bytes), (vec![("b", 1, 700)], 0));
        assert_eq!(tally.after(2), None);
    }

    #[test]
    fn bytes_are_named_when_their_response_ends_and_are_counted_once() {
        let mut tally = tally();
        let mut see = |second: u64, server| {
            tally.handle(server, |_| true, Duration::from_secs(second));
        };
        see(60, server(5, 8000, &[]));
        see(120, server(65, 10_000, &[("a", 1, 10_000)]));
        see(180, server(125, 12_000, &[("a", 1, 10_000)]));
        see(240, server(185, 22_000, &[("a", 1, 10_000)]));
        let reports: Vec<_> = (0..4).map_while(|number| tally.after(number)).collect();
        let sum: u64 = reports.iter().map(|report| report.sum().bytes).sum();
        assert_eq!(reports.iter().map(|one| one.rest.bytes).collect::<Vec<_>>(), [8000, 0, 4000]);
        assert_eq!(sum, 22_000);
    }

    #[test]
    fn what_nodes_copy_is_no_demand_and_what_viewers_take_meanwhile_is_counted() {
        let mut tally = tally();
        let mut see = |second: u64, sent_bytes: u64, to_nodes_bytes: u64, viewers: u64| {
            let status = serde_json::json!({
                "uptime_seconds": second,
                "total": {
                    "response_sent_bytes_total": sent_bytes,
                    "sent_to_nodes_bytes_total": to_nodes_bytes,
                },
                "titles": [{ "title": "a", "starts": viewers, "bytes": viewers * 1000 }],
            });
            let server = Some(ServerTitles::of(&status));
            tally.handle(server, |_| true, Duration::from_secs(second));
        };
        see(1, 0, 0, 0);
        see(60, 5_000_000, 5_000_000, 0);
        see(120, 9_003_500, 9_000_000, 3);
        let report = tally.after(0).unwrap();
        assert_eq!((told(&report), report.rest.bytes), (vec![("a", 3, 3000)], 500));
        assert_eq!(report.number, 1, "there were no views in the first minute");
    }

    #[test]
    fn a_server_that_starts_anew_counts_from_zero_and_one_that_was_there_from_what_it_had() {
        let mut tally = tally();
        let mut see = |second: u64, server| {
            tally.handle(server, |_| true, Duration::from_secs(second));
        };
        see(1, server(1000, 50_000, &[("a", 9, 50_000)]));
        see(2, server(1001, 51_000, &[("a", 9, 51_000)]));
        see(60, server(3, 400, &[("a", 1, 400)]));
        assert_eq!(told(&tally.after(0).unwrap()), [("a", 1, 1400)]);
    }

    #[test]
    fn reports_and_their_titles_are_bounded() {
        let mut tally = tally();
        let paths: Vec<String> = (0..2000).map(|number| format!("t{number:04}")).collect();
        for minute in 1..=100_u64 {
            let titles: Vec<_> = (0..)
                .zip(&paths)
                .map(|(at, path)| (path.as_str(), 1, minute * (1000 + at)))
                .collect();
            let sent = titles.iter().map(|(_, _, bytes)| bytes).sum();
            tally.handle(server(minute, sent, &titles), |_| true, Duration::from_secs(minute * 60));
        }
        assert_eq!((tally.closed.len(), tally.after(0).unwrap().number), (60, 41));
        let report = tally.after(99).unwrap();
        assert_eq!((report.check(), report.titles.len()), (Ok(()), REPORT_TITLES_MAX));
        // The busiest half is listed by name.
        assert_eq!(report.titles[0].path, "t1000");
        assert_eq!(report.sum().bytes, (1000..3000).sum::<u64>());
    }
}
