//! Settings of network cards, as `ethtool`, `devlink` and `tc` show them (kernel documentation: networking/ethtool-netlink).

mod answers;
mod counters;
mod firmware;
mod kernel;
mod queueing;

pub use counters::{CardCounters, ETHTOOL_IOCTL};
pub(crate) use kernel::Asker;
pub use kernel::KernelEthtool;

use std::collections::BTreeSet;
use std::io;

/// Tells the settings of network cards.
pub trait Ethtool {
    /// What is known of `card`.
    ///
    /// # Errors
    /// If the kernel cannot be asked at all. What only this card's driver does not tell is `None`.
    fn settings(&self, card: &str) -> io::Result<CardSettings>;
}

/// What a driver tells of its card; `None` is what it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardSettings {
    /// Descriptors that wait for packets.
    pub rings: Option<RingSizes>,
    /// Pairs of queues.
    pub channels: Option<QueueCounts>,
    /// What the card does by itself.
    pub features: Option<CardFeatures>,
    /// When it interrupts.
    pub coalescing: Option<Coalescing>,
    /// Whether it heeds and sends pause frames.
    pub pause: Option<PauseFrames>,
    /// The queue of each entry in the table that spreads received packets (RSS); empty if there is none.
    pub spread: Option<Vec<u32>>,
    /// Its firmware, in parts that its maker names.
    pub firmware: Option<Vec<FirmwareVersion>>,
    /// The kinds of the kernel's queues in which its packets wait (`fq`, `pfifo_fast`).
    pub queueing: Option<Vec<String>>,
}

/// A part of a card's firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareVersion {
    /// What it is, such as `fw`.
    pub name: String,
    /// The version that runs.
    pub running: String,
    /// The version that will run after the card's next start, if the driver tells.
    pub stored: Option<String>,
}

/// Descriptors of each queue, with what is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSizes {
    /// For received packets.
    pub receive: u32,
    /// The most that is possible.
    pub receive_max: u32,
    /// For packets to send.
    pub send: u32,
    /// The most that is possible.
    pub send_max: u32,
}

/// Queues, with what is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Queues that receive: those that also send, and those that don't.
    pub receive: u32,
    /// The most that is possible.
    pub receive_max: u32,
}

/// Names of features, as `ethtool -k` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardFeatures {
    /// Those that can be switched.
    pub switchable: BTreeSet<String>,
    /// Those that are on.
    pub on: BTreeSet<String>,
}

/// When a card interrupts for received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds that it waits for more packets.
    pub receive_us: u32,
    /// Whether the driver chooses that by itself.
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
