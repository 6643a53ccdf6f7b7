//! Keeps several reads in flight for one viewer: while one window is sent, the disk works on the next ones.
//!
//! A viewer who takes a window in part gets smaller ones. Data read for larger ones is kept for them while most buffers are free, so that other
//! viewers don't lack any. Otherwise it would have to be read from the disk again. [`Ahead::give_up`] frees the buffers of a viewer who takes
//! nothing.
//!
//! From a disk that rotates, it reads whole buffers, however small the window is, and more of them, because reaching a place takes such a disk as
//! long as reading a megabyte or two.

use crate::outgoing::Outgoing;
use crate::resources::Resources;
use disk::{File, Plain, ReadError, Way};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// How many windows are asked for beyond the one that is due. Together they are 2 MiB, which a disk of 2 GB/s brings in
/// a millisecond: about its latency with a few such viewers.
const DEPTH: usize = 3;

/// The same for a disk that rotates. With the window that is due they are 4 MiB of whole buffers, which such a disk reads in twice the time that it
/// takes to reach them (8 ms and 250 MB/s; a guess, no such disk was measured).
const DEPTH_ROTATING: usize = 7;

type Reading = Pin<Box<dyn Future<Output = Result<Plain, ReadError>>>>;

/// One response's reads in flight.
#[derive(Default)]
pub(crate) struct Ahead {
    queue: VecDeque<Ask>,
    /// Where the part of the file ends that the hot set was told of.
    noted_to: u64,
    /// Buffers for the file were plentiful when it was read last, or its disk rotates.
    keeps: bool,
}

struct Ask {
    range: Range<u64>,
    state: State,
}

enum State {
    Reading(Reading),
    Done(Result<Plain, ReadError>),
}

impl Ahead {
    /// Reads from the start of `range` for the response `outgoing`: all of it, what was asked for ahead, or as much as lies in one block of the
    /// hot set, but no more than `range`. If the read had to wait for the disk, also asks for what follows, up to `end`.
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

    /// As [`Self::read`]. What was not asked for ahead is read in the way `way`, if one was chosen.
    pub(crate) async fn read_by(
        &mut self,
        resources: &Rc<Resources>,
        outgoing: &Outgoing,
        file: &Rc<File>,
        range: Range<u64>,
        end: u64,
        way: Option<Way>,
    ) -> Result<Plain, ReadError> {
        file.arrive(&range, end).await?;
        self.note_request(resources, file, &range, way);
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
            Some(Ask { state: State::Reading(reading), range }) => (reading.await?, range.end),
            None => {
                let (range, way) = widened(resources, outgoing, file, range, end, way);
                (resources.reader.read_by(file, range.clone(), way).await?, range.end)
            }
        };
        if plain.is_from_disk() && resources.tactics.reads_ahead {
            self.ask(resources, outgoing, file, read_to..end, wanted, way).await;
        }
        Ok(plain.limited(wanted as usize))
    }

    /// Tells the hot set that this response sends `range`, but for what it has told before: a window may be read again. If `way` was chosen
    /// before, the kernel is to send this file from its page cache, and the request does not count.
    fn note_request(
        &mut self,
        resources: &Resources,
        file: &Rc<File>,
        range: &Range<u64>,
        way: Option<Way>,
    ) {
        if way.is_none() && range.end > self.noted_to {
            let new = range.start.max(self.noted_to)..range.end;
            self.noted_to = range.end;
            resources.reader.note_request(file, &new);
        }
    }

    /// Whether the window that begins at `start` was asked for ahead.
    pub(crate) fn has(&self, start: u64) -> bool {
        self.queue.front().is_some_and(|ask| ask.range.start == start)
    }

    /// Keeps what was read and not sent for the next time. Of `plain`, which began at `start` of the file, `sent` bytes were sent.
    pub(crate) fn keep_rest(&mut self, plain: Plain, start: u64, sent: usize) {
        let rest = plain.after(sent);
        if !rest.is_empty() {
            let start = start + sent as u64;
            let range = start..start + rest.len() as u64;
            self.queue.push_front(Ask { range, state: State::Done(Ok(rest)) });
        }
    }

    /// Drops what was read ahead, because the viewer does not take it.
    pub(crate) fn give_up(&mut self) {
        self.queue.clear();
    }

    /// The viewer took a window in part only. Drops what was read ahead, unless it is kept for smaller windows.
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
        way: Option<Way>,
    ) {
        let end = rest.end;
        let mut start = self.queue.back().map_or(rest.start, |last| last.range.end);
        while self.queue.len() < depth(resources, file)
            && start < end
            && !resources.reader.is_scarce_for(file)
            && !resources.reader.is_hot(file, start)
        {
            let range = start..end.min(start + window_bytes);
            let (range, way) = widened(resources, outgoing, file, range, end, way);
            start = range.end;
            let state = begin(resources, file, range.clone(), way).await;
            self.queue.push_back(Ask { range, state });
        }
    }
}

/// Whether the disk of `file` rotates, and there are buffers for that.
fn reads_more(resources: &Resources, file: &File) -> bool {
    file.rotates() && resources.reader.has_plenty_for(file)
}

fn depth(resources: &Resources, file: &File) -> usize {
    if reads_more(resources, file) { DEPTH_ROTATING } else { DEPTH }
}

/// What to read at once for the window `range`, and how: from a disk that rotates a whole buffer, up to `end`, unless it is read through the page
/// cache. No way is returned for a part that has not arrived, because where it will be then cannot be known.
fn widened(
    resources: &Resources,
    outgoing: &Outgoing,
    file: &File,
    range: Range<u64>,
    end: u64,
    chosen: Option<Way>,
) -> (Range<u64>, Option<Way>) {
    let mut misses = outgoing.misses().borrow_mut();
    let reader = &resources.reader;
    let way = match chosen {
        None if file.has_arrived(&range) => reader.way(file, &range, &mut misses),
        None => return (range, None),
        Some(way) => {
            // Each part is recorded in its order, and so only once: one that is passed over now would be recorded together with what follows, which
            // would seem to be requested again.
            misses.record(reader, file, &range);
            way
        }
    };
    let wide_end = end.min(range.start + reader.window_bytes_max() as u64);
    let is_wide = reads_more(resources, file) && resources.tactics.reads_ahead;
    if !is_wide || way == Way::Cached || wide_end <= range.end {
        return (range, Some(way));
    }
    // Every window is to heat its blocks, and those that are kept are not asked about again.
    misses.record(reader, file, &(range.start..wide_end));
    (range.start..wide_end, Some(way))
}

/// Starts a read. Polling it once hands it to the disk.
async fn begin(
    resources: &Rc<Resources>,
    file: &Rc<File>,
    range: Range<u64>,
    way: Option<Way>,
) -> State {
    let (resources, file) = (Rc::clone(resources), Rc::clone(file));
    let mut reading: Reading =
        Box::pin(async move { resources.reader.read_ahead(&file, range, way).await });
    let first = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
    match first {
        Poll::Ready(result) => State::Done(result),
        Poll::Pending => State::Reading(reading),
    }
}
