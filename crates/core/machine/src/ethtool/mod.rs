//! Settings of network cards, as `ethtool`, `devlink` and `tc` show them (kernel documentation: networking/ethtool-netlink).

mod answers;
mod counters;
mod firmware;
mod kernel;
mod queueing;

pub use counters::{ETHTOOL_IOCTL, NicCounters};
pub(crate) use kernel::Asker;
pub use kernel::KernelEthtool;

use std::collections::BTreeSet;
use std::io;

/// A source of the settings of network cards.
pub trait Ethtool {
    /// The settings of `nic`.
    ///
    /// # Errors
    /// If the kernel cannot be queried at all. A setting that only this card's driver does not report is `None`.
    fn settings(&self, nic: &str) -> io::Result<NicSettings>;
}

/// A card's settings as its driver reports them; `None` for those that it does not report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSettings {
    /// Descriptors of its rings.
    pub rings: Option<RingSizes>,
    /// Pairs of queues.
    pub channels: Option<QueueCounts>,
    /// The card's offloads.
    pub features: Option<NicFeatures>,
    /// Interrupt coalescing.
    pub coalescing: Option<Coalescing>,
    /// Pause frames: obeyed, sent, or both.
    pub pause: Option<PauseFrames>,
    /// The queue of each entry in the table that spreads received packets (RSS); empty if there is none.
    pub spread: Option<Vec<u32>>,
    /// Its firmware, in parts that its maker names.
    pub firmware: Option<Vec<FirmwareVersion>>,
    /// The kinds of the kernel's queues that hold its packets (`fq`, `pfifo_fast`).
    pub queueing: Option<Vec<String>>,
}

/// A part of a card's firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareVersion {
    /// The part's name, such as `fw`.
    pub name: String,
    /// The running version.
    pub running: String,
    /// The version that will run after the card's next start, if the driver reports it.
    pub stored: Option<String>,
}

/// Descriptors of each ring, with the maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSizes {
    /// For received packets.
    pub receive: u32,
    /// The maximum.
    pub receive_max: u32,
    /// For packets to send.
    pub send: u32,
    /// The maximum.
    pub send_max: u32,
}

/// Queues, with the maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Queues that receive: those that also send, and those that don't.
    pub receive: u32,
    /// The maximum.
    pub receive_max: u32,
}

/// Names of features, as `ethtool -k` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicFeatures {
    /// Those that can be switched.
    pub switchable: BTreeSet<String>,
    /// Those that are on.
    pub on: BTreeSet<String>,
}

/// Interrupt coalescing for received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds that it waits for more packets.
    pub receive_us: u32,
    /// The driver adapts that by itself.
    pub is_adaptive: bool,
}

/// Pause frames (IEEE 802.3, annex 31B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseFrames {
    /// The card stops sending when its link partner asks.
    pub heeds: bool,
    /// It asks its link partner to stop.
    pub sends: bool,
}
