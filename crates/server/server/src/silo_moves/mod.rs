//! One worker's part in moving connections between silos (`--silo disk`): finding a file's silo, choosing a worker to send a
//! connection to, and taking connections from other workers.
//!
//! `session/moving` decides when a connection moves, and `delivery::ConnectionState` is the state that moves with it.

mod inbox;

pub(crate) use inbox::{Reason, Refused};

use crate::session::MovingSession;
use inbox::{Inbox, Offer};
use reactor::{Woken, timeout_at};
use silo_map::SiloMap;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// How long a connection may wait until a worker of the other silo answers. A worker checks its inbox in each turn of its loop, which
/// takes milliseconds under load: a worker that does not answer in this time hangs, and the viewer's player has not noticed yet. An assumption.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// How long a worker that did not answer gets no offers, so that not every connection has to wait for it. An assumption.
const SHUNNED_FOR: Duration = Duration::from_secs(5);

/// Label for a connection that stays, because no worker took or refused it in time.
const UNANSWERED: Reason = "unanswered";

/// All workers' inboxes, by worker.
pub(crate) type Inboxes<T = Box<MovingSession>> = Arc<[Inbox<T>]>;

/// One worker's means to send and receive connections.
pub(crate) struct Moves<T = Box<MovingSession>> {
    map: Arc<SiloMap>,
    worker: usize,
    inboxes: Inboxes<T>,
    /// The number of connections it has sent: workers of a silo get them in turn.
    sent: Cell<usize>,
    /// Until when each worker gets no offers, because it did not answer one.
    shunned_until: RefCell<Vec<Option<Instant>>>,
    /// Sessions that wait for an answer.
    waiting: RefCell<Vec<Waker>>,
}

/// Makes an inbox for each of `workers` workers.
///
/// # Errors
/// If no file descriptor is left.
pub(crate) fn inboxes<T>(workers: usize) -> io::Result<Inboxes<T>> {
    (0..workers).map(|_| Inbox::new()).collect()
}

impl<T> Moves<T> {
    /// The part of `worker`.
    pub(crate) fn new(map: Arc<SiloMap>, worker: usize, inboxes: Inboxes<T>) -> Self {
        // Each worker starts with a different one, so that they don't all send to the same worker.
        let sent = Cell::new(worker);
        let shunned_until = RefCell::new(vec![None; inboxes.len()]);
        Self { map, worker, inboxes, sent, shunned_until, waiting: RefCell::default() }
    }

    /// The silo of a disk, if it differs from this worker's.
    pub(crate) fn elsewhere(&self, device: u64) -> Option<usize> {
        let silo = self.map.of_device(device)?;
        (silo != self.map.of_worker(self.worker)).then_some(silo)
    }

    /// Offers a connection to the workers of `silo`, one after the other, until one takes it, or until one does not answer. Skips workers
    /// that recently did not answer.
    ///
    /// # Errors
    /// The connection, and why the last worker did not take it.
    pub(crate) async fn send(&self, moving: T, silo: usize) -> Result<(), Refused<T>> {
        let workers = self.map.workers_of(silo);
        let turn = self.sent.replace(self.sent.get().wrapping_add(1));
        let mut refused = (moving, UNANSWERED);
        for place in 0..workers.len() {
            let worker = workers[turn.wrapping_add(place) % workers.len()];
            let now = Instant::now();
            if self.shunned_until.borrow()[worker].is_some_and(|until| until > now) {
                continue;
            }
            match self.offer(refused.0, worker, now + ANSWER_WITHIN).await {
                Err((moving, UNANSWERED)) => {
                    self.shunned_until.borrow_mut()[worker] = Some(Instant::now() + SHUNNED_FOR);
                    return Err((moving, UNANSWERED));
                }
                Err(again) => refused = again,
                Ok(()) => return Ok(()),
            }
        }
        Err(refused)
    }

    async fn offer(&self, moving: T, receiver: usize, deadline: Instant) -> Result<(), Refused<T>> {
        let offer = self.inboxes[receiver].offer(moving, &self.inboxes[self.worker])?;
        if let Ok(answer) = timeout_at(deadline, self.answer(&offer)).await {
            return answer;
        }
        match offer.withdraw() {
            Some(moving) => Err((moving, UNANSWERED)),
            // The receiver is deciding.
            None => self.answer(&offer).await,
        }
    }

    /// Waits for the answer to an offer.
    async fn answer(&self, offer: &Offer<T>) -> Result<(), Refused<T>> {
        poll_fn(|cx| match offer.answer() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Wakes the worker; returned once.
    pub(crate) fn take_woken(&self) -> Option<Woken> {
        self.inboxes[self.worker].take_woken()
    }

    /// After a wake-up: answers other workers' offers with `take`, and wakes the sessions to check their answers.
    pub(crate) fn look(&self, mut take: impl FnMut(T) -> Result<(), Refused<T>>) {
        self.waiting.take().into_iter().for_each(Waker::wake);
        self.inboxes[self.worker].take_out().iter().for_each(|offer| offer.decide(&mut take));
    }

    /// Takes no more connections.
    pub(crate) fn close(&self) {
        self.inboxes[self.worker].close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;
    use machine::{Machine, Topology};
    use reactor::{Reactor, RingOptions, spawn};
    use std::path::Path;
    use std::rc::Rc;

    /// Two workers in one silo: the first sends, the second answers or does not.
    fn moves() -> [Rc<Moves<u32>>; 2] {
        let topology = Topology::open_from(Path::new("/nowhere"));
        let map = SiloMap::new(&Config::default(), &Machine::probe(), &topology, &[], 2).unwrap();
        let (map, inboxes) = (Arc::new(map), inboxes(2).unwrap());
        [0, 1].map(|worker| Rc::new(Moves::new(Arc::clone(&map), worker, Arc::clone(&inboxes))))
    }

    #[test]
    fn a_connection_comes_back_from_a_worker_that_hangs_and_is_not_taken_when_that_goes_on() {
        let test = async {
            let [here, there] = moves();
            let asked_at = Instant::now();
            let deadline = asked_at + Duration::from_millis(50);
            assert_eq!(here.offer(7, 1, deadline).await, Err((7, "unanswered")));
            assert!(asked_at.elapsed() >= Duration::from_millis(50));
            there.look(|_| panic!("its sender has it"));
        };
        Reactor::new(RingOptions::default()).unwrap().run(test).unwrap();
    }

    #[test]
    fn a_worker_that_hangs_is_left_out_for_a_while() {
        let test = async {
            let [here, there] = moves();
            // Both are in one silo, and the other one has its turn first.
            here.sent.set(1);
            assert_eq!(here.send(7, 0).await, Err((7, "unanswered")));
            let until = here.shunned_until.borrow()[1];
            here.shunned_until.borrow_mut()[0] = until;
            assert_eq!(here.send(8, 0).await, Err((8, "unanswered")));
            assert_eq!(*here.shunned_until.borrow(), [until, until], "no worker was asked");
            there.look(|_| panic!("its sender has it"));
        };
        Reactor::new(RingOptions::default()).unwrap().run(test).unwrap();
    }

    #[test]
    fn a_connection_that_is_taken_in_time_is_gone() {
        let test = async {
            let [here, there] = moves();
            let (woken, of_sender) = (there.take_woken().unwrap(), here.take_woken().unwrap());
            spawn(async move {
                let answering = woken.each(|| {
                    there.look(|what| if what == 7 { Ok(()) } else { Err((what, "memory")) });
                    true
                });
                answering.await.unwrap();
            });
            let sender = Rc::clone(&here);
            spawn(async move {
                let answered = of_sender.each(|| {
                    sender.look(|_| panic!("nothing was offered"));
                    true
                });
                answered.await.unwrap();
            });
            let soon = || Instant::now() + Duration::from_secs(10);
            assert_eq!(here.offer(7, 1, soon()).await, Ok(()));
            assert_eq!(here.offer(8, 1, soon()).await, Err((8, "memory")));
        };
        Reactor::new(RingOptions::default()).unwrap().run(test).unwrap();
    }
}
