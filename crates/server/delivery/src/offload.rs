//! The parts of a connection's work that are left to the kernel.

use std::path::Path;

/// Kernel TLS's own counters.
pub const TLS_STAT: &str = "/proc/net/tls_stat";

/// The work that this server leaves to its kernel. Each connection reports what it got ([`crate::sealing::Abilities`]): the kernel may refuse one
/// connection's keys and take another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOffload {
    /// The kernel seals records.
    pub seals: bool,
    /// The kernel can change the keys that it has (Linux 6.14).
    pub changes_keys: bool,
    /// The kernel sends from the page cache by itself.
    pub sends_files: bool,
    /// The permissions of NICs that encrypt.
    pub nics: NicTls,
}

/// The connections that NICs may seal, among those that leave by a NIC that encrypts. The kernel passes keys on to such a NIC without being asked, so
/// connections that a NIC must not seal are sealed here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicTls {
    /// Nothing.
    #[default]
    Off,
    /// Everything that the NIC takes. The kernel seals the rest.
    Auto,
    /// As [`Self::Auto`], and the NIC reads a film's pages in place, if a read lease protects the film.
    Wanted,
    /// As [`Self::Wanted`], and connections that no NIC takes are sealed here.
    Alone,
}

impl KernelOffload {
    /// Returns true if this kernel can change keys: one that can has a counter for it.
    pub fn can_change_keys() -> bool {
        std::fs::read_to_string(Path::new(TLS_STAT)).is_ok_and(|text| text.contains("TlsTxRekeyOk"))
    }

    /// Returns true if keys of connections may go to NICs.
    pub fn gives_nics_keys(self) -> bool {
        self.seals && self.nics != NicTls::Off
    }

    /// Returns true if a NIC may read a film's own pages.
    pub(crate) fn lends_pages(self) -> bool {
        self.sends_files && matches!(self.nics, NicTls::Wanted | NicTls::Alone)
    }

    /// The default limit on unsent bytes in the kernel, above which a connection does not ask for more.
    pub fn unsent_bytes_max(self) -> u32 {
        if self.seals {
            // The kernel holds sealed bytes back until they fill a packet, 64 KiB with segmentation offload. With a lower limit it never asks for the
            // bytes that would fill the packet: ten times the calls on Linux 6.1 (`lab calls`).
            128 << 10
        } else {
            // TCP gets what it can send soon, not bursts. Under BBR, 128 KiB here cost a timer for each packet of a burst and a third of the
            // throughput (docs/notes/performance.md).
            32 << 10
        }
    }
}
