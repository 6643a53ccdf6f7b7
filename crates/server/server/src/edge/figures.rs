//! The figures of a caching edge, for `/metrics`.

use super::EdgeLink;
use telemetry::{Family, Numbers};

impl EdgeLink {
    /// Writes all of them into one worker's counters.
    pub(crate) fn publish(&self, numbers: &Numbers) {
        numbers.edge_fetched_bytes_total.set(self.fetched_bytes());
        numbers.edge_origin_down.set(self.origin_health.is_down().into());
        numbers.edge_waiting.set(self.waiting() as u64);
        numbers.edge_held.set(self.held() as u64);
        for (reason, count) in self.failures() {
            numbers.set(Family::EdgeFailures, reason, count);
        }
        for (reason, count) in self.retries() {
            numbers.set(Family::EdgeRetries, reason, count);
        }
        for (reason, count) in self.dropped() {
            numbers.set(Family::EdgeDropped, reason, count);
        }
        let purges = self.purges();
        for (kind, count) in purges.purges {
            numbers.set(Family::EdgePurges, kind, count);
        }
        numbers.set(Family::EdgePurged, "film", purges.purged.films);
        numbers.set(Family::EdgePurged, "response", purges.purged.responses);
    }
}
