//! A worker's files of a caching edge.

use super::link::{Cached, EdgeLink, Live};
use super::passing::ForOne;
use disk::{Arriving, File, Waiters};
use edge::contract::Trouble;
use edge::escaped;
use reactor::{Woken, timeout_at};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The helper says something long before this. If it does not, the viewer is told that the origin takes too long.
const ANSWER_MAX: Duration = Duration::from_secs(90);

/// Objects named in one message to the helper.
const USED_MAX: usize = 1000;

/// A worker's files, and what the origin says of them.
pub(crate) struct LocalEdge {
    link: Arc<EdgeLink>,
    worker: usize,
    waiters: Rc<Waiters>,
    open: RefCell<HashMap<Box<[u8]>, Open>>,
    open_max: usize,
}

struct Open {
    file: Rc<File>,
    cached: Arc<Cached>,
    used: Instant,
    is_told: bool,
}

/// How a file was found: a counter's label.
pub(crate) type Lookup = &'static str;

impl LocalEdge {
    /// Keeps at most `open_max` files open.
    pub(crate) fn new(link: Arc<EdgeLink>, worker: usize, open_max: usize) -> Self {
        Self { link, worker, waiters: Rc::default(), open: RefCell::default(), open_max }
    }

    /// What all workers share.
    pub(crate) fn link(&self) -> &EdgeLink {
        &self.link
    }

    /// Whether this worker publishes what all workers share.
    pub(crate) fn publishes(&self) -> bool {
        self.worker == 0
    }

    /// What wakes this worker when there is news; once.
    pub(crate) fn take_woken(&self) -> Option<Woken> {
        self.link.take_woken(self.worker)
    }

    /// There is news for the sessions that wait.
    pub(crate) fn wake(&self) {
        self.waiters.wake_all();
    }

    /// The file at `path`, of which the viewer wants the byte at `offset` first.
    pub(crate) async fn open(
        &self,
        path: &[u8],
        offset: u64,
    ) -> Result<(Rc<File>, Arc<Cached>, Lookup), Trouble> {
        let now = reactor::now();
        if let Some(open) = self.open.borrow_mut().get_mut(path) {
            if open.cached.is_fresh(now) {
                (open.used, open.is_told) = (now, false);
                return Ok((Rc::clone(&open.file), Arc::clone(&open.cached), "hit"));
            }
        }
        let (name, since) = (escaped(path), Instant::now());
        let mut has_waited = false;
        let cached = loop {
            if let Some(answer) = self.link.look(&name, offset, since) {
                break answer?;
            }
            has_waited = true;
            if timeout_at(since + ANSWER_MAX, self.waiters.changed()).await.is_err() {
                return Err(Trouble::TimedOut);
            }
        };
        let lookup = match (cached.is_stale(since), has_waited) {
            (true, _) => "stale",
            (false, true) => "asked",
            (false, false) => "hit",
        };
        let file = self.file(path, &cached)?;
        Ok((file, cached, lookup))
    }

    /// What is at `path`, fetched for this viewer alone. The file ends with its last user.
    pub(crate) async fn pass(&self, path: &[u8]) -> Result<(Rc<File>, Arc<Cached>), Trouble> {
        let (ticket, since) = (self.link.pass(escaped(path))?, Instant::now());
        let ForOne { cached, taken } = loop {
            if let Some(answer) = ticket.answer() {
                break answer?;
            }
            if timeout_at(since + ANSWER_MAX, self.waiters.changed()).await.is_err() {
                return Err(Trouble::TimedOut);
            }
        };
        // All of it is there, so nothing is ever asked for; the file holds its room on the disk by this.
        let ask = move |_| {
            let _held = &taken;
        };
        Ok((self.opened(&cached.live, ask)?, cached))
    }

    fn opened(&self, live: &Live, ask: impl Fn(Range<u64>) + 'static) -> Result<Rc<File>, Trouble> {
        let arriving = Arriving::new(Arc::clone(&live.arrived), ask, Rc::clone(&self.waiters));
        // Out of descriptors: the same as a cache without room.
        let descriptor = live.file.try_clone().map_err(|_| Trouble::Full)?;
        let file = File::arriving(descriptor, live.number, arriving);
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

    /// Once a second: tells which objects are used, and lets go of those that have ended.
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

fn forget_oldest(open: &mut HashMap<Box<[u8]>, Open>) {
    let oldest = open.iter().min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone());
    if let Some(path) = oldest {
        open.remove(&path);
    }
}
