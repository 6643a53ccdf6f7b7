//! Counts how many bytes crossed from one silo to another on a machine with several.
//!
//! A byte can cross twice: from the disk's silo to that of the worker that serves it, and from there to the network card. Either the disk
//! writes across, or, with `--silo memory-at-disk`, the worker reads across from memory at the disk: both count the same. A byte that
//! was in memory has no first step. It counts as memory of the worker's silo; pages in the page cache may lie elsewhere, and the kernel does not
//! report where. The hot set of another silo is known to lie there, so its bytes count as those of that silo's disk.

use serde_json::{Value, json};
use silo_map::SiloMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use telemetry::{Exposition, Kind, Metric, Numbers, ReadSource};

/// Bytes by path. There are none on a machine with one silo.
pub(crate) const METRIC: Metric = Metric::new(
    Kind::Counter,
    "fullbore_path_bytes_total",
    "Bytes of responses on a machine with several silos, by the silo of the disk or of the hot set at the disk that they came from (or memory), of the worker, and of the network card: that of arrival, or with marks that of the mark.",
)
.by("disk,worker,card");

/// The bytes' source, their worker's silo, and the silo of the card by which they left.
type Path = (ReadSource, usize, Option<usize>);

/// Bytes by path, summed over the workers.
pub(crate) struct Paths(BTreeMap<Path, u64>);

impl Paths {
    /// The paths of the workers, in the order of their numbers.
    pub(crate) fn of(map: &SiloMap, workers: &[Arc<Numbers>]) -> Self {
        let mut paths = BTreeMap::new();
        for (worker, numbers) in workers.iter().enumerate() {
            for (source, nic, bytes) in numbers.crossings.each() {
                *paths.entry((source, map.of_worker(worker), nic)).or_default() += bytes;
            }
        }
        Self(paths)
    }

    pub(crate) fn expose(&self, to: &mut Exposition) {
        let sample = |(path, bytes): (&Path, &u64)| (named(*path), *bytes);
        to.labelled_by_several(&METRIC, self.0.iter().map(sample));
    }

    /// For `/status.json` and the dashboard; `null` if nothing was counted.
    pub(crate) fn json(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let path = |(path, bytes): (&Path, &u64)| {
            let [disk, worker, nic] = named(*path);
            json!({
                "disk": disk, "worker": worker, "card": nic, "bytes": bytes,
                "crossings": crossings(*path),
            })
        };
        let paths: Vec<_> = self.0.iter().map(path).collect();
        json!({ "paths": paths, "crossings_per_byte": self.crossings_per_byte() })
    }

    /// The mean over all bytes. An unknown path counts as no crossing.
    fn crossings_per_byte(&self) -> f64 {
        let all: u64 = self.0.values().sum();
        let crossed: u64 = self.0.iter().map(|(path, bytes)| crossings(*path) * bytes).sum();
        if all == 0 { 0.0 } else { crossed as f64 / all as f64 }
    }
}

/// How often a byte on this path crosses.
fn crossings((source, worker, nic): Path) -> u64 {
    let from_disk = matches!(source, ReadSource::Disk(Some(disk)) if disk != worker);
    let to_nic = nic.is_some_and(|nic| nic != worker);
    u64::from(from_disk) + u64::from(to_nic)
}

/// The values of the labels.
fn named((source, worker, nic): Path) -> [String; 3] {
    let silo = |silo: Option<usize>| silo.map_or("unknown".to_owned(), |silo| silo.to_string());
    let source = match source {
        ReadSource::Memory => "memory".to_owned(),
        ReadSource::Disk(disk) => silo(disk),
    };
    [source, worker.to_string(), silo(nic)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes on these paths.
    fn paths(all: &[(ReadSource, usize, Option<usize>, u64)]) -> Paths {
        Paths(
            all.iter()
                .map(|(source, worker, nic, bytes)| ((*source, *worker, *nic), *bytes))
                .collect(),
        )
    }

    #[test]
    fn a_byte_crosses_where_disk_and_worker_or_worker_and_card_differ() {
        let disk = |silo| ReadSource::Disk(Some(silo));
        assert_eq!(crossings((disk(0), 0, Some(0))), 0);
        assert_eq!(crossings((disk(1), 0, Some(0))), 1);
        assert_eq!(crossings((disk(1), 0, Some(2))), 2);
        assert_eq!(crossings((ReadSource::Memory, 0, Some(2))), 1);
        assert_eq!(crossings((ReadSource::Disk(None), 0, None)), 0);
    }

    /// Four nodes with a disk each. With cards on all of them, by network: three of four reads cross. With cards on two, half of the
    /// bytes also cross on their way out: 0.75 + 0.5 (Gallatin, EuroBSDCon 2019).
    #[test]
    fn the_arithmetic_is_that_of_the_published_cases() {
        let each = |nics: usize| {
            let places = (0..4).flat_map(|disk| (0..4).map(move |worker| (disk, worker)));
            let path =
                |(disk, worker)| (ReadSource::Disk(Some(disk)), worker, Some(worker % nics), 100);
            paths(&places.map(path).collect::<Vec<_>>())
        };
        assert_eq!(each(4).crossings_per_byte(), 0.75);
        assert_eq!(each(2).crossings_per_byte(), 1.25);
        assert_eq!(paths(&[]).json(), Value::Null);
    }

    #[test]
    fn paths_have_three_labels() {
        let mut exposition = Exposition::default();
        let memory = (ReadSource::Memory, 1, None, 5);
        paths(&[memory, (ReadSource::Disk(Some(0)), 1, Some(1), 7)]).expose(&mut exposition);
        let text = exposition.into_text();
        let name = METRIC.name;
        assert!(
            text.contains(&format!(
                "\n{name}{{disk=\"memory\",worker=\"1\",card=\"unknown\"}} 5\n"
            )),
            "{text}"
        );
        assert!(
            text.contains(&format!("\n{name}{{disk=\"0\",worker=\"1\",card=\"1\"}} 7\n")),
            "{text}"
        );
    }
}
