//! How eager a player is to test, to leave and to come back.

use std::time::Duration;

/// The limits by which [`Pathways`](super::Pathways) decides.
#[derive(Clone, Debug, PartialEq)]
pub struct PathwayPolicy {
    /// A request without any byte for this long has failed: the player closes it and reports
    /// [`Outage::Silence`](super::Outage::Silence). Stock players wait 50 to 80 s, which a buffer of 30 s does not last.
    pub silence_max: Duration,
    /// What probing may cost, as a share of the media that was downloaded.
    pub probe_share_max: f64,
    /// The least time between two probes.
    pub probe_interval: Duration,
    /// How many times as fast another pathway must be to be better. Measurements of equal pathways differ by less.
    pub better_by: f64,
    /// How many probes in a row must be better before a player comes back. Each return doubles it until the next failure,
    /// so equal pathways in a noisy network cannot swing for long.
    pub better_probes: u32,
    /// How long a pathway is not used after its first failure. Each further failure doubles it.
    pub penalty: Duration,
    /// The longest penalty: hls.js's penalty of 300 s.
    pub penalty_max: Duration,
    /// Whether the first segments go to all pathways in turn, so that each is measured with media that is needed anyway.
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
