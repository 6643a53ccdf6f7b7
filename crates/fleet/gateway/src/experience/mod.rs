//! Viewers' quality of experience in the whole fleet: what nodes report ([`ExperienceReport`]), bounded and added up.
//!
//! Each node reports to every gateway, so each gateway has all sums, and keeps them in its folder. [`FleetExperience`] has no I/O and no clock.
//!
//! # Invariants
//! - A report counts once, also after this gateway or the node's agent has started again.
//! - A lying node can do little harm. It reports for its own site, at most as many sessions as it could have served since its last report, plus up
//!   to an hour's worth at once, because honest nodes save an hour of reports while the gateway is away; and its sums are those of sessions
//!   ([`qoe::SessionSums::is_sound`]).
//! - Nothing here is about fewer than ten sessions ([`qoe::CELL_SESSIONS_MIN`]), nor is what subtraction leaves, and there are no addresses and no
//!   session names.
//! - Memory is bounded: 8 MB for each of 43 slots; twice that for those that change while they are saved or listed. A full slot takes room from the
//!   site with the most, so a liar takes none from others.
//! - A saved file can be read again: a slot that would be too large is made smaller, and a group that is damaged is left out.
//!
//! Read first: `slot.rs`, then `ring.rs`; `rows.rs` makes the lists that operators see.

mod ring;
mod rows;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{ExperienceReport, Name, PublishedTitle};
use qoe::{Dimension, SessionSums};
use serde::{Deserialize, Serialize, Serializer};

use self::ring::Ring;
use self::slot::{CellKey, GroupedBy, KeptSlot, Slot};
use crate::clock::Now;
use crate::live::{RejectedMessage, Speaker};
use steering::CLAIM_BITS_PER_SECOND_MAX;

pub use self::ring::ExperienceWindow;
pub use self::rows::{ExperienceRow, ExperienceRows, ExperienceView, RowsBy, RowsScope};

/// A node may claim this much time at its ceiling in one report.
const CREDIT_SECONDS: f64 = 3600.0;

/// How long nodes keep reports for a gateway that is away.
const REPORTS_KEPT_SECONDS: u64 = 3600;

/// What a session takes at least: two seconds of the lowest usual bit rate. Sessions that never start take less, but a box whose viewers don't get
/// their films is not at its ceiling.
const SESSION_BITS_MIN: f64 = 1e6;

/// How much is kept, and what lost its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExperienceCounts {
    /// Reports that were counted since the start.
    pub reports: u64,
    /// Groups that are kept.
    pub cells: usize,
    /// Groups of titles that are not published, which joined the one without a name.
    pub unknown_titles: u64,
    /// Groups that joined the one without a name, because there were too many.
    pub no_room: u64,
    /// Groups in dimensions of a later release, which were ignored, and of players that only a later release knows.
    pub unknown_dimensions: u64,
    /// Saved groups that could not be read at the start.
    pub unread: u64,
}

/// Counts of a site's sessions since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteSessions {
    /// All.
    pub sessions: u64,
    /// Those that never played, or stalled.
    pub troubled: u64,
}

/// The last report of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LastReport {
    boot: String,
    number: u64,
}

/// A node's reports so far.
struct Line {
    last: LastReport,
    credit_sessions: f64,
    /// When the credit was last computed, since the gateway's start.
    at: Duration,
}

/// The sums of all nodes.
pub struct FleetExperience {
    lines: BTreeMap<Name, Line>,
    rings: [Ring; 3],
    /// All sessions since the start, for Prometheus.
    total: SessionSums,
    by_site: BTreeMap<Name, SiteSessions>,
    counts: ExperienceCounts,
    /// From when there are all reports, since 1970; 0 before the first one.
    complete_since: u64,
    is_unsaved: bool,
}

/// The file. A gateway of another release may have written it, so unknown fields are ignored.
#[derive(Deserialize)]
struct KeptExperience {
    version: u32,
    #[serde(default)]
    complete_since: u64,
    #[serde(default)]
    saved: u64,
    lines: BTreeMap<Name, LastReport>,
    windows: BTreeMap<String, Vec<KeptSlot>>,
}

/// The state to save. It shares the slots, so nothing has to be locked while it is written.
#[derive(Serialize)]
pub struct UnsavedExperience {
    /// The version of this format: 1.
    version: u32,
    /// From when there are all reports, since 1970.
    complete_since: u64,
    /// When it was saved.
    saved: u64,
    lines: BTreeMap<Name, LastReport>,
    /// The slots of each window, by its name.
    #[serde(serialize_with = "shown_windows")]
    windows: BTreeMap<&'static str, Vec<Arc<Slot>>>,
}

fn shown_windows<S: Serializer>(
    windows: &BTreeMap<&'static str, Vec<Arc<Slot>>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    fn slots(slots: &[Arc<Slot>]) -> Vec<&Slot> {
        slots.iter().map(Arc::as_ref).collect()
    }
    serializer.collect_map(windows.iter().map(|(name, own)| (name, slots(own))))
}

impl UnsavedExperience {
    /// The file's JSON.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is plain JSON")
    }
}

impl Default for FleetExperience {
    fn default() -> Self {
        let (lines, total, by_site, counts) = Default::default();
        let rings = ExperienceWindow::ALL.map(Ring::new);
        Self { lines, rings, total, by_site, counts, complete_since: 0, is_unsaved: false }
    }
}

impl FleetExperience {
    /// Handles a report. `titles` are the published ones, by path.
    pub(crate) fn handle(
        &mut self,
        from: &Speaker<'_>,
        report: &ExperienceReport,
        titles: &[PublishedTitle],
        now: Now,
    ) -> Result<(), RejectedMessage> {
        report.check().map_err(RejectedMessage::OutOfBounds)?;
        self.admit(from, report, now)?;
        self.counts.reports += 1;
        self.is_unsaved = true;
        if self.complete_since == 0 {
            self.complete_since = now.unix_seconds();
        }
        let at = report.ended_unix_seconds.min(now.unix_seconds());
        let is_known =
            |path: &str| titles.binary_search_by(|title| title.path.as_str().cmp(path)).is_ok();
        for cell in &report.cells {
            let Some(by) = Dimension::named(&cell.by) else {
                self.counts.unknown_dimensions += 1;
                continue;
            };
            let mut name = cell.name.as_str();
            if by == Dimension::Title && !name.is_empty() && !is_known(name) {
                self.counts.unknown_titles += 1;
                name = "";
            }
            // A name that no node chooses would be one that a lying node makes up.
            if by == Dimension::Player && !name.is_empty() && !qoe::is_player(name) {
                self.counts.unknown_dimensions += 1;
                name = "";
            }
            self.add(&CellKey::new(from.site, by.into(), name), &cell.sums, at, now);
            if by == Dimension::All {
                let node = CellKey::new(from.site, GroupedBy::Node, from.name.as_str());
                self.add(&node, &cell.sums, at, now);
                self.total.add(&cell.sums);
                let site = self.by_site.entry(from.site.clone()).or_default();
                site.sessions = site.sessions.saturating_add(cell.sums.sessions);
                site.troubled = site.troubled.saturating_add(cell.sums.troubled());
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &CellKey, sums: &SessionSums, at: u64, now: Now) {
        for ring in &mut self.rings {
            self.counts.no_room += ring.add(key, sums, at, now.unix_seconds());
        }
    }

    /// Checks that the report is new, and that the node can have served that many sessions.
    fn admit(
        &mut self,
        from: &Speaker<'_>,
        report: &ExperienceReport,
        now: Now,
    ) -> Result<(), RejectedMessage> {
        let ceiling = from.credible_bits_per_second.unwrap_or(CLAIM_BITS_PER_SECOND_MAX);
        let per_second = ceiling.min(CLAIM_BITS_PER_SECOND_MAX) as f64 / SESSION_BITS_MIN;
        let credit_max = per_second * CREDIT_SECONDS;
        let line = self.lines.entry(from.name.clone()).or_insert_with(|| Line {
            last: LastReport { boot: String::new(), number: 0 },
            credit_sessions: f64::MAX,
            at: now.uptime,
        });
        if line.last.boot == report.boot && report.number <= line.last.number {
            return Err(RejectedMessage::Stale);
        }
        let seconds = now.uptime.saturating_sub(line.at).as_secs_f64();
        let credit = (line.credit_sessions + seconds * per_second).min(credit_max);
        (line.credit_sessions, line.at) = (credit, now.uptime);
        let sessions = report.sessions() as f64;
        if sessions > credit {
            return Err(RejectedMessage::OverCeiling);
        }
        line.credit_sessions -= sessions;
        line.last = LastReport { boot: report.boot.clone(), number: report.number };
        Ok(())
    }

    /// What a window has now.
    pub fn view(&self, window: ExperienceWindow, now: Now) -> ExperienceView {
        let [recent, hours, days] = &self.rings;
        let ring = match window {
            ExperienceWindow::Now => recent,
            ExperienceWindow::Day => hours,
            ExperienceWindow::Week => days,
        };
        let (since_unix_seconds, slots) = ring.at(now.unix_seconds());
        let complete_since = match self.complete_since {
            0 => now.unix_seconds(),
            since => since,
        };
        let complete_since_unix_seconds = complete_since.max(since_unix_seconds);
        ExperienceView { since_unix_seconds, complete_since_unix_seconds, slots }
    }

    /// All sessions since the start of this gateway.
    pub fn total(&self) -> &SessionSums {
        &self.total
    }

    /// The same by site.
    pub fn by_site(&self) -> &BTreeMap<Name, SiteSessions> {
        &self.by_site
    }

    /// How much is kept.
    pub fn counts(&self) -> ExperienceCounts {
        let cells = self.rings.iter().map(Ring::cells).sum();
        ExperienceCounts { cells, ..self.counts }
    }

    /// Drops nodes that are gone. Their sessions still count.
    pub(crate) fn keep_nodes(&mut self, is_there: impl Fn(&Name) -> bool) {
        self.lines.retain(|name, _| is_there(name));
    }

    /// The state to save, if there is anything new.
    pub fn unsaved(&mut self, now: Now) -> Option<UnsavedExperience> {
        if !std::mem::take(&mut self.is_unsaved) {
            return None;
        }
        let lines = self.lines.iter().map(|(name, line)| (name.clone(), line.last.clone()));
        let windows =
            self.rings.iter().map(|ring| (ring.window().as_str(), ring.slots().cloned().collect()));
        Some(UnsavedExperience {
            version: 1,
            complete_since: self.complete_since,
            saved: now.unix_seconds(),
            lines: lines.collect(),
            windows: windows.collect(),
        })
    }

    /// Saves everything with the next call of [`unsaved`](Self::unsaved), because the last one could not be written.
    pub fn note_unsaved(&mut self) {
        self.is_unsaved = true;
    }

    /// Continues with the JSON of [`unsaved`](Self::unsaved). Groups that can't be read are left out and counted.
    ///
    /// # Errors
    /// If it is not such JSON, or from another release that can't be read.
    pub fn from_bytes(bytes: &[u8], now: Now) -> Result<Self, String> {
        let kept: KeptExperience =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if kept.version != 1 {
            return Err("version is not 1: it is from another release".to_owned());
        }
        let mut own = Self { complete_since: kept.complete_since, ..Self::default() };
        // Nodes keep an hour of reports for a gateway that is away.
        if now.unix_seconds() > kept.saved.saturating_add(REPORTS_KEPT_SECONDS) {
            own.complete_since = now.unix_seconds() - REPORTS_KEPT_SECONDS;
        }
        let mut windows = kept.windows;
        for ring in &mut own.rings {
            let slots = windows.remove(ring.window().as_str()).unwrap_or_default();
            own.counts.unread += ring.restore(slots, now.unix_seconds());
        }
        own.lines = kept
            .lines
            .into_iter()
            .map(|(name, last)| (name, Line { last, credit_sessions: f64::MAX, at: now.uptime }))
            .collect();
        Ok(own)
    }
}
