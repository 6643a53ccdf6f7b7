//! A sparse file that is still being fetched, block by block, while viewers read it.
//!
//! Another process writes the blocks and reports each one as it arrives ([`PresentBlocks`]). Until then the block is a hole, which would read as
//! zeros. So every read here first waits for the blocks that it touches (`SparseFile::wait`).
//!
//! Invariants:
//! - A block that has arrived is never written again, and the file never changes its length. So its bytes need no check of the file's times, and the
//!   kernel may send them without a lease.
//! - Each version of the object at the origin gets a file of its own, so versions never mix.

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

/// The unit in which files arrive: large enough that a request to the origin is worth its round trip, and small enough that after a seek the first
/// bytes wait 8 ms on a link of 1 Gb/s.
pub const ARRIVAL_BYTES: u64 = 1 << 20;

/// How far a response requests ahead of what it sends: two seconds of a film at 30 Mb/s, which hides the round trip to any origin.
const AHEAD_BLOCKS: u64 = 8;

/// A response requests more when fewer than this many blocks are ahead, so that each request covers several.
const AHEAD_BLOCKS_MIN: u64 = 4;

/// How long a read waits for its blocks. The fetcher reports a block or a failure well before this; the limit covers a fetcher that has died.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// The reason in [`ReadError::NotBrought`] when no fetcher reports anything any more.
pub const NOBODY: u8 = u8::MAX;

/// The blocks of a file that have arrived. All threads share it.
#[derive(Debug)]
pub struct PresentBlocks {
    size: u64,
    missing: AtomicU64,
    there: Box<[AtomicU64]>,
    /// Blocks requested since they last failed.
    asked: Box<[AtomicU64]>,
    /// Blocks whose fetch failed, each with the time of the report and the reason.
    failed: Mutex<BTreeMap<u64, (Instant, u8)>>,
    /// One more than the reason why no more blocks will come; 0 until then.
    ended: AtomicU64,
}

impl PresentBlocks {
    /// A file of `size` bytes, none of which has arrived.
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

    /// Returns true once every block has arrived.
    pub fn is_whole(&self) -> bool {
        self.missing.load(Acquire) == 0
    }

    /// Returns true if every byte of `range` has arrived.
    pub fn has(&self, range: &Range<u64>) -> bool {
        self.is_whole() || blocks(range).all(|block| is_set(&self.there, block))
    }

    /// Records that these blocks have arrived. One thread at a time calls it.
    pub fn note(&self, blocks: Range<u64>) {
        for block in self.known(blocks) {
            if !is_set(&self.there, block) {
                set(&self.there, block);
                self.missing.fetch_sub(1, Release);
                self.failed().remove(&block);
            }
        }
    }

    /// Records that these blocks could not be fetched, because of `why`. Reads that wait for them fail; the next read requests them again.
    pub fn note_failed(&self, blocks: Range<u64>, why: u8) {
        let now = Instant::now();
        for block in self.known(blocks).filter(|block| !is_set(&self.there, *block)) {
            self.failed().insert(block, (now, why));
            unset(&self.asked, block);
        }
    }

    /// As [`Self::note_failed`], for all blocks that were requested and have not arrived.
    pub fn fail_asked(&self, why: u8) {
        for (word, (asked, there)) in self.asked.iter().zip(&self.there).enumerate() {
            let waiting = asked.load(Acquire) & !there.load(Acquire);
            let blocks =
                (0..64).filter(|bit| waiting >> bit & 1 == 1).map(|bit| word as u64 * 64 + bit);
            blocks.for_each(|block| self.note_failed(block..block + 1, why));
        }
    }

    /// Records that no more blocks will come, because of `why`. Those that have arrived stay readable.
    pub fn end(&self, why: u8) {
        self.ended.store(1 + u64::from(why), Release);
    }

    /// Why no more blocks will come, if so.
    pub fn ended(&self) -> Option<u8> {
        self.ended.load(Acquire).checked_sub(1).map(|why| why as u8)
    }

    /// Forgets which blocks were requested, because the fetcher has forgotten it too.
    pub fn forget_asked(&self) {
        self.asked.iter().for_each(|word| word.store(0, Relaxed));
    }

    fn known(&self, blocks: Range<u64>) -> Range<u64> {
        blocks.start..blocks.end.min(self.size.div_ceil(ARRIVAL_BYTES))
    }

    /// Marks the blocks of `range` that have neither arrived nor been requested, and returns them.
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

    /// Why a block of `range` did not come, if that was reported after `since`, or if no more blocks will come.
    fn failure(&self, range: &Range<u64>, since: Instant) -> Option<u8> {
        if let Some(why) = self.ended() {
            return Some(why);
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

/// Sets a block's bit. Returns whether it was set before.
fn set(words: &[AtomicU64], block: u64) -> bool {
    words[(block / 64) as usize].fetch_or(1 << (block % 64), Release) >> (block % 64) & 1 == 1
}

fn unset(words: &[AtomicU64], block: u64) {
    words[(block / 64) as usize].fetch_and(!(1 << (block % 64)), Release);
}

/// Tasks of one thread that wait for blocks.
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

    /// Wakes every waiting task, so that it checks again.
    pub fn wake_all(&self) {
        let waiting = self.0.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// One thread's access to a file that is still being fetched.
pub struct SparseFile {
    arrived: Arc<PresentBlocks>,
    /// Requests blocks from the fetcher.
    ask: Box<dyn Fn(Range<u64>)>,
    waiters: Rc<Waiters>,
}

impl SparseFile {
    /// `ask` requests blocks; `waiters` are woken whenever `arrived` changes.
    pub fn new(
        arrived: Arc<PresentBlocks>,
        ask: impl Fn(Range<u64>) + 'static,
        waiters: Rc<Waiters>,
    ) -> Self {
        Self { arrived, ask: Box::new(ask), waiters }
    }

    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.arrived.has(range)
    }

    /// Waits until all of `range` has arrived. Requests it and a limited part after it, up to `end`.
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
            // Request again after each wake-up: the fetcher may have forgotten.
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
        let arrived = PresentBlocks::new(3 * MIB + 1);
        arrived.note(1..2);
        assert!(arrived.has(&(MIB..2 * MIB)) && arrived.has(&(MIB + 5..MIB + 6)));
        assert!(!arrived.has(&(MIB - 1..MIB + 1)) && !arrived.has(&(MIB..2 * MIB + 1)));
        arrived.note(0..1);
        arrived.note(1..3);
        assert!(!arrived.is_whole(), "one byte is missing");
        arrived.note(3..9);
        assert!(arrived.is_whole() && arrived.has(&(0..3 * MIB + 1)));
        assert!(PresentBlocks::new(0).is_whole());
    }

    #[test]
    fn a_block_is_asked_for_once_until_it_fails_or_is_forgotten() {
        let arrived = PresentBlocks::new(100 * MIB);
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
        assert_eq!(arrived.failure(&(70 * MIB..71 * MIB), before), None, "never requested");
        assert_eq!(arrived.ask(1..4), [1..2, 3..4]);
        arrived.note(3..4);
        assert_eq!(arrived.failure(&(3 * MIB..4 * MIB), before), None, "it came after all");
        arrived.end(5);
        assert_eq!(arrived.failure(&(4 * MIB..5 * MIB), Instant::now()), Some(5), "for good");
    }
}
