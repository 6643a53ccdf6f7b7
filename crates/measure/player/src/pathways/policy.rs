//! How eager a player is to test, to leave and to return.

use std::time::Duration;

/// The limits that [`Pathways`](super::Pathways) uses to decide.
#[derive(Clone, Debug, PartialEq)]
pub struct PathwayPolicy {
    /// A request without any byte for this long has failed: the player closes it and reports [`Outage::Silence`](super::Outage::Silence).
    /// Stock players wait 50 to 80 s, which a buffer of 30 s does not survive.
    pub silence_max: Duration,
    /// Limit on the cost of probing, as a share of the downloaded media.
    pub probe_share_max: f64,
    /// The least time between two probes.
    pub probe_interval: Duration,
    /// How many times as fast another pathway must be to count as better. Measurements of equal pathways differ by less.
    pub better_by: f64,
    /// How many consecutive probes must be better before a player returns. Each return doubles this until the next failure, so equal
    /// pathways in a noisy network cannot swing for long.
    pub better_probes: u32,
    /// How long a pathway is not used after its first failure. Each further failure doubles this.
    pub penalty: Duration,
    /// The longest penalty: hls.js's penalty of 300 s.
    pub penalty_max: Duration,
    /// If set, the first segments go to all pathways in turn, so that each is measured with media that is needed anyway.
    pub tests_at_start: bool,
}

impl Default for PathwayPolicy {
    fn default() -> Self {
        Self {
            silence_max: Duration::from_secs(4),
            probe_share_max: 0.01,
            probe_interval: Duration::from_secs(10),
            better_by: 1.2,
            better_probes: 3,
            penalty: Duration::from_secs(60),
            penalty_max: Duration::from_secs(300),
            tests_at_start: true,
        }
    }
}
