//! Which parts of a connection's work are left to the kernel.

use std::path::Path;

/// Kernel TLS's own counters.
pub const TLS_STAT: &str = "/proc/net/tls_stat";

/// What this server leaves to its kernel. Ask each connection what it got ([`crate::sealing::Abilities`]): the kernel
/// may refuse one connection's keys and take another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOffload {
    /// The kernel seals records.
    pub seals: bool,
    /// The kernel can change the keys that it has (Linux 6.14).
    pub changes_keys: bool,
    /// The kernel sends from the page cache by itself.
    pub sends_files: bool,
    /// What network cards that encrypt may do.
    pub cards: CardTls,
}

/// What network cards may seal, of the connections that leave by a card that encrypts. The kernel passes keys on to such a card without being
/// asked, so what a card must not seal is sealed here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CardTls {
    /// Nothing.
    #[default]
    Off,
    /// What the card takes. What it does not take, the kernel seals.
    Auto,
    /// The same, and the card reads a film's pages where they lie, if the film can be held still.
    Wanted,
    /// As [`Self::Wanted`], and what no card takes is sealed here.
    Alone,
}

impl KernelOffload {
    /// Whether this kernel can change keys. A kernel that can has a counter for it.
    pub fn can_change_keys() -> bool {
        std::fs::read_to_string(Path::new(TLS_STAT)).is_ok_and(|text| text.contains("TlsTxRekeyOk"))
    }

    /// Whether the keys of connections may go to cards.
    pub fn gives_cards_keys(self) -> bool {
        self.seals && self.cards != CardTls::Off
    }

    /// Whether a card may read a film's own pages.
    pub(crate) fn lends_pages(self) -> bool {
        self.sends_files && matches!(self.cards, CardTls::Wanted | CardTls::Alone)
    }

    /// Default for the unsent bytes in the kernel above which a connection does not ask for more.
    pub fn unsent_bytes_max(self) -> u32 {
        if self.seals {
            // The kernel holds sealed bytes back until they fill a packet, 64 KiB with segmentation offload. With a
            // lower limit it never asks for the bytes that would fill the packet: ten times the calls on Linux 6.1
            // (`lab calls`).
            128 << 10
        } else {
            // TCP gets what it can send soon, not bursts. Under BBR, 128 KiB here cost a timer for each packet of a
            // burst and a third of the throughput (docs/notes/performance.md).
            32 << 10
        }
    }
}
