//! What the machine is asked to do.

use serde::Serialize;

/// Who seals TLS records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SealedBy {
    /// Nobody: plain HTTP.
    None,
    /// A processor: this server's code or the kernel's.
    Software,
    /// The network card, as the bytes leave.
    Card,
}

/// How bytes get from file to socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedRoute {
    /// Read into a small buffer, sealed into another, sent (`--route userspace`).
    Userspace,
    /// `sendfile` out of the page cache; the kernel or the card seals (`--route kernel`).
    Kernel,
    /// Copied out of the page cache and back into the kernel, as servers without `sendfile` do.
    Copies,
}

/// Which node a connection and its memory belong to. The names are those of `--silo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedSilo {
    /// None: anything anywhere.
    Off,
    /// All on the node of the card that a connection came in on.
    Network,
    /// The connection at its card, the file's bytes at their disk.
    MemoryAtDisk,
    /// All on the node of the disk.
    Disk,
}

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// How bytes get from file to socket.
    pub route: PlannedRoute,
    /// Who seals.
    pub tls: SealedBy,
    /// Where connections belong.
    pub silo: PlannedSilo,
    /// Of the bytes served, those found in memory: 0 to 1.
    pub hit_share: f64,
    /// Of the bytes that a card could seal, those of connections that software seals: 0 to 1.
    pub software_share: f64,
    /// Further copies in the server's own memory (`copies` only); nginx makes one for each TLS record.
    pub extra_copies: f64,
    /// Viewers at the busiest time, if known.
    pub viewers: Option<f64>,
    /// What each of them takes.
    pub viewer_mbits_per_second: Option<f64>,
    /// New TLS connections a second.
    pub handshakes_per_second: f64,
}

impl Demand {
    /// What is usual for who seals: this server's own route, and nothing found in memory.
    pub fn usual(tls: SealedBy, nodes: usize) -> Self {
        let route =
            if tls == SealedBy::Software { PlannedRoute::Userspace } else { PlannedRoute::Kernel };
        Self {
            route,
            tls,
            silo: if nodes > 1 { PlannedSilo::Network } else { PlannedSilo::Off },
            hit_share: 0.0,
            software_share: 0.0,
            extra_copies: 0.0,
            viewers: None,
            viewer_mbits_per_second: None,
            handshakes_per_second: 0.0,
        }
    }

    /// The same work with TLS sealed by somebody else, by the route that is usual for that.
    #[must_use]
    pub fn sealed_by(&self, tls: SealedBy) -> Self {
        let route = Self::usual(tls, 1).route;
        Self { tls, route, software_share: 0.0, extra_copies: 0.0, ..*self }
    }

    /// The share of bytes that a processor seals.
    pub fn sealed_in_software(&self) -> f64 {
        match self.tls {
            SealedBy::None => 0.0,
            SealedBy::Software => 1.0,
            SealedBy::Card => self.software_share,
        }
    }

    /// What all viewers take together, in Gb/s.
    pub fn wanted_gbps(&self) -> Option<f64> {
        Some(self.viewers? * self.viewer_mbits_per_second? / 1e3)
    }
}
