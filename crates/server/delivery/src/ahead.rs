//! Keeps several reads in flight for one viewer: while one window is sent, the disk works on the next ones.
//!
//! A viewer who takes only part of a window gets smaller ones. Data read for larger ones is kept for them while most buffers are free, so that other
//! viewers are not short of any. Otherwise it would have to be read from the disk again. [`Ahead::give_up`] frees the buffers of a viewer who takes
//! nothing.
//!
//! From a rotating disk it reads whole buffers, however small the window is, and more of them, because a seek takes such a disk as long as reading a
//! megabyte or two.

use crate::outgoing::Outgoing;
use crate::resources::Resources;
use disk::{File, Plain, ReadError, ReadMode};
use reactor::Priority;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// How many windows to request beyond the one that is due. Together they are 2 MiB, which a disk of 2 GB/s reads in a millisecond: about its latency
/// with a few such viewers.
const DEPTH: usize = 3;

/// The same for a rotating disk. With the window that is due they are 4 MiB of whole buffers, which such a disk reads in twice its seek time (8 ms
/// and 250 MB/s; a guess, no such disk was measured).
const DEPTH_ROTATING: usize = 7;

type Reading = Pin<Box<dyn Future<Output = Result<Plain, ReadError>>>>;

/// One response's reads in flight.
#[derive(Default)]
pub(crate) struct Ahead {
    queue: VecDeque<Ask>,
    /// The end of the part of the file that was reported to the hot set.
    noted_to: u64,
    /// Set if buffers for the file were plentiful at its last read, or its disk rotates.
    keeps: bool,
}

struct Ask {
    range: Range<u64>,
    state: State,
}

enum State {
    /// Its priority is raised when the window is due.
    Reading(Reading, Priority),
    Done(Result<Plain, ReadError>),
}

impl Ahead {
    /// Reads from the start of `range` for the response `outgoing`: all of it, a range requested ahead, or the part in one block of the hot set, but
    /// no more than `range`. If the read had to wait for the disk, also requests the following part, up to `end`.
    pub(crate) async fn read(
        &mut self,
        resources: &Rc<Resources>,
        outgoing: &Outgoing,
        file: &Rc<File>,
        range: Range<u64>,
        end: u64,
    ) -> Result<Plain, ReadError> {
        self.read_by(resources, outgoing, file, range, end, None).await
    }

    /// As [`Self::read`]. A range that was not requested ahead is read in the mode `mode`, if one was chosen.
    pub(crate) async fn read_by(
        &mut self,
        resources: &Rc<Resources>,
        outgoing: &Outgoing,
        file: &Rc<File>,
        range: Range<u64>,
        end: u64,
        mode: Option<ReadMode>,
    ) -> Result<Plain, ReadError> {
        file.arrive(&range, end).await?;
        self.note_request(resources, file, &range, mode);
        if self.queue.front().is_some_and(|ask| ask.range.start != range.start) {
            self.queue.clear();
        }
        if self.queue.is_empty() {
            if let Some(part) = resources.reader.hot_part(file, &range)? {
                resources.reader.count_hot(part.bytes().len());
                return Ok(part.into());
            }
        }
        let wanted = range.end - range.start;
        self.keeps = file.rotates() || resources.reader.has_plenty_for(file);
        let (plain, read_to) = match self.queue.pop_front() {
            Some(Ask { state: State::Done(result), range }) => (result?, range.end),
            Some(Ask { state: State::Reading(reading, priority), range }) => {
                priority.raise();
                (reading.await?, range.end)
            }
            None => {
                let (range, mode) = widened(resources, outgoing, file, range, end, mode);
                (resources.reader.read_by(file, range.clone(), mode).await?, range.end)
            }
        };
        if plain.is_from_disk() && resources.features.reads_ahead {
            self.ask(resources, outgoing, file, read_to..end, wanted, mode).await;
        }
        Ok(plain.limited(wanted as usize))
    }

    /// Reports to the hot set that this response sends `range`, without the part reported before: a window may be read again. If `mode` was chosen
    /// before, the kernel will send this file from its page cache, and the request does not count.
    fn note_request(
        &mut self,
        resources: &Resources,
        file: &Rc<File>,
        range: &Range<u64>,
        mode: Option<ReadMode>,
    ) {
        if mode.is_none() && range.end > self.noted_to {
            let new = range.start.max(self.noted_to)..range.end;
            self.noted_to = range.end;
            resources.reader.note_request(file, &new);
        }
    }

    /// Returns true if the window that begins at `start` was requested ahead.
    pub(crate) fn has(&self, start: u64) -> bool {
        self.queue.front().is_some_and(|ask| ask.range.start == start)
    }

    /// Keeps the rest of a read for the next time. Of `plain`, which began at `start` of the file, `sent` bytes were sent.
    pub(crate) fn keep_rest(&mut self, plain: Plain, start: u64, sent: usize) {
        let rest = plain.after(sent);
        if !rest.is_empty() {
            let start = start + sent as u64;
            let range = start..start + rest.len() as u64;
            self.queue.push_front(Ask { range, state: State::Done(Ok(rest)) });
        }
    }

    /// Drops the reads ahead, because the viewer does not take them.
    pub(crate) fn give_up(&mut self) {
        self.queue.clear();
    }

    /// Call it when the viewer took only part of a window. Drops the reads ahead, unless they are kept for smaller windows.
    pub(crate) fn taken_in_part(&mut self) {
        if !self.keeps {
            self.give_up();
        }
    }

    async fn ask(
        &mut self,
        resources: &Rc<Resources>,
        outgoing: &Outgoing,
        file: &Rc<File>,
        rest: Range<u64>,
        window_bytes: u64,
        mode: Option<ReadMode>,
    ) {
        let end = rest.end;
        let mut start = self.queue.back().map_or(rest.start, |last| last.range.end);
        while self.queue.len() < depth(resources, file)
            && start < end
            && !resources.reader.is_scarce_for(file)
            && !resources.reader.is_hot(file, start)
        {
            let range = start..end.min(start + window_bytes);
            let (range, mode) = widened(resources, outgoing, file, range, end, mode);
            start = range.end;
            let state = begin(resources, file, range.clone(), mode).await;
            self.queue.push_back(Ask { range, state });
        }
    }
}

/// Returns true if the disk of `file` rotates, and there are buffers for longer reads.
fn reads_more(resources: &Resources, file: &File) -> bool {
    file.rotates() && resources.reader.has_plenty_for(file)
}

fn depth(resources: &Resources, file: &File) -> usize {
    if reads_more(resources, file) { DEPTH_ROTATING } else { DEPTH }
}

/// The range to read at once for the window `range`, and the mode: from a rotating disk a whole buffer, up to `end`, unless it is read through the
/// page cache. No mode is returned for a part that has not arrived, because nothing tells yet whether it will then be cached.
fn widened(
    resources: &Resources,
    outgoing: &Outgoing,
    file: &File,
    range: Range<u64>,
    end: u64,
    chosen: Option<ReadMode>,
) -> (Range<u64>, Option<ReadMode>) {
    let mut misses = outgoing.misses().borrow_mut();
    let reader = &resources.reader;
    let mode = match chosen {
        None if file.has_arrived(&range) => reader.mode(file, &range, &mut misses),
        None => return (range, None),
        Some(mode) => {
            // Record each part in order, so that it counts once. A part skipped now would be recorded together with the next one, which would look
            // like a repeated request.
            misses.record(reader, file, &range);
            mode
        }
    };
    let wide_end = end.min(range.start + reader.window_bytes_max() as u64);
    let is_wide = reads_more(resources, file) && resources.features.reads_ahead;
    if !is_wide || mode == ReadMode::Buffered || wide_end <= range.end {
        return (range, Some(mode));
    }
    // Every window heats its blocks, and windows kept from this read are not recorded later.
    misses.record(reader, file, &(range.start..wide_end));
    (range.start..wide_end, Some(mode))
}

/// Starts a read. Polling it once submits it to the disk, unless a buffer has to become free first, or the file is not open for direct reads yet.
async fn begin(
    resources: &Rc<Resources>,
    file: &Rc<File>,
    range: Range<u64>,
    mode: Option<ReadMode>,
) -> State {
    let (resources, file) = (Rc::clone(resources), Rc::clone(file));
    let priority = Priority::low();
    let read_priority = priority.clone();
    let mut reading: Reading =
        Box::pin(
            async move { resources.reader.read_ahead(&file, range, mode, &read_priority).await },
        );
    let first = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
    match first {
        Poll::Ready(result) => State::Done(result),
        Poll::Pending => State::Reading(reading, priority),
    }
}
