//! Nodes' reports of what viewers watched: bounded, then summed by title and region.
//!
//! A lying node can do little harm. It reports for its own region; it may claim only what it could have sent since its last report, plus up to an
//! hour's worth at once, because honest nodes save an hour of reports while the gateway is away; and it may name only published titles. Everything
//! else is added to the rest of its region, or is refused, and counted.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_protocol::{Name, PublishedTitle, WatchReport};
use placement::popularity::FleetPopularity;
use steering::CLAIM_BITS_PER_SECOND_MAX;

use super::RejectedMessage;
use crate::clock::Now;

/// A node may claim this much time at its ceiling in one report.
const CREDIT_SECONDS: f64 = 3600.0;

/// Reports of what viewers watched.
#[derive(Default)]
pub(super) struct Watching {
    of_nodes: BTreeMap<Name, Line>,
    pub(super) popularity: FleetPopularity,
    /// Counts of titles that are not published, which were added to the rest.
    pub(super) unknown_titles: u64,
}

/// One node's reports so far.
struct Line {
    boot: String,
    number: u64,
    credit_bytes: f64,
    /// When the credit was last computed, since the gateway's start.
    at: Duration,
}

/// The reporting node.
pub(crate) struct Speaker<'s> {
    pub(crate) name: &'s Name,
    pub(crate) site: &'s Name,
    pub(crate) region: &'s Name,
    /// The most that it can have sent per second; `None` if unknown.
    pub(crate) credible_bits_per_second: Option<u64>,
}

impl Watching {
    /// Handles a report. `titles` are the published ones, by path.
    pub(super) fn handle(
        &mut self,
        from: &Speaker<'_>,
        report: &WatchReport,
        titles: &[PublishedTitle],
        now: Now,
    ) -> Result<(), RejectedMessage> {
        report.check().map_err(RejectedMessage::OutOfBounds)?;
        let sum = report.sum();
        self.admit(from, report, sum.bytes, now)?;
        let is_known =
            |path: &str| titles.binary_search_by(|title| title.path.as_str().cmp(path)).is_ok();
        let (known, unknown): (Vec<_>, Vec<_>) =
            report.titles.iter().partition(|title| is_known(&title.path));
        let mut rest = report.rest;
        unknown.iter().for_each(|title| rest.add(title.count()));
        self.unknown_titles += unknown.len() as u64;
        let known = known.into_iter().map(|title| (title.path.as_str(), title.count().bounded()));
        let (rest, now) = (rest.bounded(), now.unix_seconds());
        self.popularity.add(from.region, known, rest, report.seconds, now);
        Ok(())
    }

    /// Checks that the node can have sent that much.
    fn admit(
        &mut self,
        from: &Speaker<'_>,
        report: &WatchReport,
        bytes: u64,
        now: Now,
    ) -> Result<(), RejectedMessage> {
        let ceiling = from.credible_bits_per_second.unwrap_or(CLAIM_BITS_PER_SECOND_MAX);
        let bytes_per_second = ceiling.min(CLAIM_BITS_PER_SECOND_MAX) as f64 / 8.0;
        let credit_max = bytes_per_second * CREDIT_SECONDS;
        let line = self.of_nodes.entry(from.name.clone()).or_insert_with(|| Line {
            boot: String::new(),
            number: 0,
            credit_bytes: credit_max,
            at: now.uptime,
        });
        if line.boot == report.boot && report.number <= line.number {
            return Err(RejectedMessage::Stale);
        }
        let seconds = now.uptime.saturating_sub(line.at).as_secs_f64();
        let credit = (line.credit_bytes + seconds * bytes_per_second).min(credit_max);
        (line.credit_bytes, line.at) = (credit, now.uptime);
        if bytes as f64 > credit {
            return Err(RejectedMessage::OverCeiling);
        }
        line.credit_bytes -= bytes as f64;
        line.boot.clone_from(&report.boot);
        line.number = report.number;
        Ok(())
    }

    /// Drops nodes that are gone.
    pub(super) fn keep_nodes(&mut self, is_there: impl Fn(&Name) -> bool) {
        self.of_nodes.retain(|name, _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use fleet_protocol::{WatchCount, WatchedTitle};

    use super::*;
    use crate::live::tests::title;

    const BEGAN_UNIX_MILLIS: u64 = 1_800_000_000_000;

    fn at(seconds: u64) -> Now {
        let unix_millis = BEGAN_UNIX_MILLIS + seconds * 1000;
        Now { uptime: Duration::from_secs(seconds), unix_millis }
    }

    fn report(boot: &str, number: u64, watched: &[(&str, u64)], rest: u64) -> WatchReport {
        let titles = watched.iter().map(|(path, bytes)| WatchedTitle {
            path: (*path).to_owned(),
            starts: 1,
            bytes: *bytes,
        });
        WatchReport {
            version: 1,
            node: "n1".parse().expect("a name"),
            boot: boot.to_owned(),
            number,
            seconds: 60,
            titles: titles.collect(),
            rest: WatchCount { starts: 0, bytes: rest },
        }
    }

    /// A gateway with one node of 8 Mb/s, which can send a million bytes a second.
    struct Ear(Watching);

    impl Ear {
        fn hear(&mut self, report: &WatchReport, seconds: u64) -> Result<(), RejectedMessage> {
            let [name, site, region] =
                ["n1", "paris", "north"].map(|text| text.parse().expect("a name"));
            let credible_bits_per_second = Some(8_000_000);
            let from =
                Speaker { name: &name, site: &site, region: &region, credible_bits_per_second };
            self.0.handle(&from, report, &[title("a"), title("b")], at(seconds))
        }

        fn bytes_of(&self, path: &str, seconds: u64) -> u64 {
            let known = self.0.popularity.of_title(path, at(seconds).unix_seconds());
            known.first().map_or(0, |one| one.count.bytes)
        }
    }

    #[test]
    fn a_report_counts_once_and_what_is_not_published_joins_the_rest() {
        let mut ear = Ear(Watching::default());
        let first = report("b1", 1, &[("a", 1_000_000), ("x", 500_000)], 7);
        assert_eq!(ear.hear(&first, 60), Ok(()));
        assert_eq!(ear.hear(&first, 61), Err(RejectedMessage::Stale));
        let before = ear.bytes_of("a", 61);
        assert!(before > 0 && ear.bytes_of("x", 61) == 0);
        assert_eq!((ear.0.unknown_titles, ear.0.popularity.counts()), (1, 1));
        // The agent restarted, and counts from 1 again.
        assert_eq!(ear.hear(&report("b2", 1, &[("a", 1_000_000)], 0), 62), Ok(()));
        assert!(ear.bytes_of("a", 62) > before * 3 / 2);
    }

    #[test]
    fn a_node_cannot_have_sent_more_than_its_ceiling_allows() {
        let mut ear = Ear(Watching::default());
        const HOUR_BYTES: u64 = 3_600_000_000;
        assert_eq!(
            ear.hear(&report("b", 1, &[("a", HOUR_BYTES)], 1), 60),
            Err(RejectedMessage::OverCeiling)
        );
        assert_eq!(ear.bytes_of("a", 60), 0, "nothing of it counts");
        // After an outage, it sends an hour's reports at once.
        for number in 1..=60 {
            assert_eq!(ear.hear(&report("b", number, &[("a", HOUR_BYTES / 60)], 0), 60), Ok(()));
        }
        let again = |number| report("b", number, &[("a", 60_000_000)], 0);
        assert_eq!(ear.hear(&again(61), 61), Err(RejectedMessage::OverCeiling));
        // A restart of the agent does not make it a new node.
        assert_eq!(
            ear.hear(&report("c", 1, &[], 60_000_000), 61),
            Err(RejectedMessage::OverCeiling)
        );
        assert_eq!(ear.hear(&again(61), 121), Ok(()));
        assert_eq!(ear.hear(&again(62), 122), Err(RejectedMessage::OverCeiling));
        let mut wrong = again(63);
        wrong.titles[0].path = "../a".to_owned();
        assert!(matches!(ear.hear(&wrong, 1000), Err(RejectedMessage::OutOfBounds(_))));
    }

    #[test]
    fn a_node_that_is_gone_is_forgotten() {
        let mut ear = Ear(Watching::default());
        ear.hear(&report("b", 1, &[], 1), 60).expect("it is taken");
        ear.0.keep_nodes(|_| false);
        assert!(ear.0.of_nodes.is_empty());
        assert_eq!(ear.hear(&report("b", 1, &[], 1), 61), Ok(()));
    }
}
