//! What a server must do with each record from a client that has the keys. Derived from the RFCs only.
//!
//! Where `tls` may choose, the model allows a range: a few records without content, or a few key updates, must pass; very many must not;
//! in between, both results are correct.

use tls::{Content, OpenRecordError, TlsVersion};

use crate::records::{ALERT, DATA, HANDSHAKE, Record};

/// What the server must do with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It must give these bytes of application data.
    Data(Vec<u8>),
    /// It must accept the record, which holds something other than data.
    Content(Content),
    /// It must refuse the record, and the connection ends.
    Error(OpenRecordError),
    /// Both are correct, because `tls` decides how many such records are a flood.
    FloodOr(OpenRecordError, Content),
    /// The record was damaged. The server must refuse it for any reason, or wait for more bytes if its length field grew.
    Damaged,
}

impl Expected {
    /// Whether the server reads nothing after this record.
    pub fn ends(&self) -> bool {
        matches!(self, Self::Error(_) | Self::Damaged)
    }

    /// Whether the client's keys change after this record.
    pub fn updates_keys(&self) -> bool {
        matches!(
            self,
            Self::Content(Content::KeyUpdate { .. })
                | Self::FloodOr(OpenRecordError::KeyUpdateFlood, _)
        )
    }
}

/// This many in a row do no harm and must pass.
const HARMLESS: usize = 4;

/// This many are certainly a flood.
const FLOOD: usize = 64;

/// Bytes that a record may carry (RFC 8446 section 5.1).
const PLAINTEXT_MAX: usize = 1 << 14;

/// Follows the state of a connection from its first record on.
pub struct Model {
    version: TlsVersion,
    /// Counted since the last data.
    records_without_content: usize,
    data_records: usize,
    key_updates: usize,
    /// The pieces so far of a handshake message that is not complete yet.
    message: Vec<u8>,
}

impl Model {
    /// A connection directly after its handshake.
    pub fn new(version: TlsVersion) -> Self {
        let (records_without_content, data_records, key_updates) = (0, 0, 0);
        Self { version, records_without_content, data_records, key_updates, message: Vec::new() }
    }

    /// What the server must do with `record`, which was encrypted in order and with the current keys.
    pub fn expect(&mut self, record: &Record) -> Expected {
        match self.version {
            TlsVersion::Tls13 => self.expect_inner(record),
            TlsVersion::Tls12 if !matches!(record.content_type, ALERT | HANDSHAKE | DATA) => {
                unexpected()
            }
            TlsVersion::Tls12 if record.plaintext.len() > PLAINTEXT_MAX => {
                Expected::Error(OpenRecordError::Oversized)
            }
            TlsVersion::Tls12 => self.judge(record.content_type, &record.plaintext),
        }
    }

    /// RFC 8446 sections 5.2 and 5.4: the type is the last byte that is not 0, and the total length is limited.
    fn expect_inner(&mut self, record: &Record) -> Expected {
        if record.plaintext.len() + 1 + record.padding_bytes > PLAINTEXT_MAX + 1 {
            return Expected::Error(OpenRecordError::Oversized);
        }
        let inner = [&record.plaintext[..], &[record.content_type]].concat();
        match inner.iter().rposition(|byte| *byte != 0) {
            Some(end) => self.judge(inner[end], &inner[..end]),
            None => unexpected(),
        }
    }

    fn judge(&mut self, content_type: u8, plaintext: &[u8]) -> Expected {
        match (content_type, plaintext, self.version) {
            (HANDSHAKE, piece, TlsVersion::Tls13) => self.handshake(piece),
            _ if !self.message.is_empty() => unexpected(),
            (DATA, [], _) => self.without_content(Content::Ignored),
            (DATA, data, _) => {
                (self.records_without_content, self.data_records) = (0, self.data_records + 1);
                Expected::Data(data.to_vec())
            }
            (ALERT, &[level, description], _) => self.alert(level, description),
            (ALERT, [], _) => unexpected(),
            (ALERT, ..) => Expected::Error(OpenRecordError::Malformed),
            (HANDSHAKE, [1, ..], TlsVersion::Tls12) => {
                Expected::Error(OpenRecordError::Renegotiation)
            }
            _ => unexpected(),
        }
    }

    /// RFC 8446 section 6: every alert except two is fatal, whatever its level. RFC 5246 section 7.2: the level says whether it is.
    fn alert(&mut self, level: u8, description: u8) -> Expected {
        let fatal = match self.version {
            TlsVersion::Tls13 => description != 90,
            TlsVersion::Tls12 => level != 1,
        };
        match (description, fatal) {
            (0, _) => Expected::Content(Content::CloseNotify),
            (_, true) => Expected::Content(Content::Alert { fatal, description }),
            (_, false) => self.without_content(Content::Alert { fatal, description }),
        }
    }

    fn without_content(&mut self, content: Content) -> Expected {
        self.records_without_content += 1;
        bounded(self.records_without_content, FLOOD, OpenRecordError::EmptyRecordFlood, content)
    }

    /// RFC 8446 section 5.1: a message may come in pieces. No piece is empty, and nothing comes between them. New keys begin with a new record.
    fn handshake(&mut self, piece: &[u8]) -> Expected {
        self.message.extend_from_slice(piece);
        match self.message[..] {
            _ if piece.is_empty() => unexpected(),
            [24] | [24, 0] | [24, 0, 0] | [24, 0, 0, 1] => Expected::Content(Content::Ignored),
            [24, 0, 0, 1, request] => {
                self.message.clear();
                self.key_update(request)
            }
            [24, 0, 0, 1, ..] => unexpected(),
            [24, ..] => Expected::Error(OpenRecordError::Malformed),
            _ => unexpected(),
        }
    }

    /// A key update (RFC 8446 section 4.6.3).
    fn key_update(&mut self, request: u8) -> Expected {
        if request > 1 {
            return Expected::Error(OpenRecordError::BadKeyUpdate);
        }
        self.key_updates += 1;
        let content = Content::KeyUpdate { peer_requests_answer: request == 1 };
        bounded(
            self.key_updates,
            FLOOD + self.data_records,
            OpenRecordError::KeyUpdateFlood,
            content,
        )
    }
}

fn unexpected() -> Expected {
    Expected::Error(OpenRecordError::Unexpected)
}

fn bounded(count: usize, flood: usize, error: OpenRecordError, content: Content) -> Expected {
    if count <= HARMLESS {
        Expected::Content(content)
    } else if count <= flood {
        Expected::FloodOr(error, content)
    } else {
        Expected::Error(error)
    }
}
