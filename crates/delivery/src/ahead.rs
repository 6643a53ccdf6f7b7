//! Keeps several reads in flight for one viewer: while one window is sent, the disk works on the next ones.

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

type Reading = Pin<Box<dyn Future<Output = Result<Plain, ReadError>>>>;

/// One response's reads in flight.
#[derive(Default)]
pub(crate) struct Ahead {
    queue: VecDeque<Ask>,
    /// Where the part of the file ends that the hot set was told of.
    noted_to: u64,
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
    /// Reads from the start of `range`: all of it, what was asked for ahead, or as much as lies in one block of the hot
    /// set. If the read had to wait for the disk, also asks for what follows, up to `end`.
    pub(crate) async fn read(
        &mut self,
        resources: &Rc<Resources>,
        file: &Rc<File>,
        range: Range<u64>,
        end: u64,
    ) -> Result<Plain, ReadError> {
        self.read_by(resources, file, range, end, None).await
    }

    /// As [`Self::read`]. What was not asked for ahead is read in the way `way`, if one was chosen.
    pub(crate) async fn read_by(
        &mut self,
        resources: &Rc<Resources>,
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
        let (plain, read_to) = match self.queue.pop_front() {
            Some(Ask { state: State::Done(result), range }) => (result?, range.end),
            Some(Ask { state: State::Reading(reading), range }) => (reading.await?, range.end),
            None => (resources.reader.read_by(file, range.clone(), way).await?, range.end),
        };
        if plain.is_from_disk() && resources.tactics.reads_ahead {
            let window_bytes = range.end - range.start;
            self.ask(resources, file, read_to..end, window_bytes, way).await;
        }
        Ok(plain)
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

    /// Keeps the part of a window that was not taken for the next time: `range` of the file.
    pub(crate) fn put_back(&mut self, plain: Plain, range: Range<u64>) {
        self.queue.push_front(Ask { range, state: State::Done(Ok(plain)) });
    }

    /// Drops what was read ahead, because the viewer does not take it.
    pub(crate) fn give_up(&mut self) {
        self.queue.clear();
    }

    async fn ask(
        &mut self,
        resources: &Rc<Resources>,
        file: &Rc<File>,
        rest: Range<u64>,
        window_bytes: u64,
        way: Option<Way>,
    ) {
        let end = rest.end;
        let mut start = self.queue.back().map_or(rest.start, |last| last.range.end);
        while self.queue.len() < DEPTH
            && start < end
            && !resources.reader.is_scarce_for(file)
            && !resources.reader.is_hot(file, start)
        {
            let range = start..end.min(start + window_bytes);
            start = range.end;
            let state = begin(resources, file, range.clone(), way).await;
            self.queue.push_back(Ask { range, state });
        }
    }
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
