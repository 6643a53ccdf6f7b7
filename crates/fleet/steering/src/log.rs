//! Decisions as lines of a log, and replays of such lines.

use fleet_protocol::{Name, Prefix};
use serde::{Deserialize, Serialize};

use crate::decide::{Known, decide_known};
use crate::order::Whence;
use crate::{Decision, Fleet, Label, Question};

/// Longest line that is parsed: 4 names of 63 bytes and a path of a kilobyte are far below it.
const LINE_BYTES_MAX: usize = 16 << 10;

/// A logged question and its answer. It does not have the viewer's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logged {
    /// The version of this document: 1.
    pub version: u32,
    /// When, since 1970.
    pub time_unix_seconds: u64,
    /// The snapshot's epoch.
    pub epoch: u64,
    /// The gateway that made the snapshot.
    pub gateway: Name,
    /// The snapshot's number.
    pub snapshot: u64,
    /// The title.
    pub title: String,
    /// The viewer's number, in hexadecimal.
    pub viewer: String,
    /// The region in the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The longest announced prefix that contains the address. If that is a single address, it is written as `SITE#N`: announcement N of a site in
    /// the snapshot, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
    /// The node that the viewer reported to play from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playing: Option<Name>,
    /// The throughput that the viewer reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<u64>,
    /// The answer, best first.
    pub nodes: Vec<Name>,
    /// Why it does not start with the first choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
}

/// A line is not a logged decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a logged decision: {0}")]
pub struct LineError(String);

/// Why a decision cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The line is based on another snapshot: epoch, gateway and number.
    #[error("the decision was made from snapshot {2} of {1}, epoch {0}: replay it with that one")]
    OtherSnapshot(u64, Name, u64),
    /// The snapshot has no such prefix.
    #[error("no site announces {0} in this snapshot")]
    UnknownPrefix(String),
    /// The viewer's number is invalid.
    #[error("viewer is not a number of up to 16 hexadecimal digits")]
    BadViewer,
}

impl Logged {
    /// The log entry of a decision.
    pub fn new(
        fleet: &Fleet,
        question: &Question<'_>,
        decision: &Decision,
        time_unix_seconds: u64,
    ) -> Self {
        let snapshot = fleet.snapshot();
        let name = |node: usize| snapshot.nodes[node].name.clone();
        // A report that is not a node has no effect, and would put a stranger's text into the log.
        let playing =
            question.playing.and_then(|playing| Some((fleet.node(playing.pathway)?, playing)));
        Self {
            version: 1,
            time_unix_seconds,
            epoch: snapshot.epoch,
            gateway: snapshot.gateway.clone(),
            snapshot: snapshot.number,
            title: question.title.to_owned(),
            viewer: format!("{:016x}", question.viewer),
            region: question.region.map(str::to_owned),
            matched: decision.matched.map(|prefix| matched_text(fleet, &prefix)),
            playing: playing.map(|(node, _)| name(node)),
            bits_per_second: playing.and_then(|(_, playing)| playing.bits_per_second),
            nodes: decision.ranked.iter().map(|ranked| name(ranked.node)).collect(),
            label: decision.label,
        }
    }

    /// One line of JSON, without a line end.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("a logged decision is plain JSON")
    }

    /// Parses a line.
    ///
    /// # Errors
    /// If it is not an output of [`to_line`](Self::to_line).
    pub fn from_line(line: &str) -> Result<Self, LineError> {
        if line.len() > LINE_BYTES_MAX {
            return Err(LineError(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        let logged: Self =
            serde_json::from_str(line).map_err(|error| LineError(error.to_string()))?;
        if logged.version != 1 {
            return Err(LineError("version is not 1: it is of another release".to_owned()));
        }
        Ok(logged)
    }

    /// Whether `decision` has the same nodes in the same order, and the same label.
    pub fn agrees_with(&self, fleet: &Fleet, decision: &Decision) -> bool {
        let names = decision.ranked.iter().map(|ranked| &fleet.snapshot().nodes[ranked.node].name);
        self.label == decision.label && self.nodes.iter().eq(names)
    }
}

/// Replays a logged decision, with the snapshot that it was based on. Compare the result with [`Logged::agrees_with`].
///
/// # Errors
/// If the line is based on another snapshot.
pub fn replay(fleet: &Fleet, logged: &Logged) -> Result<Decision, ReplayError> {
    let snapshot = fleet.snapshot();
    let of_snapshot = (snapshot.epoch, &snapshot.gateway, snapshot.number);
    if of_snapshot != (logged.epoch, &logged.gateway, logged.snapshot) {
        let (epoch, gateway, number) = (logged.epoch, logged.gateway.clone(), logged.snapshot);
        return Err(ReplayError::OtherSnapshot(epoch, gateway, number));
    }
    let unknown = |text: &String| ReplayError::UnknownPrefix(text.clone());
    let find = |text: &String| {
        matched_prefix(fleet, text)
            .and_then(|prefix| fleet.reach().find(&prefix))
            .ok_or_else(|| unknown(text))
    };
    let viewer = u64::from_str_radix(&logged.viewer, 16).map_err(|_| ReplayError::BadViewer)?;
    let whence = Whence {
        matched: logged.matched.as_ref().map(find).transpose()?,
        region: logged.region.as_deref(),
        viewer,
    };
    let pathway = logged.playing.as_ref().map(Name::as_str);
    Ok(decide_known(fleet, &Known { whence, title: &logged.title, pathway }))
}

/// A prefix of a single address would reveal it, so the log has its position in the snapshot.
fn matched_text(fleet: &Fleet, prefix: &Prefix) -> String {
    let width = if prefix.address().is_ipv4() { 32 } else { 128 };
    let id = fleet.reach().find(prefix).filter(|_| prefix.bits() == width);
    match id.and_then(|id| fleet.reach().routes(id).first()) {
        None => prefix.to_string(),
        Some(route) => {
            format!("{}#{}", fleet.snapshot().sites[route.site as usize].name, route.index)
        }
    }
}

fn matched_prefix(fleet: &Fleet, text: &str) -> Option<Prefix> {
    let Some((site, index)) = text.split_once('#') else { return text.parse().ok() };
    let sites = &fleet.snapshot().sites;
    let site = sites.binary_search_by(|own| own.name.as_str().cmp(site)).ok()?;
    Some(sites[site].announced.get(index.parse::<usize>().ok()?)?.prefix)
}
