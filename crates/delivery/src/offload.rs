//! What of a connection's work is left to the kernel.

use std::path::Path;

/// Kernel TLS's own counters.
pub const TLS_STAT: &str = "/proc/net/tls_stat";

/// What this server leaves to its kernel. What a connection gets of it, it is asked itself ([`crate::sealing::Abilities`]): the kernel may
/// refuse one's keys and take another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOffload {
    /// Sealing records.
    pub seals: bool,
    /// Changing the keys that it has (Linux 6.14).
    pub changes_keys: bool,
    /// Sending from the page cache by itself.
    pub sends_files: bool,
}

impl KernelOffload {
    /// Whether this kernel can change keys: one that can counts how often it did.
    pub fn can_change_keys() -> bool {
        std::fs::read_to_string(Path::new(TLS_STAT)).is_ok_and(|text| text.contains("TlsTxRekeyOk"))
    }

    /// Unsent bytes in the kernel above which a connection does not ask for more, where nobody has chosen.
    pub fn unsent_bytes_max(self) -> u32 {
        if self.seals {
            // The kernel holds sealed bytes back until they fill a packet, 64 KiB with segmentation offload. With less
            // than that allowed it never asks for what would fill it: ten times the calls on Linux 6.1 (`lab calls`).
            128 << 10
        } else {
            // TCP gets what it can send soon, not bursts: under BBR, 128 KiB here cost a timer for each packet of a
            // burst and a third of the throughput (docs/notes/performance.md).
            32 << 10
        }
    }
}
