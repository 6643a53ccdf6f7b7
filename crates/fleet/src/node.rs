//! What a node is.

use serde::{Deserialize, Serialize};

use crate::Name;

/// What a node is built for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// Many disks: holds much of the catalog.
    #[default]
    Storage,
    /// Flash: holds what is in demand, and serves much of it.
    Flash,
    /// Some of each, for a site of its own.
    Global,
}

/// Where a node is: what fails together with it.
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
    /// It has a certificate, and has not said yet that it serves.
    Joining,
    /// It gets viewers.
    Serving,
    /// It gets no new viewers, and its own leave.
    Draining,
    /// It has no viewers left.
    Drained,
    /// It has been silent for too long.
    Lost,
    /// It may not take part any more.
    Revoked,
}

impl State {
    /// As it is written everywhere.
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
