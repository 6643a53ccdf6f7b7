//! Bytes read into the page cache for one viewer alone. They are dropped once that viewer has them, as with FreeBSD's `SF_NOCACHE`.
//!
//! This is for connections whose NIC reads films in place. Reading past the page cache and sending from a buffer would make the CPU copy each byte,
//! because the kernel keeps what it sends until it is acknowledged.
//!
//! The kernel does not drop pages that are still in a socket, so they are dropped after the acknowledgement: until then a few hundred KiB for each
//! viewer stay cached, as much as is in flight. What remains when a viewer leaves is dropped a moment later, when its socket and the disk are done
//! with it.

use disk::drop_pages;
use reactor::{Fd, sleep, spawn};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Bytes that a connection may count as taken before TCP has them: a record that is not full and one that TCP had no room for. Rounded up.
const IN_RECORDS_BYTES: u64 = 64 << 10;

/// After this time, closed sockets and abandoned reads are done. A guess.
const DONE_AFTER: Duration = Duration::from_secs(2);

/// The largest piece in which a kernel keeps a file's pages. It drops a piece only as a whole.
const PIECE_BYTES_MAX: u64 = 2 << 20;

/// Parts of one file that were sent and will be dropped, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Once {
    sent: VecDeque<Part>,
    /// The last range dropped without a gap.
    dropped: Range<u64>,
}

#[derive(Debug)]
struct Part {
    range: Range<u64>,
    /// The connection's count of taken bytes once it had taken this part.
    taken_bytes: u64,
}

impl Once {
    /// Records that the connection took `range` last, and has now taken `taken_bytes` in total.
    pub(crate) fn note(&mut self, range: Range<u64>, taken_bytes: u64) {
        self.sent.push_back(Part { range, taken_bytes });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Takes out the ranges that the viewer has, if the connection has taken `taken_bytes` and TCP waits for the acknowledgement of the last
    /// `unacknowledged_bytes`. Sealed bytes are longer than the taken ones, so this is less than the viewer has.
    pub(crate) fn acknowledged(
        &mut self,
        taken_bytes: u64,
        unacknowledged_bytes: usize,
    ) -> Vec<Range<u64>> {
        let there = taken_bytes.saturating_sub(unacknowledged_bytes as u64 + IN_RECORDS_BYTES);
        let count = self.sent.partition_point(|part| part.taken_bytes <= there);
        self.take(count)
    }

    /// Takes out everything: the viewer has it all, or will get no more.
    pub(crate) fn all(&mut self) -> Vec<Range<u64>> {
        self.take(self.sent.len())
    }

    /// Takes out the first `count` parts. A part that continues the last dropped range begins a piece earlier, because the piece at the seam is still
    /// cached.
    fn take(&mut self, count: usize) -> Vec<Range<u64>> {
        let mut ranges = joined(self.sent.drain(..count).map(|part| part.range));
        for range in &mut ranges {
            let follows = range.start == self.dropped.end;
            self.dropped = if follows { self.dropped.start } else { range.start }..range.end;
            range.start = self.dropped.start.max(range.start.saturating_sub(PIECE_BYTES_MAX));
        }
        ranges
    }
}

/// Joins ranges that follow each other.
fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}

/// Drops `ranges` of a file, which the viewer has.
pub(crate) fn drop_now(file: &Fd, ranges: Vec<Range<u64>>) {
    drop_after(None, file, ranges);
}

/// Drops `ranges` of a file that no connection sends any more, after a moment.
pub(crate) fn drop_later(file: &Fd, ranges: Vec<Range<u64>>) {
    drop_after(Some(DONE_AFTER), file, ranges);
}

/// On a task of its own, because the kernel may wait for other processors while it drops pages, on a thread of the ring's.
fn drop_after(pause: Option<Duration>, file: &Fd, ranges: Vec<Range<u64>>) {
    if ranges.is_empty() {
        return;
    }
    let file = file.clone();
    spawn(async move {
        if let Some(pause) = pause {
            sleep(pause).await;
        }
        for range in ranges {
            drop_pages(&file, range).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(range: Range<u64>) -> [Range<u64>; 1] {
        [range]
    }

    #[test]
    fn what_may_still_be_in_a_socket_or_in_a_record_is_kept() {
        const WINDOW: u64 = 512 << 10;
        let mut once = Once::default();
        once.note(0..WINDOW, WINDOW + 300); // the head came before it
        once.note(WINDOW..2 * WINDOW, 2 * WINDOW + 300);
        let taken = 2 * WINDOW + 300;
        assert_eq!(once.acknowledged(taken, 2 * WINDOW as usize), []);
        assert_eq!(once.acknowledged(taken, WINDOW as usize), [], "a record may be on its way");
        let but_records = (WINDOW - IN_RECORDS_BYTES) as usize;
        assert_eq!(once.acknowledged(taken, but_records), only(0..WINDOW));
        assert_eq!(once.acknowledged(taken, 0), [], "the last records");
        assert!(!once.is_empty());
        assert_eq!(once.all(), only(0..2 * WINDOW), "and the first part again, at the seam");
        assert!(once.is_empty());
    }

    #[test]
    fn a_piece_at_a_seam_is_dropped_with_what_follows_but_nothing_else_is() {
        let mut once = Once::default();
        let mut drop_after = |range: Range<u64>| {
            once.note(range, 0);
            once.all()
        };
        let start = 5 * PIECE_BYTES_MAX;
        let third = PIECE_BYTES_MAX / 3;
        assert_eq!(
            drop_after(start..start + third),
            only(start..start + third),
            "others may want the bytes before it"
        );
        assert_eq!(drop_after(start + third..start + 2 * third), only(start..start + 2 * third));
        let end = start + 2 * PIECE_BYTES_MAX;
        assert_eq!(drop_after(start + 2 * third..end), only(start..end));
        assert_eq!(drop_after(end..end + 9), only(end - PIECE_BYTES_MAX..end + 9));
        assert_eq!(drop_after(0..9), only(0..9), "elsewhere");
    }

    #[test]
    fn parts_that_follow_each_other_are_dropped_together() {
        let mut once = Once::default();
        for range in [0..10, 10..25, 40..50, 50..51, 0..1] {
            once.note(range, 0);
        }
        assert_eq!(once.all(), [0..25, 40..51, 0..1]);
    }
}
