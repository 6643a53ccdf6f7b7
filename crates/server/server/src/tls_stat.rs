//! Kernel TLS's own counters (`/proc/net/tls_stat`), which prove that the kernel does the sealing.
//!
//! They cover the whole network namespace, including other programs. Counters are reported as their growth since the server
//! started, and gauges (`TlsCurr...`) as they are.

use delivery::TLS_STAT;
use std::collections::BTreeMap;
use telemetry::{Exposition, Kind, Metric};

const EVENTS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_kernel_tls_events_total",
    "Kernel TLS counters since the start of the server, under the kernel's names; other programs in the network namespace count too.",
)
.by("event");

const CONNECTIONS: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_kernel_tls_connections",
    "Connections with kernel TLS now, by direction and by software or device, under the kernel's names; those of other programs count too.",
)
.by("kind");

/// The metrics made from them.
pub(crate) const METRICS: [Metric; 2] = [EVENTS, CONNECTIONS];

/// The counters at one moment, by the kernel's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsStat(BTreeMap<String, u64>);

impl TlsStat {
    /// The current counters; none if they cannot be read.
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string(TLS_STAT).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(char::is_whitespace)?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        });
        Self(pairs.collect())
    }

    /// The growth from this earlier state to `now`.
    fn since(&self, now: Self) -> BTreeMap<String, u64> {
        let grown = |(name, value): (String, u64)| {
            let before = if is_gauge(&name) { 0 } else { self.0.get(&name).copied().unwrap_or(0) };
            (name, value.saturating_sub(before))
        };
        now.0.into_iter().map(grown).collect()
    }

    /// The growth until now, as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!(self.since(Self::now()))
    }

    /// The growth until now, for Prometheus.
    pub fn expose(&self, to: &mut Exposition) {
        let (gauges, counters): (Vec<_>, Vec<_>) =
            self.since(Self::now()).into_iter().partition(|(name, _)| is_gauge(name));
        to.labelled(&EVENTS, counters);
        to.labelled(&CONNECTIONS, gauges);
    }
}

/// Whether one of the kernel's numbers is a gauge.
fn is_gauge(name: &str) -> bool {
    name.starts_with("TlsCurr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_from_what_they_were_and_gauges_as_they_are() {
        let before = TlsStat::parse("TlsCurrTxSw                     \t5\nTlsTxSw   \t7\nodd\n");
        let now = TlsStat::parse("TlsCurrTxSw 4\nTlsTxSw 9\nTlsTxRekeyOk 1\n");
        let since = before.since(now);
        assert_eq!(since["TlsCurrTxSw"], 4);
        assert_eq!(since["TlsTxSw"], 2);
        assert_eq!(since["TlsTxRekeyOk"], 1);
        assert_eq!(since.len(), 3);
    }
}
