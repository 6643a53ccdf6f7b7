//! The work that the machine should do.

use serde::Serialize;

/// The place where TLS records are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SealedBy {
    /// Plain HTTP, without encryption.
    None,
    /// A processor, in this server's code or the kernel's.
    Software,
    /// The network card, as the bytes leave.
    Card,
}

/// The path of bytes from file to socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedRoute {
    /// Read into a small buffer, encrypted into another, sent (`--route userspace`).
    Userspace,
    /// `sendfile` from the page cache; the kernel or the card encrypts (`--route kernel`).
    Kernel,
    /// Copied out of the page cache and back into the kernel, as in servers without `sendfile`.
    Copies,
}

/// The node that a connection and its memory belong to. The names are those of `--silo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedSilo {
    /// No assignment: anything runs anywhere.
    Off,
    /// Everything is on the node of the card that a connection came in on.
    Network,
    /// The connection is at its card, the file's bytes at their disk.
    MemoryAtDisk,
    /// Everything is on the node of the disk.
    Disk,
}

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The path of bytes from file to socket.
    pub route: PlannedRoute,
    /// Who encrypts.
    pub tls: SealedBy,
    /// The node that connections belong to.
    pub silo: PlannedSilo,
    /// Share of the served bytes that is found in memory: 0 to 1.
    pub hit_share: f64,
    /// Share of the bytes that a card could encrypt on whose connections software encrypts: 0 to 1.
    pub software_share: f64,
    /// Additional copies in the server's own memory (`copies` only); nginx makes one for each TLS record.
    pub extra_copies: f64,
    /// Viewers at the busiest time, if known.
    pub viewers: Option<f64>,
    /// Rate of each of these viewers.
    pub viewer_mbits_per_second: Option<f64>,
    /// New TLS connections per second.
    pub handshakes_per_second: f64,
}

impl Demand {
    /// The usual demand for this kind of encryption: this server's own route, and nothing found in memory.
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

    /// The same work with TLS encrypted elsewhere, on the usual route for that.
    #[must_use]
    pub fn sealed_by(&self, tls: SealedBy) -> Self {
        let route = Self::usual(tls, 1).route;
        Self { tls, route, software_share: 0.0, extra_copies: 0.0, ..*self }
    }

    /// Share of bytes that a processor encrypts.
    pub fn sealed_in_software(&self) -> f64 {
        match self.tls {
            SealedBy::None => 0.0,
            SealedBy::Software => 1.0,
            SealedBy::Card => self.software_share,
        }
    }

    /// Total rate of all viewers, in Gb/s.
    pub fn wanted_gbps(&self) -> Option<f64> {
        Some(self.viewers? * self.viewer_mbits_per_second? / 1e3)
    }
}
