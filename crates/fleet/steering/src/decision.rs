//! The answer to a viewer.

use fleet_protocol::Prefix;
use serde::{Deserialize, Serialize};

use crate::Standing;

/// Up to three nodes, best first, and the reasons for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The number of the snapshot that it is based on.
    pub snapshot: u64,
    /// That snapshot's epoch.
    pub epoch: u64,
    /// The longest announced prefix that contains the address.
    pub matched: Option<Prefix>,
    /// At most three nodes, best first. Empty if no serving node holds the title.
    pub ranked: Vec<Ranked>,
    /// Why the first of them is not [`first_choice`](Self::first_choice). `None` if it is, and for viewers who stay where they play.
    pub label: Option<Label>,
    /// The node that the best site would give this viewer if all of its nodes were healthy: its index in the snapshot's `nodes`.
    pub first_choice: Option<usize>,
    /// How long the answer is valid: between half the policy's `ttl_seconds` and all of it, by viewer. So viewers who started together don't ask,
    /// and don't move, together.
    pub ttl_seconds: u32,
}

/// A node in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its index in the snapshot's `nodes`.
    pub node: usize,
    /// Why it is in the answer.
    pub reason: ChoiceReason,
    /// Whether it accepts new viewers.
    pub standing: Standing,
}

/// Why a node is in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChoiceReason {
    /// The viewer is playing from it.
    Playing,
    /// Its site announces a prefix that contains the viewer's address.
    Prefix,
    /// Its site is near the one that announces the viewer's address.
    Near,
    /// Its site is in the viewer's region.
    Region,
    /// Its site is elsewhere, or the viewer's location is unknown.
    Anywhere,
}

impl ChoiceReason {
    /// Its name in all texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Playing => "playing",
            Self::Prefix => "prefix",
            Self::Near => "near",
            Self::Region => "region",
            Self::Anywhere => "anywhere",
        }
    }
}

/// Why a viewer did not get the first choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Label {
    /// No node of the best site holds the title.
    #[serde(rename = "C")]
    Content,
    /// The first choice holds the title, but accepts no new viewers: it is full, unhealthy, draining or lost.
    #[serde(rename = "H")]
    Health,
}

impl Label {
    /// `C` or `H`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "C",
            Self::Health => "H",
        }
    }
}
