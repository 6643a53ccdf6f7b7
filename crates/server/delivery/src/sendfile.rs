//! Sends plaintext into a socket, on a connection without TLS or with kernel TLS.
//!
//! The kernel sends what is in the page cache by itself (`sendfile`); no byte of it reaches user space. For everything else heat decides, as where
//! records are made here, whether the window is worth memory. If so, the ring loads it into the page cache, and it is sent from there. If not, it is
//! read directly into a buffer and sent from the buffer, so that it need not be evicted again. No thread waits for a disk.
//!
//! A NIC that reads the file's own pages ([`Abilities::lends_pages`]) changes that: from a buffer the kernel would copy. So windows that are not
//! worth memory are loaded into the page cache as well, and dropped from it once the viewer has them ([`crate::once`]).
//!
//! Invariant: the kernel may send a file's pages only under a read lease ([`disk::File::hold_still`]), because it may send them at any time until the
//! viewer has acknowledged them. A file that may be written to is read into buffers, which never change.
//!
//! One case cannot be detected here: a viewer on the same machine (loopback, a container behind veth) has acknowledged bytes that it has not read
//! yet, and these are still the file's own pages. If a program overwrites the file in place then, such a viewer may read bytes that were never sent
//! to it. This needs a local viewer without TLS: sealed records are copies.

use crate::ahead::Ahead;
use crate::end::End;
use crate::inbound::Inbound;
use crate::leased::Leased;
use crate::link::Link;
use crate::once::drop_later;
use crate::outgoing::{Outgoing, Piece};
use crate::resources::Resources;
use crate::sealing::Abilities;
use crate::unsent::{Reach, UnsentLimit};
use disk::{File, HotPart, Plain, ReadMode, Readahead};
use net::Socket;
use reactor::yield_now;
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

/// The shortest cached beginning of a window that is worth a call of its own, if the rest has to be waited for.
const PREFIX_BYTES_MIN: u64 = net::window::STEP_BYTES as u64;

/// One response being sent.
pub(crate) struct Sendfile<'a> {
    outgoing: &'a Outgoing,
    at: u64,
    ahead: Ahead,
    readahead: Readahead,
    /// The end of the sent bytes, if some of the readahead is for this viewer alone.
    once_to: Option<u64>,
    is_corked: bool,
    can: Abilities,
    limit: UnsentLimit,
}

/// Bytes offered to TCP, bytes that it took, and whether they came from the disk's node: from the disk for this viewer, or from a hot set there.
type Sent = (usize, usize, bool);

/// The source of a part of a file.
enum How {
    /// From the hot set, if the page cache does not have it. The kernel takes whole folios from the page cache, but single pages of 4 KiB from shared
    /// memory, which cost a quarter more (docs/notes/hot-set.md).
    FromHotSet(HotPart),
    /// From the page cache, which has all of it.
    FromPageCache(Range<u64>),
    /// From the page cache, which drops it once the viewer has it.
    Once(Range<u64>),
    /// From a buffer, read in this mode or in the one that suits it.
    Read(Option<ReadMode>),
}

impl<'a> Sendfile<'a> {
    /// Sends `outgoing`. `reach` bounds the bytes that wait in the kernel.
    pub(crate) fn new(link: &Link, outgoing: &'a Outgoing, can: Abilities, reach: Reach) -> Self {
        let Resources { readahead_budget, reader, .. } = &*link.resources;
        let readahead =
            Readahead::new(readahead_budget.clone()).populated_by(reader.populator().cloned());
        let ahead = Ahead::default();
        let limit = UnsentLimit::new(link, reach);
        let (is_corked, once_to) = (false, None);
        Self { outgoing, at: 0, ahead, readahead, once_to, is_corked, can, limit }
    }

    /// Call it when the whole response was taken.
    pub(crate) fn end(&mut self, link: &Link) {
        self.limit.end(link);
    }

    /// Sends as much of the next window as TCP takes. The rest is kept for a moment, then dropped and loaded again later: nothing is held for a
    /// viewer who takes no bytes. Returns the bytes taken, or `None` if the whole response was taken. If something arrives that has to be handled
    /// first ([`Inbound::interrupts`]), none are taken.
    pub(crate) async fn step(
        &mut self,
        link: &mut Link,
        leased: &mut Leased,
        inbound: &mut impl Inbound<Socket>,
    ) -> Result<Option<usize>, End> {
        let outgoing = self.outgoing;
        let Some(piece) = outgoing.piece(self.at, link.share()) else {
            self.uncork(link);
            return Ok(None);
        };
        if link.resources.memory.is_short() || !link.takes_now(inbound)? {
            self.await_pull(link, leased, inbound).await?;
        }
        if inbound.interrupts() {
            self.uncork(link);
            return Ok(Some(0));
        }
        let turn = link.take_turn(piece.bytes());
        if link.must_wait(turn.as_ref()) {
            self.uncork(link);
            self.give_up();
            // Boxed, because without a total rate no connection waits here.
            Box::pin(link.await_turn(turn.as_ref(), || leased.check())).await?;
        }
        // A head goes with the beginning of its body, which would otherwise be one turn late.
        let mut is_head = false;
        let (offered, taken, disk) = match piece {
            Piece::Bytes(bytes) => {
                is_head = self.at + (bytes.len() as u64) < outgoing.bytes();
                (bytes.len(), link.offer(bytes, is_head)?, None)
            }
            Piece::File(file, range) => {
                // Checked here, so that a writer need not wait for the end of a response.
                leased.check_in_passing()?;
                let start = range.start;
                let sent = match self.how(link, file, &range).await? {
                    How::FromHotSet(part) => self.send_hot(link, file, &part)?,
                    How::FromPageCache(range) => self.send_file(link, leased, file, range)?,
                    How::Once(range) => self.send_once(link, leased, file, range)?,
                    How::Read(mode) => {
                        self.send_read(link, file, window(link, range), mode).await?
                    }
                };
                let (offered, taken, from_disks_node) = sent;
                self.readahead.sent_to(start + taken as u64);
                (offered, taken, from_disks_node.then(|| file.stamp().device))
            }
        };
        self.at += taken as u64;
        link.end_turn(turn);
        link.count_window(taken as u64, disk);
        self.learn(link, offered, taken).await?;
        if !is_head {
            yield_now().await;
        }
        Ok(Some(taken))
    }

    async fn await_pull(
        &mut self,
        link: &Link,
        leased: &Leased,
        inbound: &mut impl Inbound<Socket>,
    ) -> Result<(), End> {
        self.uncork(link);
        if link.resources.memory.is_short() || !link.asks_soon(&mut self.limit, inbound).await? {
            self.give_up();
            while link.resources.memory.is_short() {
                leased.check()?;
                link.back_off().await?;
            }
            leased.watch_until_writable(link, inbound).await?;
            self.limit.woken(link);
        }
        Ok(())
    }

    fn cork(&mut self, link: &Link) {
        if !self.is_corked {
            self.is_corked = true;
            link.socket.cork(true);
        }
    }

    /// Sends the corked bytes before anything is waited for.
    fn uncork(&mut self, link: &Link) {
        if self.is_corked {
            self.is_corked = false;
            link.socket.cork(false);
        }
    }

    /// Adjusts the next window's size to what TCP took.
    async fn learn(&mut self, link: &mut Link, offered: usize, taken: usize) -> Result<(), End> {
        let numbers = &link.resources.numbers;
        if taken == offered {
            link.window.taken_whole();
        } else {
            numbers.windows_taken_in_part_total.add(1);
            link.window.taken_in_part(taken);
        }
        if taken == 0 {
            link.back_off().await?;
        }
        Ok(())
    }

    fn give_up(&mut self) {
        self.ahead.give_up();
        self.readahead.give_back();
    }

    async fn how(&mut self, link: &Link, file: &Rc<File>, range: &Range<u64>) -> Result<How, End> {
        let resources = &link.resources;
        if !self.can.sends_files {
            return Ok(How::Read(None));
        }
        let window = &window(link, range.clone());
        // These bytes were read ahead into a buffer, or are being read: use them, and record the window so that heat counts it.
        if self.ahead.has(range.start) {
            return Ok(How::Read(Some(self.record(resources, file, window))));
        }
        let end = range.start + self.outgoing.extent_left(self.at);
        // The wait below may take a round trip to the origin, and corked bytes would wait with it.
        if !file.has_arrived(range) {
            self.uncork(link);
        }
        file.arrive(range, end).await?;
        // A viewer who waits for the disk continues in the steps in which the disk reads.
        let range = if self.readahead.has_asked_for(window) { window } else { range };
        // The page cache comes before the hot set: the kernel takes whole folios from it.
        let there = resident(resources, file, range);
        if let Some(there) = there.filter(|there| self.sends_resident(resources, file, there)) {
            // Without a lease a program may write to the pages that the kernel refers to, so the bytes are copied to a buffer.
            if !held(resources, file) {
                return Ok(How::Read(None));
            }
            // The next windows may not be cached either: reads stay ahead of a viewer who has waited for the disk once.
            if resources.features.reads_ahead && self.readahead.has_asked_for(&there) {
                self.readahead.ask_ahead(file, window, end);
            }
            return Ok(if self.is_once(resources, file, &there) {
                How::Once(there)
            } else {
                How::FromPageCache(there)
            });
        }
        if let Some(part) = resources.reader.hot_part(file, range)? {
            return Ok(How::FromHotSet(part));
        }
        // Not in memory. Heat decides whether the page cache keeps it; a NIC that reads pages needs it there in any case.
        let mode = self.record(resources, file, window);
        let is_once = self.goes_once(resources, mode);
        if (mode == ReadMode::Buffered || is_once) && held(resources, file) {
            self.uncork(link);
            let (began, ahead) = (Instant::now(), resources.features.reads_ahead);
            let keeps = mode == ReadMode::Buffered;
            let brought = self.readahead.bring(file, window.clone(), end, ahead, keeps).await;
            resources.reader.count_disk_read(began.elapsed());
            if is_once {
                self.once_to.get_or_insert(range.start);
            }
            if brought? {
                let window = window.clone();
                return Ok(if is_once { How::Once(window) } else { How::FromPageCache(window) });
            }
            // No budget, or the pages were evicted again: a buffer is always possible.
            resources.numbers.windows_not_brought_total.add(1);
        }
        Ok(How::Read(Some(mode)))
    }

    /// Sends from the hot set. This needs no lease: pages that the kernel is sending are never written to again.
    fn send_hot(&mut self, link: &Link, file: &File, part: &HotPart) -> Result<Sent, End> {
        let reader = &link.resources.reader;
        self.cork(link);
        let bytes = part.bytes().len();
        let taken = match reader.for_kernel(file, part) {
            Some((memory, start)) => {
                link.offer_file(memory.as_fd(), start..start + bytes as u64)?
            }
            None => link.offer(part.bytes(), false)?,
        };
        reader.count_hot(taken);
        Ok((bytes, taken, part.is_elsewhere()))
    }

    fn send_file(
        &mut self,
        link: &Link,
        leased: &mut Leased,
        file: &Rc<File>,
        range: Range<u64>,
    ) -> Result<Sent, End> {
        file.check_unchanged()?;
        leased.set(file);
        self.cork(link);
        let bytes = (range.end - range.start) as usize;
        let was_brought = self.readahead.has_brought(&range);
        let taken = link.offer_file(file.fd().borrowed(), range)?;
        let numbers = &link.resources.numbers;
        numbers.sendfile_bytes_total.add(taken as u64);
        if was_brought {
            numbers.brought_bytes_total.add(taken as u64);
        }
        Ok((bytes, taken, was_brought))
    }

    fn send_once(
        &mut self,
        link: &Link,
        leased: &mut Leased,
        file: &Rc<File>,
        range: Range<u64>,
    ) -> Result<Sent, End> {
        let start = range.start;
        let sent = self.send_file(link, leased, file, range)?;
        let end = start + sent.1 as u64;
        if end > start {
            leased.note_once(start..end, link);
            self.once_to = Some(end);
        }
        Ok(sent)
    }

    /// Records that `range` is not in the page cache, and returns how to read it.
    fn record(&self, resources: &Resources, file: &File, range: &Range<u64>) -> ReadMode {
        self.outgoing.misses().borrow_mut().record(&resources.reader, file, range)
    }

    /// Returns true if `range`, which is in the page cache, is sent from there.
    fn sends_resident(&self, resources: &Resources, file: &File, range: &Range<u64>) -> bool {
        let mut misses = self.outgoing.misses().borrow_mut();
        self.readahead.has_brought(range)
            || resources.reader.sends_resident(file, range, &mut misses)
    }

    /// Returns true if a window read in this mode is loaded for this viewer alone.
    fn goes_once(&self, resources: &Resources, mode: ReadMode) -> bool {
        mode == ReadMode::Direct && self.can.lends_pages && resources.reader.takes_resident()
    }

    /// Returns true if `range`, which is in the page cache, is there for this viewer alone: it was read ahead, and no other viewer has requested it
    /// recently.
    fn is_once(&self, resources: &Resources, file: &File, range: &Range<u64>) -> bool {
        if !self.can.lends_pages || !self.readahead.has_brought(range) {
            return false;
        }
        let mode = self.record(resources, file, range);
        self.goes_once(resources, mode)
    }

    async fn send_read(
        &mut self,
        link: &Link,
        file: &Rc<File>,
        range: Range<u64>,
        mode: Option<ReadMode>,
    ) -> Result<Sent, End> {
        let end = range.start + self.outgoing.extent_left(self.at);
        self.uncork(link);
        let start = range.start;
        let plain: Plain =
            self.ahead.read_by(&link.resources, self.outgoing, file, range, end, mode).await?;
        let (bytes, from_disks_node) = (plain.len(), plain.is_from_disks_node());
        let taken = link.offer(&plain, false)?;
        self.ahead.keep_rest(plain, start, taken);
        Ok((bytes, taken, from_disks_node))
    }
}

impl Drop for Sendfile<'_> {
    /// Drops the pages that were loaded for this viewer alone and not sent.
    fn drop(&mut self) {
        if let Some((file, sent_to)) = self.outgoing.file().zip(self.once_to) {
            let unsent = self.readahead.unsent(sent_to);
            drop_later(
                file.fd(),
                Some(unsent).filter(|range| !range.is_empty()).into_iter().collect(),
            );
        }
    }
}

/// The part of `range` that is read at once: it takes a buffer, or a share of the readahead budget.
fn window(link: &Link, range: Range<u64>) -> Range<u64> {
    range.start..range.end.min(range.start + link.resources.limits.window_bytes_max as u64)
}

/// The beginning of `range` that is in the page cache and can be sent from there, if it is worth a call.
fn resident(resources: &Resources, file: &File, range: &Range<u64>) -> Option<Range<u64>> {
    if !resources.reader.takes_resident() {
        return None;
    }
    let missing = file.first_missing(range.clone())?;
    let is_worth_it = missing == range.end || missing - range.start >= PREFIX_BYTES_MIN;
    is_worth_it.then_some(range.start..missing)
}

fn held(resources: &Resources, file: &File) -> bool {
    let held = file.hold_still();
    if !held {
        resources.numbers.windows_not_held_total.add(1);
    }
    held
}
