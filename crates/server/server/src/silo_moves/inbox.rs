//! A worker's inbox: connections that other workers offer it, and its answers.
//!
//! The sender keeps its offer's place until it has the answer. The receiver takes the offer, or refuses it, and then
//! the sender has it back. So nothing is lost and no worker is forced to take an offer, whichever of the two ends first. A sender that has
//! no answer may take its offer back.
//!
//! Only offers and answers are under locks, each held for a few instructions. A wake-up goes each way ([`Remote`]).

use reactor::{Remote, Woken, remote};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// How many offers may wait. A worker checks its inbox in each turn of its loop, so more than a few wait only while it is
/// overloaded.
const OFFERS_MAX: usize = 256;

/// Why something was refused: a counter's label.
pub(crate) type Reason = &'static str;

/// A refused offer, and the reason.
pub(crate) type Refused<T> = (T, Reason);

/// Other workers' offers to one worker.
pub(crate) struct Inbox<T> {
    offers: Mutex<Offers<T>>,
    remote: Remote,
    /// The end that wakes its worker, until the worker takes it.
    woken: Mutex<Option<Woken>>,
}

struct Offers<T> {
    is_open: bool,
    waiting: Vec<Arc<Offer<T>>>,
}

/// Something offered to another worker.
pub(crate) struct Offer<T> {
    stage: Mutex<Stage<T>>,
    sender: Remote,
}

enum Stage<T> {
    Open(T),
    /// The receiver is deciding, or the sender has it back.
    Gone,
    Taken,
    Refused(Refused<T>),
}

impl<T> Inbox<T> {
    /// An empty inbox.
    ///
    /// # Errors
    /// If no file descriptor is left.
    pub(crate) fn new() -> io::Result<Self> {
        let (remote, woken) = remote()?;
        let offers = Mutex::new(Offers { is_open: true, waiting: Vec::new() });
        Ok(Self { offers, remote, woken: Mutex::new(Some(woken)) })
    }

    /// Wakes its worker; returned once.
    pub(crate) fn take_woken(&self) -> Option<Woken> {
        self.woken.lock().expect("no holder of this lock can panic").take()
    }

    /// Offers `what`. The sender, whose inbox is `sender`, is woken when it is answered.
    ///
    /// # Errors
    /// `what`, if there is no room for it or its worker is ending.
    pub(crate) fn offer(&self, what: T, sender: &Self) -> Result<Arc<Offer<T>>, Refused<T>> {
        let mut offers = self.lock();
        if !offers.is_open {
            return Err((what, "draining"));
        }
        if offers.waiting.len() >= OFFERS_MAX {
            return Err((what, "inbox_full"));
        }
        let stage = Mutex::new(Stage::Open(what));
        let offer = Arc::new(Offer { stage, sender: sender.remote.clone() });
        offers.waiting.push(Arc::clone(&offer));
        drop(offers);
        self.remote.wake();
        Ok(offer)
    }

    /// Takes out all offers. Each one has to be answered.
    pub(crate) fn take_out(&self) -> Vec<Arc<Offer<T>>> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// Refuses all present and future offers.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut offers = self.lock();
            offers.is_open = false;
            std::mem::take(&mut offers.waiting)
        };
        waiting.iter().for_each(|offer| offer.decide(|what| Err((what, "draining"))));
    }

    fn lock(&self) -> MutexGuard<'_, Offers<T>> {
        self.offers.lock().expect("no holder of this lock can panic")
    }
}

impl<T> Offer<T> {
    /// The receiver's decision: `take` takes the offer, or returns it with a reason.
    pub(crate) fn decide(&self, take: impl FnOnce(T) -> Result<(), Refused<T>>) {
        let Stage::Open(what) = std::mem::replace(&mut *self.lock(), Stage::Gone) else { return };
        let mut answer = Answer { offer: self, stage: Stage::Taken };
        if let Err(refused) = take(what) {
            answer.stage = Stage::Refused(refused);
        }
    }

    /// Stops waiting: the sender gets its offer back, unless the receiver is deciding or has decided. In that case the answer
    /// arrives at once.
    pub(crate) fn withdraw(&self) -> Option<T> {
        let mut stage = self.lock();
        match std::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Open(what) => Some(what),
            decided => {
                *stage = decided;
                None
            }
        }
    }

    /// The answer, if there is one. A refused offer is returned once.
    pub(crate) fn answer(&self) -> Option<Result<(), Refused<T>>> {
        let mut stage = self.lock();
        match std::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Taken => Some(Ok(())),
            Stage::Refused(refused) => Some(Err(refused)),
            undecided => {
                *stage = undecided;
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stage<T>> {
        self.stage.lock().expect("no holder of this lock can panic")
    }
}

/// Answers when dropped, so also if the receiver panics: the offer is lost then, and the sender must not wait for it.
struct Answer<'a, T> {
    offer: &'a Offer<T>,
    stage: Stage<T>,
}

impl<T> Drop for Answer<'_, T> {
    fn drop(&mut self) {
        *self.offer.lock() = std::mem::replace(&mut self.stage, Stage::Gone);
        self.offer.sender.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> Inbox<u32> {
        Inbox::new().unwrap()
    }

    #[test]
    fn an_offer_is_taken_or_comes_back_with_the_reason() {
        let (here, there) = (inbox(), inbox());
        let offers = [7, 8].map(|what| there.offer(what, &here).unwrap_or_else(|_| panic!()));
        assert!(offers.iter().all(|offer| offer.answer().is_none()));
        for offer in there.take_out() {
            offer.decide(|what| if what == 7 { Ok(()) } else { Err((what, "memory")) });
        }
        assert_eq!(offers[0].answer(), Some(Ok(())));
        assert_eq!(offers[1].answer(), Some(Err((8, "memory"))));
        assert!(offers[1].answer().is_none(), "what came back came back once");
        assert!(there.take_out().is_empty());
    }

    #[test]
    fn a_full_inbox_refuses_and_has_room_again_when_it_was_emptied() {
        let (here, there) = (inbox(), inbox());
        let offered: Vec<_> = (0..OFFERS_MAX as u32).map(|n| there.offer(n, &here)).collect();
        assert!(offered.iter().all(Result::is_ok));
        assert!(matches!(there.offer(1, &here), Err((1, "inbox_full"))));
        assert_eq!(there.take_out().len(), OFFERS_MAX);
        assert!(there.offer(1, &here).is_ok());
    }

    #[test]
    fn a_worker_that_ends_gives_everything_back() {
        let (here, there) = (inbox(), inbox());
        let waiting = there.offer(1, &here).unwrap_or_else(|_| panic!());
        there.close();
        assert_eq!(waiting.answer(), Some(Err((1, "draining"))));
        assert!(matches!(there.offer(2, &here), Err((2, "draining"))));
    }

    #[test]
    fn a_receiver_that_panics_leaves_no_sender_waiting() {
        let (here, there) = (inbox(), inbox());
        let offer = there.offer(1, &here).unwrap_or_else(|_| panic!());
        let panics = || there.take_out().iter().for_each(|offer| offer.decide(|_| panic!("no")));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(offer.answer(), Some(Ok(())));
    }

    #[test]
    fn an_offer_that_is_withdrawn_is_not_decided_on_and_one_that_is_decided_on_is_not_withdrawn() {
        let (here, there) = (inbox(), inbox());
        let offer = there.offer(1, &here).unwrap_or_else(|_| panic!());
        assert_eq!(offer.withdraw(), Some(1));
        there.take_out().iter().for_each(|offer| offer.decide(|_| panic!("it was withdrawn")));
        assert!(offer.answer().is_none() && offer.withdraw().is_none());
        let offer = there.offer(2, &here).unwrap_or_else(|_| panic!());
        for decided in there.take_out() {
            decided.decide(|_| {
                assert_eq!(offer.withdraw(), None, "the receiver has it");
                Ok(())
            });
        }
        assert_eq!(offer.withdraw(), None);
        assert_eq!(offer.answer(), Some(Ok(())));
    }

    #[test]
    fn what_is_offered_while_the_other_ends_is_answered_all_the_same() {
        for _ in 0..200 {
            let (here, there) = (inbox(), inbox());
            let answers: Vec<_> = std::thread::scope(|scope| {
                scope.spawn(|| {
                    there.take_out().iter().for_each(|offer| offer.decide(|_| Ok(())));
                    there.close();
                });
                (0..50).map(|n| (n, there.offer(n, &here))).collect()
            });
            for (n, offered) in answers {
                let answer = offered.map_or_else(|refused| Some(Err(refused)), |o| o.answer());
                assert!(matches!(answer, Some(Ok(()) | Err((_, "draining")))), "{n}: {answer:?}");
            }
        }
    }
}
