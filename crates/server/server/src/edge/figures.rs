//! The figures of a caching edge, for `/metrics`, and its health.

use super::EdgeLink;
use crate::folders::Health;
use telemetry::{Family, Numbers};

impl EdgeLink {
    /// The health of the edge, of whose cache this is the health.
    pub(crate) fn health(&self, of_cache: Health) -> Health {
        match (self.trouble(), of_cache, self.origin_health.passed_over()) {
            (Some(why), _, _) => Health::Lost(why),
            (None, Health::Well, Some(which)) => Health::Partly(which),
            (None, of_cache, _) => of_cache,
        }
    }

    /// Writes all of them into one worker's counters.
    pub(crate) fn publish(&self, numbers: &Numbers) {
        numbers.edge_fetched_bytes_total.set(self.fetched_bytes());
        numbers.edge_origin_down.set(self.origin_health.is_down().into());
        let of_origins = self.origin_health.counts();
        numbers.edge_origins_passed_over.set(of_origins.passed_over);
        for (origin, answers, failures) in of_origins.asked {
            numbers.set(Family::EdgeOriginAnswers, origin, answers);
            numbers.set(Family::EdgeOriginFailures, origin, failures);
        }
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
        for (result, bytes) in self.ahead.bytes() {
            numbers.set(Family::EdgeAhead, result, bytes);
        }
        numbers.edge_ahead_paused.set(self.ahead.is_paused().into());
        let purges = self.purges();
        for (kind, count) in purges.purges {
            numbers.set(Family::EdgePurges, kind, count);
        }
        numbers.set(Family::EdgePurged, "film", purges.purged.films);
        numbers.set(Family::EdgePurged, "response", purges.purged.responses);
    }
}
