//! Bringing a part of a file into the page cache, without a copy and without blocking the thread.
//!
//! The kernel is asked for all of it at once (`WILLNEED`, on a thread of the ring's), which starts the disk and tells
//! nobody when it is done. That is what touching is for: one byte of the first page that is missing is read through the
//! ring, which completes when that page is there; and so on, until none is missing.
//!
//! Bounded: what is asked for and not sent yet comes out of a [`Budget`] that all sessions of a worker share. Who gets
//! none reads into a buffer instead, and those are few as well. A part that is thrown out of the page cache as fast as it
//! is brought there (a library much larger than memory, too many viewers) is given up on after a few rounds.

use crate::error::ReadError;
use crate::file::File;
use reactor::{Fd, op, spawn};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// What the kernel is asked for in one piece: as much as its read-ahead takes by default
/// (`/sys/class/bdi/*/read_ahead_kb`), since of a larger piece it may bring only that much.
const PIECE_BYTES: u64 = 128 << 10;

/// Windows that are asked for beyond the one that is due, as far as the budget goes.
const WINDOWS_AHEAD: u64 = 3;

/// Touches per page that a part may take until it counts as thrown out again: each page is missing once, or twice.
const ROUNDS_MAX: u64 = 2;

/// Bytes that may be on their way into the page cache at once, for all viewers of a worker.
#[derive(Clone, Debug)]
pub struct Budget(Rc<Cell<u64>>);

impl Budget {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self(Rc::new(Cell::new(bytes)))
    }

    /// Bytes of it that nobody has taken.
    pub fn left_bytes(&self) -> u64 {
        self.0.get()
    }

    fn take(&self, bytes: u64) -> bool {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(self.0.get()));
        left.is_some()
    }
}

/// What one response has asked for.
#[derive(Debug)]
pub struct Bringing {
    budget: Budget,
    taken_bytes: u64,
    /// The file has been asked for up to here.
    asked_to: u64,
}

impl Bringing {
    /// Nothing yet; what is asked for comes out of `budget`.
    pub fn new(budget: Budget) -> Self {
        Self { budget, taken_bytes: 0, asked_to: 0 }
    }

    /// Brings `range`, and if `ahead`, asks for what follows, up to `end`. Says whether all of `range` was there a moment
    /// ago: if not, there is no budget, the kernel does not tell, or it threw it out again.
    ///
    /// # Errors
    /// When the disk failed or the file has become shorter.
    pub async fn bring(
        &mut self,
        file: &File,
        range: Range<u64>,
        end: u64,
        ahead: bool,
    ) -> Result<bool, ReadError> {
        let window_bytes = range.end - range.start;
        let asked_before = (range.start..=self.asked_to).contains(&range.end);
        if !asked_before {
            self.give_back();
            if !self.ask(file, range.clone()) {
                return Ok(false);
            }
        }
        while ahead
            && self.asked_to < end
            && self.asked_to < range.end + WINDOWS_AHEAD * window_bytes
        {
            if !self.ask(file, self.asked_to..end.min(self.asked_to + window_bytes)) {
                break;
            }
        }
        let brought = touch_missing(file, range).await;
        if matches!(brought, Err(ReadError::Io(_))) {
            file.suspect();
        }
        brought
    }

    /// `bytes` of what was brought were sent.
    pub fn sent(&mut self, bytes: u64) {
        let bytes = bytes.min(self.taken_bytes);
        self.taken_bytes -= bytes;
        self.budget.0.set(self.budget.left_bytes() + bytes);
    }

    /// Gives the budget back: the viewer does not take what was brought.
    pub fn give_back(&mut self) {
        self.sent(self.taken_bytes);
        self.asked_to = 0;
    }

    /// Has the disk begin with `range`, if there is budget for it.
    fn ask(&mut self, file: &File, range: Range<u64>) -> bool {
        if !self.budget.take(range.end - range.start) {
            return false;
        }
        self.taken_bytes += range.end - range.start;
        self.asked_to = range.end;
        spawn(ask_for(file.fd().clone(), range));
        true
    }
}

impl Drop for Bringing {
    fn drop(&mut self) {
        self.give_back();
    }
}

async fn ask_for(file: Fd, range: Range<u64>) {
    let pieces = range.clone().step_by(PIECE_BYTES as usize);
    let asked: Vec<_> = pieces
        .map(|start| op::will_need(&file, start, PIECE_BYTES.min(range.end - start) as u32))
        .collect();
    for asking in asked {
        // If the kernel does not take the advice, touching brings the bytes all the same.
        let _ = asking.await;
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
                Ok(0) => return Err(ReadError::Truncated),
                Ok(_) => rounds_left -= 1,
                Err(error) => {
                    return Err(ReadError::Io(error.raw_os_error().unwrap_or(libc::EIO)));
                }
            },
        }
    }
}
