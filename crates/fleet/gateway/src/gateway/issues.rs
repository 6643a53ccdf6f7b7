//! Follows the fleet's issues, keeps the list in the gateway's folder, and lets operators snooze issues.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use store::records::{SNOOZE_REASON_BYTES_MAX, SNOOZES_MAX, Snooze, SnoozesRecord};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{Gateway, lock};
use crate::api::ApiError;
use crate::clock::Now;
use crate::gateway::By;
use crate::issues::{EndedIssue, IssueList, ListedIssue, Surroundings, find};

/// Nodes report every five seconds.
const PERIOD: Duration = Duration::from_secs(5);

/// A turn looks at all copies of all nodes. With many thousands of both, it takes a twentieth of the time, and happens less often.
const PAUSE_PER_TURN: u32 = 19;

/// A snooze ends after 90 days at the latest: what is ignored for longer is looked at once more.
pub const SNOOZE_SECONDS_MAX: u64 = 90 * 24 * 3600;

/// A snooze that has ended is kept for a day, unless its place is needed.
const ENDED_KEPT_SECONDS: u64 = 24 * 3600;

/// An open issue, as operators see it.
#[derive(Clone, Debug, Serialize)]
pub struct ShownIssue {
    /// The issue.
    #[serde(flatten)]
    pub issue: ListedIssue,
    /// Until when it is snoozed, by whom and why; `None` if it isn't.
    pub snoozed: Option<Snooze>,
}

/// Numbers of open issues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IssueCounts {
    /// Those that affect viewers, or will after one more failure.
    pub critical: usize,
    /// The others.
    pub warning: usize,
    /// Those of either kind that an operator has snoozed; the other two don't include them.
    pub snoozed: usize,
}

impl ShownIssue {
    /// Counts issues.
    pub(crate) fn count(shown: &[Self]) -> IssueCounts {
        let mut counts = IssueCounts::default();
        for one in shown {
            *match (one.snoozed.is_some(), one.issue.is_critical()) {
                (true, _) => &mut counts.snoozed,
                (false, true) => &mut counts.critical,
                (false, false) => &mut counts.warning,
            } += 1;
        }
        counts
    }
}

impl Gateway {
    /// Continues the list of the last run.
    pub(super) fn restore_issues(&self) {
        let read = match self.state.read_issues() {
            Ok(None) => return,
            Ok(Some(bytes)) => IssueList::from_bytes(&bytes, self.now()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(list) => *lock(&self.issues) = list,
            Err(why) => self.tell(&format!(
                "cannot read the issues of the last run, so their list begins empty: {why}"
            )),
        }
    }

    pub(super) async fn follow_issues_on(self: &Arc<Self>) {
        let mut told = None;
        loop {
            let (gateway, began) = (Arc::clone(self), self.now().uptime);
            // A panic has already been reported; the next turn follows in some seconds.
            let followed = spawn_blocking(move || gateway.follow_issues(gateway.now())).await;
            // A full disk stays full, so it is logged once.
            match followed.unwrap_or(Ok(())) {
                Ok(()) => told = None,
                Err(problem) if told.as_ref() == Some(&problem) => {}
                Err(problem) => self.tell(told.insert(problem)),
            }
            let took = self.now().uptime.saturating_sub(began);
            sleep((took * PAUSE_PER_TURN).max(PERIOD)).await;
        }
    }

    /// Compares the list with the fleet's present state, and saves it if an issue has begun or ended.
    ///
    /// # Errors
    /// If it can't be saved, in words. The next call tries again.
    pub fn follow_issues(&self, now: Now) -> Result<(), String> {
        let purge = self.live.world().purges.last;
        let around = Surroundings {
            store_problem: self.store_problem(),
            has_leader: self.leader().is_some(),
            purge: (purge, self.live.purge_at_nodes(purge, now).unwrap_or_default()),
        };
        let found = find(&self.live.view(now), &around);
        let unsaved = {
            let mut list = lock(&self.issues);
            list.update(found, now);
            list.unsaved()
        };
        self.report(now);
        let Some(kept) = unsaved else { return Ok(()) };
        let json = serde_json::to_vec(&kept).expect("issues are plain JSON");
        self.state.write_issues(&json).map_err(|error| {
            let folder = self.state.path().display();
            format!("cannot save the list of issues in {folder}: {error}")
        })?;
        lock(&self.issues).note_saved();
        Ok(())
    }

    /// The open issues: critical ones first and then by age, and last those that are snoozed; and their numbers.
    pub fn shown_issues(&self, now: Now) -> (Vec<ShownIssue>, IssueCounts) {
        let world = self.live.world();
        let snoozed = |id: &str| {
            let snooze = world.snoozes.snoozes.get(id);
            snooze.filter(|one| one.until_unix_seconds > now.unix_seconds()).cloned()
        };
        let mut shown: Vec<_> = lock(&self.issues)
            .open()
            .map(|issue| ShownIssue { issue: issue.clone(), snoozed: snoozed(&issue.id) })
            .collect();
        shown.sort_by_key(|one| {
            (one.snoozed.is_some(), !one.issue.is_critical(), one.issue.since_unix_millis)
        });
        let counts = ShownIssue::count(&shown);
        (shown, counts)
    }

    /// The issues that have ended, the last one first.
    pub fn ended_issues(&self) -> Vec<EndedIssue> {
        lock(&self.issues).ended().cloned().collect()
    }

    /// Snoozes an issue for this number of seconds, or wakes it.
    ///
    /// # Errors
    /// If the reason is too long, too many issues are snoozed, or the store refuses the change.
    pub(crate) async fn snooze(
        &self,
        id: &str,
        seconds: Option<u64>,
        reason: &str,
        by: &By,
    ) -> Result<(), ApiError> {
        let now = self.now().unix_seconds();
        let reason = reason.trim().to_owned();
        if reason.len() > SNOOZE_REASON_BYTES_MAX || reason.chars().any(char::is_control) {
            return Err(ApiError::Wrong(format!(
                "reason is longer than {SNOOZE_REASON_BYTES_MAX} bytes, or has a control character"
            )));
        }
        let snooze = seconds.map(|seconds| Snooze {
            until_unix_seconds: now.saturating_add(seconds),
            by: by.who.clone(),
            reason,
        });
        let edit = |before: Option<SnoozesRecord>| {
            let mut record = before.unwrap_or_default();
            // The clocks of gateways may differ: another one may take it as snoozed still.
            record
                .snoozes
                .retain(|_, one| one.until_unix_seconds.saturating_add(ENDED_KEPT_SECONDS) > now);
            match &snooze {
                Some(snooze) => record.snoozes.insert(id.to_owned(), snooze.clone()),
                None => record.snoozes.remove(id),
            };
            if record.snoozes.len() > SNOOZES_MAX {
                record.snoozes.retain(|_, one| one.until_unix_seconds > now);
            }
            if record.snoozes.len() > SNOOZES_MAX {
                return Err(ApiError::Unavailable(format!(
                    "{SNOOZES_MAX} issues are snoozed already: wake some of them, or mend their cause"
                )));
            }
            Ok(record)
        };
        self.change(by, "", edit).await.map(|_| ())
    }
}
