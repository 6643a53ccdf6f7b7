//! A file that is being brought, block by block, while it is read.
//!
//! Another process writes its blocks and says when each is there ([`ArrivedBlocks`]). Until then the block is a hole, which would be read as zeros.
//! So every read here first waits for the blocks that it touches (`Arriving::wait`).
//!
//! Invariants:
//! - A block that is there is never written again, and the file never changes its length. So bytes need no check of the file's times,
//!   and the kernel may send them by itself without a lease.
//! - A version of the object at the origin is a file of its own. What belongs to another version never gets into this one.

use crate::error::ReadError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// The unit in which files arrive: large enough that a request to the origin is worth its round trip, and small enough that the first bytes
/// of a seek wait for 8 ms on a link of 1 Gb/s.
pub const ARRIVAL_BYTES: u64 = 1 << 20;

/// How far a response asks ahead of what it sends: two seconds of a film of 30 Mb/s, which hides round trips to any origin.
const AHEAD_BLOCKS: u64 = 8;

/// More is asked for when fewer than so many blocks are ahead, so that one request brings several.
const AHEAD_BLOCKS_MIN: u64 = 4;

/// Who brings blocks says so long before this, or what is wrong. This is for the case that nobody says anything any more.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// The reason of [`ReadError::NotBrought`] if nobody brings anything any more.
pub const NOBODY: u8 = u8::MAX;

/// Which blocks of a file are there. All threads share it.
#[derive(Debug)]
pub struct ArrivedBlocks {
    size: u64,
    missing: AtomicU64,
    there: Box<[AtomicU64]>,
    /// Blocks that were asked for since they failed last.
    asked: Box<[AtomicU64]>,
    /// Blocks that did not come: when that was known, and why.
    failed: Mutex<BTreeMap<u64, (Instant, u8)>>,
    /// One more than the reason why nothing comes any more; 0 until then.
    ended: AtomicU64,
}

impl ArrivedBlocks {
    /// A file of `size` bytes, of which nothing is there.
    pub fn new(size: u64) -> Self {
        let blocks = size.div_ceil(ARRIVAL_BYTES);
        let words = || (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self {
            size,
            missing: AtomicU64::new(blocks),
            there: words(),
            asked: words(),
            failed: Mutex::default(),
            ended: AtomicU64::new(0),
        }
    }

    /// The file's length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether every block is there.
    pub fn is_whole(&self) -> bool {
        self.missing.load(Acquire) == 0
    }

    /// Whether every byte of `range` is there.
    pub fn has(&self, range: &Range<u64>) -> bool {
        self.is_whole() || blocks(range).all(|block| is_set(&self.there, block))
    }

    /// These blocks are there. One thread at a time calls it.
    pub fn note(&self, blocks: Range<u64>) {
        for block in self.known(blocks) {
            if !is_set(&self.there, block) {
                set(&self.there, block);
                self.missing.fetch_sub(1, Release);
                self.failed().remove(&block);
            }
        }
    }

    /// These blocks do not come, because of `why`. Whoever waits for them is told; the next to ask causes another try.
    pub fn note_failed(&self, blocks: Range<u64>, why: u8) {
        let now = Instant::now();
        for block in self.known(blocks).filter(|block| !is_set(&self.there, *block)) {
            self.failed().insert(block, (now, why));
            unset(&self.asked, block);
        }
    }

    /// As [`Self::note_failed`], for all blocks that were asked for and are not there.
    pub fn fail_asked(&self, why: u8) {
        for (word, (asked, there)) in self.asked.iter().zip(&self.there).enumerate() {
            let waiting = asked.load(Acquire) & !there.load(Acquire);
            let blocks =
                (0..64).filter(|bit| waiting >> bit & 1 == 1).map(|bit| word as u64 * 64 + bit);
            blocks.for_each(|block| self.note_failed(block..block + 1, why));
        }
    }

    /// Nothing more comes, because of `why`. What is there stays.
    pub fn end(&self, why: u8) {
        self.ended.store(1 + u64::from(why), Release);
    }

    /// Whoever brings blocks has forgotten what was asked for.
    pub fn forget_asked(&self) {
        self.asked.iter().for_each(|word| word.store(0, Relaxed));
    }

    fn known(&self, blocks: Range<u64>) -> Range<u64> {
        blocks.start..blocks.end.min(self.size.div_ceil(ARRIVAL_BYTES))
    }

    /// Marks those of `blocks` that are neither there nor asked for, and returns them.
    fn ask(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in range.filter(|block| !is_set(&self.there, *block)) {
            if set(&self.asked, block) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    fn is_on_its_way(&self, block: u64) -> bool {
        is_set(&self.there, block) || is_set(&self.asked, block)
    }

    /// Why a block of `range` did not come, if that became known after `since`, or if nothing comes any more.
    fn failure(&self, range: &Range<u64>, since: Instant) -> Option<u8> {
        if let Some(why) = self.ended.load(Acquire).checked_sub(1) {
            return Some(why as u8);
        }
        let failed = self.failed();
        let mut failures = failed.range(blocks(range));
        failures.find(|(_, (at, _))| *at >= since).map(|(_, (_, why))| *why)
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, (Instant, u8)>> {
        self.failed.lock().expect("no holder of this lock can panic")
    }
}

fn blocks(range: &Range<u64>) -> Range<u64> {
    range.start / ARRIVAL_BYTES..range.end.div_ceil(ARRIVAL_BYTES)
}

fn is_set(words: &[AtomicU64], block: u64) -> bool {
    words.get((block / 64) as usize).is_some_and(|word| word.load(Acquire) >> (block % 64) & 1 == 1)
}

/// Sets a block's bit, and returns whether it was set.
fn set(words: &[AtomicU64], block: u64) -> bool {
    words[(block / 64) as usize].fetch_or(1 << (block % 64), Release) >> (block % 64) & 1 == 1
}

fn unset(words: &[AtomicU64], block: u64) {
    words[(block / 64) as usize].fetch_and(!(1 << (block % 64)), Release);
}

/// The tasks of one thread that wait for news.
#[derive(Default)]
pub struct Waiters(RefCell<Vec<Waker>>);

impl Waiters {
    /// Waits for the next [`Self::wake_all`].
    pub async fn changed(&self) {
        let mut is_registered = false;
        poll_fn(|context| {
            if std::mem::replace(&mut is_registered, true) {
                return Poll::Ready(());
            }
            self.0.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// There is news: every task that waits looks again.
    pub fn wake_all(&self) {
        let waiting = self.0.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// One thread's way to a file that is being brought.
pub struct Arriving {
    arrived: Arc<ArrivedBlocks>,
    /// Asks for blocks.
    ask: Box<dyn Fn(Range<u64>)>,
    waiters: Rc<Waiters>,
}

impl Arriving {
    /// `ask` has blocks brought; `waiters` are woken when `arrived` has changed.
    pub fn new(
        arrived: Arc<ArrivedBlocks>,
        ask: impl Fn(Range<u64>) + 'static,
        waiters: Rc<Waiters>,
    ) -> Self {
        Self { arrived, ask: Box::new(ask), waiters }
    }

    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.arrived.has(range)
    }

    /// Waits until all of `range` is there. Asks for it and for what follows up to `end`, but not far ahead.
    ///
    /// # Errors
    /// [`ReadError::NotBrought`].
    pub(crate) async fn wait(&self, range: &Range<u64>, end: u64) -> Result<(), ReadError> {
        if self.arrived.is_whole() {
            return Ok(());
        }
        self.ask_ahead(range, end);
        let since = Instant::now();
        while !self.arrived.has(range) {
            if let Some(why) = self.arrived.failure(range, since) {
                return Err(ReadError::NotBrought(why));
            }
            // Again in each turn: whoever brings them may have forgotten.
            self.request(blocks(range));
            if reactor::timeout_at(since + WAIT_MAX, self.waiters.changed()).await.is_err() {
                return Err(ReadError::NotBrought(NOBODY));
            }
        }
        Ok(())
    }

    fn ask_ahead(&self, range: &Range<u64>, end: u64) {
        let all = blocks(&(range.start..end));
        let near = all.start..all.end.min(all.start + AHEAD_BLOCKS_MIN);
        if !near.clone().all(|block| self.arrived.is_on_its_way(block)) {
            self.request(all.start..all.end.min(all.start + AHEAD_BLOCKS));
        }
    }

    fn request(&self, blocks: Range<u64>) {
        self.arrived.ask(blocks).into_iter().for_each(&self.ask);
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of runs, of which there may be one")]
mod tests {
    use super::*;

    const MIB: u64 = ARRIVAL_BYTES;

    #[test]
    fn a_range_is_there_when_each_of_its_blocks_is() {
        let arrived = ArrivedBlocks::new(3 * MIB + 1);
        arrived.note(1..2);
        assert!(arrived.has(&(MIB..2 * MIB)) && arrived.has(&(MIB + 5..MIB + 6)));
        assert!(!arrived.has(&(MIB - 1..MIB + 1)) && !arrived.has(&(MIB..2 * MIB + 1)));
        arrived.note(0..1);
        arrived.note(1..3);
        assert!(!arrived.is_whole(), "one byte is missing");
        arrived.note(3..9);
        assert!(arrived.is_whole() && arrived.has(&(0..3 * MIB + 1)));
        assert!(ArrivedBlocks::new(0).is_whole());
    }

    #[test]
    fn a_block_is_asked_for_once_until_it_fails_or_is_forgotten() {
        let arrived = ArrivedBlocks::new(100 * MIB);
        arrived.note(2..3);
        assert_eq!(arrived.ask(0..5), [0..2, 3..5]);
        assert!(arrived.ask(0..5).is_empty());
        let before = Instant::now();
        arrived.note_failed(3..4, 7);
        assert_eq!(arrived.failure(&(3 * MIB..4 * MIB), before), Some(7));
        assert_eq!(arrived.failure(&(4 * MIB..5 * MIB), before), None, "another block");
        assert_eq!(arrived.ask(0..5), [3..4]);
        arrived.forget_asked();
        assert_eq!(arrived.ask(1..4), [1..2, 3..4]);
        arrived.fail_asked(8);
        assert_eq!(arrived.failure(&(MIB..2 * MIB), before), Some(8));
        assert_eq!(arrived.failure(&(2 * MIB..3 * MIB), before), None, "it is there");
        assert_eq!(arrived.failure(&(70 * MIB..71 * MIB), before), None, "nobody has asked for it");
        assert_eq!(arrived.ask(1..4), [1..2, 3..4]);
        arrived.note(3..4);
        assert_eq!(arrived.failure(&(3 * MIB..4 * MIB), before), None, "it came after all");
        arrived.end(5);
        assert_eq!(arrived.failure(&(4 * MIB..5 * MIB), Instant::now()), Some(5), "for good");
    }
}
