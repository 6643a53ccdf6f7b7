//! Responses that are no objects, on their way to the one viewer who requested each.
//!
//! A session draws a [`Ticket`], and the helper's answer is for that ticket alone. The helper decides which viewers may share a stored
//! response. If the session ends first, its ticket does, too, and the answer is dropped when it arrives.

use super::NoAnswer;
use super::cached::Live;
use super::fair_queue::{FairQueue, QueueFull, QueueLimits};
use disk::PresentBlocks;
use edge::contract::{EdgeAsk, ForwardedRequest, PassedResponse, Trouble};
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// The helper fetches 16 such answers at a time. One client leaves a quarter of the places to others.
const TURNS: QueueLimits = QueueLimits {
    under_way_max: 16,
    under_way_by_client_max: 12,
    waiting_bytes_max: 2 << 20,
    waiting_bytes_by_client_max: 768 << 10,
};

/// All waiting viewers.
pub(super) struct Passing {
    asked: Mutex<Asked>,
    bytes: Arc<AtomicU64>,
    /// Space on the cache's disk for responses that are not stored. Slow viewers hold theirs for a long time.
    bytes_max: u64,
}

struct Asked {
    questions: HashMap<u64, Question>,
    queue: FairQueue<u64>,
    last: u64,
}

struct Question {
    path: String,
    asker: u64,
    request: Box<ForwardedRequest>,
    is_under_way: bool,
    answer: Option<Result<ForOne, NoAnswer>>,
}

/// One viewer's answer.
pub(crate) struct ForOne {
    /// The response.
    pub(crate) response: PassedResponse,
    /// Its file, unless it is empty.
    pub(super) live: Option<Arc<Live>>,
    pub(super) taken: Taken,
}

/// Space that is returned when this is dropped.
pub(crate) struct Taken {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Relaxed);
    }
}

/// A viewer's question.
pub(super) struct Ticket<'a> {
    pub(super) number: u64,
    /// Set if it displaced other questions, whose waiters must be woken.
    pub(super) has_displaced: bool,
    passing: &'a Passing,
}

impl Ticket<'_> {
    /// The answer, once it has arrived.
    pub(super) fn answer(&self) -> Option<Result<ForOne, NoAnswer>> {
        self.passing.asked().questions.get_mut(&self.number)?.answer.take()
    }

    /// Whether the question has been sent to the helper.
    pub(super) fn is_under_way(&self) -> bool {
        let asked = self.passing.asked();
        asked.questions.get(&self.number).is_some_and(|question| question.is_under_way)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut asked = self.passing.asked();
        // A question that the helper works on keeps its place until it is done: the origin works for it.
        asked.queue.withdraw(&self.number);
        let _unclaimed = asked.questions.remove(&self.number);
    }
}

impl Passing {
    /// With this much space for responses that viewers have not received yet.
    pub(super) fn new(bytes_max: u64) -> Self {
        let asked = Asked { questions: HashMap::new(), queue: FairQueue::new(TURNS), last: 0 };
        Self { asked: Mutex::new(asked), bytes: Arc::default(), bytes_max }
    }

    /// Queues a question of a viewer of `client`. It is sent once [`Self::next`] returns it.
    ///
    /// # Errors
    /// If the queue is full.
    pub(super) fn begin(
        &self,
        path: String,
        (asker, request): (u64, ForwardedRequest),
        client: IpAddr,
    ) -> Result<Ticket<'_>, QueueFull> {
        let mut asked = self.asked();
        let number = asked.last + 1;
        let displaced = asked.queue.ask(
            &number,
            path.len() + request.fields.bytes() + request.body.len(),
            client,
        )?;
        asked.last = number;
        let has_displaced = !displaced.is_empty();
        for other in displaced {
            if let Some(question) = asked.questions.get_mut(&other) {
                question.answer = Some(Err(NoAnswer::QueueFull(QueueFull::Full)));
            }
        }
        let request = Box::new(request);
        let question = Question { path, asker, request, is_under_way: false, answer: None };
        asked.questions.insert(number, question);
        Ok(Ticket { number, has_displaced, passing: self })
    }

    /// The next question for the helper, if one may be sent now.
    pub(super) fn next(&self) -> Option<EdgeAsk> {
        let mut asked = self.asked();
        let ticket = asked.queue.next()?;
        let question = asked.questions.get_mut(&ticket)?;
        question.is_under_way = true;
        let (path, asker) = (std::mem::take(&mut question.path), question.asker);
        let request = std::mem::take(&mut question.request);
        Some(EdgeAsk::Pass { path, ticket, asker, request })
    }

    /// Number of questions waiting for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.asked().queue.waiting()
    }

    /// The helper's answer. Returns its file's blocks if they are still to be announced.
    pub(super) fn take(
        &self,
        ticket: u64,
        response: PassedResponse,
        file: Option<OwnedFd>,
    ) -> Option<Arc<Live>> {
        let size = response.size.unwrap_or(0);
        // A stored response is part of the cache. The bound comes first: a long response's blocks take memory.
        let bytes = if response.is_hit { 0 } else { size };
        let before = self.bytes.fetch_add(bytes, Relaxed);
        let taken = Taken { bytes, of: Arc::clone(&self.bytes) };
        if before.saturating_add(bytes) > self.bytes_max {
            self.refuse(ticket, Trouble::Full);
            return None;
        }
        let live = match (size, file) {
            (0, _) => None,
            // Out of descriptors: the kernel has dropped it.
            (_, None) => {
                self.refuse(ticket, Trouble::Full);
                return None;
            }
            (_, Some(file)) => {
                let arrived = PresentBlocks::new(size);
                if response.is_complete {
                    arrived.note(0..u64::MAX);
                }
                Some(Arc::new(Live::new(response.object, file, arrived)))
            }
        };
        let arriving = live.clone().filter(|_| !response.is_complete);
        self.put(ticket, Ok(ForOne { response, live, taken }));
        arriving
    }

    /// There is no answer for this ticket.
    pub(super) fn refuse(&self, ticket: u64, why: Trouble) {
        self.put(ticket, Err(why.into()));
    }

    /// Drops the questions of a helper that has ended.
    pub(super) fn forget(&self) {
        let mut asked = self.asked();
        asked.queue.clear();
        for question in asked.questions.values_mut() {
            question.answer.get_or_insert(Err(Trouble::Unreachable.into()));
        }
    }

    fn put(&self, ticket: u64, answer: Result<ForOne, NoAnswer>) {
        let mut asked = self.asked();
        asked.queue.finish(&ticket);
        if let Some(question) = asked.questions.get_mut(&ticket) {
            question.answer = Some(answer);
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().expect("no holder of this lock can panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn told(passing: &Passing, ticket: u64, size: u64) {
        let response = PassedResponse {
            object: 1 << 63,
            status: 200,
            fields: edge::http_cache::Fields::default(),
            size: Some(size),
            age_ms: None,
            is_complete: true,
            is_hit: false,
            failure: None,
        };
        passing.take(ticket, response, Some(tempfile::tempfile().unwrap().into()));
    }

    fn asked() -> (u64, ForwardedRequest) {
        (1, ForwardedRequest::get())
    }

    const BYTES_MAX: u64 = 256 << 20;

    #[test]
    fn an_answer_is_for_one_ticket_and_its_room_is_given_back() {
        let passing = Passing::new(BYTES_MAX);
        let [first, second] =
            [0, 1].map(|_| passing.begin("/a".into(), asked(), client(1)).unwrap());
        assert!(first.answer().is_none());
        told(&passing, first.number, BYTES_MAX - 1);
        assert!(second.answer().is_none());
        let held = first.answer().unwrap().ok();
        assert!(held.is_some() && first.answer().is_none());
        told(&passing, second.number, 2);
        assert_eq!(second.answer().unwrap().err(), Some(Trouble::Full.into()));
        drop(held);
        told(&passing, second.number, 2);
        assert!(second.answer().unwrap().is_ok());
        let gone = first.number;
        drop(first);
        told(&passing, gone, BYTES_MAX);
        assert_eq!(passing.bytes.load(Relaxed), 0, "no viewer waits for it");
    }

    #[test]
    fn who_waits_is_bounded_and_is_answered_when_the_helper_is_gone() {
        let passing = Passing::new(BYTES_MAX);
        let begin = |last| passing.begin("/a".into(), asked(), client(last));
        let tickets: Vec<_> = std::iter::from_fn(|| begin(1).ok()).take(1 << 20).collect();
        assert!((100..1000).contains(&tickets.len()), "{}", tickets.len());
        assert_eq!(begin(1).err(), Some(QueueFull::ClientFull));
        assert!(begin(2).is_ok(), "another client has a line of its own");
        let under_way = std::iter::from_fn(|| passing.next()).count();
        assert_eq!(under_way, TURNS.under_way_by_client_max);
        assert!(tickets[0].is_under_way() && !tickets[under_way].is_under_way());
        passing.forget();
        assert_eq!(tickets[0].answer().unwrap().err(), Some(Trouble::Unreachable.into()));
        drop(tickets);
        assert!(begin(1).is_ok());
    }

    #[test]
    fn a_viewer_who_leaves_takes_its_question_along_unless_the_helper_has_it() {
        let passing = Passing::new(BYTES_MAX);
        let first = passing.begin("/a".into(), asked(), client(1)).unwrap();
        assert!(passing.next().is_some());
        let number = first.number;
        drop(first);
        assert_eq!(passing.asked().queue.waiting(), 0);
        drop(passing.begin("/b".into(), asked(), client(1)).unwrap());
        assert!(passing.next().is_none(), "it is forgotten");
        passing.refuse(number, Trouble::NotFound);
        let places = (0..20).map(|_| passing.begin("/c".into(), asked(), client(1)).unwrap());
        let _places: Vec<_> = places.collect();
        let under_way = std::iter::from_fn(|| passing.next()).count();
        assert_eq!(under_way, TURNS.under_way_by_client_max, "no place was lost");
    }
}
