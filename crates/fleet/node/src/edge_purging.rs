//! The fleet's purges of the caching edge on this box.
//!
//! The edge is a server of its own, which the agent doesn't start. The agent gets the fleet's orders from gateways, has the edge carry out one after
//! the other, and keeps the number of the last one with its receipts in a file. An order is done when the edge has confirmed it, which means that it
//! is on the edge's disk. An agent that dies between that and the file purges again, which does no harm.
//!
//! Gateways keep only the latest orders. If this box has missed older ones, or the fleet's store was restored from a backup, the edge purges
//! everything: old bytes would be worse.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fleet_protocol::{
    EDGE_RECEIPTS_MAX, EDGE_TEXT_BYTES_MAX, EdgeProgress, EdgeReceipt, FleetPurge,
    ORDERS_PER_ANSWER_MAX, PurgeOrders,
};
use serde::{Deserialize, Serialize};

use crate::holding::lock;
use crate::persistence;
use crate::stop::Wakeup;

/// The file in the agent's state folder.
const PLACE: &str = "purges.json";

/// How soon to try again if the edge can't be reached. It serves what it has from its start on, so this is short.
const RETRY: Duration = Duration::from_millis(500);

/// Most receipts to keep: a gateway keeps as many.
const RECEIPTS_MAX: usize = 100;

/// A caching edge on this box.
pub trait EdgeServer: Debug + Send + Sync {
    /// Identifies it. Another edge may have stored what this one has purged.
    fn name(&self) -> String;

    /// Carries out a purge. Blocks until it is done.
    ///
    /// # Errors
    /// [`EdgePurgeError`].
    fn purge(&self, purge: &FleetPurge) -> Result<EdgeFound, EdgePurgeError>;
}

/// What an edge has purged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeFound {
    /// Films.
    pub films: u64,
    /// Other responses.
    pub responses: u64,
}

/// Why an edge has not carried out a purge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgePurgeError {
    /// It would refuse the same purge again: its own rules don't allow it.
    #[error("{0}")]
    Refused(String),
    /// It can't be reached, or not at present.
    #[error("{0}")]
    Trouble(String),
}

/// The part that survives the agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SavedPurges {
    /// [`EdgeServer::name`].
    edge: String,
    /// The fleet's epoch that `done` is of; 0 until a gateway has answered.
    epoch: u64,
    /// All orders up to this number are done.
    done: u64,
    receipts: VecDeque<EdgeReceipt>,
}

#[derive(Debug, Default)]
struct PurgeWork {
    saved: SavedPurges,
    /// Orders to carry out, by number.
    orders: BTreeMap<u64, FleetPurge>,
    /// Orders up to this number of this epoch are missed: purge everything.
    missed: Option<MissedPurges>,
    trouble: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct MissedPurges {
    epoch: u64,
    last: u64,
}

/// The next thing to do.
enum PurgeTask {
    Everything(MissedPurges),
    Order(u64, FleetPurge),
}

/// Carries out the fleet's purges.
#[derive(Debug)]
pub(crate) struct EdgePurging {
    edge: Arc<dyn EdgeServer>,
    place: PathBuf,
    work: Mutex<PurgeWork>,
    wakeup: Wakeup,
}

impl EdgePurging {
    /// Loads what is done already, from the agent's state folder.
    pub(crate) fn open(edge: Arc<dyn EdgeServer>, state: &std::path::Path) -> Self {
        let place = state.join(PLACE);
        let saved = persistence::read_json::<SavedPurges>(&place);
        let saved = saved.filter(|saved| saved.edge == edge.name());
        let saved =
            saved.unwrap_or_else(|| SavedPurges { edge: edge.name(), ..SavedPurges::default() });
        let work = Mutex::new(PurgeWork { saved, ..PurgeWork::default() });
        Self { edge, place, work, wakeup: Wakeup::default() }
    }

    /// Starts the thread. It need not be waited for: a purge that is not saved is repeated.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        let purging = Arc::clone(self);
        let run = move || purging.run();
        std::thread::Builder::new().name("purges".into()).spawn(run).map(drop)
    }

    /// Stops the thread after the present purge.
    pub(crate) fn stop(&self) {
        self.wakeup.stop();
    }

    /// The progress, with the receipts after the one of this number.
    pub(crate) fn progress(&self, known: u64) -> EdgeProgress {
        let work = self.work();
        let SavedPurges { epoch, done, receipts, .. } = &work.saved;
        let lacking = receipts.iter().filter(|receipt| receipt.number > known);
        EdgeProgress {
            epoch: *epoch,
            done: *done,
            receipts: lacking.take(EDGE_RECEIPTS_MAX).cloned().collect(),
            trouble: work.trouble.clone(),
        }
    }

    /// Takes a gateway's answer, which may be older than another gateway's.
    pub(crate) fn handle(&self, answer: PurgeOrders) {
        let mut work = self.work();
        let own = work.saved.epoch;
        if answer.epoch < own {
            return;
        }
        if (own != 0 && answer.epoch != own) || work.saved.done < answer.dropped {
            work.missed = Some(MissedPurges { epoch: answer.epoch, last: answer.last });
            work.orders.clear();
        } else {
            work.saved.epoch = answer.epoch;
            let (done, PurgeOrders { orders, .. }) = (work.saved.done, answer);
            let news = orders.into_iter().filter(|order| order.number > done);
            work.orders.extend(news.map(|order| (order.number, order.purge)));
            while work.orders.len() > ORDERS_PER_ANSWER_MAX {
                work.orders.pop_last();
            }
        }
        drop(work);
        self.wakeup.wake();
    }

    fn run(&self) {
        while !self.wakeup.is_stopped() {
            let Some(task) = self.next() else {
                self.wakeup.wait(Duration::from_secs(3600));
                continue;
            };
            let outcome = match &task {
                PurgeTask::Everything(_) => self.edge.purge(&FleetPurge::everything()),
                PurgeTask::Order(_, purge) => self.edge.purge(purge),
            };
            if !self.settle(task, outcome) {
                self.wakeup.pause(RETRY);
            }
        }
    }

    fn next(&self) -> Option<PurgeTask> {
        let mut work = self.work();
        if let Some(missed) = work.missed {
            return Some(PurgeTask::Everything(missed));
        }
        let (number, purge) = work.orders.first_key_value()?;
        if *number == work.saved.done + 1 {
            return Some(PurgeTask::Order(*number, purge.clone()));
        }
        // The next answer has those in between.
        work.orders.clear();
        None
    }

    /// Notes how a task has ended. Returns whether it is done.
    fn settle(&self, task: PurgeTask, outcome: Result<EdgeFound, EdgePurgeError>) -> bool {
        let (found, refused) = match (outcome, &task) {
            (Ok(found), _) => (found, None),
            (Err(EdgePurgeError::Refused(why)), PurgeTask::Order(..)) => {
                (EdgeFound::default(), Some(bounded(why)))
            }
            (Err(error), _) => {
                self.note_trouble(bounded(error.to_string()));
                return false;
            }
        };
        let EdgeFound { films, responses } = found;
        let mut work = self.work();
        work.trouble = None;
        let (number, is_everything) = match task {
            PurgeTask::Everything(MissedPurges { epoch, last }) => {
                (work.saved.epoch, work.missed) = (epoch, None);
                // Other epochs have other orders.
                work.saved.receipts.clear();
                (last, true)
            }
            PurgeTask::Order(number, _) => (number, false),
        };
        work.saved.done = number;
        work.orders = work.orders.split_off(&(number + 1));
        crate::tell(&match (&refused, is_everything) {
            (Some(why), _) => format!("the edge refuses purge {number} of the fleet: {why}"),
            (None, true) => format!(
                "the edge has purged everything, because purges up to number {number} of the fleet were missed: {films} films, {responses} other responses"
            ),
            (None, false) => format!(
                "the edge has carried out purge {number} of the fleet: {films} films, {responses} other responses"
            ),
        });
        let receipt = EdgeReceipt { number, films, responses, is_everything, refused };
        work.saved.receipts.push_back(receipt);
        while work.saved.receipts.len() > RECEIPTS_MAX {
            work.saved.receipts.pop_front();
        }
        let saved = work.saved.clone();
        drop(work);
        if let Err(error) = persistence::write_json(&self.place, &saved) {
            crate::tell(&format!(
                "cannot save that purge {number} is done, so it is repeated after a restart: {error}"
            ));
        }
        true
    }

    fn note_trouble(&self, why: String) {
        let mut work = self.work();
        if work.trouble.as_ref() != Some(&why) {
            crate::tell(&format!("the edge does not carry out the fleet's purges yet: {why}"));
            work.trouble = Some(why);
        }
    }

    fn work(&self) -> MutexGuard<'_, PurgeWork> {
        lock(&self.work)
    }
}

/// A text that fits into a report.
fn bounded(mut text: String) -> String {
    let end = (0..=EDGE_TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_protocol::{PurgeOrder, PurgeTarget};
    use tempfile::TempDir;

    /// An edge that notes purges, and fails as it is set.
    #[derive(Debug, Default)]
    struct NotingEdge {
        purged: Mutex<Vec<FleetPurge>>,
        answer: Mutex<Option<EdgePurgeError>>,
    }

    impl EdgeServer for NotingEdge {
        fn name(&self) -> String {
            "edge".to_owned()
        }

        fn purge(&self, purge: &FleetPurge) -> Result<EdgeFound, EdgePurgeError> {
            if let Some(error) = lock(&self.answer).clone() {
                return Err(error);
            }
            lock(&self.purged).push(purge.clone());
            Ok(EdgeFound { films: 1, responses: 2 })
        }
    }

    struct EdgeBox {
        edge: Arc<NotingEdge>,
        folder: TempDir,
        purging: EdgePurging,
    }

    impl EdgeBox {
        fn new() -> Self {
            let (edge, folder) = (Arc::<NotingEdge>::default(), tempfile::tempdir().unwrap());
            let purging = EdgePurging::open(edge.clone(), folder.path());
            Self { edge, folder, purging }
        }

        fn restart(&mut self) {
            self.purging = EdgePurging::open(self.edge.clone(), self.folder.path());
        }

        /// Works until nothing is left, or the edge doesn't.
        fn work(&self) {
            while let Some(task) = self.purging.next() {
                let outcome = match &task {
                    PurgeTask::Everything(_) => self.edge.purge(&FleetPurge::everything()),
                    PurgeTask::Order(_, purge) => self.edge.purge(purge),
                };
                if !self.purging.settle(task, outcome) {
                    return;
                }
            }
        }

        fn purged(&self) -> Vec<FleetPurge> {
            std::mem::take(&mut lock(&self.edge.purged))
        }
    }

    fn purge(number: u64) -> FleetPurge {
        let urls = vec![format!("/{number}")];
        FleetPurge { target: PurgeTarget::Urls(urls), is_soft: false }
    }

    fn answer(epoch: u64, dropped: u64, numbers: std::ops::RangeInclusive<u64>) -> PurgeOrders {
        let last = *numbers.end();
        let orders = numbers.map(|number| PurgeOrder { number, purge: purge(number) }).collect();
        PurgeOrders { epoch, last, dropped, orders, known: 0 }
    }

    #[test]
    fn orders_are_carried_out_once_in_their_sequence_whatever_gateways_repeat() {
        let mut own = EdgeBox::new();
        own.purging.handle(answer(1, 0, 1..=3));
        own.purging.handle(answer(1, 0, 1..=2));
        own.work();
        own.purging.handle(answer(1, 0, 1..=3));
        own.purging.handle(answer(1, 0, 5..=6));
        own.work();
        assert_eq!(own.purged(), [1, 2, 3].map(purge), "4 is not known yet");
        own.restart();
        own.purging.handle(answer(1, 0, 3..=5));
        own.work();
        assert_eq!(own.purged(), [4, 5].map(purge));
        let progress = own.purging.progress(3);
        assert_eq!((progress.epoch, progress.done, progress.trouble), (1, 5, None));
        let numbers: Vec<_> = progress.receipts.iter().map(|receipt| receipt.number).collect();
        assert_eq!((numbers, progress.receipts[0].films), (vec![4, 5], 1));
    }

    #[test]
    fn a_box_that_missed_orders_or_is_of_another_epoch_purges_everything() {
        let own = EdgeBox::new();
        own.purging.handle(answer(1, 4, 5..=6));
        own.work();
        assert_eq!(own.purged(), [FleetPurge::everything()]);
        let progress = own.purging.progress(0);
        assert_eq!((progress.done, progress.receipts.len()), (6, 1));
        assert!(progress.receipts[0].is_everything && progress.receipts[0].number == 6);
        own.purging.handle(answer(2, 0, 1..=1));
        own.work();
        assert_eq!(own.purged(), [FleetPurge::everything()], "a backup was restored");
        assert_eq!((own.purging.progress(0).epoch, own.purging.progress(0).done), (2, 1));
        own.purging.handle(answer(1, 9, 10..=10));
        own.work();
        assert!(own.purged().is_empty(), "this gateway has an old copy");
    }

    #[test]
    fn an_edge_that_is_away_gets_its_orders_later_and_what_it_refuses_is_not_repeated() {
        let own = EdgeBox::new();
        let away = EdgePurgeError::Trouble("no server answers".to_owned());
        *lock(&own.edge.answer) = Some(away);
        own.purging.handle(answer(1, 0, 1..=2));
        own.work();
        let progress = own.purging.progress(0);
        assert_eq!((progress.done, progress.trouble.as_deref()), (0, Some("no server answers")));
        *lock(&own.edge.answer) = Some(EdgePurgeError::Refused("é".repeat(300)));
        own.work();
        let progress = own.purging.progress(0);
        assert_eq!((progress.done, progress.trouble), (2, None));
        let refused = progress.receipts[0].refused.as_ref().unwrap();
        assert_eq!(refused.len(), EDGE_TEXT_BYTES_MAX);
        *lock(&own.edge.answer) = None;
        own.purging.handle(answer(1, 0, 1..=3));
        own.work();
        assert_eq!(own.purged(), [purge(3)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_is_of_one_edge() {
        let own = EdgeBox::new();
        for first in (1..=201).step_by(20) {
            own.purging.handle(answer(1, 0, first..=first + 19));
            own.purging.handle(answer(1, 0, first..=first + 39));
            assert!(own.purging.work().orders.len() <= ORDERS_PER_ANSWER_MAX);
            own.work();
        }
        assert_eq!(own.purging.work().saved.receipts.len(), RECEIPTS_MAX);
        assert_eq!(own.purging.progress(0).receipts.len(), EDGE_RECEIPTS_MAX);
        let place = own.folder.path().join(PLACE);
        let text =
            std::fs::read_to_string(&place).unwrap().replace("\"edge\":\"edge\"", "\"edge\":\"x\"");
        std::fs::write(&place, text).unwrap();
        let other = EdgePurging::open(own.edge.clone(), own.folder.path());
        assert_eq!(other.progress(0), EdgeProgress::default(), "the file is another edge's");
    }
}
