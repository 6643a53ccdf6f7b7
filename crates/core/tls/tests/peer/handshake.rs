//! Handshakes with a rustls client, good and bad.

use crate::client::{Pair, connect, connect_by, connect_with, refused, server};
use fullbore_tests::tls::{Offer, client, deliver, outgoing, received, suites};
use fullbore_tls::{
    Content, Group, HANDSHAKE_BYTES_MAX, Handshake, HandshakeError, Opened, Progress, Suite,
    TlsContext, TlsOptions, TlsVersion, TlsVersions,
};
use proptest::prelude::*;
use rustls::{AlertDescription, CipherSuite, Error, NamedGroup};

const GROUPS: [(NamedGroup, Group); 4] = [
    (NamedGroup::X25519MLKEM768, Group::X25519MlKem768),
    (NamedGroup::X25519, Group::X25519),
    (NamedGroup::secp256r1, Group::Secp256r1),
    (NamedGroup::secp384r1, Group::Secp384r1),
];

fn suite_of(suite: CipherSuite) -> Suite {
    let name = format!("{suite:?}");
    match () {
        () if name.contains("AES_128_GCM") => Suite::Aes128Gcm,
        () if name.contains("AES_256_GCM") => Suite::Aes256Gcm,
        () => Suite::ChaCha20Poly1305,
    }
}

fn open_data(pair: &mut Pair, wire: &mut [u8]) -> Vec<u8> {
    match pair.established.opener.open(wire).unwrap() {
        Opened::Record { content: Content::Data(range), .. } => wire[range].to_vec(),
        other => panic!("{other:?}"),
    }
}

/// A few bytes each way.
fn exchange(pair: &mut Pair) {
    use std::io::Write;
    pair.client.writer().write_all(b"question").unwrap();
    let mut wire = outgoing(&mut pair.client);
    assert_eq!(open_data(pair, &mut wire), b"question");
    let mut out = [0; 64];
    let bytes = pair.established.sealer.seal(b"answer", &mut out).unwrap();
    deliver(&mut pair.client, &out[..bytes]).unwrap();
    assert_eq!(received(&mut pair.client), b"answer");
}

#[test]
fn every_version_suite_and_group_connects_and_carries_data_both_ways() {
    let tls = server();
    for (tls13, version) in [(true, TlsVersion::Tls13), (false, TlsVersion::Tls12)] {
        // The certificate is ECDSA: the ECDHE_RSA suites of TLS 1.2 differ only in the signature.
        let usable = |name: CipherSuite| {
            !format!("{name:?}").contains("RSA_WITH") || format!("{name:?}").contains("ECDSA")
        };
        for suite in suites(tls13).into_iter().filter(|suite| usable(suite.suite())) {
            for (name, group) in
                GROUPS.into_iter().filter(|(_, group)| tls13 || *group != Group::X25519MlKem768)
            {
                let offer = Offer { suites: vec![suite], groups: vec![name], ..Offer::default() };
                let mut pair = connect(&tls, &offer.config());
                let info = &pair.established.info;
                assert_eq!((info.version, info.suite), (version, suite_of(suite.suite())));
                assert_eq!((info.group, info.resumed), (Some(group), false));
                assert_eq!(info.server_name.as_deref(), Some("localhost"));
                exchange(&mut pair);
            }
        }
    }
}

#[test]
fn post_quantum_group_and_our_favourite_suite_win_when_all_are_offered() {
    let groups = GROUPS.map(|(name, _)| name).to_vec();
    let mut suites = suites(true);
    suites.reverse();
    let pair = connect(&server(), &Offer { groups, suites, ..Offer::default() }.config());
    assert_eq!(pair.established.info.group, Some(Group::X25519MlKem768));
    assert_ne!(pair.established.info.suite, Suite::Aes256Gcm);
}

#[test]
fn handshake_survives_being_cut_at_every_byte() {
    let tls = server();
    for offer in [Offer::tls13(), Offer::tls12()] {
        for chunk in [1, 2, 7] {
            let client = client(&offer.config(), "localhost");
            let mut pair = connect_with(&tls, client, chunk, b"").map_err(|error| error.0).unwrap();
            exchange(&mut pair);
        }
    }
}

#[test]
fn request_in_the_same_flight_as_finished_is_left_for_the_opener() {
    let tls = server();
    for chunk in [usize::MAX, 1] {
        let client = client(&Offer::tls13().config(), "localhost");
        let mut pair = connect_with(&tls, client, chunk, b"GET / HTTP/1.1\r\n\r\n")
            .map_err(|error| error.0)
            .unwrap();
        let mut rest = std::mem::take(&mut pair.rest);
        assert_eq!(open_data(&mut pair, &mut rest), b"GET / HTTP/1.1\r\n\r\n");
        exchange(&mut pair);
    }
}

#[test]
fn tickets_resume_on_another_worker_and_after_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let tls = TlsContext::load(TlsOptions::new(dir.path())).unwrap();
    for (offer, group) in [(Offer::tls13(), Some(Group::X25519)), (Offer::tls12(), None)] {
        let config = offer.config();
        let mut first = connect(&tls, &config);
        assert!(!first.established.info.resumed);
        exchange(&mut first);
        for worker in [tls.clone(), tls.reload().unwrap()] {
            let mut again = connect(&worker, &config);
            assert!(again.established.info.resumed);
            assert_eq!(again.established.info.group, group);
            assert_eq!(again.established.info.viewer, first.established.info.viewer);
            exchange(&mut again);
        }
        let another = connect(&tls, &offer.config());
        assert_ne!(another.established.info.viewer, first.established.info.viewer);
    }
}

#[test]
fn tickets_of_another_server_or_switched_off_mean_a_full_handshake() {
    let dir = tempfile::tempdir().unwrap();
    let off =
        TlsContext::load(TlsOptions { tickets: false, ..TlsOptions::new(dir.path()) }).unwrap();
    for offer in [Offer::tls13(), Offer::tls12()] {
        let config = offer.config();
        connect(&server(), &config);
        for tls in [&server(), &off, &off] {
            let mut pair = connect(tls, &config);
            assert!(!pair.established.info.resumed);
            exchange(&mut pair);
        }
    }
}

#[test]
fn client_without_alpn_is_served_and_one_with_h2_alone_is_told() {
    let tls = server();
    let mut pair = connect(&tls, &Offer { alpn: vec![], ..Offer::default() }.config());
    exchange(&mut pair);
    let both = Offer { alpn: vec![b"h2", b"http/1.1"], ..Offer::default() };
    assert_eq!(connect(&tls, &both.config()).client.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (error, peer) = refused(&tls, &Offer { alpn: vec![b"h2"], ..Offer::default() });
    assert_eq!((error, error.as_str()), (HandshakeError::NoAlpn, "no_alpn"));
    assert_eq!(peer, Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
}

#[test]
fn version_that_is_switched_off_is_refused() {
    for (versions, offer) in
        [(TlsVersions::Tls13, Offer::tls12()), (TlsVersions::Tls12, Offer::tls13())]
    {
        let dir = tempfile::tempdir().unwrap();
        let tls = TlsContext::load(TlsOptions { versions, ..TlsOptions::new(dir.path()) }).unwrap();
        let (error, peer) = refused(&tls, &offer);
        assert_eq!(error, HandshakeError::UnsupportedVersion);
        assert_eq!(peer, Some(Error::AlertReceived(AlertDescription::ProtocolVersion)));
    }
}

#[test]
fn tls12_comes_first_where_it_is_preferred_and_spoken() {
    let dir = tempfile::tempdir().unwrap();
    let load = |versions| {
        TlsContext::load(TlsOptions { versions, ..TlsOptions::new(dir.path()) }).unwrap()
    };
    let (card, both) = (load(TlsVersions::Card), load(TlsVersions::Both));
    assert!(card.asks_for_nics() && !both.asks_for_nics());
    let begin = |tls: &TlsContext, prefers| {
        let handshake = Handshake::new(tls).unwrap();
        if prefers { handshake.preferring_tls12(tls) } else { handshake }
    };
    let (tls12, tls13) = (TlsVersion::Tls12, TlsVersion::Tls13);
    for (tls, prefers, offer, version) in [
        (&card, true, Offer::default(), tls12),
        (&card, true, Offer::tls12(), tls12),
        (&card, true, Offer::tls13(), tls13),
        (&card, false, Offer::default(), tls13),
        (&both, true, Offer::default(), tls13),
    ] {
        for chunk in [usize::MAX, 7] {
            let client = client(&offer.config(), "localhost");
            let mut pair = connect_by(begin(tls, prefers), client, chunk, b"").unwrap();
            assert_eq!(pair.established.info.version, version);
            exchange(&mut pair);
        }
    }
}

#[test]
fn client_that_rejects_the_certificate_is_counted_as_peer_alert() {
    let (error, _) = refused(&server(), &Offer { accept_certificate: false, ..Offer::default() });
    assert!(matches!(error, HandshakeError::PeerAlert(_)), "{error:?}");
    assert!(error.is_peers_fault());
}

/// An extension of a ClientHello: X25519 alone.
const CURVE: &[u8] = &[0, 10, 0, 4, 0, 2, 0, 29];

/// The same: ECDSA over P-256 with SHA-256.
const SCHEME: &[u8] = &[0, 13, 0, 4, 0, 2, 4, 3];

/// The same: uncompressed points.
const POINTS: &[u8] = &[0, 11, 0, 2, 1, 0];

/// A ClientHello as a client of `version` (3, minor) sends it, offering one suite and no extensions except a curve, a signature scheme and
/// uncompressed points.
fn hello(minor: u8, suite: [u8; 2]) -> Vec<u8> {
    hello_with(minor, suite, &[CURVE, SCHEME, POINTS])
}

/// The same with these extensions. Without any, their length is left out too.
fn hello_with(minor: u8, suite: [u8; 2], extensions: &[&[u8]]) -> Vec<u8> {
    let extensions = extensions.concat();
    let mut body = vec![3, minor];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, suite[0], suite[1], 1, 0]);
    if !extensions.is_empty() {
        body.extend_from_slice(&[0, extensions.len() as u8]);
    }
    body.extend_from_slice(&extensions);
    let mut record = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    record.extend_from_slice(&body);
    record
}

/// Feeds `input` to a fresh handshake.
fn feed(tls: &TlsContext, input: &[u8]) -> (Result<(usize, bool), HandshakeError>, Vec<u8>) {
    let mut output = Vec::new();
    let step = Handshake::new(tls).unwrap().advance(input, &mut output);
    (step.map(|(consumed, progress)| (consumed, matches!(progress, Progress::Done(_)))), output)
}

/// The description of a plain fatal alert record.
fn fatal_alert(output: &[u8]) -> u8 {
    assert_eq!((output.len(), output[0], output[1], output[5]), (7, 21, 3, 2), "{output:?}");
    output[6]
}

#[test]
fn tls_1_1_is_answered_with_protocol_version() {
    for minor in [1, 2] {
        let (step, output) = feed(&server(), &hello(minor, [0xc0, 0x2b]));
        assert_eq!(step, Err(HandshakeError::UnsupportedVersion));
        assert_eq!(fatal_alert(&output), 70);
    }
    assert!(feed(&server(), &hello(3, [0xc0, 0x2b])).0.is_ok(), "the same as TLS 1.2 is fine");
}

/// Clients of TLS 1.1 and before send no signature_algorithms.
#[test]
fn without_signature_algorithms_old_clients_are_still_answered_with_protocol_version() {
    const SUPPORTED_VERSIONS: &[u8] = &[0, 43, 0, 3, 2, 3, 4];
    let suite = [0xc0, 0x2b];
    let old: [&[&[u8]]; 3] = [&[], &[CURVE], &[CURVE, POINTS]];
    for minor in [0, 1, 2] {
        for extensions in old {
            let (step, output) = feed(&server(), &hello_with(minor, suite, extensions));
            assert_eq!(step, Err(HandshakeError::UnsupportedVersion), "{minor} {extensions:?}");
            assert_eq!(fatal_alert(&output), 70);
        }
    }
    // These know a version of ours, and lack something else.
    let known: [(u8, &[&[u8]]); 3] =
        [(3, &[]), (3, &[CURVE, POINTS]), (2, &[CURVE, SUPPORTED_VERSIONS])];
    for (minor, extensions) in known {
        let (step, output) = feed(&server(), &hello_with(minor, suite, extensions));
        assert_eq!(step, Err(HandshakeError::Incompatible), "{minor} {extensions:?}");
        assert_eq!(fatal_alert(&output), 40);
    }
}

#[test]
fn cbc_and_rsa_key_exchange_are_not_shared() {
    for suite in [[0xc0, 0x23], [0x00, 0x9c], [0x00, 0x2f]] {
        let (step, output) = feed(&server(), &hello(3, suite));
        assert_eq!(step, Err(HandshakeError::NoSharedCipher));
        assert_eq!(fatal_alert(&output), 40);
    }
}

#[test]
fn client_that_knows_no_signature_of_ours_is_to_blame_for_it() {
    // Fuzzing found this hello counted as our fault: rustls reports it as a general error.
    let mut hello = hello(3, [0xc0, 0x2b]);
    let scheme = hello.windows(4).position(|four| four == [0, 2, 4, 3]).unwrap() + 2;
    // RSA with SHA-256, against a P-256 certificate.
    hello[scheme..scheme + 2].copy_from_slice(&[4, 1]);
    let (step, output) = feed(&server(), &hello);
    assert_eq!(step, Err(HandshakeError::NoSharedCipher));
    assert!(step.unwrap_err().is_peers_fault());
    assert_eq!(fatal_alert(&output), 40);
}

#[test]
fn plain_http_is_told_apart_from_garbage_and_gets_no_alert() {
    let tls = server();
    let (step, output) = feed(&tls, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((step, output.len()), (Err(HandshakeError::PlainHttp), 0));
    let (step, output) = feed(&tls, b"SSH-2.0-OpenSSH_9.2\r\n");
    assert_eq!(step, Err(HandshakeError::Garbage));
    assert_eq!(fatal_alert(&output), 50);
}

#[test]
fn oversized_record_is_refused_by_its_header() {
    // Nothing is protected yet: a record can have 2^14 bytes.
    for length in [[0x40, 0x01], [0x48, 0x00], [0xff, 0xff]] {
        let (step, output) = feed(&server(), &[22, 3, 1, length[0], length[1]]);
        assert_eq!(step, Err(HandshakeError::OversizedRecord));
        assert_eq!(fatal_alert(&output), 22);
    }
    let (step, _) = feed(&server(), &[22, 3, 1, 0x40, 0x00]);
    assert_eq!(step, Ok((0, false)), "a record may be as large as that");
}

#[test]
fn handshake_without_end_is_cut_off() {
    let (tls, mut sent, mut output) = (server(), 0, Vec::new());
    let mut handshake = Handshake::new(&tls).unwrap();
    // A hello that claims 60 KB, in records of one byte: each costs six bytes of our bound.
    let mut record = vec![22, 3, 1, 0, 4, 1, 0, 0xea, 0x60];
    let error = loop {
        match handshake.advance(&record, &mut output) {
            Ok((consumed, _)) => sent += consumed,
            Err(error) => break error,
        }
        record = vec![22, 3, 1, 0, 1, 0];
        assert!(sent <= HANDSHAKE_BYTES_MAX);
    };
    assert_eq!(error, HandshakeError::TooLong);
    assert_eq!(fatal_alert(&output), 50);
}

#[test]
fn application_data_before_the_handshake_is_refused() {
    let (step, output) = feed(&server(), &[23, 3, 3, 0, 3, 1, 2, 3]);
    assert_eq!(step, Err(HandshakeError::Misbehaved));
    assert_eq!(fatal_alert(&output), 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_connect_and_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 5..200), tame: bool) {
        if tame {
            bytes[..3].copy_from_slice(&[22, 3, 1]);
        }
        let tls = SERVER.with(TlsContext::clone);
        let (step, output) = feed(&tls, &bytes);
        match step {
            Ok((consumed, done)) => prop_assert!(!done && consumed <= bytes.len()),
            Err(HandshakeError::PlainHttp | HandshakeError::PeerAlert(_) | HandshakeError::PeerClosed) => {
                prop_assert!(output.is_empty());
            }
            Err(error) => {
                prop_assert!(error.is_peers_fault());
                prop_assert_eq!(output.first(), Some(&21), "{:?}", error);
            }
        }
    }

    #[test]
    fn damaged_client_flight_never_connects(second: bool, at: prop::sample::Index, flip in 1..=255u8) {
        let tls = SERVER.with(TlsContext::clone);
        let mut peer = client(&Offer::tls13().config(), "localhost");
        let mut handshake = Handshake::new(&tls).unwrap();
        for flight_index in 0..2 {
            let mut flight = outgoing(&mut peer);
            if second == (flight_index == 1) {
                // Not changed, because they may be ignored: the header of the hello; change_cipher_spec, and type and
                // version of the record after it (RFC 8446 section 5.1).
                let spared_bytes = [5, 9][flight_index];
                let offset = spared_bytes + at.index(flight.len() - spared_bytes);
                flight[offset] ^= flip;
            }
            let mut output = Vec::new();
            match handshake.advance(&flight, &mut output) {
                Ok((_, Progress::Done(_))) => prop_assert!(false, "connected"),
                Ok((_, Progress::NeedsInput)) if deliver(&mut peer, &output).is_ok() => {}
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    }
}

thread_local! {
    static SERVER: TlsContext = server();
}
