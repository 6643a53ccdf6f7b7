//! The sum over workers, made by readers, and its text forms.

use crate::exposition::Exposition;
use crate::family::Family;
use crate::metric::Metric;
use crate::numbers::{
    Counted, FIRST_BYTE, FIRST_BYTE_MICROSECONDS_MAX, FirstByteBuckets, Numbers, PLAIN,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Deref;

/// The numbers of several workers, summed. The plain numbers are its fields.
#[derive(Clone, Debug)]
pub struct Totals {
    sums: Counted,
    labelled: BTreeMap<(Family, &'static str), u64>,
    /// Times to first byte, in microseconds.
    pub first_byte: FirstByteBuckets,
    /// The plain numbers of each worker, in their order, for metrics with a label per worker.
    by_worker: Vec<Counted>,
}

impl Deref for Totals {
    type Target = Counted;

    fn deref(&self) -> &Counted {
        &self.sums
    }
}

impl Totals {
    /// The sum.
    pub fn of<'a>(workers: impl IntoIterator<Item = &'a Numbers>) -> Self {
        let mut totals = Self {
            sums: Counted::default(),
            labelled: BTreeMap::new(),
            first_byte: FirstByteBuckets::up_to(FIRST_BYTE_MICROSECONDS_MAX),
            by_worker: Vec::new(),
        };
        for worker in workers {
            totals.sums.add(worker);
            for (key, count) in worker.labelled() {
                *totals.labelled.entry(key).or_default() += count;
            }
            totals.first_byte.add(&worker.first_byte.buckets());
            let mut own = Counted::default();
            own.add(worker);
            totals.by_worker.push(own);
        }
        totals
    }

    /// Each worker's plain numbers.
    pub fn by_worker(&self) -> &[Counted] {
        &self.by_worker
    }

    /// Every plain number with its metric, in the order of the list.
    pub fn each(&self) -> impl Iterator<Item = (&'static Metric, u64)> {
        PLAIN.iter().zip(self.sums.values())
    }

    /// Every labelled counter.
    pub fn labelled(&self) -> &BTreeMap<(Family, &'static str), u64> {
        &self.labelled
    }

    /// The labelled counters of one family.
    pub fn family(&self, family: Family) -> impl Iterator<Item = (&'static str, u64)> {
        let members = self.labelled.iter().filter(move |((of, _), _)| *of == family);
        members.map(|((_, label), count)| (*label, *count))
    }

    /// Writes everything in the form that Prometheus reads.
    pub fn expose(&self, to: &mut Exposition) {
        for (index, (metric, value)) in self.each().enumerate() {
            match metric.label {
                None => to.one(metric, value),
                Some(_) => {
                    let of_each = self.by_worker.iter().filter_map(|own| own.values().nth(index));
                    let named =
                        of_each.enumerate().map(|(worker, value)| (worker.to_string(), value));
                    to.labelled(metric, named);
                }
            }
        }
        for family in Family::ALL {
            to.labelled(family.metric(), self.family(*family));
        }
        let octaves =
            self.first_byte.octaves().filter(|(bound, _)| *bound >= FIRST_BYTE_MICROSECONDS_MIN);
        to.histogram(&FIRST_BYTE, octaves, self.first_byte.count(), self.first_byte.sum());
    }

    /// The same as JSON, without the histogram.
    pub fn json(&self) -> Map<String, Value> {
        let plain =
            self.each().map(|(metric, value)| (metric.key().into(), metric.value(value).into()));
        let families = Family::ALL.iter().map(|family| {
            let counts: Map<_, _> =
                self.family(*family).map(|(label, count)| (label.into(), count.into())).collect();
            (family.metric().key().into(), counts.into())
        });
        plain.chain(families).collect()
    }
}

/// Shorter waits share one bucket for Prometheus, because the difference does not matter.
const FIRST_BYTE_MICROSECONDS_MIN: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(totals: &Totals) -> String {
        let mut exposition = Exposition::default();
        totals.expose(&mut exposition);
        exposition.into_text()
    }

    #[test]
    fn workers_are_summed() {
        let (one, two) = (Numbers::default(), Numbers::default());
        one.requests_total.add(2);
        two.requests_total.add(3);
        one.count(Family::Ends, "peer_closed");
        two.count(Family::Ends, "peer_closed");
        two.count(Family::Ends, "idle_timeout");
        let totals = Totals::of([&one, &two]);
        let text = exposed(&totals);
        assert!(
            text.contains("# TYPE fullbore_requests_total counter\nfullbore_requests_total 5\n")
        );
        assert!(text.contains("fullbore_connections_ended_total{reason=\"peer_closed\"} 2\n"));
        assert_eq!(totals.requests_total, 5);
        assert_eq!(totals.json()["connections_ended_total"]["idle_timeout"], 1);
    }

    #[test]
    fn processor_time_is_told_by_worker_in_seconds() {
        let (one, two) = (Numbers::default(), Numbers::default());
        one.worker_cpu_seconds_total.set(1_500_000);
        two.worker_cpu_seconds_total.set(250_000);
        let totals = Totals::of([&one, &two]);
        let text = exposed(&totals);
        assert!(text.contains("\nfullbore_worker_cpu_seconds_total{worker=\"0\"} 1.5\n"), "{text}");
        assert!(
            text.contains("\nfullbore_worker_cpu_seconds_total{worker=\"1\"} 0.25\n"),
            "{text}"
        );
        assert_eq!(totals.json()["worker_cpu_seconds_total"], 1.75);
    }

    #[test]
    fn first_bytes_are_told_by_octaves_from_32_microseconds_on() {
        let numbers = Numbers::default();
        for wait in [10, 40, 20_000_000] {
            numbers.first_byte.record(wait);
        }
        let text = exposed(&numbers.totals());
        let told: Vec<_> =
            text.lines().filter(|line| line.starts_with("fullbore_first_byte")).collect();
        let name = "fullbore_first_byte_seconds";
        assert_eq!(told[0], format!("{name}_bucket{{le=\"0.000032\"}} 1"));
        assert_eq!(told[1], format!("{name}_bucket{{le=\"0.000064\"}} 2"));
        assert_eq!(told[18], format!("{name}_bucket{{le=\"8.388608\"}} 2"));
        assert_eq!(told[19], format!("{name}_bucket{{le=\"+Inf\"}} 3"));
        assert_eq!(told[20], format!("{name}_sum 20.00005"));
        assert_eq!(told[21], format!("{name}_count 3"));
    }
}
