//! The edge's knowledge of the origin's paths, and the questions that the helper is working on.
//!
//! Revalidations of known objects have slots of their own, so a flood of requests for unknown paths can't keep a cached film from being
//! revalidated.

use super::NoAnswer;
use super::cached::{Cached, Live};
use super::fair_queue::{FairQueue, QueueFull, QueueLimits};
use super::held_places::{HeldPlace, HeldPlaces};
use super::passing::SharedResponse;
use edge::contract::{EdgeAsk, ForwardedRequest, Trouble};
use edge::http_cache::is_blocking_reload;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Questions about new paths. Of the 64 requests that the helper makes at once, they leave 8 to blocks of known objects even while 16 answers
/// are passed through. One client leaves a quarter of the places to others. At an origin that answers after 200 ms, one client's line of at
/// most 250 questions is empty after two seconds, and all lines, at most 2,000 questions, after ten. With the headers of a browser, there is room for
/// some two fifths of that.
const NEW: QueueLimits = QueueLimits {
    under_way_max: 40,
    under_way_by_client_max: 30,
    waiting_bytes_max: 2 << 20,
    waiting_bytes_by_client_max: 256 << 10,
};

/// Questions about objects that are known and no longer fresh: as many as the helper has places for (`REVALIDATIONS_MAX`).
const KNOWN: QueueLimits = QueueLimits {
    under_way_max: 32,
    under_way_by_client_max: 24,
    waiting_bytes_max: 2 << 20,
    waiting_bytes_by_client_max: 256 << 10,
};

/// Limit on cached negative answers, because viewers can invent paths.
const REFUSALS_MAX: usize = 10_000;

/// Limit on the memory of cached negative answers: a path may have 24 KiB.
const REFUSALS_BYTES_MAX: usize = 4 << 20;

/// The known answer about a path.
struct Answer {
    what: Result<Arc<Cached>, Trouble>,
    at: Instant,
    /// After a negative answer, the helper is not asked again before this time.
    until: Instant,
}

/// A question to the helper about a path, shared by every viewer who waits for the answer.
pub(super) struct Question {
    pub(super) path: Arc<str>,
    offset: u64,
    asker: u64,
    request: OnceLock<Box<ForwardedRequest>>,
    is_known: bool,
    at: Instant,
    /// Number of viewers waiting. Changed under the table's lock.
    viewers: AtomicUsize,
    is_under_way: AtomicBool,
    reply: OnceLock<Reply>,
}

/// Outcome of a question.
#[derive(Clone)]
pub(super) enum Reply {
    /// The answer.
    Is(Result<Arc<Cached>, NoAnswer>),
    /// The helper ended before it answered. Ask the next one.
    AskAgain,
    /// There is a response other than an object, which is the same for all who wait, apart from the viewer whose question this was.
    Response(Arc<SharedResponse>),
    /// There is a response other than an object. It may be about the request of the viewer whose question this was, so others ask again.
    ForAsker,
}

impl Question {
    /// The outcome, once known.
    pub(super) fn reply(&self) -> Option<&Reply> {
        self.reply.get()
    }

    /// Whether it has been sent to the helper.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Relaxed)
    }

    /// Whether it was or will be sent with this viewer's request.
    pub(super) fn is_by(&self, asker: u64) -> bool {
        self.asker == asker
    }
}

/// What a viewer wants of a path.
pub(super) struct Wanted<'a> {
    /// The first byte.
    pub(super) offset: u64,
    /// Identifies the viewer's request, as in [`EdgeAsk::Open`].
    pub(super) asker: u64,
    /// The viewer's request, as it is sent on if this is the first question about the path.
    pub(super) request: &'a dyn Fn() -> ForwardedRequest,
}

/// State shared by all workers.
pub(super) struct Table {
    answers: HashMap<Arc<str>, Answer>,
    refusals: usize,
    refusals_bytes: usize,
    pub(super) live: HashMap<u64, Weak<Live>>,
    questions: HashMap<Arc<str>, Arc<Question>>,
    new: FairQueue<Arc<str>>,
    known: FairQueue<Arc<str>>,
    held_places: HeldPlaces,
    /// The questions that the origin holds, outside of both queues.
    held: HashMap<Arc<str>, HeldPlace>,
    /// Those of them that are sent next.
    to_hold: VecDeque<Arc<str>>,
    /// Why nothing can be fetched, if so: the helper can't start, or is gone for good.
    pub(super) absence: Option<String>,
}

impl Table {
    /// Questions that the origin holds take places of `held_places`.
    pub(super) fn new(held_places: HeldPlaces) -> Self {
        Self {
            answers: HashMap::new(),
            refusals: 0,
            refusals_bytes: 0,
            live: HashMap::new(),
            questions: HashMap::new(),
            new: FairQueue::new(NEW),
            known: FairQueue::new(KNOWN),
            held_places,
            held: HashMap::new(),
            to_hold: VecDeque::new(),
            absence: None,
        }
    }

    pub(super) fn live(&self) -> impl Iterator<Item = Arc<Live>> {
        self.live.values().filter_map(Weak::upgrade)
    }

    /// The answer for `path` that can be given at once: it is fresh, or came after `since`, or the origin can't be reached. While there is no helper,
    /// or too many other questions wait, stale objects are served for as long as the origin allows: the alternative is a 503 (RFC 5861 section 4).
    pub(super) fn look(
        &self,
        path: &str,
        since: Instant,
        now: Instant,
    ) -> Option<Result<Arc<Cached>, Trouble>> {
        let is_absent = self.absence.is_some();
        if let Some(answer) = self.answers.get(path) {
            let is_new = answer.at >= since;
            match &answer.what {
                Ok(cached) if cached.is_fresh(now) || is_new => {
                    return Some(Ok(Arc::clone(cached)));
                }
                Ok(cached) if (is_absent || self.known.is_long()) && cached.may_be_stale(now) => {
                    return Some(Ok(Arc::clone(cached)));
                }
                Err(why) if answer.until > now || is_new => return Some(Err(*why)),
                _ => {}
            }
        }
        is_absent.then_some(Err(Trouble::Unreachable))
    }

    /// Asks about `path` for a viewer of `client`, who waits for the answer until [`Self::leave`]. The question is sent once [`Self::next`] returns
    /// it. Also returns whether other questions were displaced, so that their waiting viewers have to be woken.
    ///
    /// # Errors
    /// If the queue is full.
    pub(super) fn ask(
        &mut self,
        path: &str,
        wanted: &Wanted<'_>,
        client: IpAddr,
    ) -> Result<(Arc<Question>, bool), QueueFull> {
        if let Some(question) = self.questions.get(path).cloned() {
            // The same question. It joins this client's line as well, at no cost to others.
            if !self.held.contains_key(path) {
                self.queue(question.is_known).ask(&question.path, path.len(), client)?;
            }
            question.viewers.fetch_add(1, Relaxed);
            return Ok((question, false));
        }
        let is_known = self.answers.get(path).is_some_and(|answer| answer.what.is_ok());
        let path: Arc<str> = path.into();
        // Its headers may be far longer than its path.
        let request = Box::new((wanted.request)());
        let displaced = match !is_known && is_blocking_reload(&path) {
            true => {
                self.held.insert(Arc::clone(&path), self.held_places.take(client)?);
                self.to_hold.push_back(Arc::clone(&path));
                Vec::new()
            }
            false => self.queue(is_known).ask(&path, path.len() + request.bytes(), client)?,
        };
        let has_displaced = !displaced.is_empty();
        for other in displaced {
            self.reply(&other, Reply::Is(Err(NoAnswer::QueueFull(QueueFull::Full))));
        }
        let question = Arc::new(Question {
            path: Arc::clone(&path),
            offset: wanted.offset,
            asker: wanted.asker,
            request: OnceLock::from(request),
            is_known,
            at: Instant::now(),
            viewers: AtomicUsize::new(1),
            is_under_way: AtomicBool::new(false),
            reply: OnceLock::new(),
        });
        self.questions.insert(path, Arc::clone(&question));
        Ok((question, has_displaced))
    }

    /// The object at `path`, regardless of its age, if the origin allows serving it while it cannot be asked.
    pub(super) fn stale(&self, path: &str, now: Instant) -> Option<Arc<Cached>> {
        let cached = self.answers.get(path)?.what.as_ref().ok()?;
        cached.may_be_stale(now).then(|| Arc::clone(cached))
    }

    /// The object at `path`, if the origin allows serving it while it is being asked.
    pub(super) fn revalidated_later(&self, path: &str, now: Instant) -> Option<Arc<Cached>> {
        let cached = self.answers.get(path)?.what.as_ref().ok()?;
        cached.may_be_revalidated_later(now).then(|| Arc::clone(cached))
    }

    /// The next question for the helper, if one may be sent now.
    pub(super) fn next(&mut self) -> Option<EdgeAsk> {
        let path = self.to_hold.pop_front().or_else(|| self.known.next());
        let path = path.or_else(|| self.new.next())?;
        let question = self.questions.get(&path)?;
        question.is_under_way.store(true, Relaxed);
        let (offset, asker) = (question.offset, question.asker);
        // It is sent once, so it is taken along; a copy is cheap, and questions are shared.
        let request = question.request.get().cloned().unwrap_or_default();
        Some(EdgeAsk::Open { path: path.to_string(), offset, asker, request })
    }

    /// A viewer gave up or was answered. Drops questions that no viewer waits for, unless the helper is working on them. A question older than
    /// `patience` is dropped even then, so that its slot isn't lost if the helper never answers.
    pub(super) fn leave(&mut self, question: &Arc<Question>, patience: Duration) {
        if question.viewers.fetch_sub(1, Relaxed) > 1 || question.reply().is_some() {
            return;
        }
        if !question.is_under_way() || question.at.elapsed() >= patience {
            self.queue(question.is_known).finish(&question.path);
            self.held.remove(&question.path);
            self.to_hold.retain(|path| *path != question.path);
            self.questions.remove(&question.path);
        }
    }

    /// The origin holds the question about `path`, so it leaves its place in a queue, if there is one of those for held questions.
    pub(super) fn hold(&mut self, path: &str) {
        let Some(question) = self.questions.get(path).cloned() else { return };
        let Some(client) = self.queue(question.is_known).charged(&question.path) else { return };
        if let Ok(place) = self.held_places.take(client) {
            self.queue(question.is_known).finish(&question.path);
            self.held.insert(Arc::clone(&question.path), place);
        }
    }

    /// Number of questions waiting for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.new.waiting() + self.known.waiting()
    }

    /// The origin reported an object at `path`.
    pub(super) fn put(&mut self, path: &str, cached: Cached) {
        let (at, cached) = (cached.at, Arc::new(cached));
        let reply = Reply::Is(Ok(Arc::clone(&cached)));
        self.remember(path, Answer { what: Ok(cached), at, until: at });
        self.reply(path, reply);
    }

    /// The origin reported nothing at `path`; remembered for `lasts`.
    pub(super) fn refuse(&mut self, path: &str, why: Trouble, lasts: Duration) {
        let at = Instant::now();
        self.remember(path, Answer { what: Err(why), at, until: at + lasts });
        if self.refusals > REFUSALS_MAX || self.refusals_bytes > REFUSALS_BYTES_MAX {
            self.answers.retain(|_, answer| answer.what.is_ok());
            (self.refusals, self.refusals_bytes) = (0, 0);
        }
        self.reply(path, Reply::Is(Err(why.into())));
    }

    /// There is a response other than an object at `path`, which each viewer has to request, unless it is `shared` among those who wait. That is
    /// remembered for `lasts`; if it is zero, it counts only for the viewer who asked.
    pub(super) fn no_object(
        &mut self,
        path: &str,
        lasts: Duration,
        shared: Option<SharedResponse>,
    ) {
        if lasts.is_zero() {
            return self.reply(path, Reply::ForAsker);
        }
        if let Some(shared) = shared {
            self.reply(path, Reply::Response(Arc::new(shared)));
        }
        self.refuse(path, Trouble::Uncacheable, lasts);
    }

    /// Everything known of `path` is invalid, the `object` there or that there is none: the helper is asked again. Objects that were reported
    /// long ago may be known to workers only.
    pub(super) fn invalidate(&mut self, path: &str, object: Option<u64>) {
        if let Some(live) = object.and_then(|object| self.live.get(&object)?.upgrade()) {
            live.invalidate();
        }
        if let Some(answer) = self.answers.get_mut(path).filter(|answer| answer.what.is_err()) {
            answer.until = answer.at;
        }
    }

    /// The helper's answer about `path` can't be used.
    pub(super) fn spoil(&mut self, path: &str) {
        self.reply(path, Reply::Is(Err(Trouble::Wrong.into())));
    }

    /// The helper has ended, with the questions that were sent to it.
    pub(super) fn forget_questions(&mut self) {
        for question in std::mem::take(&mut self.questions).into_values() {
            // It has no other reply, because those with one are not here.
            let _ = question.reply.set(Reply::AskAgain);
        }
        self.new.clear();
        self.known.clear();
        self.held.clear();
        self.to_hold.clear();
    }

    /// Removes an object from every path.
    pub(super) fn end(&mut self, object: u64, why: Trouble) {
        if let Some(live) = self.live.remove(&object).and_then(|live| live.upgrade()) {
            live.end(why);
        }
        let is_it =
            |answer: &Answer| answer.what.as_ref().is_ok_and(|cached| cached.live.number == object);
        self.answers.retain(|_, answer| !is_it(answer));
    }

    /// Evicts the objects that were reported longest ago, down to `max`. Workers keep those in use.
    pub(super) fn bound(&mut self, max: usize) {
        let objects = self.answers.len() - self.refusals;
        if objects <= max {
            return;
        }
        let mut times: Vec<_> =
            self.answers.values().filter(|one| one.what.is_ok()).map(|one| one.at).collect();
        // An eighth at once, because the scan is slow.
        let (_, oldest, _) = times.select_nth_unstable(objects - max + max / 8);
        let oldest = *oldest;
        self.answers.retain(|_, answer| answer.what.is_err() || answer.at > oldest);
        self.live.retain(|_, live| live.strong_count() > 0);
    }

    fn remember(&mut self, path: &str, answer: Answer) {
        if answer.what.is_err() {
            self.refusals += 1;
            self.refusals_bytes += path.len();
        }
        let before = self.answers.insert(path.into(), answer);
        if before.is_some_and(|before| before.what.is_err()) {
            self.refusals -= 1;
            self.refusals_bytes -= path.len();
        }
    }

    fn reply(&mut self, path: &str, reply: Reply) {
        let Some(question) = self.questions.remove(path) else { return };
        self.queue(question.is_known).finish(&question.path);
        if self.held.remove(path).is_some() {
            self.to_hold.retain(|one| **one != *path);
        }
        // It has no other reply, because those with one are not here.
        let _ = question.reply.set(reply);
    }

    fn queue(&mut self, is_known: bool) -> &mut FairQueue<Arc<str>> {
        if is_known { &mut self.known } else { &mut self.new }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(offset: u64) -> Wanted<'static> {
        Wanted { offset, asker: 7, request: &ForwardedRequest::get }
    }

    #[test]
    fn refusals_of_long_paths_are_bounded_in_bytes() {
        let mut table = Table::new(HeldPlaces::default());
        let long = "x".repeat(20_000);
        for number in 0..1000 {
            table.refuse(&format!("/{number}{long}"), Trouble::NotFound, Duration::from_secs(1));
            let bytes: usize = table.answers.keys().map(|path| path.len()).sum();
            assert!(bytes == table.refusals_bytes && bytes <= REFUSALS_BYTES_MAX);
        }
        table.refuse("/a", Trouble::NotFound, Duration::from_secs(1));
        assert!(table.answers.contains_key("/a"));
    }

    #[test]
    fn what_is_invalid_is_asked_about_again_an_object_or_that_there_is_none() {
        let mut table = Table::new(HeldPlaces::default());
        let hour = Duration::from_secs(3600);
        table.refuse("/a", Trouble::Uncacheable, hour);
        let since = Instant::now() + Duration::from_secs(1);
        let is_known = |table: &Table| table.look("/a", since, since).is_some();
        assert!(is_known(&table));
        table.invalidate("/a", None);
        assert!(!is_known(&table));
        table.refuse("/a", Trouble::Uncacheable, hour);
        assert!(is_known(&table));
    }

    #[test]
    fn the_headers_of_waiting_requests_are_bounded_in_bytes() {
        let mut table = Table::new(HeldPlaces::default());
        let large = || {
            let fields = edge::http_cache::Fields::of(&[("X-Large", &"x".repeat(16_000))]);
            ForwardedRequest { fields, ..ForwardedRequest::get() }
        };
        let wanted = Wanted { offset: 0, asker: 7, request: &large };
        let mut asked = 0;
        for client in 1..=100 {
            for number in 0..100 {
                let (path, client) = (format!("/{client}/{number}"), [192, 0, 2, client]);
                asked += usize::from(table.ask(&path, &wanted, IpAddr::from(client)).is_ok());
            }
        }
        let waiting = table.waiting();
        assert!(asked >= waiting && waiting > 0);
        assert!(waiting * 16_000 <= NEW.waiting_bytes_max, "{waiting}");
    }

    #[test]
    fn a_held_question_that_is_answered_before_it_is_sent_keeps_no_other_one_waiting() {
        let client = IpAddr::from([192, 0, 2, 1]);
        let mut table = Table::new(HeldPlaces::default());
        for path in ["/live.m3u8?_HLS_msn=1", "/b"] {
            table.ask(path, &wanted(0), client).unwrap();
        }
        table.refuse("/live.m3u8?_HLS_msn=1", Trouble::Full, Duration::from_secs(1));
        assert!(matches!(table.next(), Some(EdgeAsk::Open { path, .. }) if path == "/b"));
    }

    #[test]
    fn a_question_is_forgotten_when_its_last_viewer_leaves_unless_the_helper_has_it() {
        let client = IpAddr::from([192, 0, 2, 1]);
        let hour = Duration::from_secs(3600);
        let mut table = Table::new(HeldPlaces::default());
        let [first, second] = [0, 1].map(|_| table.ask("/a", &wanted(0), client).unwrap().0);
        assert!(Arc::ptr_eq(&first, &second));
        table.leave(&first, hour);
        assert_eq!(table.waiting(), 1);
        table.leave(&second, hour);
        assert_eq!((table.waiting(), table.questions.len()), (0, 0));
        assert_eq!(table.next(), None);
        let (third, _) = table.ask("/a", &wanted(5), client).unwrap();
        let (path, request) = ("/a".into(), Box::new(ForwardedRequest::get()));
        assert_eq!(table.next(), Some(EdgeAsk::Open { path, offset: 5, asker: 7, request }));
        table.leave(&third, hour);
        assert_eq!(table.questions.len(), 1, "the helper works on it");
        table.refuse("/a", Trouble::NotFound, hour);
        assert_eq!(table.questions.len(), 0);
        let (lost, _) = table.ask("/b", &wanted(0), client).unwrap();
        assert!(table.next().is_some());
        table.leave(&lost, Duration::ZERO);
        assert_eq!(table.questions.len(), 0, "no answer came in time");
    }
}
