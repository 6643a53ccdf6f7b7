//! Opens the records of a peer after the handshake, one at a time, in place or to another place.
//!
//! An [`Opener`] is one connection's receiving half. It keeps the raw key and expands it for each record. An expanded
//! key would take about 600 bytes for as long as the connection lives. Expanding it takes 0.1 us of the 0.2 us that
//! opening a request takes (AES-GCM, measured by `benches/seal.rs`), and a viewer sends one such record for every few
//! megabytes that it receives.
//!
//! It refuses, with the alert that RFC 8446 section 6 requires: records out of order or damaged, oversized ones, change_cipher_spec and any handshake
//! message except KeyUpdate, renegotiation (TLS 1.2), and floods of empty records or key updates. After an error the connection must end; nothing
//! more can be opened.
//!
//! A KeyUpdate may arrive in pieces, one in each record (RFC 8446 section 5.1). All of its bytes except the last are known beforehand, so only their
//! number is kept.

#[cfg(test)]
mod tests;

use std::ops::Range;

use aws_lc_rs::aead::{Aad, Nonce};

use crate::error::OpenRecordError;
use crate::record::{
    AdditionalData, CIPHERTEXT_MAX, HEADER_BYTES, Header, Layout, PLAINTEXT_MAX, TAG_BYTES,
    content_type, handshake_type,
};
use crate::secrets::{Keys, NONCE_BYTES};

/// How many records in a row may be empty (no data, or a warning). A guess: no peer needs two.
const EMPTY_RECORDS_MAX: u8 = 16;

/// How many key updates a peer may send at once. Each record of data allows one more, and so does each part of a response that it takes. A guess: a
/// client updates every 2^24 records or when a person types a command. Answering costs three HKDF expansions, and this limit keeps that in proportion
/// to the data records that are opened anyway.
const KEY_UPDATES_MAX: u8 = 32;

/// The room that [`Opener::open_to`] needs: the longest plaintext, and in TLS 1.3 the record's type after it.
pub const OPENED_BYTES_MAX: usize = PLAINTEXT_MAX + 1;

/// The beginning of every KeyUpdate (RFC 8446 section 4.6.3): its type, and the length of the rest, which is one byte.
const KEY_UPDATE_HEAD: [u8; 4] = [handshake_type::KEY_UPDATE, 0, 0, 1];

/// The result of [`Opener::open`] at the front of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The record is incomplete.
    Partial {
        /// How many bytes the buffer must have before the next call can do more.
        needed_bytes: usize,
    },
    /// One record was opened.
    Record {
        /// The record's length in the buffer; the next record begins after it.
        consumed_bytes: usize,
        /// Its content.
        content: Content,
    },
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Application data: this range of the buffer, never empty.
    Data(Range<usize>),
    /// The peer will send no more.
    CloseNotify,
    /// The peer reports an error. If `fatal`, the connection is over and nothing may be sent.
    Alert {
        /// Always true in TLS 1.3.
        fatal: bool,
        /// RFC 8446 appendix B.2.
        description: u8,
    },
    /// The peer changed its keys. The receiving keys here are already updated.
    KeyUpdate {
        /// The peer requests [`crate::Sealer::seal_key_update`] before our next data. One answer is enough for several requests.
        peer_requests_answer: bool,
    },
    /// Session tickets from a server: this range of the buffer, for [`crate::client::Tickets::keep`]. Only an opener
    /// from a [`crate::client::ClientHandshake`] accepts them.
    Tickets(Range<usize>),
    /// Nothing to act on.
    Ignored,
}

/// The receiving half of a connection after its handshake.
pub struct Opener {
    keys: Keys,
    layout: Layout,
    sequence: u64,
    empty_records: u8,
    key_updates_left: u8,
    /// Bytes of a KeyUpdate that arrived in earlier records; at most the length of [`KEY_UPDATE_HEAD`].
    key_update_bytes: u8,
    /// The peer is a server, which may issue tickets at any time.
    takes_tickets: bool,
}

impl Opener {
    /// For the records of a client.
    pub(crate) fn new(keys: Keys, sequence: u64) -> Self {
        let layout = Layout::of(keys.version(), keys.suite());
        let key_updates_left = KEY_UPDATES_MAX;
        Self {
            keys,
            layout,
            sequence,
            empty_records: 0,
            key_updates_left,
            key_update_bytes: 0,
            takes_tickets: false,
        }
    }

    /// For the records of a server.
    pub(crate) fn of_server(keys: Keys, sequence: u64) -> Self {
        Self { takes_tickets: true, ..Self::new(keys, sequence) }
    }

    /// Bytes of a record, without its header, that are not plaintext: 17 in TLS 1.3 if the peer adds no padding, 24 in
    /// TLS 1.2 AES-GCM, 16 in TLS 1.2 ChaCha20. This gives a record's plaintext length without opening it.
    pub fn body_overhead(&self) -> usize {
        self.layout.explicit_nonce_bytes() + self.layout.back_bytes()
    }

    /// Skips `records` whole records of data that were discarded unopened, so that the record after them can be opened.
    /// Nothing is known about skipped records: neither that they were intact, nor who sent them.
    ///
    /// # Panics
    /// If more records are skipped than a connection can have.
    pub fn skip(&mut self, records: u64) {
        let sequence = self.sequence.checked_add(records);
        self.sequence = sequence.expect("no connection has 2^64 records");
    }

    /// Allows the peer one more key update, as a record of data does. Call it for each part of a response that the peer takes: during a long
    /// one it has nothing to send.
    pub fn allow_key_update(&mut self) {
        self.key_updates_left = KEY_UPDATES_MAX.min(self.key_updates_left + 1);
    }

    /// Opens the record at the front of `buffer`, in place. The bytes after it are not touched.
    ///
    /// # Errors
    /// See [`OpenRecordError`]; `buffer` then has undefined contents.
    pub fn open(&mut self, buffer: &mut [u8]) -> Result<Opened, OpenRecordError> {
        let Some(header) = self.whole_record(buffer)? else { return Ok(partial(buffer)) };
        let record = &mut buffer[..header.record_bytes()];
        let plaintext = self.decrypt(record)?;
        self.look_into(header, record, plaintext)
    }

    /// As [`Self::open`], but the record's content goes to `into`, and the ranges refer to that. `buffer` does not change.
    ///
    /// # Errors
    /// See [`OpenRecordError`]; `into` then has undefined contents.
    ///
    /// # Panics
    /// If `into` has no room for [`OPENED_BYTES_MAX`].
    pub fn open_to(&mut self, buffer: &[u8], into: &mut [u8]) -> Result<Opened, OpenRecordError> {
        let Some(header) = self.whole_record(buffer)? else { return Ok(partial(buffer)) };
        let plaintext = self.decrypt_to(&buffer[..header.record_bytes()], into)?;
        self.look_into(header, into, plaintext)
    }

    /// The header of the record at the front of `buffer`, if that is whole.
    fn whole_record(&self, buffer: &[u8]) -> Result<Option<Header>, OpenRecordError> {
        let Some(header) = Header::read(buffer) else { return Ok(None) };
        self.check_header(header)?;
        Ok(Some(header).filter(|header| header.record_bytes() <= buffer.len()))
    }

    /// The content of a record whose plaintext is at this range of `bytes`.
    fn look_into(
        &mut self,
        header: Header,
        bytes: &[u8],
        plaintext: Range<usize>,
    ) -> Result<Opened, OpenRecordError> {
        let (content_type, range) = match self.layout {
            Layout::Tls13 => split_inner_type(bytes, plaintext)?,
            Layout::Tls12Gcm | Layout::Tls12ChaCha => (header.content_type, plaintext),
        };
        if range.len() > PLAINTEXT_MAX {
            return Err(OpenRecordError::Oversized);
        }
        let content = self.judge(content_type, &bytes[range.clone()], range)?;
        Ok(Opened::Record { consumed_bytes: header.record_bytes(), content })
    }

    /// Checks the header alone, so that a bad record is refused before it is complete.
    fn check_header(&self, header: Header) -> Result<(), OpenRecordError> {
        use content_type::{ALERT, APPLICATION_DATA, HANDSHAKE};
        let known = match self.layout {
            Layout::Tls13 => header.content_type == APPLICATION_DATA,
            Layout::Tls12Gcm | Layout::Tls12ChaCha => {
                matches!(header.content_type, APPLICATION_DATA | ALERT | HANDSHAKE)
            }
        };
        if !known {
            return Err(OpenRecordError::Unexpected);
        }
        if header.body_bytes > CIPHERTEXT_MAX { Err(OpenRecordError::Oversized) } else { Ok(()) }
    }

    /// Opens `record` in place and returns the range of its plaintext.
    fn decrypt(&mut self, record: &mut [u8]) -> Result<Range<usize>, OpenRecordError> {
        let plaintext = self.plaintext(record)?;
        let (nonce, additional) = self.bound(record, plaintext.len());
        self.keys
            .expand()
            .open_in_place(nonce, Aad::from(additional), &mut record[plaintext.start..])
            .map_err(|_| OpenRecordError::BadRecordMac)?;
        self.sequence += 1;
        Ok(plaintext)
    }

    /// Opens `record` to the front of `into` and returns the range of its plaintext there.
    fn decrypt_to(
        &mut self,
        record: &[u8],
        into: &mut [u8],
    ) -> Result<Range<usize>, OpenRecordError> {
        assert!(into.len() >= OPENED_BYTES_MAX, "there is room for the longest record");
        let sealed = self.plaintext(record)?;
        let into = into.get_mut(..sealed.len()).ok_or(OpenRecordError::Oversized)?;
        let (nonce, additional) = self.bound(record, sealed.len());
        let (ciphertext, tag) = record[sealed.start..].split_at(sealed.len());
        self.keys
            .expand()
            .open_separate_gather(nonce, Aad::from(additional), ciphertext, tag, into)
            .map_err(|_| OpenRecordError::BadRecordMac)?;
        self.sequence += 1;
        Ok(0..into.len())
    }

    /// Where a record's ciphertext is, without its tag: as long as the plaintext.
    fn plaintext(&self, record: &[u8]) -> Result<Range<usize>, OpenRecordError> {
        let front_bytes = self.layout.front_bytes();
        let bytes = record
            .len()
            .checked_sub(front_bytes + TAG_BYTES)
            .ok_or(OpenRecordError::BadRecordMac)?;
        Ok(front_bytes..front_bytes + bytes)
    }

    /// The nonce and the additional data of the next record.
    fn bound(&self, record: &[u8], plaintext_bytes: usize) -> (Nonce, AdditionalData) {
        let front = &record[..self.layout.front_bytes()];
        let header = *front.first_chunk().expect("every layout begins with a header");
        let additional = match self.layout {
            Layout::Tls13 => AdditionalData::tls13(header),
            Layout::Tls12Gcm | Layout::Tls12ChaCha => {
                AdditionalData::tls12(self.sequence, header, plaintext_bytes)
            }
        };
        let nonce = Nonce::assume_unique_for_key(self.nonce(&front[HEADER_BYTES..]));
        (nonce, additional)
    }

    /// The nonce of the next record. `explicit` is the part that the record carries: everything but the salt in TLS 1.2
    /// AES-GCM (RFC 5288 section 3), otherwise nothing.
    fn nonce(&self, explicit: &[u8]) -> [u8; NONCE_BYTES] {
        if explicit.is_empty() {
            return self.keys.nonce(self.sequence);
        }
        let mut nonce = *self.keys.iv();
        nonce[NONCE_BYTES - explicit.len()..].copy_from_slice(explicit);
        nonce
    }

    /// Returns true if a KeyUpdate has begun whose end is in a later record.
    fn is_amid_message(&self) -> bool {
        self.key_update_bytes > 0
    }

    fn judge(
        &mut self,
        content_type: u8,
        bytes: &[u8],
        range: Range<usize>,
    ) -> Result<Content, OpenRecordError> {
        match content_type {
            // Nothing may come between the pieces of a message (RFC 8446 section 5.1).
            _ if self.is_amid_message() && content_type != content_type::HANDSHAKE => {
                Err(OpenRecordError::Unexpected)
            }
            content_type::APPLICATION_DATA if bytes.is_empty() => self.empty(),
            content_type::APPLICATION_DATA => {
                self.empty_records = 0;
                self.allow_key_update();
                Ok(Content::Data(range))
            }
            content_type::ALERT => self.alert(bytes),
            content_type::HANDSHAKE
                if self.takes_tickets
                    && !self.is_amid_message()
                    && are_tickets(bytes, self.layout) =>
            {
                self.empty().map(|_| Content::Tickets(range))
            }
            content_type::HANDSHAKE if self.layout == Layout::Tls13 => self.key_update(bytes),
            content_type::HANDSHAKE if bytes.first() == Some(&handshake_type::CLIENT_HELLO) => {
                Err(OpenRecordError::Renegotiation)
            }
            _ => Err(OpenRecordError::Unexpected),
        }
    }

    /// Counts an empty record.
    fn empty(&mut self) -> Result<Content, OpenRecordError> {
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            Err(OpenRecordError::EmptyRecordFlood)
        } else {
            Ok(Content::Ignored)
        }
    }

    /// An alert (RFC 8446 section 6). In TLS 1.3 the level is ignored: close_notify and user_canceled are harmless, and
    /// all others end the connection.
    fn alert(&mut self, bytes: &[u8]) -> Result<Content, OpenRecordError> {
        const CLOSE_NOTIFY: u8 = 0;
        const USER_CANCELED: u8 = 90;
        const LEVEL_WARNING: u8 = 1;
        let &[level, description] = bytes else {
            // An alert without content is not an alert of the wrong length (RFC 8446 section 5.4).
            return Err(if bytes.is_empty() {
                OpenRecordError::Unexpected
            } else {
                OpenRecordError::Malformed
            });
        };
        let warning = match self.layout {
            Layout::Tls13 => description == USER_CANCELED,
            Layout::Tls12Gcm | Layout::Tls12ChaCha => level == LEVEL_WARNING,
        };
        match description {
            CLOSE_NOTIFY => Ok(Content::CloseNotify),
            _ if warning => self.empty().map(|_| Content::Alert { fatal: false, description }),
            _ => Ok(Content::Alert { fatal: true, description }),
        }
    }

    /// A TLS 1.3 handshake message, or the next piece of one. Only KeyUpdate is expected: client certificates are never
    /// requested. The message must end with its record, because the keys change after it (RFC 8446 section 5.1).
    fn key_update(&mut self, piece: &[u8]) -> Result<Content, OpenRecordError> {
        let expected = &KEY_UPDATE_HEAD[usize::from(self.key_update_bytes)..];
        let (head, rest) = piece.split_at(expected.len().min(piece.len()));
        match head {
            // A handshake record may not be empty (RFC 8446 section 5.1).
            [] if rest.is_empty() => return Err(OpenRecordError::Unexpected),
            [first, ..] if !self.is_amid_message() && *first != handshake_type::KEY_UPDATE => {
                return Err(OpenRecordError::Unexpected);
            }
            _ if head != &expected[..head.len()] => return Err(OpenRecordError::Malformed),
            _ => {}
        }
        match *rest {
            [] => {
                self.key_update_bytes += head.len() as u8;
                Ok(Content::Ignored)
            }
            [request] => self.update_key(request),
            _ => Err(OpenRecordError::Unexpected),
        }
    }

    /// Switches to the peer's next keys.
    fn update_key(&mut self, request: u8) -> Result<Content, OpenRecordError> {
        if request > 1 {
            return Err(OpenRecordError::BadKeyUpdate);
        }
        self.key_updates_left =
            self.key_updates_left.checked_sub(1).ok_or(OpenRecordError::KeyUpdateFlood)?;
        let updated = self.keys.update();
        debug_assert!(updated, "TLS 1.3 keys have a secret");
        (self.sequence, self.key_update_bytes) = (0, 0);
        Ok(Content::KeyUpdate { peer_requests_answer: request == 1 })
    }
}

/// The answer if the record at the front of `buffer` is not whole.
fn partial(buffer: &[u8]) -> Opened {
    let needed_bytes = Header::read(buffer).map_or(HEADER_BYTES, |header| header.record_bytes());
    Opened::Partial { needed_bytes }
}

/// Returns true if a TLS 1.3 record consists of whole tickets (RFC 8446 section 4.6.1). No known server sends one that spans records, that is, of
/// more than 16 KiB.
fn are_tickets(bytes: &[u8], layout: Layout) -> bool {
    let mut tickets = Messages(bytes);
    let all = tickets.all(|(message_type, _)| message_type == handshake_type::NEW_SESSION_TICKET);
    layout == Layout::Tls13 && all && tickets.0.is_empty() && !bytes.is_empty()
}

/// The whole handshake messages in `.0`, by type and content (RFC 8446 section 4). Ends at the first incomplete one.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let &[message_type, a, b, c] = self.0.first_chunk()?;
        let bytes = u32::from_be_bytes([0, a, b, c]) as usize;
        let (message, rest) = self.0[4..].split_at_checked(bytes)?;
        self.0 = rest;
        Some((message_type, message))
    }
}

/// Finds the content type, which is after the plaintext and before the padding (RFC 8446 section 5.4).
fn split_inner_type(
    record: &[u8],
    inner: Range<usize>,
) -> Result<(u8, Range<usize>), OpenRecordError> {
    if inner.len() > PLAINTEXT_MAX + 1 {
        return Err(OpenRecordError::Oversized);
    }
    let type_offset = record[inner.clone()]
        .iter()
        .rposition(|&byte| byte != 0)
        .ok_or(OpenRecordError::Unexpected)?;
    let end = inner.start + type_offset;
    Ok((record[end], inner.start..end))
}
