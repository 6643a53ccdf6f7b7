//! Follows issues over time: when they begin and end, and those that have ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fleet_protocol::Name;
use serde::{Deserialize, Serialize};

use super::kind::{IssueKind, Severity};
use crate::clock::Now;

/// An issue has ended when it has been gone for this long.
const GONE_FOR: Duration = Duration::from_secs(60);

/// Most ended issues that are kept. They take less than half a megabyte.
const ENDED_MAX: usize = 1000;

/// Longest text of an issue in the file. Texts quote what stores and nodes report.
const TEXT_BYTES_MAX: usize = 400;

/// Something that is wrong at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its kind.
    pub kind: IssueKind,
    /// The node or the site; empty if it concerns the fleet.
    pub subject: String,
    /// The site.
    pub site: Option<Name>,
    /// A sentence that says what is wrong.
    pub text: String,
    /// Since when, since 1970, if that is known.
    pub since_unix_millis: Option<u64>,
}

/// An issue that is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedIssue {
    /// Identifies it: its kind, and its node or site.
    pub id: String,
    /// The kind's name.
    pub kind: String,
    /// "critical" or "warning".
    pub severity: String,
    /// The node or the site; empty if it concerns the fleet.
    pub subject: String,
    /// The site.
    pub site: Option<Name>,
    /// A sentence that says what is wrong.
    pub text: String,
    /// The next step.
    pub advice: String,
    /// Since when, since 1970.
    pub since_unix_millis: u64,
}

/// An issue that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedIssue {
    /// The issue, with its last text.
    #[serde(flatten)]
    pub issue: ListedIssue,
    /// When it was last seen, since 1970.
    pub ended_unix_millis: u64,
}

/// A change of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueChange {
    /// The issue is new in the list.
    Began(ListedIssue),
    /// The issue has ended.
    Ended(EndedIssue),
}

/// An issue and the times at which it was seen.
#[derive(Clone, Debug)]
struct Followed {
    issue: ListedIssue,
    patience: Duration,
    first: Duration,
    last: Duration,
    last_unix_millis: u64,
    is_listed: bool,
}

/// The issues of a fleet, as one gateway sees them.
#[derive(Debug, Default)]
pub struct IssueList {
    followed: BTreeMap<String, Followed>,
    /// The last ended one is last.
    ended: VecDeque<EndedIssue>,
    is_unsaved: bool,
}

/// The file: what a gateway that restarts continues with.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KeptIssues {
    open: Vec<ListedIssue>,
    ended: VecDeque<EndedIssue>,
}

impl Issue {
    /// Identifies it over time.
    fn id(&self) -> String {
        match self.subject.is_empty() {
            true => self.kind.as_str().to_owned(),
            false => format!("{}/{}", self.kind.as_str(), self.subject),
        }
    }

    fn listed(self, id: String, now: Now) -> ListedIssue {
        ListedIssue {
            id,
            kind: self.kind.as_str().to_owned(),
            severity: self.kind.severity().as_str().to_owned(),
            subject: self.subject,
            site: self.site,
            text: shortened(self.text),
            advice: self.kind.advice().to_owned(),
            since_unix_millis: self.since_unix_millis.unwrap_or(now.unix_millis),
        }
    }
}

impl IssueChange {
    /// The issue's ID.
    pub fn id(&self) -> &str {
        match self {
            Self::Began(issue) => &issue.id,
            Self::Ended(ended) => &ended.issue.id,
        }
    }
}

impl ListedIssue {
    /// Whether viewers are affected.
    pub fn is_critical(&self) -> bool {
        self.severity == Severity::Critical.as_str()
    }
}

impl IssueList {
    /// Continues with the JSON of [`unsaved`](Self::unsaved). Issues that have ended meanwhile end a minute later.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn from_bytes(bytes: &[u8], now: Now) -> Result<Self, String> {
        let kept: KeptIssues = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let followed = kept.open.into_iter().map(|issue| {
            let (id, patience) = (issue.id.clone(), Duration::ZERO);
            let (first, last) = (now.uptime, now.uptime);
            let last_unix_millis = now.unix_millis;
            let is_listed = true;
            (id, Followed { issue, patience, first, last, last_unix_millis, is_listed })
        });
        Ok(Self { followed: followed.collect(), ended: kept.ended, is_unsaved: false })
    }

    /// The list, if the file hasn't its present state.
    pub fn unsaved(&self) -> Option<KeptIssues> {
        let kept =
            || KeptIssues { open: self.open().cloned().collect(), ended: self.ended.clone() };
        self.is_unsaved.then(kept)
    }

    /// Notes that the file has the list, as it was when it was asked for. If it has changed since, the next change saves that.
    pub fn note_saved(&mut self) {
        self.is_unsaved = false;
    }

    /// Takes the present issues. Returns what begins and ends with that.
    pub fn update(&mut self, found: Vec<Issue>, now: Now) -> Vec<IssueChange> {
        let mut present = BTreeSet::new();
        for issue in found {
            let id = issue.id();
            let patience = issue.kind.patience();
            let mut seen = issue.listed(id.clone(), now);
            let before = self.followed.remove(&id);
            if let Some(before) = &before {
                seen.since_unix_millis = before.issue.since_unix_millis;
            }
            let first = before.as_ref().map_or(now.uptime, |before| before.first);
            let is_listed = before.is_some_and(|before| before.is_listed);
            let (last, last_unix_millis) = (now.uptime, now.unix_millis);
            let one = Followed { issue: seen, patience, first, last, last_unix_millis, is_listed };
            self.followed.insert(id.clone(), one);
            present.insert(id);
        }
        let mut changes = Vec::new();
        self.followed.retain(|id, one| {
            let is_present = present.contains(id);
            if is_present && !one.is_listed && now.uptime.saturating_sub(one.first) >= one.patience
            {
                one.is_listed = true;
                changes.push(IssueChange::Began(one.issue.clone()));
            }
            if is_present || (one.is_listed && now.uptime.saturating_sub(one.last) < GONE_FOR) {
                return true;
            }
            if one.is_listed {
                let (issue, ended_unix_millis) = (one.issue.clone(), one.last_unix_millis);
                changes.push(IssueChange::Ended(EndedIssue { issue, ended_unix_millis }));
            }
            false
        });
        for change in &changes {
            let IssueChange::Ended(ended) = change else { continue };
            self.ended.push_back(ended.clone());
        }
        self.is_unsaved |= !changes.is_empty();
        let too_many = self.ended.len().saturating_sub(ENDED_MAX);
        self.ended.drain(..too_many);
        changes
    }

    /// The open issues, by ID.
    pub fn open(&self) -> impl Iterator<Item = &ListedIssue> {
        self.followed.values().filter(|one| one.is_listed).map(|one| &one.issue)
    }

    /// Those that have ended, the last one first.
    pub fn ended(&self) -> impl Iterator<Item = &EndedIssue> {
        self.ended.iter().rev()
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let fits = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=TEXT_BYTES_MAX - 3).rev().find(fits).unwrap_or(0);
        text.truncate(end);
        text += "...";
    }
    text
}
