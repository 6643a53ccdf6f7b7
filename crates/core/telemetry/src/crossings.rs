//! Bytes served on a machine with several silos, by the disk that they came from and the network card that they left by. Together with the
//! silo of the worker that served them, this shows how many bytes crossed from one NUMA node to another.

use crate::number::Number;

/// The most silos that are distinguished; those beyond count as unknown. Two sockets of four nodes each have eight.
pub(crate) const SILOS_MAX: usize = 16;

/// The source of a window of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadSource {
    /// From memory: no disk wrote it there for this viewer.
    Memory,
    /// From a disk of this silo; `None` if unknown.
    Disk(Option<usize>),
}

/// One worker's bytes. Adding to them is one addition to one number.
#[derive(Debug, Default)]
pub struct Crossings([[Number; CARDS]; SOURCES]);

/// An unknown card, then one for each silo.
const CARDS: usize = 1 + SILOS_MAX;

/// Memory, an unknown disk, then one for each silo.
const SOURCES: usize = 2 + SILOS_MAX;

impl Crossings {
    /// Adds bytes from this source that left by a card of this silo.
    pub fn add(&self, source: ReadSource, card: Option<usize>, bytes: u64) {
        let known = |silo: Option<usize>| silo.filter(|silo| *silo < SILOS_MAX);
        let source = match source {
            ReadSource::Memory => 0,
            ReadSource::Disk(silo) => known(silo).map_or(1, |silo| 2 + silo),
        };
        let card = known(card).map_or(0, |silo| 1 + silo);
        self.0[source][card].add(bytes);
    }

    /// The numbers that are not 0.
    pub fn each(&self) -> impl Iterator<Item = (ReadSource, Option<usize>, u64)> {
        let source = |at: usize| match at {
            0 => ReadSource::Memory,
            at => ReadSource::Disk(at.checked_sub(2)),
        };
        let rows = self.0.iter().enumerate().flat_map(move |(at, row)| {
            let cells = row.iter().enumerate();
            cells.map(move |(card, bytes)| (source(at), card.checked_sub(1), bytes.value()))
        });
        rows.filter(|(.., bytes)| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_a_number_of_its_own() {
        let crossings = Crossings::default();
        let paths = [
            (ReadSource::Memory, None),
            (ReadSource::Memory, Some(0)),
            (ReadSource::Disk(None), Some(1)),
            (ReadSource::Disk(Some(0)), None),
            (ReadSource::Disk(Some(15)), Some(15)),
        ];
        for (at, (source, card)) in paths.into_iter().enumerate() {
            crossings.add(source, card, 1 << at);
            crossings.add(source, card, 1 << at);
        }
        let seen: Vec<_> = crossings.each().collect();
        let expected =
            paths.iter().enumerate().map(|(at, (source, card))| (*source, *card, 2 << at));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn silos_beyond_the_table_count_as_unknown() {
        let crossings = Crossings::default();
        crossings.add(ReadSource::Disk(Some(SILOS_MAX)), Some(usize::MAX), 3);
        assert_eq!(crossings.each().collect::<Vec<_>>(), [(ReadSource::Disk(None), None, 3)]);
    }
}
