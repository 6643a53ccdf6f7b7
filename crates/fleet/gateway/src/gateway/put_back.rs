//! Detects a store that was replaced by an old copy without `fullbore control restore`: a copy of its folder, or a snapshot of etcd.
//!
//! Within an epoch, revisions only rise, and nodes reject everything older than what they have. So such a store has no effect: nodes reject its
//! keys and its titles, and log that. The gateway reports it to operators, because it has the newest revisions from before in memory and on its
//! disk.

use crate::desired::Records;

use super::{Gateway, lock};

/// The newest state of the store that a gateway has seen. In any later state, each of the revisions is greater or equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Newest {
    fleet: String,
    epoch: u64,
    /// Revisions of the last changes of titles, the plan and the keys of viewers' tokens.
    revisions: [u64; 3],
    /// The problem, if a later reading was older than this.
    problem: Option<String>,
}

impl Newest {
    /// The state of `records`; `None` if the fleet's own record cannot be decoded.
    pub(super) fn of(records: &Records) -> Option<Self> {
        let fleet = records.fleet()?;
        let (epoch, revisions) = (fleet.epoch, records.revisions());
        Some(Self { fleet: fleet.name.to_string(), epoch, revisions, problem: None })
    }

    /// The problem, if the store is older than this.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Compares and adopts the next reading. Returns the problem, if it is older.
    fn take(&mut self, next: Self) -> Option<String> {
        let is_same_fleet = self.fleet == next.fleet;
        let fell = self.revisions.iter().zip(next.revisions).any(|(before, now)| now < *before);
        if is_same_fleet && (next.epoch < self.epoch || (next.epoch == self.epoch && fell)) {
            self.problem = Some(format!(
                "the store was put back without \"fullbore control restore\": it is of epoch {}, revision {}, and epoch {}, revision {} is known, so nodes refuse \
                 what it says. Make a backup of it as it is (fullbore control backup), stop all gateways, and restore that (fullbore control restore)",
                next.epoch,
                next.newest_revision(),
                self.epoch,
                self.newest_revision()
            ));
        } else {
            *self = next;
        }
        self.problem()
    }

    fn newest_revision(&self) -> u64 {
        self.revisions.into_iter().max().unwrap_or_default()
    }
}

impl Gateway {
    /// Compares a reading of the store with earlier ones. Returns whether it is up to date.
    pub(super) fn note_newest(&self, records: &Records) -> bool {
        let Some(next) = Newest::of(records) else { return true };
        let (before, problem) = {
            let mut newest = lock(&self.newest);
            (newest.problem(), newest.take(next))
        };
        if before != problem {
            self.tell(match &problem {
                Some(problem) => problem,
                None => "the store is up to date again",
            });
        }
        problem.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(fleet: &str, epoch: u64, revisions: [u64; 3]) -> Newest {
        Newest { fleet: fleet.to_owned(), epoch, revisions, problem: None }
    }

    #[test]
    fn only_a_restore_takes_revisions_back() {
        let mut newest = Newest::default();
        assert_eq!(newest.take(seen("films", 1, [7, 0, 3])), None);
        assert_eq!(newest.take(seen("films", 1, [9, 8, 3])), None);
        for older in [[9, 8, 2], [9, 7, 3], [8, 8, 3]] {
            let problem = newest.take(seen("films", 1, older)).expect("it is older");
            assert!(problem.contains("epoch 1, revision 9 is known"), "{problem}");
        }
        assert_eq!(newest.take(seen("films", 1, [9, 8, 3])), None, "the right one is back");
        assert_eq!(newest.take(seen("films", 2, [1, 1, 1])), None, "it was restored");
        assert!(newest.take(seen("films", 1, [99, 99, 99])).is_some(), "from before the restore");
        assert_eq!(newest.take(seen("series", 1, [1, 1, 1])), None, "another fleet");
    }
}
