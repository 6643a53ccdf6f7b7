//! The workers' shared knowledge of the origin's objects, from the helper's reports.

use super::ahead::AheadLink;
use super::cached::{Cached, Live};
use super::held_places::HeldPlaces;
use super::inquiring::Inquiring;
use super::origin_health::OriginHealth;
use super::passing::{Passing, SharedResponse, Ticket};
use super::purging::{BegunPurge, PurgeCounts, PurgeFailed, Purging};
use super::spellings::Spellings;
use super::table::{Question, Reply, Table, Wanted};
use super::{NoAnswer, QueueFull};
use crate::redact;
use disk::sparse_file::NOBODY;
use disk::{ARRIVAL_BYTES, PresentBlocks};
use edge::contract::{
    BLOCK_BYTES, Described, EdgeAsk, EdgeTold, ForwardedRequest, PassedResponse, Trouble,
};
use edge::purge::Purge;
use helper_process::packets;
use reactor::{Remote, Woken, remote};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

const _: () = assert!(BLOCK_BYTES == ARRIVAL_BYTES, "both sides count the same blocks");

/// How often trouble is reported to the operator; the counters count all of it.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// How long to wait for the helper. It normally answers long before this; after it, the viewer gets a 504.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(90);

/// How often something happened, by reason.
type Counts = BTreeMap<&'static str, u64>;

/// The report to the operator when the helper is gone for good.
const GONE: &str = "the edge's helper and its keeper are gone: nothing is fetched any more, and what is cached is served only for as long as the origin allows; restart the server";

/// State shared by workers.
pub(crate) struct EdgeLink {
    table: Mutex<Table>,
    asks: Sender<EdgeAsk>,
    remotes: Vec<Remote>,
    woken: Mutex<Vec<Option<Woken>>>,
    objects_max: usize,
    fetched_bytes: AtomicU64,
    pub(super) origin_health: OriginHealth,
    failures: Mutex<Counts>,
    retries: Mutex<Counts>,
    dropped: Mutex<Counts>,
    passing: Passing,
    held_places: HeldPlaces,
    pub(super) purging: Purging,
    pub(super) inquiring: Inquiring,
    pub(super) ahead: AheadLink,
    /// How the origin spells names.
    pub(super) spellings: Spellings,
    askers: AtomicU64,
    told: Mutex<Option<Instant>>,
    /// Keeps other servers off the cache for as long as this one runs.
    _lock: File,
}

impl EdgeLink {
    /// Starts the threads that talk to the helper at the other end of `socket`. The table holds at most `objects_max` objects.
    pub(super) fn start(
        socket: OwnedFd,
        lock: File,
        workers: usize,
        (objects_max, passed_bytes_max): (usize, u64),
        origins: Vec<String>,
    ) -> io::Result<Arc<Self>> {
        let (asks, asked) = channel();
        let held_places = HeldPlaces::default();
        let passing = Passing::new(passed_bytes_max, held_places.clone(), Sender::clone(&asks));
        let ends = (0..workers).map(|_| remote()).collect::<io::Result<Vec<_>>>()?;
        let (remotes, woken): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let link = Arc::new(Self {
            table: Mutex::new(Table::new(held_places.clone())),
            asks,
            remotes,
            woken: Mutex::new(woken.into_iter().map(Some).collect()),
            objects_max,
            fetched_bytes: AtomicU64::new(0),
            origin_health: OriginHealth::new(origins),
            failures: Mutex::default(),
            retries: Mutex::default(),
            dropped: Mutex::default(),
            passing,
            held_places,
            purging: Purging::default(),
            inquiring: Inquiring::default(),
            ahead: AheadLink::default(),
            spellings: Spellings::default(),
            askers: AtomicU64::new(1),
            told: Mutex::default(),
            _lock: lock,
        });
        let (out, listener) = (socket.try_clone()?, Arc::clone(&link));
        // The link has the sending end of the channel, and the thread ends when that is dropped.
        let asking = Arc::downgrade(&link);
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("edge-asks").spawn(move || ask_all(&out, &asked, &asking))?;
        thread("edge-told").spawn(move || listener.listen(&socket))?;
        Ok(link)
    }

    fn listen(&self, socket: &OwnedFd) {
        let mut buffer = Vec::new();
        loop {
            match packets::receive::<EdgeTold>(socket, &mut buffer) {
                Ok(Some((told, file))) => match told.check() {
                    Ok(()) => self.take(told, file),
                    Err(why) => {
                        self.spoil(told);
                        self.complain(&format!(
                            "ignored a message from the edge's helper: it contains {why}"
                        ));
                    }
                },
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.complain(&format!("ignored a message from the edge's helper: {error}"));
                }
                Err(error) => {
                    self.complain(&format!("cannot receive from the edge's helper: {error}"));
                    break;
                }
            }
            self.send_questions();
            self.wake_all();
        }
        let mut table = self.table();
        table.absence = Some(GONE.to_owned());
        table.forget_questions();
        table.live().for_each(|live| live.arrived.end(NOBODY));
        drop(table);
        self.passing.forget();
        self.purging.fail(GONE);
        self.inquiring.fail(GONE);
        self.wake_all();
        self.complain(GONE);
    }

    fn take(&self, told: EdgeTold, file: Option<OwnedFd>) {
        match told {
            EdgeTold::Began => {
                let mut table = self.table();
                table.absence = None;
                table.forget_questions();
                table.live().for_each(|live| live.forget_helper());
                drop(table);
                self.origin_health.forget_passed_over();
                // The new helper says so if it pauses.
                self.ahead.note([0; 3], false);
                self.passing.forget();
                let again = self.purging.again().into_iter().chain(self.inquiring.again());
                again.for_each(|ask| self.ask(ask));
            }
            EdgeTold::CannotBegin { said } => self.note_cannot_begin(&said),
            EdgeTold::Object(described) => self.take_object(described, file),
            EdgeTold::Refused { path, why, for_ms, said } => {
                self.table().refuse(&path, why, Duration::from_millis(for_ms));
                self.count_failure(why, &said);
            }
            EdgeTold::There { object, first, end, fetched_bytes } => {
                self.fetched_bytes.fetch_add(fetched_bytes, Relaxed);
                if fetched_bytes > 0 {
                    self.origin_health.note(None);
                }
                self.live(object).iter().for_each(|live| live.arrived.note(first..end));
            }
            EdgeTold::Failed { object, first, end, why, said } => {
                if let Some(live) = self.live(object) {
                    live.fail(first..end, why);
                }
                self.count_failure(why, &said);
            }
            EdgeTold::NoObject { path, for_ms, shared, except_ms } => {
                self.origin_health.note(None);
                shared.iter().for_each(|response| self.note_fetched(response));
                let except = Duration::from_millis(except_ms);
                let shared =
                    shared.and_then(|response| SharedResponse::new(*response, file, except));
                self.table().no_object(&path, Duration::from_millis(for_ms), shared);
            }
            EdgeTold::Invalid { path, object } => self.table().invalidate(&path, object),
            EdgeTold::Stale { object } => {
                self.live(object).iter().for_each(|live| live.make_stale());
            }
            EdgeTold::Purged { ticket, purged } => {
                let line = self.purging.done(ticket, purged);
                line.iter().for_each(|line| eprintln!("fullbore: {line}"));
            }
            EdgeTold::Passed { ticket, response } => self.take_passed(ticket, *response, file),
            EdgeTold::Grown { object, bytes, is_whole } => self.grow(object, bytes, is_whole),
            EdgeTold::Held { path } => self.table().hold(&path),
            EdgeTold::PassHeld { ticket } => self.passing.hold(ticket),
            // No viewer waits for the answer, so it is no failure.
            EdgeTold::Stopped { ticket } => self.passing.refuse(ticket, Trouble::Unreachable),
            EdgeTold::NotPassed { ticket, why, said } => {
                self.passing.refuse(ticket, why);
                self.count_failure(why, &said);
            }
            EdgeTold::Asked(asked) => self.origin_health.note_asked(&asked),
            EdgeTold::Ahead { fetched, used, wasted, is_paused } => {
                self.ahead.note([fetched, used, wasted], is_paused);
            }
            EdgeTold::TriedAgain { why } => count(&self.retries, why.as_str()),
            EdgeTold::Dropped { why } => count(&self.dropped, why.as_str()),
            EdgeTold::Found { ticket, findings } => self.inquiring.done(ticket, *findings),
            EdgeTold::Ended { object, why } => self.table().end(object, why),
        }
    }

    /// A helper cannot start: nothing answers until another one does.
    fn note_cannot_begin(&self, said: &str) {
        const WHY: &str = "the edge's helper cannot begin, see the log";
        // The helper has reported it to the operator by itself.
        let said = ingest::shown(said).into_owned();
        let mut table = self.table();
        table.absence =
            Some(format!("the edge's helper cannot begin, so nothing is fetched: {said}"));
        table.forget_questions();
        table.live().for_each(|live| live.fail_asked(Trouble::Unreachable));
        drop(table);
        self.passing.forget();
        self.purging.fail(WHY);
        self.inquiring.fail(WHY);
    }

    /// The helper sent a message that can't be used. Requests that wait for it fail, and its slot is freed.
    fn spoil(&self, told: EdgeTold) {
        match told {
            EdgeTold::Object(Described { path, .. })
            | EdgeTold::Refused { path, .. }
            | EdgeTold::NoObject { path, .. } => {
                self.table().spoil(&path);
            }
            EdgeTold::Passed { ticket, .. } => {
                // Its viewer gets nothing of it.
                self.ask(EdgeAsk::Left { ticket });
                self.passing.refuse(ticket, Trouble::Wrong);
            }
            _ => {}
        }
    }

    /// More has arrived of a response whose length is not known.
    fn grow(&self, object: u64, bytes: u64, is_whole: bool) {
        let Some(live) = self.live(object) else { return };
        match live.grow(bytes, is_whole) {
            Some(new) => {
                self.fetched_bytes.fetch_add(new, Relaxed);
            }
            None => {
                // Its viewer's connection ends.
                let said = format!(
                    "{}: a response without a Content-Length has filled the space for responses that are not cached; raise --cache-gib",
                    live.path()
                );
                self.count_failure(Trouble::Full, &said);
            }
        }
    }

    fn take_passed(&self, ticket: u64, response: PassedResponse, file: Option<OwnedFd>) {
        if !response.is_hit {
            self.origin_health.note(response.failure);
            self.note_fetched(&response);
        }
        if let Some(why) = response.failure {
            // The viewer gets the origin's own words, so the operator gets a number.
            count(&self.failures, why.as_str());
        }
        let known = self.live(response.object);
        let live = self.passing.take(ticket, response, (file, known));
        if let Some(live) = live {
            // Its blocks are announced like those of an object.
            let mut table = self.table();
            table.live.retain(|_, live| live.strong_count() > 0);
            table.live.insert(live.number, Arc::downgrade(&live));
        }
    }

    /// Counts a body that is complete when its response is reported. Others are counted as they arrive.
    fn note_fetched(&self, response: &PassedResponse) {
        if response.is_complete {
            self.fetched_bytes.fetch_add(response.size.unwrap_or_default(), Relaxed);
        }
    }

    fn take_object(&self, described: Described, file: Option<OwnedFd>) {
        // A film that is fresh after a restart doesn't show it, but the next request that the origin has to answer does.
        if !described.is_stale {
            self.origin_health.note(None);
        }
        let mut table = self.table();
        let known = table.live.get(&described.object).and_then(Weak::upgrade);
        let live = match (known, file) {
            (Some(known), _) if known.arrived.size() == described.size => known,
            (None, Some(file)) => {
                let number = described.object;
                let live = Live::new(number, file, PresentBlocks::new(described.size));
                let live = Arc::new(live);
                table.live.insert(number, Arc::downgrade(&live));
                live
            }
            // The process is out of descriptors, so the kernel has dropped it; or it is the number of another object.
            (Some(_), _) | (None, None) => {
                table.refuse(&described.path, Trouble::Full, Duration::from_secs(1));
                return;
            }
        };
        let path = described.path.clone();
        table.put(&path, Cached::new(live, described));
        table.bound(self.objects_max);
    }

    /// The object at `path`, if it is known and either fresh or confirmed after `since`. Otherwise the helper is asked when it is `client`'s
    /// turn; if the origin allows it, the viewer doesn't wait for the answer (`stale-while-revalidate`).
    ///
    /// # Errors
    /// If there is no answer, or too many questions wait.
    pub(super) fn look(
        &self,
        path: &str,
        wanted: &Wanted<'_>,
        since: Instant,
        client: IpAddr,
    ) -> Result<Looked<'_>, NoAnswer> {
        let (mut table, now) = (self.table(), Instant::now());
        if let Some(answer) = table.look(path, since, now) {
            return answer.map(Looked::Found).map_err(NoAnswer::from);
        }
        let meanwhile = table.revalidated_later(path, now);
        let asked = match table.ask(path, wanted, client) {
            Ok((question, has_displaced)) => {
                if has_displaced {
                    self.wake_all();
                }
                Ok(Looked::Waits(Waiting { link: self, question }))
            }
            Err(no_turn) => match table.stale(path, now) {
                Some(cached) => Ok(Looked::Found(cached)),
                None => Err(no_turn),
            },
        };
        drop(table);
        self.send_questions();
        if let Some(cached) = meanwhile {
            // The question goes on without this viewer if it has been sent. If not, the next viewer asks.
            return Ok(Looked::Found(cached));
        }
        asked.map_err(|no_turn| {
            self.complain_of_queue(no_turn, client);
            NoAnswer::QueueFull(no_turn)
        })
    }

    /// Asks the helper to fetch blocks of an object.
    pub(super) fn bring(&self, object: u64, blocks: Range<u64>) {
        // The blocks are marked as requested by now. So either this or the thread that records the helper's end sees the other.
        if self.trouble().is_some() {
            if let Some(live) = self.live(object) {
                live.fail(blocks, Trouble::Unreachable);
            }
            self.wake_all();
            return;
        }
        let Range { start: first, end } = blocks;
        self.ask(EdgeAsk::Bring { object, first, end });
    }

    /// A number for a viewer's request.
    pub(super) fn next_asker(&self) -> u64 {
        self.askers.fetch_add(1, Relaxed)
    }

    /// Has the request for `path` answered for one viewer, once it is `client`'s turn.
    ///
    /// # Errors
    /// If there is no helper, or too many questions wait.
    pub(super) fn pass(
        &self,
        path: String,
        asked: (u64, Instant, ForwardedRequest),
        client: IpAddr,
    ) -> Result<Ticket<'_>, NoAnswer> {
        let ticket = self.passing.begin(path, asked, client).map_err(|no_turn| {
            self.complain_of_queue(no_turn, client);
            NoAnswer::QueueFull(no_turn)
        })?;
        // After creating the ticket: so either this or the thread that records the helper's end sees the other.
        if self.trouble().is_some() {
            return Err(Trouble::Unreachable.into());
        }
        if ticket.has_displaced {
            self.wake_all();
        }
        self.send_questions();
        Ok(ticket)
    }

    /// Begins a purge, whose URL is as responses are stored under it, for someone whom the log names.
    ///
    /// # Errors
    /// If it can't be carried out.
    pub(super) fn begin_purge(
        &self,
        purge: Purge,
        by: &str,
    ) -> Result<BegunPurge<'_>, PurgeFailed> {
        let scope = purge.scope.clone();
        let (begun, ask) = self.purging.begin(purge, by)?;
        self.spellings.purge(&scope);
        // After it is listed: so either this or the thread that records the helper's end sees the other.
        if let Some(why) = self.trouble() {
            return Err(PurgeFailed::NoHelper(why));
        }
        self.ask(ask);
        Ok(begun)
    }

    /// Purges since the start.
    pub(super) fn purges(&self) -> PurgeCounts {
        self.purging.counts()
    }

    /// Sends the helper the questions whose turn it is.
    fn send_questions(&self) {
        let mut table = self.table();
        if table.absence.is_none() {
            while let Some(ask) = table.next() {
                self.ask(ask);
            }
            while let Some(ask) = self.passing.next() {
                self.ask(ask);
            }
        }
    }

    /// Number of questions waiting for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.table().waiting() + self.passing.waiting()
    }

    /// Number of questions that the origin holds.
    pub(super) fn held(&self) -> usize {
        self.held_places.taken()
    }

    /// Viewers use these objects.
    pub(super) fn note_used(&self, objects: Vec<u64>) {
        // No thread reads the channel, so messages would pile up.
        if self.trouble().is_some() {
            return;
        }
        self.ask(EdgeAsk::Used { objects });
    }

    pub(super) fn ask(&self, ask: EdgeAsk) {
        // If the thread has ended, the helper is gone, which the other thread announces.
        let _ = self.asks.send(ask);
    }

    /// Answers a question that could not be sent, so that no viewer waits for the helper's answer.
    fn refuse(&self, ask: EdgeAsk, error: &io::Error) {
        let why = if packets::is_too_large(error) { Trouble::Wrong } else { Trouble::Full };
        match ask {
            EdgeAsk::Open { path, .. } => {
                self.table().refuse(&path, why, Duration::from_secs(1));
            }
            EdgeAsk::Bring { object, first, end } => {
                if let Some(live) = self.live(object) {
                    live.fail(first..end, why);
                }
            }
            EdgeAsk::Pass { ticket, .. } => self.passing.refuse(ticket, why),
            EdgeAsk::Purge { ticket, .. } => {
                self.purging.refuse(ticket, "the edge's helper cannot be asked, see the log");
            }
            EdgeAsk::Inquire { .. } => {
                self.inquiring.fail("the edge's helper cannot be asked, see the log");
            }
            // It is reported again in a second; a response that no viewer needs is fetched to its end; and nothing waits for a hint.
            EdgeAsk::Used { .. }
            | EdgeAsk::Left { .. }
            | EdgeAsk::Taken { .. }
            | EdgeAsk::Ahead(_) => {}
        }
        self.count_failure(why, &format!("cannot ask the edge's helper: {error}"));
        self.send_questions();
        self.wake_all();
    }

    /// Why nothing can be fetched, for the operator, if there is no helper.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.table().absence.clone()
    }

    /// Wakes a worker when there is news; returned once.
    pub(super) fn take_woken(&self, worker: usize) -> Option<Woken> {
        let mut woken = self.woken.lock().expect("no holder of this lock can panic");
        woken.get_mut(worker)?.take()
    }

    /// Bytes fetched since the start.
    pub(super) fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Relaxed)
    }

    /// Fetches and writes to the cache that failed, by reason.
    pub(super) fn failures(&self) -> Counts {
        self.failures.lock().expect("no holder of this lock can panic").clone()
    }

    /// Requests to the origin that were made again, by reason.
    pub(super) fn retries(&self) -> Counts {
        self.retries.lock().expect("no holder of this lock can panic").clone()
    }

    /// Responses of an earlier helper that could not be used, by reason.
    pub(super) fn dropped(&self) -> Counts {
        self.dropped.lock().expect("no holder of this lock can panic").clone()
    }

    fn count_failure(&self, why: Trouble, said: &str) {
        self.origin_health.note(Some(why));
        count(&self.failures, why.as_str());
        if why != Trouble::NotFound {
            self.complain(said);
        }
    }

    fn complain_of_queue(&self, no_turn: QueueFull, client: IpAddr) {
        let whose = match no_turn {
            QueueFull::ClientFull => format!("from {client}"),
            QueueFull::Full => "from all viewers".to_owned(),
            QueueFull::Held => {
                return self.complain(&format!(
                    "the origin holds as many requests for live playlists as one edge may have, of {client} or of all viewers: new ones get 503; if a proxy is at that address, see proxy_protocol"
                ));
            }
        };
        self.complain(&format!(
            "too many requests {whose} wait for the origin: new ones get 503 until it answers some; if a proxy is at that address, see proxy_protocol"
        ));
    }

    fn wake_all(&self) {
        self.remotes.iter().for_each(Remote::wake);
    }

    fn complain(&self, what: &str) {
        let mut told = self.told.lock().expect("no holder of this lock can panic");
        if told.is_none_or(|last| last.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            // If the origin checks tokens and this server does not, the path still has its token, or its query has a signature.
            let what = redact::queries(&redact::text(what.as_bytes()));
            eprintln!("fullbore: {}", ingest::shown(&what));
        }
    }

    fn live(&self, object: u64) -> Option<Arc<Live>> {
        self.table().live.get(&object)?.upgrade()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder of this lock can panic")
    }
}

/// Result of looking a path up.
pub(super) enum Looked<'a> {
    /// The object there.
    Found(Arc<Cached>),
    /// The helper is asked, now or once it is the client's turn.
    Waits(Waiting<'a>),
}

/// A viewer's wait for an answer.
pub(super) struct Waiting<'a> {
    link: &'a EdgeLink,
    question: Arc<Question>,
}

impl Waiting<'_> {
    /// The path.
    pub(super) fn path(&self) -> Arc<str> {
        Arc::clone(&self.question.path)
    }

    /// The outcome, once known.
    pub(super) fn reply(&self) -> Option<&Reply> {
        self.question.reply()
    }

    /// Whether it has been sent to the helper.
    pub(super) fn is_under_way(&self) -> bool {
        self.question.is_under_way()
    }

    /// Whether the question is this viewer's, and not one that it shares.
    pub(super) fn is_by(&self, asker: u64) -> bool {
        self.question.is_by(asker)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.table().leave(&self.question, ANSWER_MAX);
    }
}

fn count(counts: &Mutex<Counts>, why: &'static str) {
    let mut counts = counts.lock().expect("no holder of this lock can panic");
    *counts.entry(why).or_default() += 1;
}

/// The thread that sends questions to the helper, and waits when the helper is slow. It ends only with the helper: a question that cannot be sent
/// is refused.
fn ask_all(socket: &OwnedFd, asked: &Receiver<EdgeAsk>, link: &Weak<EdgeLink>) {
    while let Ok(ask) = asked.recv() {
        if let (EdgeAsk::Ahead(_), Some(link)) = (&ask, link.upgrade()) {
            link.ahead.note_sent();
        }
        match packets::send(socket, &ask, None) {
            Ok(()) => {}
            Err(error) if packets::is_gone(&error) => return,
            Err(error) => {
                if let Some(link) = link.upgrade() {
                    link.refuse(ask, &error);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
