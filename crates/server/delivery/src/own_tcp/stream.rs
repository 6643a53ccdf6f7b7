//! One connection's send stream: the source of each byte, and how its records are made, for the first time or again.

use super::layout::{Layout, MadeFrom, Part, end_of_records, records_of};
use crate::end::End;
use crate::outgoing::Outgoing;
use crate::records::{self, MadeRecords};
use disk::BudgetShare;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use tls::{Alert, CONTROL_RECORD_BYTES_MAX, Ledger, PLAINTEXT_MAX};

/// The send stream of one connection.
#[derive(Default)]
pub struct Stream {
    layout: Layout,
    /// The sending half of TLS after the handshake; `None` without TLS.
    ledger: Option<Box<Ledger>>,
    /// Copies of bytes that were sent and are not acknowledged, if they are kept after all (`--off reread`).
    copies: VecDeque<Copied>,
    /// The few bytes that were made and not sent: TCP asks for them next. Their share is part of a budget for all viewers.
    rest: Option<(Copied, BudgetShare)>,
}

/// A part of the stream as it was sent.
struct Copied {
    stream: Range<u64>,
    bytes: Rc<[u8]>,
}

impl Stream {
    /// Seals the responses that are appended from now on.
    pub fn protect(&mut self, ledger: Ledger) {
        self.ledger = Some(Box::new(ledger));
    }

    /// The end of the stream: the offset of the next byte to be appended.
    pub fn end(&self) -> u64 {
        self.layout.end()
    }

    /// Appends bytes that are kept until they are acknowledged.
    pub fn keep(&mut self, bytes: &[u8]) {
        let position = self.ledger.as_ref().map(|ledger| ledger.position());
        self.layout.keep(bytes, position);
    }

    /// Appends as much of a response, from `start` on, as the present keys may seal, and at most the records that begin in `bytes_max` bytes. Returns
    /// where that ends in the response, and whether the keys were changed. Keys that have sealed `records_max` records are changed first.
    ///
    /// # Errors
    /// [`End::KeysExhausted`] if the keys cannot be changed.
    pub fn append(
        &mut self,
        outgoing: &Rc<Outgoing>,
        start: u64,
        bytes_max: u64,
        records_max: u64,
    ) -> Result<(u64, bool), End> {
        let Some(ledger) = &self.ledger else {
            let end = outgoing.bytes().min(start.saturating_add(bytes_max));
            self.layout.append_plain(outgoing, start..end);
            return Ok((end, false));
        };
        let changes = ledger.records_left(records_max) == 0;
        if changes {
            self.update_key()?;
        }
        let Some(ledger) = &mut self.ledger else { return Err(End::KeysExhausted) };
        let records =
            bytes_max.div_ceil(PLAINTEXT_MAX as u64).min(ledger.records_left(records_max));
        let end = end_of_records(outgoing, start, records);
        let range = start..end;
        let records = records_of(outgoing, range.clone());
        let position = ledger.reserve(records).map_err(|_| End::KeysExhausted)?;
        self.layout.append_records(outgoing, range, position, ledger.record_overhead());
        Ok((end, changes))
    }

    /// Appends a key update. Bytes appended after it are sealed with the next keys.
    ///
    /// # Errors
    /// [`End::KeysExhausted`] if it is not TLS 1.3.
    pub fn update_key(&mut self) -> Result<(), End> {
        let mut record = [0; CONTROL_RECORD_BYTES_MAX];
        let ledger = self.ledger.as_mut().ok_or(End::KeysExhausted)?;
        let bytes = ledger.seal_key_update(false, &mut record).map_err(|_| End::KeysExhausted)?;
        self.keep(&record[..bytes]);
        Ok(())
    }

    /// Appends an alert, if there is TLS.
    pub fn alert(&mut self, alert: Alert) {
        let mut record = [0; CONTROL_RECORD_BYTES_MAX];
        let Some(ledger) = &mut self.ledger else { return };
        if let Ok(bytes) = ledger.seal_alert(alert, &mut record) {
            self.keep(&record[..bytes]);
        }
    }

    /// Records that the viewer has acknowledged everything below `offset`.
    pub fn acknowledge_below(&mut self, offset: u64) {
        if let (Some(position), Some(ledger)) = (self.layout.forget_below(offset), &mut self.ledger)
        {
            ledger.acknowledge_below(position);
        }
        while self.copies.front().is_some_and(|copied| copied.stream.end <= offset) {
            self.copies.pop_front();
        }
    }

    /// The source of the bytes from `range.start` on ([`Layout::part`]), unless copies of them are kept.
    pub fn part(&self, range: &Range<u64>, plaintext_bytes_max: usize) -> Option<Part> {
        self.at_hand(range.start).or_else(|| self.layout.part(range, plaintext_bytes_max))
    }

    /// Kept bytes that begin at `offset` or before it.
    pub fn at_hand(&self, offset: u64) -> Option<Part> {
        let index = self.copies.partition_point(|copied| copied.stream.end <= offset);
        let rest = self.rest.as_ref().map(|(rest, _)| rest);
        let at_hand = self.copies.get(index).into_iter().chain(rest);
        let found = at_hand.into_iter().find(|copied| copied.stream.contains(&offset))?;
        let made_from = MadeFrom::Kept(Rc::clone(&found.bytes));
        Some(Part { stream: found.stream.clone(), made_from })
    }

    /// Returns true if `range` is kept already.
    pub fn has_rest(&self, range: &Range<u64>) -> bool {
        let kept = self.rest.as_ref().map(|(rest, _)| &rest.stream);
        kept.is_some_and(|kept| kept.start <= range.start && range.end <= kept.end)
    }

    /// Keeps the bytes that were made and not sent, from `start` on, because TCP asks for them next.
    pub fn keep_rest(&mut self, start: u64, bytes: Rc<[u8]>, share: BudgetShare) {
        let stream = start..start + bytes.len() as u64;
        self.rest = Some((Copied { stream, bytes }, share));
    }

    /// Records that everything below `offset` was sent, and drops the rest that was kept of it.
    pub fn sent_below(&mut self, offset: u64) {
        if self.rest.as_ref().is_some_and(|(rest, _)| rest.stream.end <= offset) {
            self.rest = None;
        }
    }

    /// Returns true if the byte at `offset` is one of the few kept ones.
    pub fn is_kept(&self, offset: u64) -> bool {
        self.layout.is_kept(offset)
    }

    /// Keeps a copy of `range`, which is about to be sent for the first time, until it is acknowledged. Skips the part that already has a copy;
    /// `copied` copies the rest.
    pub fn copy(&mut self, range: Range<u64>, copied: impl FnOnce(&Range<u64>) -> Rc<[u8]>) {
        let Range { start, end } = range;
        // Later bytes cannot have been sent, because bytes are sent in order. Their copies are replaced.
        while self.copies.back().is_some_and(|last| last.stream.start > start) {
            self.copies.pop_back();
        }
        let copied_to = self.copies.back().map_or(start, |last| last.stream.end.max(start));
        if copied_to < end {
            let stream = copied_to..end;
            self.copies.push_back(Copied { bytes: copied(&stream), stream });
        }
    }

    /// Makes records of a response ([`records::make`]).
    ///
    /// # Errors
    /// [`End::ChangedUnderUs`].
    pub(crate) fn seal(
        &mut self,
        outgoing: &Outgoing,
        range: Range<u64>,
        position: u64,
        of_file: Option<&[u8]>,
        room: &mut [u8],
    ) -> Result<MadeRecords, End> {
        let ledger = self.ledger.as_mut().expect("records are laid out only with TLS");
        records::make(ledger, outgoing, range, position, of_file, room)
    }

    /// Returns true if our keys were changed and the viewer has not acknowledged everything sealed before the change.
    pub fn has_former_keys(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.former_keys_count() > 0)
    }

    /// Bytes of memory that responses and former keys take from the time they are laid out until they are acknowledged. Excludes tags, which grow
    /// with the window, and everything that is bounded elsewhere.
    pub fn held_bytes(&self) -> usize {
        let former = self.ledger.as_ref().map_or(0, |ledger| ledger.former_keys_bytes());
        self.layout.memory_bytes() + former
    }

    /// Bytes of memory beyond its own size, tags included.
    pub fn memory_bytes(&self) -> usize {
        let ledger = self.ledger.as_ref().map_or(0, |ledger| ledger.memory_bytes());
        let copies = self.copies.iter().map(|copied| copied.bytes.len()).sum::<usize>();
        let rest = self.rest.as_ref().map_or(0, |(rest, _)| rest.bytes.len());
        ledger + self.layout.memory_bytes() + copies + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tls::client::{ClientHandshake, ClientOptions, ClientTls, Trust};
    use tls::{Handshake, Progress, TlsContext, TlsOptions, TlsVersions};

    /// The ledger after a handshake.
    fn ledger() -> Ledger {
        let state = tempfile::tempdir().unwrap();
        let options = TlsOptions { versions: TlsVersions::Tls13, ..TlsOptions::new(state.path()) };
        let mut server = Handshake::new(&TlsContext::load(options).unwrap()).unwrap();
        let options = ClientOptions { trust: Trust::AnyCertificate, ..ClientOptions::default() };
        let tls = ClientTls::load(&options).unwrap();
        let mut client = ClientHandshake::new(&tls, "localhost").unwrap();
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        loop {
            let (consumed, _) = client.advance(&to_client, &mut to_server).unwrap();
            to_client.drain(..consumed);
            let (consumed, progress) = server.advance(&to_server, &mut to_client).unwrap();
            to_server.drain(..consumed);
            if let Progress::Done(established) = progress {
                return Ledger::new(established.sealer);
            }
        }
    }

    fn response(bytes: usize) -> Rc<Outgoing> {
        Rc::new(Outgoing::new(
            b"head".to_vec(),
            vec![fullbore_http::Part::Bytes(vec![7; bytes])],
            None,
        ))
    }

    #[test]
    fn without_tls_the_stream_is_the_response() {
        let mut stream = Stream::default();
        let outgoing = response(100);
        assert_eq!(stream.append(&outgoing, 0, u64::MAX, u64::MAX).unwrap(), (104, false));
        assert_eq!(stream.end(), 104);
        let part = stream.part(&(10..50), 1000).unwrap();
        assert_eq!(part.stream, 10..50);
        assert!(matches!(part.made_from, MadeFrom::Response(_, range) if range == (10..50)));
        stream.acknowledge_below(104);
        assert!(stream.part(&(10..50), 1000).is_none());
        assert_eq!(stream.memory_bytes(), 0);
    }

    /// However often keys change while nothing else is sent, acknowledged bytes need no former keys.
    #[test]
    fn former_keys_go_when_the_message_that_changed_them_is_acknowledged() {
        let mut stream = Stream::default();
        stream.protect(ledger());
        let before = stream.memory_bytes();
        for _ in 0..100 {
            stream.update_key().unwrap();
        }
        assert!(stream.has_former_keys() && stream.held_bytes() > 100 * 600);
        stream.acknowledge_below(stream.end() - 1);
        assert!(stream.has_former_keys(), "the last message may have to be sent again");
        stream.acknowledge_below(stream.end());
        assert!(!stream.has_former_keys());
        assert_eq!((stream.held_bytes(), stream.memory_bytes()), (0, before));
    }

    #[test]
    fn a_rest_is_sent_before_anything_is_made_again() {
        let mut stream = Stream::default();
        stream.append(&response(100), 0, u64::MAX, u64::MAX).unwrap();
        let budget = disk::Budget::new(30);
        stream.keep_rest(10, [3; 30].into(), budget.take(30).unwrap());
        let part = stream.part(&(20..60), 1000).unwrap();
        assert!(part.stream == (10..40) && matches!(part.made_from, MadeFrom::Kept(_)));
        assert!(stream.memory_bytes() >= 30 && budget.take(1).is_none());
        stream.sent_below(39);
        assert!(stream.rest.is_some());
        stream.sent_below(40);
        assert!(stream.rest.is_none() && budget.left_bytes() == 30);
    }

    #[test]
    fn a_copy_goes_before_the_disk_until_it_is_acknowledged() {
        let mut stream = Stream::default();
        let outgoing = response(100);
        stream.append(&outgoing, 0, u64::MAX, u64::MAX).unwrap();
        stream.copy(0..40, |range| vec![1; range.end as usize - range.start as usize].into());
        stream.copy(20..80, |range| vec![2; range.end as usize - range.start as usize].into());
        let part = stream.part(&(50..60), 1000).unwrap();
        assert_eq!(part.stream, 40..80);
        assert!(matches!(part.made_from, MadeFrom::Kept(bytes) if *bytes == [2; 40]));
        stream.acknowledge_below(80);
        let part = stream.part(&(90..95), 1000).unwrap();
        assert!(matches!(part.made_from, MadeFrom::Response(..)));
        assert_eq!(stream.copies.len(), 0);
    }
}
