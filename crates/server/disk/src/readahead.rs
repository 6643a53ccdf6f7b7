//! Readahead: loads a part of a file into the page cache, without a copy and without blocking the thread.
//!
//! Threads read what is worth memory as a sequential reader would, so that it comes in large folios ([`crate::populate`]). For the rest, the kernel
//! is asked for the whole part at once (`WILLNEED`, on one of the ring's threads), and loads nothing else. That starts the disk, but nothing reports
//! when the disk is done. So the first missing page is touched: one byte of it is read through the ring, and that read completes when the page is
//! there. This repeats until no page is missing.
//!
//! A [`Budget`] that all sessions of a worker share limits how much is requested. A share is held until its bytes were sent and the disk is done with
//! them: a disk read cannot be cancelled, so it continues after its viewer has left or stopped reading. A session that gets no share reads into a
//! buffer instead, and buffers are bounded too. If the page cache evicts a part as fast as it is loaded (a library much larger than memory, too many
//! viewers), the response stops trying after a few rounds.

use crate::error::ReadError;
use crate::file::File;
use crate::populate::{Population, Populator};
use reactor::{Fd, Priority, op, spawn};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The size of one request to the kernel: its default read-ahead (`/sys/class/bdi/*/read_ahead_kb`). The kernel may cut a larger request to that
/// much.
const PIECE_BYTES: u64 = 128 << 10;

/// How many windows to request beyond the one that is due, if the budget allows; and the same for a disk that rotates.
const WINDOWS_AHEAD: u64 = 3;
const WINDOWS_AHEAD_ROTATING: u64 = 7;

/// Touches per page before a part counts as evicted again: a page may go missing once or twice.
const ROUNDS_MAX: u64 = 2;

/// Bytes that all viewers of a worker may take together, for example bytes being read into the page cache.
#[derive(Clone, Debug)]
pub struct Budget(Rc<Left>);

#[derive(Debug)]
struct Left {
    bytes: Cell<u64>,
    /// Bytes taken for each disk.
    taken: RefCell<BTreeMap<u64, u64>>,
}

/// One disk may take at most this many times what remains of a budget, as with buffers ([`reactor::Pool`]). So a disk that hangs leaves some for the
/// others.
const SHARE_OF_LEFT: u64 = 3;

impl Budget {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self(Rc::new(Left { bytes: Cell::new(bytes), taken: RefCell::default() }))
    }

    /// Bytes not taken by any share.
    pub fn left_bytes(&self) -> u64 {
        self.0.bytes.get()
    }

    /// Takes `bytes`, if that many remain.
    pub fn take(&self, bytes: u64) -> Option<BudgetShare> {
        self.0.bytes.set(self.left_bytes().checked_sub(bytes)?);
        Some(BudgetShare { budget: self.clone(), bytes, disk: None })
    }

    /// Takes `bytes` for something that waits for `disk`, if enough remains for other disks.
    pub fn take_for(&self, disk: u64, bytes: u64) -> Option<BudgetShare> {
        let taken = self.0.taken.borrow().get(&disk).copied().unwrap_or(0);
        let left = self.left_bytes().checked_sub(bytes)?;
        if taken > 0 && taken + bytes > SHARE_OF_LEFT * left {
            return None;
        }
        self.0.taken.borrow_mut().insert(disk, taken + bytes);
        let mut share = self.take(bytes)?;
        share.disk = Some(disk);
        Some(share)
    }
}

/// A part of a budget, given back when dropped.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Budget,
    bytes: u64,
    disk: Option<u64>,
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.0.bytes.set(self.budget.left_bytes() + self.bytes);
        if let Some(disk) = self.disk {
            *self.budget.0.taken.borrow_mut().entry(disk).or_default() -= self.bytes;
        }
    }
}

/// The readahead of one response.
#[derive(Debug)]
pub struct Readahead {
    budget: Budget,
    /// Requested and not sent yet: consecutive parts of a file.
    asked: VecDeque<Asked>,
    /// The last range requested without a gap, whether it was sent or released, in any number of steps.
    asked_ever: Range<u64>,
    /// Loads parts that are worth memory, in large folios.
    populator: Option<Rc<Populator>>,
    /// Whether the last due window is worth memory.
    keeps: bool,
    populating: Rc<Populating>,
}

#[derive(Debug)]
struct Asked {
    range: Range<u64>,
    /// None if it was cached already.
    share: Option<Rc<BudgetShare>>,
}

/// A part to load, its file, and its share of the budget.
type Part = (Population, Fd, Rc<BudgetShare>);

/// The parts that one response loads in large folios, one after the other: two at a time would each make the kernel start over with small folios.
#[derive(Debug, Default)]
struct Populating {
    queue: RefCell<VecDeque<Part>>,
    /// The part that the task is loading, while there is a task.
    in_hand: RefCell<Option<(Range<u64>, Priority)>>,
    waiting: RefCell<Option<Waker>>,
}

impl Readahead {
    /// Starts with nothing requested. Later requests take their share of `budget`.
    pub fn new(budget: Budget) -> Self {
        let (asked, populating) = Default::default();
        Self { budget, asked, asked_ever: 0..0, populator: None, keeps: false, populating }
    }

    /// The same, except that `populator`, if there is one, loads what is worth memory.
    pub fn populated_by(self, populator: Option<Rc<Populator>>) -> Self {
        Self { populator, ..self }
    }

    /// Loads `range`. If `ahead`, also requests what follows, up to `end`. If it `keeps` the bytes, they are worth memory for later viewers. Returns
    /// whether all of `range` was in the page cache a moment ago. If not, the budget is used up, the kernel does not report what is cached, or it
    /// evicted the pages again.
    ///
    /// # Errors
    /// The disk failed, or the file was truncated.
    pub async fn bring(
        &mut self,
        file: &File,
        range: Range<u64>,
        end: u64,
        ahead: bool,
        keeps: bool,
    ) -> Result<bool, ReadError> {
        self.keeps = keeps;
        if !self.asked_range().contains(&range.start) {
            self.give_back();
        }
        let rest = self.asked_range().end.max(range.start)..range.end;
        if !rest.is_empty() && !self.ask(file, rest) {
            return Ok(false);
        }
        if ahead {
            self.ask_ahead(file, &range, end);
        }
        self.populating.hasten(&range);
        self.populating.has_done(&range).await;
        let brought = touch_missing(file, range).await;
        if matches!(brought, Err(ReadError::Io(_))) {
            file.suspect();
        }
        brought
    }

    /// Requests a few more windows of the same size after `range`, up to `end`, if the budget allows. Does not wait.
    pub fn ask_ahead(&mut self, file: &File, range: &Range<u64>, end: u64) {
        let window_bytes = range.end - range.start;
        let windows = if file.rotates() { WINDOWS_AHEAD_ROTATING } else { WINDOWS_AHEAD };
        let ahead_end = end.min(range.end + windows * window_bytes);
        let mut start = self.asked_range().end;
        while start < ahead_end {
            let next = start..ahead_end.min(start + window_bytes);
            start = next.end;
            if file.has_all_pages(&next) {
                // Nothing to request. Most of a film may be cached, with few pages evicted.
                self.asked.push_back(Asked { range: next, share: None });
            } else if !self.ask(file, next) {
                return;
            }
        }
    }

    /// Returns true if `range` was requested and not sent yet.
    pub fn has_asked_for(&self, range: &Range<u64>) -> bool {
        let asked = self.asked_range();
        asked.start <= range.start && range.end <= asked.end
    }

    /// Guesses whether `range`, which is in the page cache, was loaded for this response.
    pub fn has_brought(&self, range: &Range<u64>) -> bool {
        // The kernel reads whole pages.
        let ever_end = self.asked_ever.end.next_multiple_of(rustix::param::page_size() as u64);
        self.asked.iter().any(|asked| asked.share.is_some() && overlap(&asked.range, range))
            || self.asked_ever.start <= range.start && range.end <= ever_end
    }

    /// Records that everything before `offset` was sent.
    pub fn sent_to(&mut self, offset: u64) {
        while self.asked.front().is_some_and(|first| first.range.end <= offset) {
            self.asked.pop_front();
        }
    }

    /// The requested bytes after `offset`.
    pub fn unsent(&self, offset: u64) -> Range<u64> {
        offset.max(self.asked_ever.start)..self.asked_ever.end
    }

    /// Returns the budget's shares, because the viewer does not take the loaded bytes.
    pub fn give_back(&mut self) {
        self.asked.clear();
    }

    fn asked_range(&self) -> Range<u64> {
        match (self.asked.front(), self.asked.back()) {
            (Some(first), Some(last)) => first.range.start..last.range.end,
            _ => 0..0,
        }
    }

    /// Requests `range` from the disk, if the budget allows.
    fn ask(&mut self, file: &File, range: Range<u64>) -> bool {
        let disk = file.stamp().device;
        let Some(share) = self.budget.take_for(disk, range.end - range.start).map(Rc::new) else {
            return false;
        };
        file.asks_disk(&range);
        let populator = self.populator.as_ref().filter(|_| self.keeps);
        // Raised if the viewer comes to wait for it.
        let populate =
            |populator: &Rc<Populator>| populator.of(file, range.clone(), Priority::low());
        match populator.and_then(populate) {
            Some(population) => {
                self.populating.add(population, file.fd().clone(), Rc::clone(&share));
            }
            None => spawn(ask_for(file.fd().clone(), range.clone(), Rc::clone(&share))),
        }
        self.asked_ever = joined(&self.asked_ever, &range);
        self.asked.push_back(Asked { range, share: Some(share) });
        true
    }
}

impl Populating {
    /// Loads this part after those that were added before, and holds its share of the budget until then.
    fn add(self: &Rc<Self>, population: Population, file: Fd, share: Rc<BudgetShare>) {
        self.queue.borrow_mut().push_back((population, file, share));
        if self.in_hand.borrow().is_none() {
            *self.in_hand.borrow_mut() = Some((0..0, Priority::HIGH));
            let populating = Rc::clone(self);
            spawn(async move { populating.work().await });
        }
    }

    async fn work(&self) {
        loop {
            let next = self.queue.borrow_mut().pop_front();
            let part = |(next, ..): &Part| (next.range(), next.priority().clone());
            *self.in_hand.borrow_mut() = next.as_ref().map(part);
            self.waiting.take().into_iter().for_each(Waker::wake);
            let Some((population, file, share)) = next else { return };
            let range = population.range();
            // Without a thread the ring loads it. A part that cannot be loaded is missing afterwards, and the response that needs it asks again.
            if population.run_alone().await.is_none() {
                ask_for(file, range, share).await;
            }
        }
    }

    /// Has the parts of `range` loaded next, before loads ahead of other viewers, because the viewer waits for them. Those of this response that were
    /// asked for earlier come after them, except for the one in hand.
    fn hasten(&self, range: &Range<u64>) {
        let mut queue = self.queue.borrow_mut();
        queue.make_contiguous().sort_by_key(|(part, ..)| !overlap(&part.range(), range));
        let mut is_queued = false;
        for (part, ..) in queue.iter().take_while(|(part, ..)| overlap(&part.range(), range)) {
            part.priority().raise();
            is_queued = true;
        }
        if let Some((in_hand, priority)) = &*self.in_hand.borrow() {
            // The others wait until it is done.
            if is_queued || overlap(in_hand, range) {
                priority.raise();
            }
        }
    }

    /// Waits until nothing of `range` is queued or being loaded.
    async fn has_done(&self, range: &Range<u64>) {
        poll_fn(|context| {
            let is_queued =
                self.queue.borrow().iter().any(|(part, ..)| overlap(&part.range(), range));
            let in_hand = self.in_hand.borrow();
            if is_queued || in_hand.as_ref().is_some_and(|(in_hand, _)| overlap(in_hand, range)) {
                *self.waiting.borrow_mut() = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Both ranges as one if they touch, else `next`. A range released and requested again in smaller steps may end earlier than before: the rest was
/// requested as well, and is still being read.
fn joined(before: &Range<u64>, next: &Range<u64>) -> Range<u64> {
    if before.start <= next.end && next.start <= before.end {
        before.start.min(next.start)..before.end.max(next.end)
    } else {
        next.clone()
    }
}

/// Holds its share of the budget until the disk has read the end of `range`.
async fn ask_for(file: Fd, range: Range<u64>, _share: Rc<BudgetShare>) {
    let pieces = range.clone().step_by(PIECE_BYTES as usize);
    let asked: Vec<_> = pieces
        .map(|start| op::will_need(&file, start, PIECE_BYTES.min(range.end - start) as u32))
        .collect();
    for asking in asked {
        // If the kernel ignores the advice, touching the pages loads them all the same.
        let _ = asking.await;
    }
    // If this fails, the session that sends these bytes gets the error from its own reads.
    let _ = op::touch(&file, range.end - 1).await;
}

/// Drops the pages of `range` from the page cache, except those in use. The page in which the range begins is dropped as well, because the bytes
/// before it were sent already. The page in which it ends stays, unless the file ends there.
pub async fn drop_pages(file: &Fd, range: Range<u64>) {
    const BYTES_MAX: u64 = 1 << 30;
    let page_bytes = rustix::param::page_size() as u64;
    let first = range.start / page_bytes * page_bytes;
    for start in (first..range.end).step_by(BYTES_MAX as usize) {
        // A kernel that ignores the advice evicts them in its own time.
        let _ = op::wont_need(file, start, BYTES_MAX.min(range.end - start) as u32).await;
    }
}

async fn touch_missing(file: &File, range: Range<u64>) -> Result<bool, ReadError> {
    let page_bytes = rustix::param::page_size() as u64;
    let mut rounds_left = ROUNDS_MAX * (range.end - range.start).div_ceil(page_bytes) + ROUNDS_MAX;
    loop {
        match file.first_missing(range.clone()) {
            None => return Ok(false),
            Some(missing) if missing >= range.end => return Ok(true),
            Some(_) if rounds_left == 0 => return Ok(false),
            Some(missing) => match op::touch(file.fd(), missing).await.0 {
                Ok(0) => return Err(file.why_short()),
                Ok(_) => rounds_left -= 1,
                Err(error) => {
                    return Err(ReadError::Io(error.raw_os_error().unwrap_or(libc::EIO)));
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::populate::{hang, patient};
    use reactor::{Reactor, RingOptions, timeout_at, yield_now};

    const MIB: u64 = 1 << 20;

    /// A viewer's readahead while all threads of the file's disk are busy: what it asks for waits.
    #[test]
    fn what_a_viewer_waits_for_is_loaded_before_what_was_asked_ahead_and_only_once() {
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        let test = async move {
            let file = tempfile::tempfile().unwrap();
            file.set_len(4 * MIB).unwrap();
            let file = File::new(file.into()).unwrap();
            let populator = Rc::new(patient());
            let releases = hang(&populator, file.stamp().device).await;
            let budget = Budget::new(64 * MIB);
            let mut readahead =
                Readahead::new(budget.clone()).populated_by(Some(Rc::clone(&populator)));
            readahead.keeps = true;
            for part in 0..4 {
                assert!(readahead.ask(&file, part * MIB..(part + 1) * MIB));
            }
            let populating = Rc::clone(&readahead.populating);
            let in_hand = || populating.in_hand.borrow().clone().unwrap();
            while in_hand().0.is_empty() {
                yield_now().await;
            }
            let queued = || -> Vec<(u64, bool)> {
                let queue = populating.queue.borrow();
                let state =
                    |(part, ..): &Part| (part.range().start / MIB, part.priority().is_high());
                queue.iter().map(state).collect()
            };
            assert_eq!(queued(), [(1, false), (2, false), (3, false)]);
            assert!(in_hand().0 == (0..MIB) && !in_hand().1.is_high());
            // The viewer waits for the third part. It is polled once, and still waits afterwards.
            let now = std::time::Instant::now();
            let due = readahead.bring(&file, 2 * MIB..3 * MIB, 4 * MIB, false, true);
            assert!(timeout_at(now, due).await.is_err());
            assert_eq!(queued(), [(2, true), (1, false), (3, false)], "nothing is asked for twice");
            assert!(in_hand().1.is_high(), "the third part waits for it");
            assert_eq!(budget.left_bytes(), 60 * MIB);
            drop(releases);
            assert!(
                readahead.bring(&file, 2 * MIB..3 * MIB, 4 * MIB, false, true).await.is_ok(),
                "nothing is lost"
            );
        };
        reactor.run(test).unwrap();
    }
}
