//! Responses that are no objects, on their way to the one viewer who requested each.
//!
//! A session draws a [`Ticket`], and the helper's answer is for that ticket alone. The helper decides which viewers may share a stored
//! response. If the session ends first, its ticket does, too, and the helper learns that nothing more of the response is needed.

use super::NoAnswer;
use super::arriving::Arriving;
use super::cached::{Growth, Live};
use super::fair_queue::{FairQueue, QueueFull, QueueLimits};
use super::held_places::{HeldPlace, HeldPlaces};
use super::response_space::{ResponseSpace, Taken};
use super::stored_space::StoredSpace;
use disk::PresentBlocks;
use edge::contract::{AskedAt, EdgeAsk, ForwardedRequest, PassedResponse, Trouble};
use edge::http_cache::is_blocking_reload;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

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
    held_places: HeldPlaces,
    /// Space on the cache's disk for responses that are not stored.
    space: Arc<ResponseSpace>,
    stored: StoredSpace,
    /// The same for those that will be stored, and grow for all viewers. One client's share must not end what others see.
    growing: Arc<ResponseSpace>,
    arriving: Arriving,
    asks: Sender<EdgeAsk>,
}

struct Asked {
    questions: HashMap<u64, Question>,
    queue: FairQueue<u64>,
    /// Those that the origin holds, outside of the queue.
    held: HashMap<u64, HeldPlace>,
    /// Those of them that are sent next.
    to_hold: VecDeque<u64>,
    last: u64,
}

impl Asked {
    /// The viewer with this ticket needs no answer any more. Returns whether the helper works on it all the same.
    fn withdraw(&mut self, ticket: u64) -> bool {
        if self.queue.withdraw(&ticket) {
            return false;
        }
        if let Some(at) = self.to_hold.iter().position(|one| *one == ticket) {
            self.to_hold.remove(at);
            self.held.remove(&ticket);
        }
        self.queue.charged(&ticket).is_some() || self.held.contains_key(&ticket)
    }
}

struct Question {
    path: String,
    client: IpAddr,
    asker: u64,
    /// When its viewer made its request.
    since: Instant,
    request: Box<ForwardedRequest>,
    is_under_way: bool,
    answer: Option<Result<ForOne, NoAnswer>>,
}

/// One viewer's answer.
pub(crate) struct ForOne {
    /// The response.
    pub(crate) response: PassedResponse,
    /// Its body, unless it is empty.
    pub(super) body: Option<Receiving>,
}

/// A short, stored response that all viewers get who wait for it, and have done so for long enough. It takes no space of its own, as in
/// [`StoredSpace`].
pub(crate) struct SharedResponse {
    /// The response.
    pub(crate) response: PassedResponse,
    /// Its body, unless it is empty.
    pub(super) live: Option<Arc<Live>>,
    told: Instant,
    /// The origin sent it so long before that.
    except: Duration,
}

impl SharedResponse {
    /// All of `response` is in the `file`; none if that is missing, because the process is out of descriptors. It is not for viewers who have come in
    /// the last `except`.
    pub(super) fn new(
        response: PassedResponse,
        file: Option<OwnedFd>,
        except: Duration,
    ) -> Option<Self> {
        let (size, told) = (response.size.unwrap_or(0), Instant::now());
        if size == 0 {
            return Some(Self { response, live: None, told, except });
        }
        let arrived = PresentBlocks::new(size);
        arrived.note(0..u64::MAX);
        let live = Some(Arc::new(Live::new(response.object, file?, arrived)));
        Some(Self { response, live, told, except })
    }

    /// Whether a viewer who made its request at `since` may have it.
    pub(super) fn is_for(&self, since: Instant) -> bool {
        self.told.saturating_duration_since(since) >= self.except
    }
}

/// The file of a response, and its space unless it grows.
type Body = (Arc<Live>, Option<Arc<Taken>>);

/// A viewer's hold on the body of its response: the file, its space, and the news about it. A message tells the
/// helper if this is dropped before all of it has arrived.
pub(super) struct Receiving {
    pub(super) live: Arc<Live>,
    _taken: Option<Arc<Taken>>,
    ticket: u64,
    asks: Sender<EdgeAsk>,
}

impl Receiving {
    /// The viewer has this many bytes of a response that comes through a ring.
    pub(super) fn took(&self, bytes: u64) {
        // If there is no receiver, the helper is gone.
        let _ = self.asks.send(EdgeAsk::Taken { ticket: self.ticket, bytes });
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.live.is_arriving() {
            // If there is no receiver, the helper is gone.
            let _ = self.asks.send(EdgeAsk::Left { ticket: self.ticket });
        }
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
        // A question that the helper works on keeps its place until that has stopped, or is done: the origin works for it.
        if asked.withdraw(self.number) {
            let _ = self.passing.asks.send(EdgeAsk::Left { ticket: self.number });
        }
        let unclaimed = asked.questions.remove(&self.number);
        drop(asked);
        drop(unclaimed);
    }
}

impl Passing {
    /// With this much space for responses that viewers have not received yet. Questions that the origin holds take places of `held_places`. Messages
    /// in `asks` tell the helper which viewers have left.
    pub(super) fn new(bytes_max: u64, held_places: HeldPlaces, asks: Sender<EdgeAsk>) -> Self {
        let (questions, held, to_hold, last) = Default::default();
        let asked = Asked { questions, queue: FairQueue::new(TURNS), held, to_hold, last };
        let [space, growing] = [0, 1].map(|_| ResponseSpace::new(bytes_max));
        // Half of the cache, if that is not small.
        let stored = StoredSpace::new(bytes_max.saturating_mul(4));
        let (asked, arriving) = (Mutex::new(asked), Arriving::default());
        Self { asked, held_places, space, stored, growing, arriving, asks }
    }

    /// Queues a question of a viewer of `client`, who made its request at `since`. It is sent once [`Self::next`] returns it.
    ///
    /// # Errors
    /// If the queue is full.
    pub(super) fn begin(
        &self,
        path: String,
        (asker, since, request): (u64, Instant, ForwardedRequest),
        client: IpAddr,
    ) -> Result<Ticket<'_>, QueueFull> {
        let mut asked = self.asked();
        let number = asked.last + 1;
        let displaced = match is_blocking_reload(&path) {
            true => {
                asked.held.insert(number, self.held_places.take(client)?);
                asked.to_hold.push_back(number);
                Vec::new()
            }
            false => asked.queue.ask(&number, path.len() + request.bytes(), client)?,
        };
        asked.last = number;
        let has_displaced = !displaced.is_empty();
        for other in displaced {
            if let Some(question) = asked.questions.get_mut(&other) {
                question.answer = Some(Err(NoAnswer::QueueFull(QueueFull::Full)));
            }
        }
        let request = Box::new(request);
        let (is_under_way, answer) = (false, None);
        let question = Question { path, client, asker, since, request, is_under_way, answer };
        asked.questions.insert(number, question);
        Ok(Ticket { number, has_displaced, passing: self })
    }

    /// The next question for the helper, if one may be sent now.
    pub(super) fn next(&self) -> Option<EdgeAsk> {
        let mut asked = self.asked();
        let ticket = asked.to_hold.pop_front().or_else(|| asked.queue.next())?;
        let question = asked.questions.get_mut(&ticket)?;
        question.is_under_way = true;
        let (path, asker) = (question.path.clone(), question.asker);
        let request = std::mem::take(&mut question.request);
        let since = AskedAt::of(question.since);
        Some(EdgeAsk::Pass { path, ticket, asker, since, request })
    }

    /// The origin holds the question of the viewer with this ticket, so it leaves its place in the queue, if there is one of those for held
    /// questions.
    pub(super) fn hold(&self, ticket: u64) {
        let mut asked = self.asked();
        let Some(client) = asked.queue.charged(&ticket) else { return };
        if let Ok(place) = self.held_places.take(client) {
            asked.queue.finish(&ticket);
            asked.held.insert(ticket, place);
        }
    }

    /// Number of questions waiting for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.asked().queue.waiting()
    }

    /// The helper's answer. If it is arriving, and other viewers have it already, it is `known`. Returns its file's blocks, or its length, if they
    /// are still to be announced.
    pub(super) fn take(
        &self,
        ticket: u64,
        response: PassedResponse,
        (file, known): (Option<OwnedFd>, Option<Arc<Live>>),
    ) -> Option<Arc<Live>> {
        let question = |question: &Question| (question.client, question.path.clone());
        let asked = self.asked().questions.get(&ticket).map(question);
        let is_same = |live: &Live| match response.size {
            None => response.is_growing() && live.is_growing(),
            Some(size) => !live.is_growing() && live.arrived.size() == size,
        };
        let is_usable = |live: &Live| is_same(live) && live.cut_off().is_none();
        let known = known.filter(|live| !response.is_complete && is_usable(live));
        let body = asked.map(|(client, path)| match (known, response.size) {
            // It takes no place of its own, and the same space.
            (Some(live), None) => Ok(Some((live, None))),
            (Some(live), Some(size)) => {
                let taken = self.stored.take(response.object, client, size).ok_or(NoRoom)?;
                Ok(Some((live, Some(taken))))
            }
            (None, _) => self.body((client, path, ticket), &response, file),
        });
        let Some(Ok(body)) = body else {
            // No room for it, unless its viewer has left. Nothing more of it is needed.
            let _ = self.asks.send(EdgeAsk::Left { ticket });
            self.refuse(ticket, Trouble::Full);
            return None;
        };
        let asks = self.asks.clone();
        let body = body.map(|(live, taken)| Receiving { live, _taken: taken, ticket, asks });
        let live = body.as_ref().map(|body| Arc::clone(&body.live));
        self.put(ticket, Ok(ForOne { response, body }));
        live.filter(|live| live.is_arriving())
    }

    /// The file of the response at `path` for a viewer of `client` and its space; none if it is empty.
    ///
    /// # Errors
    /// If there is no room for it, or too many arrive for this client.
    fn body(
        &self,
        (client, path, ticket): (IpAddr, String, u64),
        response: &PassedResponse,
        file: Option<OwnedFd>,
    ) -> Result<Option<Body>, NoRoom> {
        let (size, number) = (response.size.unwrap_or(0), response.object);
        if size == 0 && !response.is_growing() {
            return Ok(None);
        }
        let (live, taken) = if response.is_growing() {
            let taken = match response.is_stored {
                true => self.growing.take_for_all(),
                false => self.space.take(client, 0).ok_or(NoRoom)?,
            };
            let taken = (taken, response.is_ring());
            let growth = Growth::new(path, taken, ticket, self.asks.clone());
            // Out of descriptors if there is no file: the kernel has dropped it.
            (Live::growing(number, file.ok_or(NoRoom)?, growth), None)
        } else {
            // The bound comes first: a long response's blocks take memory.
            let taken = match response.is_stored {
                true => self.stored.take(number, client, size),
                false => self.space.take(client, size).map(Arc::new),
            };
            let taken = taken.ok_or(NoRoom)?;
            let arrived = PresentBlocks::new(size);
            if response.is_complete {
                arrived.note(0..u64::MAX);
            }
            (Live::new(number, file.ok_or(NoRoom)?, arrived), Some(taken))
        };
        let live = Arc::new(live);
        if live.is_arriving() && !self.arriving.add(client, &live) {
            return Err(NoRoom);
        }
        Ok(Some((live, taken)))
    }

    /// There is no answer for this ticket.
    pub(super) fn refuse(&self, ticket: u64, why: Trouble) {
        self.put(ticket, Err(why.into()));
    }

    /// Drops the questions of a helper that has ended.
    pub(super) fn forget(&self) {
        let mut asked = self.asked();
        asked.queue.clear();
        asked.held.clear();
        asked.to_hold.clear();
        for question in asked.questions.values_mut() {
            question.answer.get_or_insert(Err(Trouble::Unreachable.into()));
        }
    }

    fn put(&self, ticket: u64, answer: Result<ForOne, NoAnswer>) {
        let mut asked = self.asked();
        asked.queue.finish(&ticket);
        if asked.held.remove(&ticket).is_some() {
            asked.to_hold.retain(|one| *one != ticket);
        }
        if let Some(question) = asked.questions.get_mut(&ticket) {
            question.answer = Some(answer);
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().expect("no holder of this lock can panic")
    }
}

/// There is no space, place or descriptor for a response.
struct NoRoom;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn passing() -> (Passing, Receiver<EdgeAsk>) {
        let (asks, asked) = channel();
        (Passing::new(BYTES_MAX, HeldPlaces::default(), asks), asked)
    }

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn response(size: Option<u64>, is_complete: bool) -> PassedResponse {
        PassedResponse {
            object: 1 << 63,
            status: 200,
            fields: edge::http_cache::Fields::default(),
            size,
            age_ms: None,
            is_complete,
            is_hit: false,
            is_stored: false,
            failure: None,
            length: None,
        }
    }

    fn told(passing: &Passing, ticket: u64, size: u64) {
        let file = tempfile::tempfile().unwrap().into();
        passing.take(ticket, response(Some(size), true), (Some(file), None));
    }

    /// Reports that a response has begun to arrive.
    fn told_begin(passing: &Passing, ticket: u64, size: Option<u64>) -> Arc<Live> {
        let file = tempfile::tempfile().unwrap().into();
        passing.take(ticket, response(size, false), (Some(file), None)).unwrap()
    }

    fn asked() -> (u64, Instant, ForwardedRequest) {
        (1, Instant::now(), ForwardedRequest::get())
    }

    const BYTES_MAX: u64 = 256 << 20;

    #[test]
    fn an_answer_is_for_one_ticket_and_its_room_is_given_back() {
        let (passing, _asked) = passing();
        let [first, second] =
            [0, 1].map(|_| passing.begin("/a".into(), asked(), client(1)).unwrap());
        assert!(first.answer().is_none());
        told(&passing, first.number, BYTES_MAX - 1);
        assert!(second.answer().is_none());
        let held = first.answer().unwrap().ok();
        assert!(held.is_some() && first.answer().is_none());
        told(&passing, second.number, 2 << 20);
        assert_eq!(second.answer().unwrap().err(), Some(Trouble::Full.into()));
        drop(held);
        told(&passing, second.number, 2 << 20);
        assert!(second.answer().unwrap().is_ok());
        let gone = first.number;
        drop(first);
        told(&passing, gone, BYTES_MAX);
        assert_eq!(passing.space.bytes(), 0, "no viewer waits for it");
    }

    #[test]
    fn a_response_is_shared_with_those_who_came_before_the_origin_sent_it_or_all_if_it_is_fresh() {
        let before = Instant::now();
        let shared = |except_ms| {
            let except = Duration::from_millis(except_ms);
            SharedResponse::new(response(Some(0), true), None, except).unwrap()
        };
        let stale = shared(5000);
        let sent = stale.told.checked_sub(stale.except).unwrap();
        assert!(stale.is_for(sent) && !stale.is_for(sent + Duration::from_millis(1)));
        assert!(!stale.is_for(before), "it came while the response arrived");
        assert!(shared(0).is_for(Instant::now()), "a fresh one");
    }

    #[test]
    fn one_clients_share_of_the_space_does_not_end_what_grows_for_all() {
        let (passing, _asked) = passing();
        let begin = |last, is_stored, known| {
            let ticket = passing.begin("/1.m4s".into(), asked(), client(last)).unwrap();
            let file = tempfile::tempfile().unwrap().into();
            let response = PassedResponse { is_stored, ..response(None, false) };
            let live = passing.take(ticket.number, response, (Some(file), known)).unwrap();
            (ticket.answer().unwrap().ok().unwrap(), live)
        };
        let (_held, own) = begin(1, false, None);
        assert_eq!(own.grow(BYTES_MAX / 2, false), Some(BYTES_MAX / 2));
        let (_other, for_all) = begin(1, true, None);
        assert_eq!(for_all.grow(BYTES_MAX, false), Some(BYTES_MAX));
        assert_eq!(for_all.grow(BYTES_MAX + 1, false), None, "in all");
        let (_later, again) = begin(2, true, Some(Arc::clone(&for_all)));
        assert!(!Arc::ptr_eq(&for_all, &again), "it has ended");
    }

    #[test]
    fn the_helper_is_told_when_a_viewer_leaves_before_its_response_is_complete() {
        let (passing, asked_of_helper) = passing();
        let left = || asked_of_helper.try_iter().collect::<Vec<_>>();
        let begin = || {
            let ticket = passing.begin("/a".into(), asked(), client(1)).unwrap();
            assert!(passing.next().is_some());
            ticket
        };
        let waiting = begin();
        let ticket = waiting.number;
        drop(waiting);
        assert_eq!(left(), vec![EdgeAsk::Left { ticket }], "the helper works on it");
        passing.refuse(ticket, Trouble::Unreachable);
        // There is one message for each, and none if there is nothing to stop.
        let sizes = [Some(5 << 20), None];
        for (size, is_whole) in sizes.into_iter().flat_map(|size| [(size, false), (size, true)]) {
            let reading = begin();
            let ticket = reading.number;
            let live = told_begin(&passing, ticket, size);
            let body = reading.answer().unwrap().ok().unwrap().body;
            drop(reading);
            assert!(left().is_empty(), "it has its response");
            if is_whole {
                live.arrived.note(0..5);
                live.grow(1000, true);
            }
            drop(body);
            let expected = if is_whole { vec![] } else { vec![EdgeAsk::Left { ticket }] };
            assert_eq!(left(), expected, "{size:?} {is_whole}");
        }
        let complete = begin();
        told(&passing, complete.number, 1000);
        drop(complete);
        drop(passing.begin("/b".into(), asked(), client(1)).unwrap());
        assert!(left().is_empty(), "it is complete, or was never sent");
    }

    #[test]
    fn who_waits_is_bounded_and_is_answered_when_the_helper_is_gone() {
        let (passing, _asked) = passing();
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
        let (passing, _asked) = passing();
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
