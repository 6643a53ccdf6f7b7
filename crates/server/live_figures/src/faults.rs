//! Everything that went wrong, as one list: which counter, how often in the last minute, how often in total.

use super::Figures;
use serde::Serialize;
use telemetry::{Family, Metric};

/// Plain counters of faults, by their keys.
const PLAIN: [&str; 6] = [
    "accept_pauses_total",
    "send_pauses_total",
    "read_refused_total",
    "loads_stalled_total",
    "access_log_lost_total",
    "tasks_panicked_total",
];

/// Families whose members all count faults, except for [`ENDS_IN_ORDER`].
const FAMILIES: [Family; 4] =
    [Family::Ends, Family::ConnectionsRefused, Family::Refusals, Family::KernelTlsRefusals];

/// Connections that ended in order.
const ENDS_IN_ORDER: [&str; 4] = ["peer_closed", "answered", "drained", "idle_timeout"];

/// Responses aborted by viewers: reported, but not as errors, because players abort when they seek or stop.
const LEFT: &str = "peer_reset";

/// One counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Fault {
    /// Its metric's name, without the program's.
    pub counter: &'static str,
    /// Its label; none for a plain counter.
    pub label: Option<&'static str>,
    /// In the last minute.
    pub last_minute: u64,
    /// Since the start.
    pub total: u64,
    /// It counts as an error.
    pub is_error: bool,
}

/// All faults that have ever occurred, the most frequent of the last minute first.
pub(super) fn faults(now: &Figures, minute_ago: &Figures) -> Vec<Fault> {
    let plain = plain(now).zip(plain(minute_ago)).map(|((metric, total), (_, before))| Fault {
        counter: metric.key(),
        label: None,
        last_minute: total.saturating_sub(before),
        total,
        is_error: true,
    });
    let earlier = minute_ago.totals.labelled();
    let labelled = labelled(now).map(|(family, label, total)| Fault {
        counter: family.metric().key(),
        label: Some(label),
        last_minute: total - earlier.get(&(family, label)).copied().unwrap_or(0).min(total),
        total,
        is_error: label != LEFT,
    });
    let mut all: Vec<_> = plain.chain(labelled).filter(|fault| fault.total > 0).collect();
    all.sort_by_key(|fault| std::cmp::Reverse((fault.last_minute, fault.total)));
    all
}

/// The number of errors so far.
pub(super) fn errors_total(figures: &Figures) -> u64 {
    let errors = labelled(figures).filter(|(_, label, _)| *label != LEFT);
    plain(figures).map(|(_, count)| count).sum::<u64>()
        + errors.map(|(_, _, count)| count).sum::<u64>()
}

fn plain(figures: &Figures) -> impl Iterator<Item = (&'static Metric, u64)> {
    figures.totals.each().filter(|(metric, _)| PLAIN.contains(&metric.key()))
}

fn labelled(figures: &Figures) -> impl Iterator<Item = (Family, &'static str, u64)> {
    let all = figures.totals.labelled().iter().map(|((family, label), n)| (*family, *label, *n));
    all.filter(|(family, label, _)| {
        FAMILIES.contains(family) && !(*family == Family::Ends && ENDS_IN_ORDER.contains(label))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use telemetry::Numbers;

    #[test]
    fn what_is_in_order_is_no_fault_and_who_leaves_is_no_error() {
        let numbers = Arc::new(Numbers::default());
        let before = Figures::of(&[Arc::clone(&numbers)]);
        for end in ["peer_closed", "idle_timeout", "peer_reset", "peer_reset", "send_timeout"] {
            numbers.count(Family::Ends, end);
        }
        numbers.tasks_panicked_total.add(1);
        let now = Figures::of(&[numbers]);
        let found: Vec<_> = faults(&now, &before)
            .iter()
            .map(|fault| (fault.label.unwrap_or(fault.counter), fault.last_minute, fault.is_error))
            .collect();
        assert_eq!(found[0], ("peer_reset", 2, false));
        assert_eq!(found.len(), 3);
        assert!(found.contains(&("tasks_panicked_total", 1, true)));
        assert_eq!(errors_total(&now) - errors_total(&before), 2);
    }

    #[test]
    fn every_plain_counter_exists() {
        let figures = Figures::of(&[Arc::new(Numbers::default())]);
        assert_eq!(plain(&figures).count(), PLAIN.len());
    }
}
