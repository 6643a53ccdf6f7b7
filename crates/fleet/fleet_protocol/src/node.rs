//! Kinds, places and states of nodes.

use serde::{Deserialize, Serialize};

use crate::Name;

/// The kind of a node, by its hardware.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// Many disks: holds much of the catalog.
    #[default]
    Storage,
    /// Flash: holds popular titles, and serves much of the demand.
    Flash,
    /// Some of each, for a site on its own.
    Global,
}

/// A node's place: the units that fail together with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodePlace {
    /// The site.
    pub site: Name,
    /// The cluster: nodes of one site that hold the same manifest.
    pub cluster: Name,
    /// The rack, if the site has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<Name>,
}

/// A node's state, as a gateway sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has a certificate, but has not reported yet that it serves.
    Joining,
    /// It gets viewers.
    Serving,
    /// It gets no new viewers, and its present ones leave.
    Draining,
    /// It has no viewers left.
    Drained,
    /// It has been silent for too long.
    Lost,
    /// It is revoked.
    Revoked,
}

impl State {
    /// Its name in all texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Lost => "lost",
            Self::Revoked => "revoked",
        }
    }
}
