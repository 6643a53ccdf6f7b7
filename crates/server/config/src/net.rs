//! Sockets: the backlog, rates, and sizes of requests.

use super::{ConfigError, within};
use delivery::TotalRate;
use serde::{Deserialize, Serialize};

/// Sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Net {
    /// Connections that may wait to be accepted per worker.
    pub backlog: u32,
    /// Unsent bytes in the kernel above which a connection requests no more; by default, the route decides.
    pub unsent_bytes_max: Option<u32>,
    /// The highest rate of a connection in bits per second; 0 is no limit.
    pub pacing_bits_per_second: u64,
    /// The highest rate of all connections together in bits per second; 0 is no limit.
    pub total_bits_per_second: u64,
    /// Congestion control, by the kernel's name; by default, the system's. On the bypass route `cubic`, `bbr` or
    /// `bbr1`; by default, `cubic`.
    pub congestion_control: Option<String>,
    /// The most bytes read from disk at once for one connection.
    pub window_bytes_max: usize,
}

impl Default for Net {
    fn default() -> Self {
        Self {
            backlog: 4096,
            unsent_bytes_max: None,
            pacing_bits_per_second: 0,
            total_bits_per_second: 0,
            congestion_control: None,
            // Larger windows gained nothing, and two of this size fit a 1 MiB second-level cache (docs/notes/performance.md).
            window_bytes_max: 512 << 10,
        }
    }
}

impl Net {
    /// The highest rate of a connection in bytes per second, if there is a limit.
    pub fn pacing_bytes_per_second(&self) -> Option<u64> {
        let bits = self.pacing_bits_per_second;
        (bits > 0).then_some((bits / 8).max(1))
    }

    /// The highest rate of all connections together, if there is a limit.
    pub fn total_rate(&self) -> Option<TotalRate> {
        let bits = self.total_bits_per_second;
        (bits > 0).then(|| TotalRate::new(bits / 8))
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("net.backlog", self.backlog, 1.., "1 or more")?;
        let total = self.total_bits_per_second;
        if total > 0 {
            // With less, a single record would take longer than players wait.
            let allowed = "0 (no limit), or 1000000 or more";
            within("net.total_bits_per_second", total, 1_000_000.., allowed)?;
        }
        let window = self.window_bytes_max;
        within("net.window_bytes_max", window, 16 << 10..=4 << 20, "16384 to 4194304")?;
        let unsent = self.unsent_bytes_max.unwrap_or(1);
        let allowed = "1 or more; to switch it off, use --off pull";
        within("net.unsent_bytes_max", unsent, 1.., allowed)
    }
}
