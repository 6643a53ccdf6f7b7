//! Which issues have been reported, and what is still to report.
//!
//! All gateways see the same issues, and one of them reports. The others remember what it must have reported by now, so that one that takes over
//! knows what is missing. It reports what began or ended shortly before once more: that gateway may not have.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::list::{EndedIssue, IssueChange, ListedIssue};
use crate::clock::Now;

/// A gateway that follows takes a change as reported after this time. A lease lasts 15 s, and a message arrives in seconds.
const TAKEN_AS_REPORTED: Duration = Duration::from_secs(120);

/// The issues that a receiver takes as open.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Reported {
    open: BTreeMap<String, ListedIssue>,
    /// When a change was first noticed, by the time since the gateway started.
    #[serde(skip)]
    noticed: BTreeMap<String, Duration>,
}

impl Reported {
    /// Compares with the `open` issues, and whether each is snoozed. Returns the changes to report now; none unless this gateway `reports`.
    pub fn update<'a>(
        &mut self,
        open: impl Iterator<Item = (&'a ListedIssue, bool)>,
        reports: bool,
        now: Now,
    ) -> Vec<IssueChange> {
        let present: BTreeMap<&str, (&ListedIssue, bool)> =
            open.map(|(issue, is_snoozed)| (issue.id.as_str(), (issue, is_snoozed))).collect();
        let ended = self.open.values().filter(|issue| !present.contains_key(issue.id.as_str()));
        let mut changes: Vec<_> = ended
            .map(|issue| {
                let (issue, ended_unix_millis) = (issue.clone(), now.unix_millis);
                IssueChange::Ended(EndedIssue { issue, ended_unix_millis })
            })
            .collect();
        let began = present
            .values()
            .filter(|(issue, is_snoozed)| !is_snoozed && !self.open.contains_key(&issue.id));
        changes.extend(began.map(|(issue, _)| IssueChange::Began((*issue).clone())));
        let mut noticed = BTreeMap::new();
        changes.retain(|change| {
            let id = change.id();
            let since = self.noticed.get(id).copied().unwrap_or(now.uptime);
            let is_due = reports || now.uptime.saturating_sub(since) >= TAKEN_AS_REPORTED;
            if !is_due {
                noticed.insert(id.to_owned(), since);
            }
            is_due
        });
        self.noticed = noticed;
        for change in &changes {
            match change {
                IssueChange::Began(issue) => {
                    drop(self.open.insert(issue.id.clone(), issue.clone()))
                }
                IssueChange::Ended(ended) => drop(self.open.remove(&ended.issue.id)),
            }
        }
        if reports { changes } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { uptime: Duration::from_secs(seconds), unix_millis: seconds * 1000 }
    }

    fn issue(id: &str) -> ListedIssue {
        ListedIssue {
            id: id.to_owned(),
            kind: id.to_owned(),
            severity: "critical".to_owned(),
            subject: String::new(),
            site: None,
            text: String::new(),
            advice: String::new(),
            since_unix_millis: 7,
        }
    }

    /// Updates with these issues, and shows the changes to report, as `+id` and `-id`; those with a `!` are snoozed.
    fn update(reported: &mut Reported, open: &[&str], reports: bool, seconds: u64) -> String {
        let open: Vec<_> = open.iter().map(|id| issue(id)).collect();
        let open = open.iter().map(|issue| (issue, issue.id.starts_with('!')));
        let changes = reported.update(open, reports, at(seconds));
        let told = changes.iter().map(|change| match change {
            IssueChange::Began(issue) => format!("+{}", issue.id),
            IssueChange::Ended(ended) => format!("-{}", ended.issue.id),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_change_is_reported_once_and_by_one_gateway() {
        let mut leads = Reported::default();
        assert_eq!(update(&mut leads, &["a", "b"], true, 0), "+a +b");
        assert_eq!(update(&mut leads, &["a", "b"], true, 5), "");
        assert_eq!(update(&mut leads, &["b"], true, 10), "-a");
        assert_eq!(update(&mut leads, &["a", "b"], true, 15), "+a");
        let mut follows = Reported::default();
        assert_eq!(update(&mut follows, &["a", "b"], false, 0), "");
        assert_eq!(update(&mut follows, &["b", "c"], false, 200), "");
    }

    #[test]
    fn a_gateway_that_takes_over_reports_what_the_one_before_may_not_have() {
        let mut follows = Reported::default();
        update(&mut follows, &["old", "gone"], false, 0);
        update(&mut follows, &["old", "gone"], false, 120);
        update(&mut follows, &["old", "new"], false, 500);
        assert_eq!(update(&mut follows, &["old", "new"], true, 600), "-gone +new");
        // After two minutes, the one before has reported it.
        let mut follows = Reported::default();
        update(&mut follows, &["old"], false, 0);
        assert_eq!(update(&mut follows, &["old"], false, 120), "");
        assert_eq!(update(&mut follows, &["old"], true, 125), "");
        assert_eq!(update(&mut follows, &[], true, 130), "-old");
    }

    #[test]
    fn a_snoozed_issue_is_reported_when_it_wakes_and_its_end_only_if_its_beginning_was() {
        let mut leads = Reported::default();
        assert_eq!(update(&mut leads, &["!a"], true, 0), "");
        assert_eq!(update(&mut leads, &[], true, 5), "");
        // `!b` was reported before it was snoozed.
        let one = issue("!b");
        leads.update([(&one, false)].into_iter(), true, at(10));
        assert_eq!(update(&mut leads, &["!b"], true, 15), "");
        assert_eq!(update(&mut leads, &[], true, 20), "-!b");
    }
}
