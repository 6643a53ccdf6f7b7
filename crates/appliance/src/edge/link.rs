//! What all workers know of the origin's objects, as the helper tells it.

use super::passing::{Passing, Ticket};
use crate::redact;
use disk::arriving::NOBODY;
use disk::{ARRIVAL_BYTES, ArrivedBlocks};
use edge::contract::{BLOCK_BYTES, Described, EdgeAsk, EdgeTold, Trouble};
use edge::line;
use reactor::{Remote, Woken, remote};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

const _: () = assert!(BLOCK_BYTES == ARRIVAL_BYTES, "both sides count the same blocks");

/// How often the operator is told of trouble; the counters count all of it.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Answers that are remembered besides those about objects: paths where there is nothing. Viewers can invent them.
const REFUSALS_MAX: usize = 10_000;

/// One version of an object, in whatever freshness.
pub(crate) struct Live {
    pub(super) number: u64,
    pub(super) file: OwnedFd,
    pub(super) arrived: Arc<ArrivedBlocks>,
    is_ended: AtomicBool,
}

impl Live {
    pub(super) fn new(number: u64, file: OwnedFd, arrived: ArrivedBlocks) -> Self {
        Self { number, file, arrived: Arc::new(arrived), is_ended: AtomicBool::new(false) }
    }
}

/// What the origin last said of an object.
pub(crate) struct Cached {
    pub(super) live: Arc<Live>,
    pub(crate) described: Described,
    at: Instant,
}

impl Cached {
    /// What the origin says now.
    pub(super) fn new(live: Arc<Live>, described: Described) -> Self {
        Self { live, described, at: Instant::now() }
    }

    /// Whether it may be served without another question.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        let fresh = Duration::from_millis(self.described.fresh_ms);
        now.saturating_duration_since(self.at) < fresh && !self.is_ended()
    }

    /// Whether it may be served if nobody can ask the origin.
    fn may_be_stale(&self, now: Instant) -> bool {
        let Described { fresh_ms, stale_ms, .. } = self.described;
        let usable =
            Duration::from_millis(fresh_ms).saturating_add(Duration::from_millis(stale_ms));
        now.saturating_duration_since(self.at) < usable && !self.is_ended()
    }

    /// Whether whoever asks for it at `since` gets it only because the origin cannot be asked.
    pub(super) fn is_stale(&self, since: Instant) -> bool {
        self.described.is_stale || self.at < since && !self.is_fresh(since)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.live.is_ended.load(Relaxed)
    }

    /// How old the origin's word on it is.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at) + Duration::from_millis(self.described.age_ms)
    }
}

/// What is known of a path.
struct Answer {
    what: Result<Arc<Cached>, Trouble>,
    at: Instant,
    /// Until when nobody asks again, if there is nothing.
    until: Instant,
}

#[derive(Default)]
struct Table {
    answers: HashMap<String, Answer>,
    refusals: usize,
    live: HashMap<u64, Weak<Live>>,
    /// Paths that the helper was asked about.
    asked: HashSet<String>,
    /// Why nobody answers, if that is so: the helper cannot begin, or is gone for good.
    absence: Option<String>,
}

/// How often something happened, by reason.
type Counts = BTreeMap<&'static str, u64>;

/// What the operator is told when no helper comes any more.
const GONE: &str = "the edge's helper and its keeper are gone: nothing is fetched any more, and what is cached is served only for as long as the origin allows; restart the server";

/// What workers share.
pub(crate) struct EdgeLink {
    table: Mutex<Table>,
    asks: Sender<EdgeAsk>,
    remotes: Vec<Remote>,
    woken: Mutex<Vec<Option<Woken>>>,
    objects_max: usize,
    fetched_bytes: AtomicU64,
    failures: Mutex<Counts>,
    retries: Mutex<Counts>,
    passing: Passing,
    told: Mutex<Option<Instant>>,
    /// Keeps other servers off the cache for as long as this one runs.
    _lock: File,
}

impl EdgeLink {
    /// Starts the threads that talk to the helper at the other end of `socket`. The table has `objects_max` objects at most.
    pub(super) fn start(
        socket: OwnedFd,
        lock: File,
        workers: usize,
        objects_max: usize,
    ) -> io::Result<Arc<Self>> {
        let (asks, asked) = channel();
        let ends = (0..workers).map(|_| remote()).collect::<io::Result<Vec<_>>>()?;
        let (remotes, woken): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let link = Arc::new(Self {
            table: Mutex::default(),
            asks,
            remotes,
            woken: Mutex::new(woken.into_iter().map(Some).collect()),
            objects_max,
            fetched_bytes: AtomicU64::new(0),
            failures: Mutex::default(),
            retries: Mutex::default(),
            passing: Passing::default(),
            told: Mutex::default(),
            _lock: lock,
        });
        let (out, listener) = (socket.try_clone()?, Arc::clone(&link));
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("edge-asks").spawn(move || ask_all(&out, &asked))?;
        thread("edge-told").spawn(move || listener.listen(&socket))?;
        Ok(link)
    }

    fn listen(&self, socket: &OwnedFd) {
        let mut buffer = Vec::new();
        loop {
            match line::receive::<EdgeTold>(socket, &mut buffer) {
                Ok(Some((told, file))) => match told.check() {
                    Ok(()) => self.take(told, file),
                    Err(why) => {
                        self.complain(&format!(
                            "ignored a message from the edge's helper: it contains {why}"
                        ));
                    }
                },
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.complain(&format!("the edge's helper cannot be understood: {error}"));
                }
                Err(error) => {
                    self.complain(&format!("the edge's helper cannot be heard: {error}"));
                    break;
                }
            }
            self.remotes.iter().for_each(Remote::wake);
        }
        let mut table = self.table();
        table.absence = Some(GONE.to_owned());
        table.live().for_each(|live| live.arrived.end(NOBODY));
        drop(table);
        self.passing.forget();
        self.remotes.iter().for_each(Remote::wake);
        self.complain(GONE);
    }

    fn take(&self, told: EdgeTold, file: Option<OwnedFd>) {
        match told {
            EdgeTold::Began => {
                let mut table = self.table();
                table.absence = None;
                table.asked.clear();
                table.live().for_each(|live| live.arrived.forget_asked());
                drop(table);
                self.passing.forget();
            }
            EdgeTold::CannotBegin { said } => {
                // It has told the operator by itself.
                let said = library::shown(&said).into_owned();
                let mut table = self.table();
                table.absence =
                    Some(format!("the edge's helper cannot begin, so nothing is fetched: {said}"));
                table.asked.clear();
                let why = Trouble::Unreachable.number();
                table.live().for_each(|live| live.arrived.fail_asked(why));
                drop(table);
                self.passing.forget();
            }
            EdgeTold::Object(described) => self.take_object(described, file),
            EdgeTold::Refused { path, why, for_ms, said } => {
                self.table().refuse(path, why, Duration::from_millis(for_ms));
                self.count_failure(why, &said);
            }
            EdgeTold::There { object, first, end, fetched_bytes } => {
                self.fetched_bytes.fetch_add(fetched_bytes, Relaxed);
                if let Some(live) = self.live(object) {
                    live.arrived.note(first..end);
                }
            }
            EdgeTold::Failed { object, first, end, why, said } => {
                if let Some(live) = self.live(object) {
                    live.arrived.note_failed(first..end, why.number());
                }
                self.count_failure(why, &said);
            }
            EdgeTold::Passed { ticket, described } => self.passing.take(ticket, described, file),
            EdgeTold::NotPassed { ticket, why, said } => {
                self.passing.refuse(ticket, why);
                self.count_failure(why, &said);
            }
            EdgeTold::TriedAgain { why } => count(&self.retries, why),
            EdgeTold::Ended { object, why } => {
                let mut table = self.table();
                if let Some(live) = table.live.remove(&object).and_then(|live| live.upgrade()) {
                    live.is_ended.store(true, Relaxed);
                    live.arrived.end(why.number());
                }
                let is_it = |answer: &Answer| {
                    answer.what.as_ref().is_ok_and(|cached| cached.live.number == object)
                };
                table.answers.retain(|_, answer| !is_it(answer));
            }
        }
    }

    fn take_object(&self, described: Described, file: Option<OwnedFd>) {
        let mut table = self.table();
        let known = table.live.get(&described.object).and_then(Weak::upgrade);
        let live = match (known, file) {
            (Some(known), _) if known.arrived.size() == described.size => known,
            (None, Some(file)) => {
                let number = described.object;
                let live = Live::new(number, file, ArrivedBlocks::new(described.size));
                let live = Arc::new(live);
                table.live.insert(number, Arc::downgrade(&live));
                live
            }
            // Out of descriptors, so the kernel has dropped it; or the number of another object.
            (Some(_), _) | (None, None) => {
                table.refuse(described.path, Trouble::Full, Duration::from_secs(1));
                return;
            }
        };
        let path = described.path.clone();
        let cached = Cached::new(live, described);
        let at = cached.at;
        table.put(path, Answer { what: Ok(Arc::new(cached)), at, until: at });
        table.bound(self.objects_max);
    }

    /// What is at `path`, if that is known, fresh, or was said after `since`. If not, the helper is asked. While there is none, what is stale will
    /// do for as long as the origin allows.
    pub(super) fn look(
        &self,
        path: &str,
        offset: u64,
        since: Instant,
    ) -> Option<Result<Arc<Cached>, Trouble>> {
        let (mut table, now) = (self.table(), Instant::now());
        let is_absent = table.absence.is_some();
        if let Some(answer) = table.answers.get(path) {
            let is_new = answer.at >= since;
            match &answer.what {
                Ok(cached)
                    if cached.is_fresh(now) || is_new || is_absent && cached.may_be_stale(now) =>
                {
                    return Some(Ok(Arc::clone(cached)));
                }
                Err(why) if answer.until > now || is_new => return Some(Err(*why)),
                _ => {}
            }
        }
        if is_absent {
            return Some(Err(Trouble::Unreachable));
        }
        if table.asked.insert(path.to_owned()) {
            self.ask(EdgeAsk::Open { path: path.to_owned(), offset });
        }
        None
    }

    /// Has blocks of an object brought.
    pub(super) fn bring(&self, object: u64, blocks: Range<u64>) {
        // They are marked as asked for by now. So either this or whoever notes that there is no helper sees the other.
        if self.trouble().is_some() {
            if let Some(live) = self.live(object) {
                live.arrived.note_failed(blocks, Trouble::Unreachable.number());
            }
            self.remotes.iter().for_each(Remote::wake);
            return;
        }
        let Range { start: first, end } = blocks;
        self.ask(EdgeAsk::Bring { object, first, end });
    }

    /// Has what is at `path` fetched for one viewer.
    pub(super) fn pass(&self, path: String) -> Result<Ticket<'_>, Trouble> {
        let ticket = self.passing.begin()?;
        // After the ticket: so either this or whoever notes that the helper is gone sees the other.
        if self.trouble().is_some() {
            return Err(Trouble::Unreachable);
        }
        self.ask(EdgeAsk::Pass { path, ticket: ticket.number });
        Ok(ticket)
    }

    /// Viewers use these objects.
    pub(super) fn note_used(&self, objects: Vec<u64>) {
        // Nobody reads it, and it would pile up.
        if self.trouble().is_some() {
            return;
        }
        self.ask(EdgeAsk::Used { objects });
    }

    fn ask(&self, ask: EdgeAsk) {
        // If the thread has ended, the helper is gone, which the other thread tells everybody.
        let _ = self.asks.send(ask);
    }

    /// Why nothing can be fetched, for the operator, if there is no helper.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.table().absence.clone()
    }

    /// What wakes a worker when there is news; once.
    pub(super) fn take_woken(&self, worker: usize) -> Option<Woken> {
        let mut woken = self.woken.lock().expect("no holder of this lock can panic");
        woken.get_mut(worker)?.take()
    }

    /// Bytes fetched since the start.
    pub(crate) fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Relaxed)
    }

    /// What could not be fetched or kept, by reason.
    pub(crate) fn failures(&self) -> Counts {
        self.failures.lock().expect("no holder of this lock can panic").clone()
    }

    /// Requests to the origin that were made again, by reason.
    pub(crate) fn retries(&self) -> Counts {
        self.retries.lock().expect("no holder of this lock can panic").clone()
    }

    fn count_failure(&self, why: Trouble, said: &str) {
        count(&self.failures, why);
        if why != Trouble::NotFound {
            self.complain(said);
        }
    }

    fn complain(&self, what: &str) {
        let mut told = self.told.lock().expect("no holder of this lock can panic");
        if told.is_none_or(|last| last.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            // A path has its token if the origin checks it and not this server.
            eprintln!("fullbore: {}", library::shown(&redact::text(what.as_bytes())));
        }
    }

    fn live(&self, object: u64) -> Option<Arc<Live>> {
        self.table().live.get(&object)?.upgrade()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder of this lock can panic")
    }
}

impl Table {
    fn live(&self) -> impl Iterator<Item = Arc<Live>> {
        self.live.values().filter_map(Weak::upgrade)
    }

    fn put(&mut self, path: String, answer: Answer) {
        self.asked.remove(&path);
        self.refusals += usize::from(answer.what.is_err());
        let before = self.answers.insert(path, answer);
        self.refusals -= usize::from(before.is_some_and(|before| before.what.is_err()));
    }

    fn refuse(&mut self, path: String, why: Trouble, lasts: Duration) {
        let at = Instant::now();
        self.put(path, Answer { what: Err(why), at, until: at + lasts });
        if self.refusals > REFUSALS_MAX {
            // All at once: who waits for one of them asks again.
            self.answers.retain(|_, answer| answer.what.is_ok());
            self.refusals = 0;
        }
    }

    /// Forgets the objects that were told of longest ago, so that `max` are left. Workers that use them go on.
    fn bound(&mut self, max: usize) {
        let objects = self.answers.len() - self.refusals;
        if objects <= max {
            return;
        }
        let mut times: Vec<_> =
            self.answers.values().filter(|one| one.what.is_ok()).map(|one| one.at).collect();
        // An eighth at once, because looking for them takes long.
        let (_, oldest, _) = times.select_nth_unstable(objects - max + max / 8);
        let oldest = *oldest;
        self.answers.retain(|_, answer| answer.what.is_err() || answer.at > oldest);
        self.live.retain(|_, live| live.strong_count() > 0);
    }
}

fn count(counts: &Mutex<Counts>, why: Trouble) {
    let mut counts = counts.lock().expect("no holder of this lock can panic");
    *counts.entry(why.as_str()).or_default() += 1;
}

/// The thread that asks the helper, and waits where that is slow.
fn ask_all(socket: &OwnedFd, asked: &Receiver<EdgeAsk>) {
    while let Ok(ask) = asked.recv() {
        if line::send(socket, &ask, None).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_tests::until;
    use std::os::fd::AsFd;

    const HOUR_MS: u64 = 3_600_000;

    /// A link, and the helper's end of its socket.
    fn link() -> (Arc<EdgeLink>, OwnedFd) {
        let (ours, helpers) = line::pair().unwrap();
        let lock = tempfile::tempfile().unwrap();
        (EdgeLink::start(ours, lock, 1, 100).unwrap(), helpers)
    }

    /// Tells of an object, and waits until that is known.
    fn tell(link: &EdgeLink, helper: &OwnedFd, path: &str, object: u64, terms_ms: (u64, u64)) {
        let before = Instant::now();
        let described = Described {
            path: path.into(),
            object,
            size: 1,
            etag: "\"x\"".into(),
            content_type: None,
            modified: None,
            cache_control: None,
            fresh_ms: terms_ms.0,
            stale_ms: terms_ms.1,
            age_ms: 0,
            is_stale: false,
        };
        let file = tempfile::tempfile().unwrap();
        line::send(helper, &EdgeTold::Object(described), Some(file.as_fd())).unwrap();
        until("the object to be known", || link.look(path, 0, before).is_some());
    }

    fn status(link: &EdgeLink, path: &str) -> Option<Result<u64, Trouble>> {
        let looked = link.look(path, 0, Instant::now())?;
        Some(looked.map(|cached| cached.live.number))
    }

    #[test]
    fn without_a_helper_what_is_stale_is_served_only_while_the_origin_allows_it() {
        let (link, helper) = link();
        tell(&link, &helper, "/fresh", 1, (HOUR_MS, 0));
        tell(&link, &helper, "/stale", 2, (0, HOUR_MS));
        tell(&link, &helper, "/short", 3, (0, 1));
        tell(&link, &helper, "/strict", 4, (0, 0));
        // sleeps: what may be used for a millisecond has to be older than that
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(status(&link, "/stale"), None, "the helper is asked first");
        assert_eq!(link.trouble(), None);
        drop(helper);
        until("the helper to be missed", || link.trouble().is_some());
        assert_eq!(status(&link, "/fresh"), Some(Ok(1)));
        assert_eq!(status(&link, "/stale"), Some(Ok(2)));
        for path in ["/short", "/strict", "/unknown"] {
            assert_eq!(status(&link, path), Some(Err(Trouble::Unreachable)), "{path}");
        }
        let since = Instant::now();
        let is_stale = |path| link.look(path, 0, since).unwrap().ok().unwrap().is_stale(since);
        assert!(is_stale("/stale") && !is_stale("/fresh"));
        assert!(link.trouble().unwrap().contains("restart the server"));
    }

    #[test]
    fn a_helper_that_cannot_begin_keeps_nobody_waiting_and_the_next_one_is_asked() {
        let (link, helper) = link();
        assert_eq!(status(&link, "/a"), None);
        let said = "objects is a file".to_owned();
        line::send(&helper, &EdgeTold::CannotBegin { said }, None).unwrap();
        until("the helper to be missed", || link.trouble().is_some());
        assert!(link.trouble().unwrap().contains("objects is a file"));
        assert_eq!(status(&link, "/a"), Some(Err(Trouble::Unreachable)));
        assert_eq!(link.pass("/a".into()).err(), Some(Trouble::Unreachable));
        line::send(&helper, &EdgeTold::Began, None).unwrap();
        until("the next helper", || link.trouble().is_none());
        assert_eq!(status(&link, "/a"), None);
        assert!(link.pass("/a".into()).is_ok());
    }
}
