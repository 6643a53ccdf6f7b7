//! The experience of all viewers: distributions over sessions, as text and as JSON.
//!
//! Invariant: the outcome does not depend on the order of the sessions, nor on how they were spread over threads. All counts are whole
//! numbers, and all lists are sorted.

mod group;
mod spread;
mod stall_list;
mod streams;
mod text;

pub use group::{SessionGroup, Total};
pub use spread::Spread;
pub use stall_list::{SeenStall, StallList};
pub use streams::StreamTotals;

use player::event::Ending;
use player::failure::Failure;
use player::report::SessionReport;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The experience of a run's viewers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All sessions.
    pub all: SessionGroup,
    /// By pathway: the sessions that got most of their bytes from it.
    pub pathways: BTreeMap<String, PathwayOutcome>,
    /// By the title's rank.
    pub titles: BTreeMap<usize, SessionGroup>,
    /// Live streams, and what their playlists did.
    pub live: StreamTotals,
    /// Stalls with their reasons.
    pub stalls: StallList,
    /// Total playing time.
    pub played: Total,
    /// Total stalled time.
    pub stalled: Total,
    /// Total wait after seeks, which does not count as stalled.
    pub seek_waits: Total,
    /// Total requests.
    pub requests: u64,
    /// Bytes of all requests, including probes.
    pub bytes: u64,
    /// Bytes of probes.
    pub probe_bytes: u64,
    /// Bytes of segments that were fetched in vain: given up, damaged, or no longer wanted after a seek.
    pub wasted_bytes: u64,
    /// Jumps of viewers.
    pub seeks: u64,
    /// Missing parts of films, which viewers did not see.
    pub skips: u64,
    /// Why sessions were given up.
    pub gave_up: BTreeMap<&'static str, u64>,
    /// Failed requests by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// Moves from one pathway to another, by reason.
    pub moves: BTreeMap<&'static str, u64>,
}

/// A pathway's part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathwayOutcome {
    /// The sessions that got most of their bytes from it.
    pub group: SessionGroup,
    /// Bytes from it, in all sessions.
    pub bytes: u64,
    /// Stalls while bytes should have come from it.
    pub stalls: u64,
    /// Sessions that got a segment from it.
    pub used: u64,
    /// Those of them that got their last segments from elsewhere.
    pub left: u64,
    /// The fewest segments that one of those got from elsewhere since it left.
    pub segments_elsewhere_min: Option<u64>,
}

impl Outcome {
    /// Records a session. `pathways` has the names of the pathways in the order of the session's own numbers.
    pub fn record(
        &mut self,
        viewer: usize,
        title: usize,
        pathways: &[String],
        report: &SessionReport,
    ) {
        self.all.record(report);
        self.titles.entry(title).or_default().record(report);
        report.live.iter().for_each(|seen| self.live.record(seen));
        self.played.count(report.played);
        self.stalled.count(report.stalled);
        self.seek_waits.count(report.seek_waits);
        self.requests += report.requests;
        self.probe_bytes += report.probe_bytes;
        self.wasted_bytes += report.wasted_bytes;
        self.seeks += report.seeks;
        self.skips += report.skips;
        if let Ending::GaveUp(why) = report.ended {
            *self.gave_up.entry(why.as_str()).or_default() += 1;
        }
        for (kind, count) in report.failures.iter().enumerate().filter(|(_, count)| **count > 0) {
            *self.failures.entry(Failure::LABELS[kind]).or_default() += count;
        }
        for change in &report.moves {
            *self.moves.entry(change.reason.as_str()).or_default() += 1;
        }
        self.record_pathways(pathways, report);
        self.record_leaving(pathways, report);
        self.record_stalls(viewer, title, pathways, report);
    }

    fn record_pathways(&mut self, pathways: &[String], report: &SessionReport) {
        let mut most: Option<(u64, &String)> = None;
        for (name, bytes) in pathways.iter().zip(&report.bytes_by_pathway) {
            self.bytes += bytes;
            self.pathways.entry(name.clone()).or_default().bytes += bytes;
            if most.is_none_or(|(so_far, _)| *bytes > so_far) {
                most = Some((*bytes, name));
            }
        }
        if let Some((_, name)) = most {
            self.pathways.entry(name.clone()).or_default().group.record(report);
        }
    }

    fn record_leaving(&mut self, pathways: &[String], report: &SessionReport) {
        for (name, elsewhere) in pathways.iter().zip(&report.segments_elsewhere) {
            let Some(segments) = *elsewhere else { continue };
            let pathway = self.pathways.entry(name.clone()).or_default();
            pathway.used += 1;
            pathway.left += u64::from(segments > 0);
            pathway.note_segments_elsewhere(Some(segments).filter(|segments| *segments > 0));
        }
    }

    fn record_stalls(
        &mut self,
        viewer: usize,
        title: usize,
        pathways: &[String],
        report: &SessionReport,
    ) {
        for stall in &report.stalls {
            let pathway = pathways.get(stall.pathway).cloned().unwrap_or_default();
            self.pathways.entry(pathway.clone()).or_default().stalls += 1;
            let (at, length, reason) = (stall.at, stall.length, stall.reason.as_str());
            let seen = SeenStall { viewer, at, length, title, pathway, reason };
            self.stalls.record(stall.reason, seen);
        }
    }

    /// Adds the results of other viewers in the same run.
    pub fn add(&mut self, other: &Self) {
        self.all.add(&other.all);
        for (name, more) in &other.pathways {
            let pathway = self.pathways.entry(name.clone()).or_default();
            pathway.group.add(&more.group);
            pathway.bytes += more.bytes;
            pathway.stalls += more.stalls;
            pathway.used += more.used;
            pathway.left += more.left;
            pathway.note_segments_elsewhere(more.segments_elsewhere_min);
        }
        for (title, more) in &other.titles {
            self.titles.entry(*title).or_default().add(more);
        }
        self.live.add(&other.live);
        self.stalls.add(&other.stalls);
        self.played.add(other.played);
        self.stalled.add(other.stalled);
        self.seek_waits.add(other.seek_waits);
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.probe_bytes += other.probe_bytes;
        self.wasted_bytes += other.wasted_bytes;
        self.seeks += other.seeks;
        self.skips += other.skips;
        for (counts, more) in [
            (&mut self.gave_up, &other.gave_up),
            (&mut self.failures, &other.failures),
            (&mut self.moves, &other.moves),
        ] {
            for (name, count) in more {
                *counts.entry(name).or_default() += count;
            }
        }
    }

    /// Stalled time divided by stalled and played time, over all sessions together; `None` if no viewer watched anything.
    pub fn stall_ratio(&self) -> Option<f64> {
        let watched = self.played.seconds() + self.stalled.seconds();
        (watched > 0.0).then(|| self.stalled.seconds() / watched)
    }

    /// The share of all bytes that were probes; `None` if there are no bytes.
    pub fn probe_share(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.probe_bytes as f64 / self.bytes as f64)
    }

    /// As JSON. Names carry units, and the order is fixed.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("version".to_owned(), json!(1));
        map.insert("kind".to_owned(), json!("swarm"));
        map.append(&mut self.all.to_json());
        map.insert("played_seconds".to_owned(), json!(self.played.seconds()));
        map.insert("stalled_seconds".to_owned(), json!(self.stalled.seconds()));
        map.insert("seek_wait_seconds_of_all".to_owned(), json!(self.seek_waits.seconds()));
        map.insert("stall_ratio_of_all".to_owned(), json!(self.stall_ratio()));
        map.insert("live".to_owned(), self.live.to_json());
        map.insert("stalls".to_owned(), self.stalls.to_json());
        map.insert("gave_up".to_owned(), json!(self.gave_up));
        map.insert("seeks".to_owned(), json!(self.seeks));
        map.insert("skips".to_owned(), json!(self.skips));
        map.insert("requests".to_owned(), json!(self.requests));
        map.insert("bytes".to_owned(), json!(self.bytes));
        map.insert("probe_bytes".to_owned(), json!(self.probe_bytes));
        map.insert("probe_share".to_owned(), json!(self.probe_share()));
        map.insert("wasted_bytes".to_owned(), json!(self.wasted_bytes));
        map.insert("failures".to_owned(), json!(self.failures));
        map.insert("moves".to_owned(), json!(self.moves));
        let pathways =
            self.pathways.iter().map(|(name, pathway)| (name.clone(), pathway.to_json()));
        map.insert("pathways".to_owned(), Value::Object(pathways.collect()));
        let titles = self.titles.iter().map(|(title, group)| {
            let mut map = Map::from_iter([("title".to_owned(), json!(title))]);
            map.append(&mut group.to_json());
            Value::Object(map)
        });
        map.insert("titles".to_owned(), Value::Array(titles.collect()));
        Value::Object(map)
    }

    /// As text.
    pub fn describe(&self) -> String {
        text::describe(self)
    }
}

impl PathwayOutcome {
    fn note_segments_elsewhere(&mut self, segments: Option<u64>) {
        let both = self.segments_elsewhere_min.into_iter().chain(segments);
        self.segments_elsewhere_min = both.min();
    }

    fn to_json(&self) -> Value {
        let mut map = self.group.to_json();
        map.insert("bytes".to_owned(), json!(self.bytes));
        map.insert("stalls".to_owned(), json!(self.stalls));
        map.insert("sessions_that_used_it".to_owned(), json!(self.used));
        map.insert("sessions_that_left_it".to_owned(), json!(self.left));
        map.insert("segments_elsewhere_min".to_owned(), json!(self.segments_elsewhere_min));
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests;
