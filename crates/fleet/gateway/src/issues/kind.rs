//! The kinds of issues: how serious they are, when they are listed, and what an operator does about them.

use std::time::Duration;

use fleet_protocol::SheddingReason;
use serde::Serialize;

/// How serious an issue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Viewers are affected, or will be after one more failure.
    Critical,
    /// Viewers are served, but an operator has to look at it.
    Warning,
}

impl Severity {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// A kind of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IssueKind {
    /// The store accepts no changes.
    StoreUnavailable,
    /// No gateway leads.
    NoLeader,
    /// Many nodes fell silent at once.
    NodesSilentAtOnce,
    /// No node of a site serves.
    SiteDown,
    /// A site announces prefixes outside its allow-list.
    PrefixesRefused,
    /// A node is lost.
    NodeLost,
    /// A node has joined, but does not serve.
    NodeNotReady,
    /// Two machines report as one node.
    NodeTwice,
    /// A node serves by another scheme or port than viewers use.
    NodeAddress,
    /// A node's clock is wrong.
    NodeClock,
    /// A node wants no new viewers.
    NodeSheds(SheddingReason),
    /// A node lacks titles, and copies none.
    NodeIncomplete,
    /// A node has not confirmed that it removed a withdrawn title.
    RemovalUnconfirmed,
    /// A node's edge has not carried out the latest purge.
    PurgeUnconfirmed,
}

impl IssueKind {
    /// Its name in IDs, CSV and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StoreUnavailable => "store_unavailable",
            Self::NoLeader => "no_leader",
            Self::NodesSilentAtOnce => "nodes_silent_at_once",
            Self::SiteDown => "site_down",
            Self::PrefixesRefused => "prefixes_refused",
            Self::NodeLost => "node_lost",
            Self::NodeNotReady => "node_not_ready",
            Self::NodeTwice => "node_twice",
            Self::NodeAddress => "node_address",
            Self::NodeClock => "node_clock",
            Self::NodeSheds(reason) => match reason {
                SheddingReason::AtCeiling => "node_at_ceiling",
                SheddingReason::DiskErrors => "node_disk_errors",
                SheddingReason::Pressure => "node_pressure",
                SheddingReason::AcceptPaused => "node_accept_paused",
                SheddingReason::ViewersStall => "node_viewers_stall",
                SheddingReason::Hot => "node_hot",
                SheddingReason::ServerSilent => "node_server_silent",
                SheddingReason::Other => "node_sheds",
            },
            Self::NodeIncomplete => "node_incomplete",
            Self::RemovalUnconfirmed => "removal_unconfirmed",
            Self::PurgeUnconfirmed => "purge_unconfirmed",
        }
    }

    /// How serious it is.
    pub fn severity(self) -> Severity {
        match self {
            Self::StoreUnavailable
            | Self::NoLeader
            | Self::NodesSilentAtOnce
            | Self::SiteDown
            | Self::NodeLost
            | Self::NodeTwice
            | Self::NodeAddress => Severity::Critical,
            Self::NodeSheds(reason) if reason.moves_viewers() => Severity::Critical,
            _ => Severity::Warning,
        }
    }

    /// How long it has to last before it is listed.
    pub fn patience(self) -> Duration {
        match self {
            // A lease changes hands in seconds, and a store that restarts is back in less than a minute.
            Self::StoreUnavailable | Self::NoLeader | Self::PurgeUnconfirmed => {
                Duration::from_secs(60)
            }
            // A node reports every five seconds, and sheds viewers for some seconds at each peak.
            Self::NodeSheds(SheddingReason::AtCeiling | SheddingReason::Pressure) => {
                Duration::from_secs(300)
            }
            // A server that restarts or is upgraded is back before.
            Self::NodeSheds(_) | Self::NodeClock | Self::NodeAddress | Self::SiteDown => {
                Duration::from_secs(30)
            }
            // A box boots, makes its certificate and reads its library first.
            Self::NodeNotReady | Self::RemovalUnconfirmed => Duration::from_secs(600),
            // Nodes wait for their turn at an origin, and for peers that copy the same title.
            Self::NodeIncomplete => Duration::from_secs(3600),
            Self::NodesSilentAtOnce | Self::PrefixesRefused | Self::NodeLost | Self::NodeTwice => {
                Duration::ZERO
            }
        }
    }

    /// The next step, in one or two sentences.
    pub fn advice(self) -> &'static str {
        match self {
            Self::StoreUnavailable => {
                "Viewers are still served, but nothing can be changed. Check the store's disk, or etcd's members."
            }
            Self::NoLeader => {
                "Viewers are still served, but titles are not placed. Check that the gateways reach the store."
            }
            Self::NodesSilentAtOnce => {
                "Check this gateway's own network first. If the nodes are really dead: fullbore control nodes --believe-silence"
            }
            Self::SiteDown => "Viewers of this site go elsewhere. Check its power and its uplink.",
            Self::PrefixesRefused => {
                "Correct what the site announces, or allow it: fullbore control allow SITE PREFIXES"
            }
            Self::NodeLost => {
                "Check the machine's power and network, then its agent: systemctl status fullbore-node"
            }
            Self::NodeNotReady => {
                "Read the agent's log on the machine: journalctl -u fullbore-node"
            }
            Self::NodeTwice => {
                "Stop one of the two machines, and let it join under another name: fullbore control invite"
            }
            Self::NodeAddress => {
                "Viewers can't reach it. Change the server's port, or the fleet's: docs/fleet-operate.md"
            }
            Self::NodeClock => "Start time synchronization on the machine, such as chrony.",
            Self::NodeSheds(reason) => match reason {
                SheddingReason::AtCeiling => {
                    "It is full. See what to buy next: fullbore control plan --dry-run"
                }
                SheddingReason::DiskErrors => {
                    "Look for the disk in the machine's log (journalctl -k), drain the node, and replace the disk."
                }
                SheddingReason::Pressure => {
                    "Find what else uses its processor, memory or disks, or lower its ceiling."
                }
                SheddingReason::AcceptPaused => {
                    "Raise the server's limit of open files or connections, or lower its ceiling."
                }
                SheddingReason::ViewersStall => {
                    "Compare the dashboard's quality of experience with its load, and look for losses on its uplink."
                }
                SheddingReason::Hot => "Check its fans, its filters, and the room's temperature.",
                SheddingReason::ServerSilent => {
                    "Look at the server on the machine: systemctl status fullbore, journalctl -u fullbore"
                }
                SheddingReason::Other => "Its agent is of a later release: update this gateway.",
            },
            Self::NodeIncomplete => {
                "See what it waits for: fullbore control fill; and the agent's log: journalctl -u fullbore-node"
            }
            Self::RemovalUnconfirmed => {
                "The title may still be on its disks. See where: fullbore control where TITLE"
            }
            Self::PurgeUnconfirmed => {
                "See why: fullbore control purges NUMBER. The node carries it out when it is back."
            }
        }
    }
}
