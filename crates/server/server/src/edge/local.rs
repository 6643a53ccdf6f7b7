//! A worker's files of a caching edge.

use super::NoAnswer;
use super::ahead::AheadSettings;
use super::cached::{Cached, Live};
use super::growing::GrowingBody;
use super::key::{KeyRules, escaped_key};
use super::link::{ANSWER_MAX, EdgeLink, Looked, Waiting};
use super::passing::{ForOne, SharedResponse};
use super::purging::{PURGE_MAX, PurgeFailed, purge_of};
use super::table::{Reply, Wanted};
use delivery::Channel;
use disk::{File, SparseFile, Waiters};
use edge::contract::{AnnouncedObject, ForwardedRequest, PassedResponse, Trouble};
use edge::http_cache::RequestDirectives;
use edge::purge::{Purge, Purged};
use reactor::{Woken, timeout_at};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::ops::Range;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long a viewer who has closed its sending half waits for a response that is no object. Most such viewers are gone, and hold the place of
/// another one.
const CLOSED_MAX: Duration = Duration::from_secs(10);

/// Objects named in one message to the helper.
const USED_MAX: usize = 1000;

/// A worker's files, and the origin's answers about them.
pub(crate) struct LocalEdge {
    link: Arc<EdgeLink>,
    worker: usize,
    waiters: Rc<Waiters>,
    open: RefCell<HashMap<Box<[u8]>, Open>>,
    open_max: usize,
    /// The files of shared responses that this worker's sessions are sending: one descriptor for all of them.
    shared: RefCell<HashMap<u64, Weak<File>>>,
}

struct Open {
    file: Rc<File>,
    cached: Arc<Cached>,
    used: Instant,
    is_told: bool,
}

/// The viewer who made the request.
#[derive(Clone, Copy)]
pub(crate) struct Viewer<'a> {
    address: IpAddr,
    channel: &'a Channel,
}

impl<'a> Viewer<'a> {
    /// The viewer at `address`, at the other end of `channel`.
    pub(crate) fn new(address: IpAddr, channel: &'a Channel) -> Self {
        Self { address, channel }
    }

    /// Its address.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whose turn its requests wait for: its address; for IPv6, its network.
    fn client(&self) -> IpAddr {
        net::network(self.address)
    }
}

/// A viewer's request, as it is sent on.
pub(crate) struct Forwarded<'a> {
    asker: u64,
    /// When the viewer made it.
    since: Instant,
    request: &'a dyn Fn() -> ForwardedRequest,
}

/// The body of a response for one viewer.
pub(crate) enum PassedBody {
    /// There is none.
    Empty,
    /// It is this file, or will be.
    File(Rc<File>),
    /// Only its end shows how long it is.
    Growing(GrowingBody),
}

/// How often a viewer asks again because another viewer's question had an answer for that viewer alone. After that, each gets its own response: if
/// the origin refuses everyone, each question would answer only one of those who wait.
const FOR_OTHERS_MAX: u32 = 2;

/// How a file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It was known and fresh.
    Hit,
    /// It is served although it is not fresh.
    Stale,
    /// It was fetched ahead, and this viewer is the first to have it.
    Ahead,
    /// The helper was asked first: for this viewer, or for another one.
    Asked { is_own: bool },
}

impl Lookup {
    /// Its label in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Hit | Self::Ahead => "hit",
            Self::Stale => "stale",
            Self::Asked { .. } => "asked",
        }
    }
}

/// The answer about a path.
pub(crate) enum Opened {
    /// An object.
    Object(Rc<File>, Arc<Cached>, Lookup),
    /// A response that is no object, which the helper gives to all who have waited for it.
    Response(Arc<SharedResponse>),
}

/// The helper's answer to a viewer who has waited for it.
enum Waited {
    /// An object, and whether the helper was asked for this viewer.
    Object(Arc<Cached>, bool),
    Response(Arc<SharedResponse>),
}

impl LocalEdge {
    /// Keeps at most `open_max` files open.
    pub(crate) fn new(link: Arc<EdgeLink>, worker: usize, open_max: usize) -> Self {
        let (waiters, open, shared) = Default::default();
        Self { link, worker, waiters, open, open_max, shared }
    }

    /// State shared by all workers.
    pub(crate) fn link(&self) -> &EdgeLink {
        &self.link
    }

    /// How the origin spells the names in `path`, which is composed, if it is known to spell them in another way.
    pub(crate) fn spelling(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.link.spellings.find(path)
    }

    /// The origin has the file at `path` under this `spelling`.
    pub(crate) fn note_spelling(&self, path: &[u8], spelling: &[u8]) {
        self.link.spellings.note(path, spelling);
    }

    /// The origin has no file at `path`, however it is spelled.
    pub(crate) fn forget_spelling(&self, path: &[u8]) {
        self.link.spellings.forget(path);
    }

    /// Whether this worker publishes the figures that all workers share.
    pub(crate) fn publishes(&self) -> bool {
        self.worker == 0
    }

    /// Wakes this worker when there is news; returned once.
    pub(crate) fn take_woken(&self) -> Option<Woken> {
        self.link.take_woken(self.worker)
    }

    /// Wakes the waiting sessions, because there is news.
    pub(crate) fn wake(&self) {
        self.waiters.wake_all();
    }

    /// The file at `path`, for a viewer who wants the byte at `offset` first.
    pub(crate) async fn open(
        &self,
        path: &[u8],
        (offset, forwarded): (u64, &Forwarded<'_>),
        viewer: Viewer<'_>,
    ) -> Result<Opened, NoAnswer> {
        let now = reactor::now();
        if let Some(open) = self.open.borrow_mut().get_mut(path) {
            if open.cached.is_fresh(now) {
                (open.used, open.is_told) = (now, false);
                let (file, cached) = (Rc::clone(&open.file), Arc::clone(&open.cached));
                return Ok(Opened::Object(file, cached, Lookup::Hit));
            }
        }
        let since = Instant::now();
        let wanted = Wanted { offset, asker: forwarded.asker, request: forwarded.request };
        let looked = self.link.look(&escaped_key(path), &wanted, since, viewer.client())?;
        let (cached, asked) = match looked {
            Looked::Found(cached) => (cached, Lookup::Hit),
            // Boxed, so that requests for a fresh film do not pay for it.
            Looked::Waits(waiting) => {
                match Box::pin(self.wait(waiting, &wanted, since, viewer)).await? {
                    Waited::Object(cached, _) if cached.was_ahead() => (cached, Lookup::Ahead),
                    Waited::Object(cached, is_own) => (cached, Lookup::Asked { is_own }),
                    Waited::Response(shared) => return Ok(Opened::Response(shared)),
                }
            }
        };
        let lookup = if cached.is_stale(since) { Lookup::Stale } else { asked };
        let file = self.file(path, &cached)?;
        Ok(Opened::Object(file, cached, lookup))
    }

    /// Waits for the helper's answer.
    async fn wait(
        &self,
        mut waiting: Waiting<'_>,
        wanted: &Wanted<'_>,
        since: Instant,
        viewer: Viewer<'_>,
    ) -> Result<Waited, NoAnswer> {
        let mut leaving = Leaving::of(viewer);
        let mut for_others = 0;
        loop {
            let asks_again = match waiting.reply() {
                Some(Reply::Is(answer)) => {
                    let is_own = waiting.is_by(wanted.asker);
                    return answer.clone().map(|cached| Waited::Object(cached, is_own));
                }
                Some(Reply::Response(shared)) => {
                    let is_own = waiting.is_by(wanted.asker);
                    if is_own || !shared.is_for(since) || wants_other(&(wanted.request)()) {
                        return Err(Trouble::Uncacheable.into());
                    }
                    return Ok(Waited::Response(Arc::clone(shared)));
                }
                Some(Reply::ForAsker) => {
                    if waiting.is_by(wanted.asker) || for_others == FOR_OTHERS_MAX {
                        return Err(Trouble::Uncacheable.into());
                    }
                    for_others += 1;
                    true
                }
                Some(Reply::AskAgain) => true,
                None => false,
            };
            if asks_again {
                let path = waiting.path();
                match self.link.look(&path, wanted, since, viewer.client())? {
                    Looked::Found(cached) => return Ok(Waited::Object(cached, false)),
                    Looked::Waits(again) => waiting = again,
                }
            }
            if leaving.has_left() && !waiting.is_under_way() {
                return Err(NoAnswer::Left);
            }
            self.news(since + ANSWER_MAX, &mut leaving).await?;
        }
    }

    /// The body of a response that viewers share.
    pub(crate) fn shared_body(&self, shared: &SharedResponse) -> Result<PassedBody, Trouble> {
        let Some(live) = &shared.live else { return Ok(PassedBody::Empty) };
        let mut open = self.shared.borrow_mut();
        if let Some(file) = open.get(&live.number).and_then(Weak::upgrade) {
            return Ok(PassedBody::File(file));
        }
        open.retain(|_, file| file.strong_count() > 0);
        let file = self.opened(live, |_| {})?;
        open.insert(live.number, Rc::downgrade(&file));
        Ok(PassedBody::File(file))
    }

    /// Numbers a viewer's request, and says how it is sent on if it has to be.
    pub(crate) fn forwarded<'f>(&self, request: &'f dyn Fn() -> ForwardedRequest) -> Forwarded<'f> {
        Forwarded { asker: self.link.next_asker(), since: Instant::now(), request }
    }

    /// The response to one viewer's request for `path`, with its body.
    pub(crate) async fn pass(
        &self,
        path: &[u8],
        forwarded: &Forwarded<'_>,
        viewer: Viewer<'_>,
    ) -> Result<(PassedResponse, PassedBody), NoAnswer> {
        let asked = (forwarded.asker, forwarded.since, (forwarded.request)());
        let ticket = self.link.pass(escaped_key(path), asked, viewer.client())?;
        let since = Instant::now();
        let mut leaving = Leaving::of(viewer);
        let ForOne { response, body } = loop {
            if let Some(answer) = ticket.answer() {
                break answer?;
            }
            if leaving.has_left() && !ticket.is_under_way() {
                return Err(NoAnswer::Left);
            }
            let waits_until = match leaving.left_at {
                Some(left_at) => (since + ANSWER_MAX).min(left_at + CLOSED_MAX),
                None => since + ANSWER_MAX,
            };
            if let Err(why) = self.news(waits_until, &mut leaving).await {
                return Err(if leaving.has_left() { NoAnswer::Left } else { why.into() });
            }
        };
        let Some(receiving) = body else { return Ok((response, PassedBody::Empty)) };
        if response.is_growing() {
            let form = (response.is_ring(), response.length);
            let body = GrowingBody::new(receiving, Rc::clone(&self.waiters), form);
            return Ok((response, PassedBody::Growing(body)));
        }
        // All of it is there or on its way, so nothing is asked for; the closure is what holds the file's disk space, and its blocks' news.
        let live = Arc::clone(&receiving.live);
        let ask = move |_| {
            let _held = &receiving;
        };
        Ok((response, PassedBody::File(self.opened(&live, ask)?)))
    }

    /// Tells the helper what the viewer of the response with this key may request next, unless the helper needs no more of it.
    pub(crate) fn hint_ahead(
        &self,
        (settings, viewer): (&AheadSettings, Viewer<'_>),
        key: &[u8],
        (mut announced, is_followed): (Vec<AnnouncedObject>, bool),
    ) {
        announced.retain(|one| !self.link.has_announced(one));
        if !announced.is_empty() || is_followed {
            let path = escaped_key(key);
            self.link.hint(settings.hint(viewer.client(), path, announced, is_followed));
        }
    }

    /// Purges stored responses, and returns what was found once later requests can't get it any more.
    pub(crate) async fn purge(
        &self,
        asked: Purge,
        by: &str,
        rules: &KeyRules,
    ) -> Result<Purged, PurgeFailed> {
        let begun = self.link.begin_purge(purge_of(asked, rules)?, by)?;
        let deadline = Instant::now() + PURGE_MAX;
        loop {
            if let Some(outcome) = begun.outcome() {
                return outcome;
            }
            let changed = timeout_at(deadline, self.waiters.changed()).await;
            changed.map_err(|_| PurgeFailed::TimedOut)?;
        }
    }

    /// Waits for the helper's answer until then, or until the viewer disconnects.
    async fn news(&self, until: Instant, leaving: &mut Leaving<'_>) -> Result<(), Trouble> {
        let mut changed = std::pin::pin!(timeout_at(until, self.waiters.changed()));
        poll_fn(|context| {
            if let Poll::Ready(changed) = changed.as_mut().poll(context) {
                return Poll::Ready(changed.map_err(|_| Trouble::TimedOut));
            }
            if !leaving.has_left() && leaving.left.as_mut().poll(context).is_ready() {
                leaving.left_at = Some(Instant::now());
                return Poll::Ready(Ok(()));
            }
            Poll::Pending
        })
        .await
    }

    fn opened(&self, live: &Live, ask: impl Fn(Range<u64>) + 'static) -> Result<Rc<File>, Trouble> {
        let sparse = SparseFile::new(Arc::clone(&live.arrived), ask, Rc::clone(&self.waiters));
        // Out of descriptors: treated like a cache without room.
        let descriptor = live.file.try_clone().map_err(|_| Trouble::Full)?;
        let file = File::sparse(descriptor, live.number, sparse);
        file.map(Rc::new).map_err(|_| Trouble::Disk)
    }

    /// The open file of an object. It stays open under its path.
    fn file(&self, path: &[u8], cached: &Arc<Cached>) -> Result<Rc<File>, Trouble> {
        let (mut open, now) = (self.open.borrow_mut(), reactor::now());
        if let Some(known) = open.get_mut(path) {
            if known.cached.live.number == cached.live.number {
                let file = Rc::clone(&known.file);
                *known = Open {
                    file: Rc::clone(&file),
                    cached: Arc::clone(cached),
                    used: now,
                    is_told: false,
                };
                return Ok(file);
            }
        }
        let live = &cached.live;
        let (link, number) = (Arc::clone(&self.link), live.number);
        let ask = move |blocks| link.bring(number, blocks);
        let file = self.opened(live, ask)?;
        if open.len() >= self.open_max && !open.contains_key(path) {
            forget_oldest(&mut open);
        }
        let new =
            Open { file: Rc::clone(&file), cached: Arc::clone(cached), used: now, is_told: false };
        open.insert(path.into(), new);
        Ok(file)
    }

    /// Once a second: reports the objects in use, and drops those that have ended.
    pub(crate) fn tick(&self) {
        let mut open = self.open.borrow_mut();
        open.retain(|_, open| !open.cached.is_ended());
        let used =
            open.values_mut().filter(|open| Rc::strong_count(&open.file) > 1 || !open.is_told);
        let numbers: Vec<u64> = used
            .map(|open| {
                open.is_told = true;
                open.cached.live.number
            })
            .collect();
        numbers.chunks(USED_MAX).for_each(|some| self.link.note_used(some.to_vec()));
    }
}

/// Watches for a viewer closing its end. It may have closed only its sending half, and still wait for the answer. So it loses its place in the queue
/// to those behind it, and is answered if there are none.
struct Leaving<'a> {
    left: Pin<Box<dyn Future<Output = ()> + 'a>>,
    left_at: Option<Instant>,
}

impl<'a> Leaving<'a> {
    fn of(viewer: Viewer<'a>) -> Self {
        Self { left: Box::pin(viewer.channel.peer_closed()), left_at: None }
    }

    fn has_left(&self) -> bool {
        self.left_at.is_some()
    }
}

/// Whether a request is not content with what the origin has answered to another one meanwhile.
fn wants_other(request: &ForwardedRequest) -> bool {
    let said = RequestDirectives::of(&request.fields);
    said.no_cache || said.max_age.is_some() || said.min_fresh.is_some()
}

fn forget_oldest(open: &mut HashMap<Box<[u8]>, Open>) {
    let oldest = open.iter().min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone());
    if let Some(path) = oldest {
        open.remove(&path);
    }
}
