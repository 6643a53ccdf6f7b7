//! A handshake that fails ends with an alert, even where rustls has none to send. A rustls client cannot be made to
//! misbehave, so these records are made by hand.

use crate::client::server;
use fullbore_tests::tls::{Offer, client, deliver, outgoing, suites};
use fullbore_tls::{
    HANDSHAKE_BYTES_MAX, Handshake, HandshakeError, PLAINTEXT_MAX, Progress, TlsContext,
    TlsOptions, TlsVersions,
};
use rustls::{AlertDescription, Error};

const UNEXPECTED_MESSAGE: u8 = 10;
const HANDSHAKE_FAILURE: u8 = 40;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const INAPPROPRIATE_FALLBACK: u8 = 86;

const CHANGE_CIPHER_SPEC: &[u8] = &[20, 3, 3, 0, 1, 1];

const X25519: [u8; 2] = [0, 29];
const SECP256R1: [u8; 2] = [0, 23];

/// A record of `content_type`.
fn record(content_type: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[content_type, 3, 3, length[0], length[1]], body].concat()
}

/// A handshake message of `message_type`.
fn message(message_type: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[message_type, length[1], length[2], length[3]], body].concat()
}

fn extension(number: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[0, number, length[0], length[1]], body].concat()
}

/// A ClientHello with one suite and these extensions.
fn hello(suite: [u8; 2], extensions: &[u8]) -> Vec<u8> {
    let length = u16::try_from(extensions.len()).unwrap().to_be_bytes();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, suite[0], suite[1], 1, 0]);
    body.extend_from_slice(&length);
    body.extend_from_slice(extensions);
    message(1, &body)
}

/// A ClientHello of TLS 1.2 for the certificate of [`server`], which is of P-256.
fn hello_of_tls12(signature_scheme: [u8; 2]) -> Vec<u8> {
    let [a, b] = signature_scheme;
    let extensions = [
        extension(10, &[0, 2, X25519[0], X25519[1]]),
        extension(13, &[0, 2, a, b]),
        extension(11, &[1, 0]),
    ];
    hello([0xc0, 0x2b], &extensions.concat())
}

const ECDSA_SHA256: [u8; 2] = [4, 3];
const ECDSA_SHA384: [u8; 2] = [5, 3];

/// The error of the last of `steps`, and the bytes sent because of it. The other steps must succeed.
#[track_caller]
fn last_words(steps: &[Vec<u8>]) -> (HandshakeError, Vec<u8>) {
    let mut handshake = Handshake::new(&server()).unwrap();
    let (last, before) = steps.split_last().unwrap();
    for step in before {
        let (consumed, _) = handshake.advance(step, &mut Vec::new()).unwrap();
        assert_eq!(consumed, step.len());
    }
    let mut output = Vec::new();
    let error = handshake.advance(last, &mut output).err().expect("refused");
    assert!(error.is_peers_fault());
    (error, output)
}

fn in_clear(alert: u8) -> Vec<u8> {
    record(21, &[2, alert])
}

#[test]
fn signature_schemes_that_do_not_fit_are_a_handshake_failure() {
    // `openssl s_client -tls1_2 -sigalgs ECDSA+SHA384` against a key of P-256.
    let (error, output) = last_words(&[record(22, &hello_of_tls12(ECDSA_SHA384))]);
    assert_eq!((error, output), (HandshakeError::NoSharedCipher, in_clear(HANDSHAKE_FAILURE)));
}

#[test]
fn a_key_share_that_is_cut_short_is_a_decode_error() {
    let hello = record(22, &hello_of_tls12(ECDSA_SHA256));
    let cut = record(22, &message(16, &[&[32][..], &[9; 20]].concat()));
    let (error, output) = last_words(&[hello, cut]);
    assert_eq!((error, output), (HandshakeError::Malformed, in_clear(DECODE_ERROR)));
}

#[test]
fn change_cipher_spec_amid_a_message_is_unexpected() {
    let hello = record(22, &hello_of_tls12(ECDSA_SHA256));
    let key_exchange = message(16, &[&[32][..], &[9; 32]].concat());
    let steps = [hello, record(22, &key_exchange[..9]), CHANGE_CIPHER_SPEC.to_vec()];
    let (error, output) = last_words(&steps);
    assert_eq!((error, output), (HandshakeError::Misbehaved, in_clear(UNEXPECTED_MESSAGE)));
}

#[test]
fn a_second_change_cipher_spec_is_unexpected() {
    let hello = record(22, &hello_of_tls12(ECDSA_SHA256));
    let key_exchange = record(22, &message(16, &[&[32][..], &[9; 32]].concat()));
    let (once, again) = (CHANGE_CIPHER_SPEC.to_vec(), CHANGE_CIPHER_SPEC.to_vec());
    let (error, output) = last_words(&[hello, key_exchange, once, again]);
    assert_eq!((error, output), (HandshakeError::Misbehaved, in_clear(UNEXPECTED_MESSAGE)));
}

#[test]
fn a_handshake_message_of_an_unknown_type_is_unexpected() {
    let hello = record(22, &hello_of_tls12(ECDSA_SHA256));
    for message_type in [7, 99, 255] {
        for body in [&b""[..], b"body"] {
            let unknown = record(22, &message(message_type, body));
            for steps in [vec![unknown.clone()], vec![hello.clone(), unknown]] {
                let (error, output) = last_words(&steps);
                let expected = (HandshakeError::Misbehaved, in_clear(UNEXPECTED_MESSAGE));
                assert_eq!((error, output), expected, "{message_type} {body:?}");
            }
        }
    }
}

#[test]
fn a_first_message_that_is_no_hello_is_unexpected_before_it_is_whole() {
    for message_type in [0, 2, 16, 20, 24, 99] {
        let endless = record(22, &[message_type, 0xff, 0xff, 0xff, 0]);
        let (error, output) = last_words(&[endless]);
        let expected = (HandshakeError::Misbehaved, in_clear(UNEXPECTED_MESSAGE));
        assert_eq!((error, output), expected, "{message_type}");
    }
}

/// The records of a hello: one, or two.
fn in_one_and_in_two(hello: &[u8]) -> [Vec<u8>; 2] {
    let (first, second) = hello.split_at(hello.len() - 9);
    [record(22, hello), [record(22, first), record(22, second)].concat()]
}

#[test]
fn renegotiation_info_that_holds_something_is_a_handshake_failure() {
    let renegotiating = |info: &[u8]| {
        let extensions = [
            extension(10, &[0, 2, X25519[0], X25519[1]]),
            extension(13, &[0, 2, ECDSA_SHA256[0], ECDSA_SHA256[1]]),
            [&[0xff, 0x01, 0, info.len() as u8][..], info].concat(),
        ];
        hello([0xc0, 0x2b], &extensions.concat())
    };
    for records in in_one_and_in_two(&renegotiating(&[1, 7])) {
        let (error, output) = last_words(&[records]);
        let expected = (HandshakeError::RenegotiationInfo, in_clear(HANDSHAKE_FAILURE));
        assert_eq!((error, output), expected);
    }
    for records in in_one_and_in_two(&renegotiating(&[0])) {
        let mut handshake = Handshake::new(&server()).unwrap();
        assert!(handshake.advance(&records, &mut Vec::new()).is_ok());
    }
}

/// A ClientHello of TLS 1.2 that claims that a newer version has failed.
fn fallback() -> Vec<u8> {
    let whole = hello_of_tls12(ECDSA_SHA256);
    // The version, 32 bytes of random, an empty session identifier; then the suites.
    let (front, behind) = whole.split_at(4 + 2 + 32 + 1);
    let suites = [&[0, 4, 0x56, 0x00][..], &behind[2..4]].concat();
    let body = [&front[4..], &suites, &behind[4..]].concat();
    message(1, &body)
}

#[test]
fn a_fallback_to_tls12_is_inappropriate_where_tls13_is_offered() {
    for records in in_one_and_in_two(&fallback()) {
        let (error, output) = last_words(std::slice::from_ref(&records));
        let expected = (HandshakeError::InappropriateFallback, in_clear(INAPPROPRIATE_FALLBACK));
        assert_eq!((error, output), expected);
        let dir = tempfile::tempdir().unwrap();
        let options = TlsOptions { versions: TlsVersions::Tls12, ..TlsOptions::new(dir.path()) };
        let mut handshake = Handshake::new(&TlsContext::load(options).unwrap()).unwrap();
        let answered = handshake.advance(&records, &mut Vec::new());
        assert!(answered.is_ok(), "a server of TLS 1.2 has nothing better");
    }
}

#[test]
fn an_error_in_the_segment_of_our_first_flight_has_its_alert_behind_it() {
    let hello = record(22, &hello_of_tls12(ECDSA_SHA256));
    let cut = record(22, &message(16, &[32, 9]));
    let mut output = Vec::new();
    let mut handshake = Handshake::new(&server()).unwrap();
    let step = handshake.advance(&[hello, cut].concat(), &mut output);
    assert_eq!(step.err(), Some(HandshakeError::Malformed));
    assert!(output.len() > 7 && output.ends_with(&in_clear(DECODE_ERROR)));
}

#[test]
fn behind_our_finished_the_alert_is_sealed_as_the_client_expects_it() {
    let cases: [(Vec<u8>, AlertDescription); 5] = [
        // More of them than TLS 1.3 tolerates.
        (CHANGE_CIPHER_SPEC.repeat(9), AlertDescription::UnexpectedMessage),
        (record(24, &[0]), AlertDescription::UnexpectedMessage),
        (record(99, &[0]), AlertDescription::UnexpectedMessage),
        (vec![23, 3, 3, 0x48, 0x01], AlertDescription::RecordOverflow),
        (b"SSH-2.0".to_vec(), AlertDescription::DecodeError),
    ];
    for suite in suites(true) {
        for (wire, expected) in &cases {
            let (tls, mut output) = (server(), Vec::new());
            let offer = Offer { suites: vec![suite], ..Offer::default() };
            let mut peer = client(&offer.config(), "localhost");
            let mut handshake = Handshake::new(&tls).unwrap();
            handshake.advance(&outgoing(&mut peer), &mut output).unwrap();
            deliver(&mut peer, &output).unwrap();
            output.clear();
            assert!(handshake.advance(wire, &mut output).is_err(), "{expected:?}");
            let told = deliver(&mut peer, &output);
            assert_eq!(told, Err(Error::AlertReceived(*expected)), "{suite:?}");
        }
    }
}

#[test]
fn a_first_record_of_a_type_that_we_do_not_have_is_unexpected() {
    for content_type in [24, 19, 99] {
        let (error, output) = last_words(&[record(content_type, &[1, 0, 3])]);
        assert_eq!((error, output), (HandshakeError::Misbehaved, in_clear(UNEXPECTED_MESSAGE)));
    }
}

#[test]
fn a_record_without_content_is_unexpected() {
    for content_type in [20, 21, 22, 23] {
        let (error, output) = last_words(&[record(content_type, &[])]);
        assert_eq!((error, output), (HandshakeError::Misbehaved, in_clear(UNEXPECTED_MESSAGE)));
    }
}

#[test]
fn a_second_hello_for_another_host_is_an_illegal_parameter() {
    let hello_for = |host: &[u8]| {
        let length = host.len() as u8;
        let names = [&[0, length + 3, 0, 0, length][..], host].concat();
        let extensions = [
            extension(0, &names),
            extension(10, &[0, 4, SECP256R1[0], SECP256R1[1], X25519[0], X25519[1]]),
            extension(13, &[0, 2, ECDSA_SHA256[0], ECDSA_SHA256[1]]),
            extension(43, &[2, 3, 4]),
            // No key share: the server asks for one.
            extension(51, &[0, 0]),
        ];
        record(22, &hello([0x13, 0x01], &extensions.concat()))
    };
    let (error, output) = last_words(&[hello_for(b"a.example"), hello_for(b"b.example")]);
    assert_eq!((error, output), (HandshakeError::ChangedOnRetry, in_clear(ILLEGAL_PARAMETER)));
}

/// A ClientHello of `bytes` in records of maximal size; an unknown extension fills it.
fn large_hello(bytes: usize) -> Vec<Vec<u8>> {
    let empty = hello_of_tls12(ECDSA_SHA256);
    let filling = extension(250, &vec![0; bytes - empty.len() - 4]);
    let extensions = [
        extension(10, &[0, 2, X25519[0], X25519[1]]),
        extension(13, &[0, 2, ECDSA_SHA256[0], ECDSA_SHA256[1]]),
        extension(11, &[1, 0]),
        filling,
    ];
    let hello = hello([0xc0, 0x2b], &extensions.concat());
    assert_eq!(hello.len(), bytes);
    hello.chunks(PLAINTEXT_MAX).map(|piece| record(22, piece)).collect()
}

#[test]
fn a_hello_larger_than_the_bound_is_the_peers_fault_at_every_size() {
    // With the headers of its four records, 65,515 bytes are the most that may arrive.
    let wire_bytes: usize = large_hello(65_515).iter().map(Vec::len).sum();
    assert_eq!(wire_bytes, HANDSHAKE_BYTES_MAX);
    let mut handshake = Handshake::new(&server()).unwrap();
    let step = handshake.advance(&large_hello(65_515).concat(), &mut Vec::new());
    assert!(matches!(step, Ok((_, Progress::NeedsInput))), "{:?}", step.err());
    for bytes in 65_516..65_536 {
        let (error, output) = last_words(&large_hello(bytes));
        assert_eq!((error, output), (HandshakeError::TooLong, in_clear(DECODE_ERROR)), "{bytes}");
    }
}
