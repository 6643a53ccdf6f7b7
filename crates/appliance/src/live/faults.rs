//! Everything that went otherwise than it should, as one list: which counter, how often in the last minute, how often in all.

use super::Figures;
use crate::telemetry::Family;
use serde::Serialize;

/// Plain counters that say so. Named by their fields in [`crate::telemetry::Numbers`].
const PLAIN: [&str; 5] = [
    "accept_pauses_total",
    "send_pauses_total",
    "read_refused_total",
    "access_log_lost_total",
    "tasks_panicked_total",
];

/// Families all of whose members say so, but for [`ENDS_IN_ORDER`].
const FAMILIES: [Family; 4] =
    [Family::Ends, Family::ConnectionsRefused, Family::Refusals, Family::KernelTlsRefusals];

/// Connections that ended as connections do.
const ENDS_IN_ORDER: [&str; 4] = ["peer_closed", "answered", "drained", "idle_timeout"];

/// Viewers who leave in the middle of an answer: told, but no error, as that is how players seek and stop.
const LEFT: &str = "peer_reset";

/// One counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Fault {
    /// Its metric's name, without the program's.
    pub counter: &'static str,
    /// Its label; none for a plain one.
    pub label: Option<&'static str>,
    /// In the last minute.
    pub last_minute: u64,
    /// Since the start.
    pub total: u64,
    /// Whether it counts as an error.
    pub is_error: bool,
}

/// All that have ever counted, the most frequent of the last minute first.
pub(super) fn faults(now: &Figures, minute_ago: &Figures) -> Vec<Fault> {
    let plain = PLAIN.iter().map(|name| Fault {
        counter: name,
        label: None,
        last_minute: now.value(name).saturating_sub(minute_ago.value(name)),
        total: now.value(name),
        is_error: true,
    });
    let labelled =
        now.labelled.iter().filter(|(key, _)| is_fault(**key)).map(|(key, total)| Fault {
            counter: metric_of(key.0),
            label: Some(key.1),
            last_minute: total - minute_ago.labelled.get(key).copied().unwrap_or(0).min(*total),
            total: *total,
            is_error: key.1 != LEFT,
        });
    let mut all: Vec<_> = plain.chain(labelled).filter(|fault| fault.total > 0).collect();
    all.sort_by_key(|fault| std::cmp::Reverse((fault.last_minute, fault.total)));
    all
}

/// How many errors there have been.
pub(super) fn errors_total(figures: &Figures) -> u64 {
    let labelled = figures.labelled.iter().filter(|(key, _)| is_fault(**key) && key.1 != LEFT);
    let plain: u64 = PLAIN.iter().map(|name| figures.value(name)).sum();
    plain + labelled.map(|(_, count)| count).sum::<u64>()
}

fn is_fault((family, label): (Family, &'static str)) -> bool {
    FAMILIES.contains(&family) && !(family == Family::Ends && ENDS_IN_ORDER.contains(&label))
}

fn metric_of(family: Family) -> &'static str {
    let found = Family::ALL.iter().find(|(of, ..)| *of == family);
    found.expect("the list has every family").1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Numbers;
    use std::sync::Arc;

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
        for name in PLAIN {
            assert!(figures.plain.contains_key(name), "{name}");
        }
    }
}
