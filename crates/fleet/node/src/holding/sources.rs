//! The sources of one title's blocks: nodes of the cluster first, then other nodes, then the origin.
//!
//! Each block is verified by its SHA-256 before it is written. A source that fails or sends wrong bytes is skipped for the rest of the
//! attempt, and the next one is asked for the same block. Bytes per source, and refusals by reason, are counted ([`Ledger`]); a refused
//! node is not asked again for a while.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use catalog::{FileRecord, sha256};
use fleet_protocol::{Digest, Name};
use serde::Serialize;

use super::block_file::BlockBuffer;
use super::error::HoldingError;
use super::lock;
use super::origin::Origin;

/// How long a refused node is skipped: this at first, then doubled each time, up to [`ASIDE_MAX`].
const ASIDE: Duration = Duration::from_secs(15);
const ASIDE_MAX: Duration = Duration::from_secs(600);

/// Why data from a node was refused, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerFault {
    /// It cannot be connected to.
    Unreachable,
    /// It stopped in the middle.
    Stalled,
    /// It was too slow for a block.
    Slow,
    /// It ended the connection.
    Reset,
    /// It redirected the request.
    Redirected,
    /// The status was not that of a partial response.
    Status,
    /// It sent another part than requested, or more or less of it.
    Length,
    /// The data does not match its SHA-256.
    Bytes,
}

impl PeerFault {
    /// The message.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "it cannot be reached",
            Self::Stalled => "it stopped sending",
            Self::Slow => "it was too slow",
            Self::Reset => "it ended the connection",
            Self::Redirected => "it redirects, which is never followed",
            Self::Status => "it does not serve that file",
            Self::Length => "it sent another part than requested",
            Self::Bytes => "its data does not match the SHA-256",
        }
    }
}

/// Kinds of sources, from near to far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// A node of the same cluster.
    Cluster,
    /// Another node.
    Fleet,
    /// The place where it was published.
    Origin,
}

/// Bytes by source, and refusals by reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FillCounts {
    /// Bytes from nodes of the same cluster.
    pub cluster_bytes: u64,
    /// Bytes from other nodes.
    pub fleet_bytes: u64,
    /// Bytes from origins.
    pub origin_bytes: u64,
    /// Refusals of data from nodes, by reason.
    pub refused: BTreeMap<PeerFault, u64>,
}

/// A node that is skipped for a while.
#[derive(Debug)]
struct Aside {
    times: u32,
    until: Duration,
}

#[derive(Debug, Default)]
struct Entries {
    counts: FillCounts,
    aside: BTreeMap<Name, Aside>,
}

/// Counts bytes by source, and remembers refused nodes.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Entries>);

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        lock(&self.0)
    }

    pub(crate) fn counts(&self) -> FillCounts {
        self.entries().counts.clone()
    }

    /// Whether a node may be asked.
    pub(crate) fn may_ask(&self, node: &Name, now: Duration) -> bool {
        self.entries().aside.get(node).is_none_or(|aside| aside.until <= now)
    }

    fn note(&self, source: &TitleSource, bytes: u64) {
        let mut entries = self.entries();
        let counts = &mut entries.counts;
        match source.distance {
            Distance::Cluster => counts.cluster_bytes += bytes,
            Distance::Fleet => counts.fleet_bytes += bytes,
            Distance::Origin => counts.origin_bytes += bytes,
        }
        if let Some(node) = &source.node {
            entries.aside.remove(node);
        }
    }

    /// Refuses what a node sent: logs and counts it, and skips the node for a while.
    fn refuse(&self, node: &Name, fault: PeerFault, what: &str, now: Duration) {
        let mut entries = self.entries();
        *entries.counts.refused.entry(fault).or_default() += 1;
        let times = entries.aside.get(node).map_or(0, |aside| aside.times);
        let wait = ASIDE.saturating_mul(1 << times.min(10)).min(ASIDE_MAX);
        entries.aside.insert(node.clone(), Aside { times: times + 1, until: now + wait });
        drop(entries);
        crate::tell(&format!(
            "{what} from node {node} is refused: {}; the node is not asked for {} s",
            fault.as_str(),
            wait.as_secs()
        ));
    }
}

/// One source of a title.
pub(crate) struct TitleSource {
    pub(crate) distance: Distance,
    /// The node, if it is one.
    pub(crate) node: Option<Name>,
    /// The origin to read from; opening it may have failed.
    pub(crate) from: Result<Box<dyn Origin>, HoldingError>,
}

/// The sources of one title, in the order in which they are asked.
pub(crate) struct Sources<'a> {
    pub(crate) all: Vec<TitleSource>,
    /// How many of them have failed.
    pub(crate) failed: Cell<usize>,
    pub(crate) ledger: &'a Ledger,
    /// The time, for [`Ledger::may_ask`].
    pub(crate) now: &'a dyn Fn() -> Duration,
    /// The error if there is no source at all.
    pub(crate) none: &'static str,
}

/// Asks one source; the second argument says whether that is a node. Returns the data, and its length in bytes.
type Asking<'a, T> = &'a mut dyn FnMut(&dyn Origin, bool) -> Result<(T, u64), HoldingError>;

impl Sources<'_> {
    /// Fetches a block of a file, and verifies it.
    pub(crate) fn block(
        &self,
        file: &FileRecord,
        (index, offset, count): (usize, u64, usize),
        expected: &str,
        into: &mut BlockBuffer,
    ) -> Result<(), HoldingError> {
        let what = format!("block {index} of {}", file.path);
        let mut ask = |from: &dyn Origin, is_node| {
            from.read(file, offset, count, into)?;
            match sha256::of_bytes(into.first(count)) == expected {
                true => Ok(((), count as u64)),
                false if is_node => Err(HoldingError::Peer(PeerFault::Bytes)),
                false => Err(HoldingError::Origin(format!(
                    "{what} at the origin does not match its SHA-256: verify the title there"
                ))),
            }
        };
        self.first_good(&what, &mut ask)
    }

    /// Fetches all of a small file, and verifies it.
    pub(crate) fn small(
        &self,
        path: &str,
        bytes_max: u64,
        expected: &Digest,
    ) -> Result<Vec<u8>, HoldingError> {
        let mut ask = |from: &dyn Origin, is_node| {
            let bytes = from.small(path, bytes_max)?;
            match Digest::of(&bytes) == *expected {
                true => {
                    let count = bytes.len() as u64;
                    Ok((bytes, count))
                }
                false if is_node => Err(HoldingError::Peer(PeerFault::Bytes)),
                false => Err(HoldingError::Origin(format!(
                    "{path} at the origin is not the record that was published: publish the title again"
                ))),
            }
        };
        self.first_good(path, &mut ask)
    }

    fn first_good<T>(&self, what: &str, ask: Asking<'_, T>) -> Result<T, HoldingError> {
        let mut last = HoldingError::Origin(self.none.to_owned());
        for source in self.all.iter().skip(self.failed.get()) {
            let asked = match &source.from {
                Ok(from) => ask(&**from, source.node.is_some()),
                Err(why) => Err(HoldingError::Origin(why.to_string())),
            };
            last = match (asked, &source.node) {
                (Ok((brought, bytes)), _) => {
                    self.ledger.note(source, bytes);
                    return Ok(brought);
                }
                (Err(HoldingError::Peer(fault)), Some(node)) => {
                    self.ledger.refuse(node, fault, what, (self.now)());
                    HoldingError::Peer(fault)
                }
                (Err(why), _) => why,
            };
            self.failed.set(self.failed.get() + 1);
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_refused_is_asked_later_each_time_until_it_is_well() {
        let ledger = Ledger::default();
        let node: Name = "n2".parse().unwrap();
        let at = Duration::from_secs;
        assert!(ledger.may_ask(&node, at(0)));
        ledger.refuse(&node, PeerFault::Bytes, "block 1 of a", at(0));
        assert!(!ledger.may_ask(&node, at(14)) && ledger.may_ask(&node, at(15)));
        ledger.refuse(&node, PeerFault::Stalled, "block 1 of a", at(15));
        assert!(!ledger.may_ask(&node, at(44)) && ledger.may_ask(&node, at(45)));
        for _ in 0..40 {
            ledger.refuse(&node, PeerFault::Stalled, "block 1 of a", at(45));
        }
        assert!(ledger.may_ask(&node, at(45 + 600)));
        let from = Err(HoldingError::Cancelled);
        let source = TitleSource { distance: Distance::Cluster, node: Some(node.clone()), from };
        ledger.note(&source, 7);
        assert!(ledger.may_ask(&node, at(46)));
        let counts = ledger.counts();
        assert_eq!((counts.cluster_bytes, counts.origin_bytes), (7, 0));
        assert_eq!(counts.refused[&PeerFault::Bytes], 1);
        assert_eq!(counts.refused[&PeerFault::Stalled], 41);
        let json = serde_json::to_value(&counts).unwrap();
        assert_eq!(json["refused"]["stalled"], 41);
    }
}
