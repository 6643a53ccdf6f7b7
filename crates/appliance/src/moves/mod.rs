//! One worker's part in moving connections between silos (`--silo disk`): where a file's silo is, whom to send a
//! connection to, and what other workers send.
//!
//! `session/moving` says when a connection moves, and `delivery::Luggage` what moves with it.

mod inbox;

pub(crate) use inbox::{Reason, Refused};

use crate::session::Traveller;
use crate::silo_map::SiloMap;
use inbox::Inbox;
use reactor::Woken;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// All workers' inboxes, by worker.
pub(crate) type Inboxes = Arc<[Inbox<Box<Traveller>>]>;

/// What one worker needs to send connections and to receive them.
pub(crate) struct Moves {
    map: Arc<SiloMap>,
    worker: usize,
    inboxes: Inboxes,
    /// How many connections it has sent: workers of a silo get them in turn.
    sent: Cell<usize>,
    /// Sessions that wait for an answer.
    waiting: RefCell<Vec<Waker>>,
}

/// Makes an inbox for each of `workers` workers.
///
/// # Errors
/// If no file descriptor is left.
pub(crate) fn inboxes(workers: usize) -> io::Result<Inboxes> {
    (0..workers).map(|_| Inbox::new()).collect()
}

impl Moves {
    /// The part of `worker`.
    pub(crate) fn new(map: Arc<SiloMap>, worker: usize, inboxes: Inboxes) -> Self {
        // Workers begin with different ones, so that not all of them send to the same.
        let sent = Cell::new(worker);
        Self { map, worker, inboxes, sent, waiting: RefCell::default() }
    }

    /// The silo of a disk, if it is another than this worker's.
    pub(crate) fn elsewhere(&self, device: u64) -> Option<usize> {
        let silo = self.map.of_device(device)?;
        (silo != self.map.of_worker(self.worker)).then_some(silo)
    }

    /// Offers a connection to the workers of `silo`, one after the other, until one takes it.
    ///
    /// # Errors
    /// The connection, and why the last of them did not take it.
    pub(crate) async fn send(
        &self,
        traveller: Box<Traveller>,
        silo: usize,
    ) -> Result<(), Refused<Box<Traveller>>> {
        let workers = self.map.workers_of(silo);
        let turn = self.sent.replace(self.sent.get().wrapping_add(1));
        let mut refused = (traveller, "draining");
        for place in 0..workers.len() {
            let worker = workers[turn.wrapping_add(place) % workers.len()];
            match self.offer(refused.0, worker).await {
                Ok(()) => return Ok(()),
                Err(again) => refused = again,
            }
        }
        Err(refused)
    }

    async fn offer(
        &self,
        traveller: Box<Traveller>,
        receiver: usize,
    ) -> Result<(), Refused<Box<Traveller>>> {
        let offer = self.inboxes[receiver].offer(traveller, &self.inboxes[self.worker])?;
        poll_fn(|cx| match offer.answer() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// What wakes the worker; once.
    pub(crate) fn take_woken(&self) -> Option<Woken> {
        self.inboxes[self.worker].take_woken()
    }

    /// After a wake-up: answers what other workers offer by `take`, and has sessions look at the answers that they got.
    pub(crate) fn look(
        &self,
        mut take: impl FnMut(Box<Traveller>) -> Result<(), Refused<Box<Traveller>>>,
    ) {
        self.waiting.take().into_iter().for_each(Waker::wake);
        self.inboxes[self.worker].take_out().iter().for_each(|offer| offer.decide(&mut take));
    }

    /// Takes no more connections.
    pub(crate) fn close(&self) {
        self.inboxes[self.worker].close();
    }
}
