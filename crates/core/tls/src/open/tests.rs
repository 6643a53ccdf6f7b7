//! Records that open, and records that must not.

use super::*;
use crate::Sealer;
use crate::error::Alert;
use crate::record::header;
use crate::secrets::tests::{ALL, keys};
use crate::secrets::{Suite, TlsVersion};

/// Seals as a client would: the two directions have the same form.
struct Peer {
    sealer: Sealer,
    opener: Opener,
}

impl Peer {
    fn new(version: TlsVersion, suite: Suite) -> Self {
        Self {
            sealer: Sealer::new(keys(version, suite), 1),
            opener: Opener::new(keys(version, suite), 1),
        }
    }

    fn tls13() -> Self {
        Self::new(TlsVersion::Tls13, Suite::Aes128Gcm)
    }

    /// Seals the inner plaintext of TLS 1.3, with type and padding given explicitly.
    fn raw(&mut self, inner: &[u8]) -> Result<Opened, OpenRecordError> {
        let keys = keys(TlsVersion::Tls13, Suite::Aes128Gcm);
        let mut record = header(23, inner.len() + TAG_BYTES).to_vec();
        let mut body = inner.to_vec();
        let additional = AdditionalData::tls13(*record.first_chunk().unwrap());
        let nonce = Nonce::assume_unique_for_key(keys.nonce(self.opener.sequence));
        keys.expand().seal_in_place_append_tag(nonce, Aad::from(additional), &mut body).unwrap();
        record.extend_from_slice(&body);
        self.opener.open(&mut record)
    }

    fn data(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let mut record = vec![0; self.sealer.sealed_bytes(plaintext.len() as u64) as usize];
        self.sealer.seal(plaintext, &mut record).unwrap();
        record
    }

    fn key_update(&mut self, request: bool) -> Result<Opened, OpenRecordError> {
        let mut record = [0; 48];
        let bytes = self.sealer.seal_key_update(request, &mut record).unwrap();
        self.opener.open(&mut record[..bytes])
    }
}

fn content(opened: Result<Opened, OpenRecordError>) -> Content {
    match opened.unwrap() {
        Opened::Record { content, .. } => content,
        Opened::Partial { .. } => panic!("the record is whole"),
    }
}

#[test]
fn every_layout_opens_what_was_sealed_and_leaves_the_rest() {
    for (version, suite) in ALL {
        let mut peer = Peer::new(version, suite);
        let mut wire = peer.data(&[7; PLAINTEXT_MAX]);
        let record_bytes = wire.len();
        wire.extend_from_slice(b"rest");
        let Ok(Opened::Record { consumed_bytes, content: Content::Data(range) }) =
            peer.opener.open(&mut wire)
        else {
            panic!("data");
        };
        assert_eq!(consumed_bytes, record_bytes);
        assert_eq!(wire[range], [7; PLAINTEXT_MAX]);
        assert_eq!(&wire[record_bytes..], b"rest");
    }
}

#[test]
fn what_is_opened_to_another_place_is_what_is_opened_in_place() {
    for (version, suite) in ALL {
        for data in [&b"x"[..], &[7; PLAINTEXT_MAX - 1], &[7; PLAINTEXT_MAX]] {
            let mut peer = Peer::new(version, suite);
            let mut record = peer.data(data);
            let consumed_bytes = record.len();
            record.extend_from_slice(b"rest");
            let before = record.clone();
            let mut into = vec![1; OPENED_BYTES_MAX + 1];
            let opened = peer.opener.open_to(&record[..record.len() - 5], &mut into);
            assert_eq!(opened, Ok(Opened::Partial { needed_bytes: consumed_bytes }));
            let opened = peer.opener.open_to(&record, &mut into);
            let expected = Content::Data(0..data.len());
            assert_eq!(opened, Ok(Opened::Record { consumed_bytes, content: expected }));
            assert_eq!((&into[..data.len()], into.last()), (data, Some(&1)));
            assert_eq!(record, before);
            // The opener goes on as after a record that was opened in place.
            let mut next = peer.data(b"next");
            assert!(matches!(content(peer.opener.open(&mut next)), Content::Data(_)));
        }
    }
}

#[test]
fn to_another_place_a_damaged_record_does_not_open() {
    for (version, suite) in ALL {
        let mut peer = Peer::new(version, suite);
        let mut record = peer.data(b"GET /");
        *record.last_mut().unwrap() ^= 1;
        let opened = peer.opener.open_to(&record, &mut [0; OPENED_BYTES_MAX]);
        assert_eq!(opened, Err(OpenRecordError::BadRecordMac));
    }
}

#[test]
fn partial_records_say_how_much_is_needed() {
    for (version, suite) in ALL {
        let mut peer = Peer::new(version, suite);
        let mut record = peer.data(b"GET /");
        let whole = record.len();
        for held in 0..whole {
            let needed_bytes = if held < HEADER_BYTES { HEADER_BYTES } else { whole };
            assert_eq!(peer.opener.open(&mut record[..held]), Ok(Opened::Partial { needed_bytes }));
        }
        assert!(matches!(content(peer.opener.open(&mut record)), Content::Data(_)));
    }
}

#[test]
fn flipping_any_byte_is_refused() {
    for (version, suite) in ALL {
        let mut peer = Peer::new(version, suite);
        let record = peer.data(b"GET /");
        for index in 0..record.len() {
            let mut bad = record.clone();
            bad[index] ^= 1;
            let opened = peer.opener.open(&mut bad);
            let longer = matches!(opened, Ok(Opened::Partial { needed_bytes }) if needed_bytes > record.len());
            assert!(opened.is_err() || longer, "{version:?} {suite:?} byte {index}: {opened:?}");
        }
    }
}

#[test]
fn repeated_and_reordered_records_do_not_open() {
    for (version, suite) in ALL {
        let mut peer = Peer::new(version, suite);
        let (first, second) = (peer.data(b"one"), peer.data(b"two"));
        assert_eq!(peer.opener.open(&mut second.clone()), Err(OpenRecordError::BadRecordMac));
        assert!(peer.opener.open(&mut first.clone()).is_ok());
        assert_eq!(peer.opener.open(&mut first.clone()), Err(OpenRecordError::BadRecordMac));
        assert!(peer.opener.open(&mut second.clone()).is_ok());
    }
}

#[test]
fn oversized_records_are_refused_by_their_header() {
    for (version, suite) in ALL {
        let mut opener = Peer::new(version, suite).opener;
        let error = opener.open(&mut [23, 3, 3, 0x41, 0x01]).unwrap_err();
        assert_eq!((error, error.alert()), (OpenRecordError::Oversized, Alert::RecordOverflow));
    }
}

#[test]
fn records_too_short_to_hold_a_tag_are_refused() {
    for (version, suite) in ALL {
        let mut peer = Peer::new(version, suite);
        let mut record = [&header(23, 15)[..], &[0; 15]].concat();
        assert_eq!(peer.opener.open(&mut record), Err(OpenRecordError::BadRecordMac));
    }
}

#[test]
fn padding_is_stripped_and_nothing_but_padding_is_refused() {
    let mut peer = Peer::tls13();
    assert_eq!(content(peer.raw(b"data\x17\0\0\0")), Content::Data(5..9));
    assert_eq!(peer.raw(&[0; 64]), Err(OpenRecordError::Unexpected));
}

#[test]
fn plaintext_beyond_the_limit_is_refused_although_the_record_is_not() {
    let mut inner = vec![1; PLAINTEXT_MAX + 1];
    inner.push(23);
    assert_eq!(Peer::tls13().raw(&inner), Err(OpenRecordError::Oversized));
    let mut inner = vec![1; PLAINTEXT_MAX];
    inner.push(23);
    assert!(Peer::tls13().raw(&inner).is_ok());
}

#[test]
fn alerts_tell_closing_warning_and_failure_apart() {
    let mut peer = Peer::tls13();
    assert_eq!(content(peer.raw(&[1, 0, 21])), Content::CloseNotify);
    assert_eq!(content(peer.raw(&[1, 90, 21])), Content::Alert { fatal: false, description: 90 });
    assert_eq!(content(peer.raw(&[1, 40, 21])), Content::Alert { fatal: true, description: 40 });
    assert_eq!(peer.raw(&[1, 21]), Err(OpenRecordError::Malformed));
    assert_eq!(peer.raw(&[21]), Err(OpenRecordError::Unexpected));
}

#[test]
fn handshake_messages_other_than_key_update_are_unexpected() {
    let cases: [&[u8]; 4] = [
        &[11, 0, 0, 1, 0, 22],
        &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0, 22],
        &[24, 0, 0, 1, 0, 0, 22],
        &[22],
    ];
    for inner in cases {
        assert_eq!(Peer::tls13().raw(inner), Err(OpenRecordError::Unexpected), "{inner:?}");
    }
}

#[test]
fn key_updates_of_the_wrong_length_or_content_are_told_apart() {
    let cases: [&[u8]; 4] =
        [&[24, 0, 0, 0, 22], &[24, 0, 0, 2, 0, 0, 22], &[24, 1, 22], &[24, 0, 0, 9, 22]];
    for inner in cases {
        let error = Peer::tls13().raw(inner).unwrap_err();
        assert_eq!((error, error.alert()), (OpenRecordError::Malformed, Alert::DecodeError));
    }
    let error = Peer::tls13().raw(&[24, 0, 0, 1, 2, 22]).unwrap_err();
    assert_eq!((error, error.alert()), (OpenRecordError::BadKeyUpdate, Alert::IllegalParameter));
}

#[test]
fn a_key_update_is_followed_however_it_was_cut() {
    const UPDATE: [u8; 5] = [24, 0, 0, 1, 1];
    for cuts in 0..1 << 4 {
        let mut peer = Peer::tls13();
        let mut piece = Vec::new();
        for (index, byte) in UPDATE.into_iter().enumerate() {
            piece.push(byte);
            if index == 4 {
                let expected = Content::KeyUpdate { peer_requests_answer: true };
                assert_eq!(content(peer.raw(&[&piece[..], &[22]].concat())), expected);
            } else if cuts >> index & 1 == 1 {
                piece.push(22);
                assert_eq!(content(peer.raw(&piece)), Content::Ignored, "{cuts:b}");
                assert!(peer.opener.is_amid_message());
                piece.clear();
            }
        }
        assert!(!peer.opener.is_amid_message());
        assert_eq!(peer.opener.sequence, 0, "the keys are the next ones");
    }
}

#[test]
fn nothing_may_come_between_the_pieces_of_a_key_update_or_behind_the_last() {
    let cases: [(&[u8], OpenRecordError); 6] = [
        (b"data\x17", OpenRecordError::Unexpected),
        (&[23], OpenRecordError::Unexpected),
        (&[1, 0, 21], OpenRecordError::Unexpected),
        (&[22], OpenRecordError::Unexpected),
        (&[0, 1, 0, 0, 22], OpenRecordError::Unexpected),
        (&[24, 22], OpenRecordError::Malformed),
    ];
    for (inner, expected) in cases {
        let mut peer = Peer::tls13();
        assert_eq!(content(peer.raw(&[24, 0, 22])), Content::Ignored);
        assert_eq!(peer.raw(inner), Err(expected), "{inner:?}");
    }
}

#[test]
fn unprotected_records_are_unexpected_in_tls13() {
    for content_type in [20, 21, 22] {
        let mut record = [content_type, 3, 3, 0, 1, 1];
        let error = Peer::tls13().opener.open(&mut record).unwrap_err();
        assert_eq!((error, error.alert()), (OpenRecordError::Unexpected, Alert::UnexpectedMessage));
    }
}

#[test]
fn change_cipher_spec_and_other_handshake_messages_are_unexpected_in_tls12() {
    let mut peer = Peer::new(TlsVersion::Tls12, Suite::Aes128Gcm);
    assert_eq!(peer.opener.open(&mut [20, 3, 3, 0, 1, 1]), Err(OpenRecordError::Unexpected));
}

#[test]
fn empty_records_are_ignored_until_they_are_a_flood() {
    let mut peer = Peer::tls13();
    for _ in 0..EMPTY_RECORDS_MAX {
        assert_eq!(content(peer.raw(&[23])), Content::Ignored);
    }
    assert!(matches!(content(peer.raw(b"x\x17")), Content::Data(_)));
    for _ in 0..EMPTY_RECORDS_MAX {
        assert_eq!(content(peer.raw(&[23])), Content::Ignored);
    }
    assert_eq!(peer.raw(&[23]), Err(OpenRecordError::EmptyRecordFlood));
}

#[test]
fn key_updates_are_followed_until_they_are_a_flood() {
    let mut peer = Peer::tls13();
    for turn in 0..KEY_UPDATES_MAX {
        let request = turn % 2 == 0;
        let expected = Content::KeyUpdate { peer_requests_answer: request };
        assert_eq!(content(peer.key_update(request)), expected);
    }
    let mut record = peer.data(b"still in step");
    assert!(matches!(content(peer.opener.open(&mut record)), Content::Data(_)));
    assert!(peer.key_update(false).is_ok(), "data earned one more");
    assert_eq!(peer.key_update(false), Err(OpenRecordError::KeyUpdateFlood));
}
