//! TIME-WAIT (RFC 9293 section 3.6.1): the rest of a connection that we closed first. Bounded; the oldest makes room.

use std::collections::VecDeque;

use crate::Id;
use crate::clock::Time;
use crate::header::{Flags, Incoming, Options, Outgoing, Timestamps};
use crate::keyed::Pair;
use crate::segment::Transmit;
use crate::seq::{Seq, timestamp_older};
use crate::table::Table;

/// The remembered state of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remembrance {
    pub(crate) pair: Pair,
    /// SND.NXT and RCV.NXT.
    pub(crate) next: Seq,
    pub(crate) expected: Seq,
    /// The offset of our clock, and the peer's last timestamp.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) window: u16,
}

/// The decision about a segment for it.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Ignore the segment.
    Ignore,
    /// Acknowledge it, because the peer may have missed our last ACK.
    Acknowledge(Transmit),
    /// A new connection may begin, with an initial sequence number beyond this one.
    Reuse(Seq),
}

#[derive(Debug)]
struct Entry {
    remembrance: Remembrance,
    until: Time,
}

#[derive(Debug)]
pub(crate) struct TimeWait {
    entries: Table<Entry>,
    /// In the order of their ends, unless an end was postponed.
    queue: VecDeque<(Time, Id)>,
    lasts_us: u64,
}

impl TimeWait {
    pub(crate) fn new(most: usize, lasts_us: u64) -> Self {
        TimeWait { entries: Table::new(most), queue: VecDeque::new(), lasts_us }
    }

    /// Remembers a connection. Returns the entry that had to make room, and the new one; None for the latter if nothing may be remembered.
    pub(crate) fn insert(
        &mut self,
        now: Time,
        remembrance: Remembrance,
    ) -> (Option<Pair>, Option<Id>) {
        let evicted = if self.entries.is_full() { self.evict() } else { None };
        let until = now.after_us(self.lasts_us);
        let id = self.entries.insert(Entry { remembrance, until });
        if let Some(id) = id {
            self.queue.push_back((until, id));
        }
        (evicted, id)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.queue.len() * size_of::<(Time, Id)>()
    }

    fn evict(&mut self) -> Option<Pair> {
        while let Some((_, id)) = self.queue.pop_front() {
            if let Some(entry) = self.entries.remove(id) {
                return Some(entry.remembrance.pair);
            }
        }
        None
    }

    pub(crate) fn next_timeout(&self) -> Time {
        self.queue.front().map_or(Time::NEVER, |(until, _)| *until)
    }

    /// The next one whose time is over.
    pub(crate) fn expire(&mut self, now: Time) -> Option<Pair> {
        while self.next_timeout() <= now {
            let (_, id) = self.queue.pop_front()?;
            let Some(entry) = self.entries.get(id) else { continue };
            if entry.until > now {
                self.queue.push_back((entry.until, id));
                continue;
            }
            return self.remove(id);
        }
        None
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<Pair> {
        self.entries.remove(id).map(|entry| entry.remembrance.pair)
    }

    /// RFC 9293 section 3.10.7.4 for TIME-WAIT, with RFC 1337 (a RST ends nothing) and RFC 6191 (when a pair may be opened again).
    pub(crate) fn judge(&mut self, now: Time, id: Id, segment: &Incoming<'_>) -> Verdict {
        let lasts_us = self.lasts_us;
        let Some(entry) = self.entries.get_mut(id) else { return Verdict::Ignore };
        let remembrance = &mut entry.remembrance;
        if segment.flags.has(Flags::RST) {
            return Verdict::Ignore;
        }
        if segment.flags.has(Flags::SYN) && remembrance.may_reopen(segment) {
            return Verdict::Reuse(remembrance.next);
        }
        if segment.sequence_bytes() == 0 && segment.seq == remembrance.expected {
            return Verdict::Ignore;
        }
        if segment.flags.has(Flags::FIN) {
            entry.until = now.after_us(lasts_us);
        }
        Verdict::Acknowledge(entry.remembrance.acknowledgement(now))
    }
}

impl Remembrance {
    /// RFC 6191 section 2: its timestamp is newer, or (RFC 9293 section 3.6.1) its sequence number is.
    fn may_reopen(&self, segment: &Incoming<'_>) -> bool {
        let newer_stamp = match (self.timestamps, segment.options.timestamps) {
            (Some((_, recent)), Some(timestamps)) => timestamp_older(recent, timestamps.value),
            _ => false,
        };
        newer_stamp || segment.seq.ahead_of(self.expected) > 0
    }

    fn acknowledgement(&self, now: Time) -> Transmit {
        let timestamps = self.timestamps.map(|(offset, recent)| Timestamps {
            value: offset.wrapping_add(now.milliseconds() as u32),
            echo: recent,
        });
        let header = Outgoing {
            source: self.pair.local.port(),
            destination: self.pair.remote.port(),
            seq: self.next,
            ack: self.expected,
            flags: Flags::ACK,
            window: self.window,
            options: Options { timestamps, ..Options::default() },
        };
        Transmit::without_payload(&self.pair, header.emit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::tests::pair;

    fn remembrance(port: u16) -> Remembrance {
        let window = 1000;
        Remembrance {
            pair: pair(port),
            next: Seq(500),
            expected: Seq(900),
            timestamps: None,
            window,
        }
    }

    fn segment(seq: u32, flags: Flags) -> Incoming<'static> {
        Incoming {
            source: 1,
            destination: 443,
            seq: Seq(seq),
            ack: Seq(500),
            flags,
            window: 0,
            options: Options::default(),
            options_malformed: false,
            payload: &[],
            acks: 1,
        }
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut time_wait = TimeWait::new(2, 100);
        for port in [1, 2] {
            assert_eq!(time_wait.insert(Time(0), remembrance(port)).0, None);
        }
        assert_eq!(time_wait.insert(Time(0), remembrance(3)).0, Some(pair(1)));
        assert_eq!(time_wait.expire(Time(100)), Some(pair(2)));
        assert_eq!(time_wait.expire(Time(100)), Some(pair(3)));
        assert_eq!(time_wait.expire(Time(100)), None);
    }

    #[test]
    fn a_fin_that_comes_again_is_acknowledged_and_prolongs_it() {
        let mut time_wait = TimeWait::new(2, 100);
        let id = time_wait.insert(Time(0), remembrance(1)).1.unwrap();
        let verdict = time_wait.judge(Time(60), id, &segment(899, Flags::ACK.with(Flags::FIN)));
        assert!(matches!(verdict, Verdict::Acknowledge(_)));
        assert_eq!(time_wait.expire(Time(120)), None);
        assert_eq!(time_wait.expire(Time(160)), Some(pair(1)));
    }

    #[test]
    fn only_a_newer_syn_opens_again_and_a_reset_ends_nothing() {
        let mut time_wait = TimeWait::new(2, 100);
        let id = time_wait.insert(Time(0), remembrance(1)).1.unwrap();
        let mut judge = |seq, flags| time_wait.judge(Time(1), id, &segment(seq, flags));
        assert!(matches!(judge(900, Flags::RST), Verdict::Ignore));
        assert!(matches!(judge(900, Flags::ACK), Verdict::Ignore));
        assert!(matches!(judge(800, Flags::SYN), Verdict::Acknowledge(_)));
        assert!(matches!(judge(901, Flags::SYN), Verdict::Reuse(Seq(500))));
    }
}
