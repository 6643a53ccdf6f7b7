//! Records after the handshake, with a rustls client as the judge.

use std::io::Write;
use std::sync::Arc;

use crate::client::{Pair, connect, server};
use fullbore_tests::tls::{Offer, deliver, outgoing, received, suites};
use fullbore_tls::{
    Alert, CONTROL_RECORD_BYTES_MAX, Content, OpenRecordError, Opened, PLAINTEXT_MAX, ResealError,
    SealError, TlsContext, tag,
};
use proptest::prelude::*;
use rustls::{AlertDescription, ClientConfig, Error};

thread_local! {
    /// One server and one client configuration per version and suite, for many connections.
    static PEERS: (TlsContext, Vec<Arc<ClientConfig>>) = (server(), configs());
}

fn configs() -> Vec<Arc<ClientConfig>> {
    let ecdsa = |suite: &rustls::SupportedCipherSuite| {
        !format!("{:?}", suite.suite()).contains("ECDHE_RSA")
    };
    let all = [suites(true), suites(false)].concat().into_iter().filter(ecdsa);
    all.map(|suite| Offer { suites: vec![suite], ..Offer::default() }.config()).collect()
}

/// A connection for each version and suite.
fn pairs() -> Vec<Pair> {
    PEERS.with(|(tls, configs)| configs.iter().map(|config| connect(tls, config)).collect())
}

fn pair(index: usize) -> Pair {
    PEERS.with(|(tls, configs)| connect(tls, &configs[index]))
}

fn tls13() -> Pair {
    pair(0)
}

fn tls12() -> Pair {
    pair(3)
}

fn seal(pair: &mut Pair, plaintext: &[u8]) -> Vec<u8> {
    let sealer = &mut pair.established.sealer;
    let mut out = vec![0; sealer.sealed_bytes(plaintext.len() as u64) as usize];
    assert_eq!(sealer.seal(plaintext, &mut out), Ok(out.len()));
    out
}

fn open(pair: &mut Pair, wire: &mut [u8]) -> Result<Content, OpenRecordError> {
    match pair.established.opener.open(wire)? {
        Opened::Record { content, .. } => Ok(content),
        Opened::Partial { .. } => panic!("the record is whole"),
    }
}

#[test]
fn pairs_cover_both_versions_and_all_suites() {
    let seen: Vec<_> = pairs()
        .iter()
        .map(|pair| (pair.established.info.version, pair.established.info.suite))
        .collect();
    assert_eq!(seen.len(), 6);
    assert!((1..6).all(|index| !seen[..index].contains(&seen[index])));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn client_reads_what_was_sealed(which in 0..6usize, sizes in proptest::collection::vec(sizes(), 1..6), seed: u8) {
        let mut pair = pair(which);
        for (round, size) in sizes.into_iter().enumerate() {
            let plaintext: Vec<u8> = (0..size).map(|index| (index as u8).wrapping_mul(31) ^ seed ^ round as u8).collect();
            let wire = seal(&mut pair, &plaintext);
            let mut read = Vec::new();
            for piece in wire.chunks(1 + size / 3) {
                deliver(&mut pair.client, piece).unwrap();
                read.extend(received(&mut pair.client));
            }
            prop_assert!(read == plaintext);
        }
    }

    #[test]
    fn what_the_client_sends_is_opened_however_it_is_cut(which in 0..6usize, size in sizes(), step in 1..5000usize) {
        let mut pair = pair(which);
        let plaintext = vec![0x5a; size];
        pair.client.set_buffer_limit(None);
        pair.client.writer().write_all(&plaintext).unwrap();
        let (mut held, mut read) = (Vec::new(), Vec::new());
        for piece in outgoing(&mut pair.client).chunks(step) {
            held.extend_from_slice(piece);
            while let Opened::Record { consumed_bytes, content } = pair.established.opener.open(&mut held).unwrap() {
                let Content::Data(range) = content else { panic!("{content:?}") };
                read.extend_from_slice(&held[range]);
                held.drain(..consumed_bytes);
            }
        }
        prop_assert!(held.is_empty() && read == plaintext);
    }

    #[test]
    fn record_made_again_is_the_same_and_a_changed_one_is_refused(which in 0..6usize, size in 1..=PLAINTEXT_MAX, at: prop::sample::Index) {
        let mut pair = pair(which);
        let mut plaintext = vec![3; size];
        seal(&mut pair, b"before");
        let position = pair.established.sealer.position();
        let sent = seal(&mut pair, &plaintext);
        seal(&mut pair, b"after");
        let sealer = &pair.established.sealer;
        let mut again = vec![0xee; sent.len() + 1];
        prop_assert_eq!(sealer.reseal(position, &plaintext, &mut again, &tag(&sent)), Ok(sent.len()));
        prop_assert!(again[..sent.len()] == sent && again[sent.len()] == 0xee);
        plaintext[at.index(size)] ^= 1;
        let refused = sealer.reseal(position, &plaintext, &mut again, &tag(&sent));
        prop_assert_eq!(refused, Err(ResealError::ChangedUnderUs));
        prop_assert!(again[..sent.len()].iter().all(|&byte| byte == 0), "wiped");
        let shorter = sealer.reseal(position, &vec![3; size - 1], &mut again, &tag(&sent));
        prop_assert_eq!(shorter, Err(ResealError::ChangedUnderUs));
    }
}

/// Sizes around the edges of records, and anything up to four of them.
fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(PLAINTEXT_MAX - 1),
        Just(PLAINTEXT_MAX),
        Just(PLAINTEXT_MAX + 1),
        0..4 * PLAINTEXT_MAX
    ]
}

#[test]
fn sealed_in_place_and_resealed_records_reach_the_client_in_order() {
    for mut pair in pairs() {
        let first = seal(&mut pair, b"first ");
        let position = pair.established.sealer.position();
        let sealer = &mut pair.established.sealer;
        let front = sealer.front_bytes();
        let mut record = vec![0; front + 6 + sealer.back_bytes()];
        record[front..front + 6].copy_from_slice(b"second");
        assert_eq!(sealer.seal_in_place(&mut record, 6), Ok(record.len()));
        let mut again = vec![0; record.len()];
        assert_eq!(sealer.reseal(position, b"second", &mut again, &tag(&record)), Ok(record.len()));
        deliver(&mut pair.client, &first).unwrap();
        deliver(&mut pair.client, &again).unwrap();
        assert_eq!(received(&mut pair.client), b"first second");
    }
}

#[test]
fn close_notify_passes_both_ways() {
    for mut pair in pairs() {
        let mut out = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes = pair.established.sealer.seal_alert(Alert::CloseNotify, &mut out).unwrap();
        let mut wire = &out[..bytes];
        pair.client.read_tls(&mut wire).unwrap();
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
        pair.client.send_close_notify();
        let mut wire = outgoing(&mut pair.client);
        assert_eq!(open(&mut pair, &mut wire), Ok(Content::CloseNotify));
    }
}

#[test]
fn fatal_alert_reaches_the_client() {
    for mut pair in pairs() {
        let mut out = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes = pair.established.sealer.seal_alert(Alert::BadRecordMac, &mut out).unwrap();
        let error = deliver(&mut pair.client, &out[..bytes]).unwrap_err();
        assert_eq!(error, Error::AlertReceived(AlertDescription::BadRecordMac));
    }
}

#[test]
fn fatal_alert_of_the_client_is_opened() {
    for mut pair in pairs() {
        let mut forged = seal(&mut pair, b"x");
        *forged.last_mut().unwrap() ^= 1;
        assert!(deliver(&mut pair.client, &forged).is_err());
        let mut wire = outgoing(&mut pair.client);
        assert_eq!(open(&mut pair, &mut wire), Ok(Content::Alert { fatal: true, description: 20 }));
    }
}

#[test]
fn client_updates_its_keys_and_is_answered() {
    for mut pair in pairs().into_iter().take(3) {
        for _ in 0..3 {
            pair.client.refresh_traffic_keys().unwrap();
            pair.client.writer().write_all(b"new keys").unwrap();
            let mut wire = outgoing(&mut pair.client);
            let Ok(Opened::Record { consumed_bytes, content }) =
                pair.established.opener.open(&mut wire)
            else {
                panic!("key update");
            };
            assert_eq!(content, Content::KeyUpdate { peer_requests_answer: true });
            let mut wire = wire.split_off(consumed_bytes);
            let Ok(Content::Data(range)) = open(&mut pair, &mut wire) else { panic!("data") };
            assert_eq!(&wire[range], b"new keys");
            let mut out = [0; CONTROL_RECORD_BYTES_MAX];
            let bytes = pair.established.sealer.seal_key_update(false, &mut out).unwrap();
            let answer = seal(&mut pair, b"likewise");
            deliver(&mut pair.client, &out[..bytes]).unwrap();
            deliver(&mut pair.client, &answer).unwrap();
            assert_eq!(received(&mut pair.client), b"likewise");
        }
    }
}

#[test]
fn our_key_update_is_followed_and_answered_by_the_client() {
    for mut pair in pairs().into_iter().take(3) {
        let mut out = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes = pair.established.sealer.seal_key_update(true, &mut out).unwrap();
        deliver(&mut pair.client, &out[..bytes]).unwrap();
        let wire = seal(&mut pair, b"under new keys");
        deliver(&mut pair.client, &wire).unwrap();
        assert_eq!(received(&mut pair.client), b"under new keys");
        // rustls puts its answer before the next data.
        pair.client.writer().write_all(b"x").unwrap();
        let mut wire = outgoing(&mut pair.client);
        let Ok(Opened::Record { consumed_bytes, content }) =
            pair.established.opener.open(&mut wire)
        else {
            panic!("key update");
        };
        assert_eq!(content, Content::KeyUpdate { peer_requests_answer: false });
        assert!(matches!(open(&mut pair, &mut wire[consumed_bytes..]), Ok(Content::Data(_))));
    }
}

#[test]
fn key_update_flood_is_refused_and_the_client_told() {
    let mut pair = tls13();
    let error = loop {
        pair.client.refresh_traffic_keys().unwrap();
        let mut wire = outgoing(&mut pair.client);
        match open(&mut pair, &mut wire) {
            Ok(content) => assert_eq!(content, Content::KeyUpdate { peer_requests_answer: true }),
            Err(error) => break error,
        }
        // rustls asks again only once it was answered.
        let mut out = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes = pair.established.sealer.seal_key_update(false, &mut out).unwrap();
        deliver(&mut pair.client, &out[..bytes]).unwrap();
    };
    assert_eq!((error, error.as_str()), (OpenRecordError::KeyUpdateFlood, "key_update_flood"));
}

#[test]
fn records_made_before_a_key_update_are_out_of_reach() {
    let mut pair = tls13();
    let position = pair.established.sealer.position();
    let sent = seal(&mut pair, b"old");
    let mut out = [0; 64];
    pair.established.sealer.seal_key_update(false, &mut out).unwrap();
    let refused = pair.established.sealer.reseal(position, b"old", &mut out, &tag(&sent));
    assert_eq!(refused, Err(ResealError::OutOfReach));
}

#[test]
fn tls12_has_no_key_update() {
    let refused = tls12().established.sealer.seal_key_update(false, &mut [0; 64]);
    assert_eq!(refused, Err(SealError::NotTls13));
}

#[test]
fn dropped_records_are_noticed() {
    for mut pair in pairs() {
        pair.client.writer().write_all(b"one").unwrap();
        let _lost = outgoing(&mut pair.client);
        pair.client.writer().write_all(b"two").unwrap();
        let mut wire = outgoing(&mut pair.client);
        assert_eq!(open(&mut pair, &mut wire), Err(OpenRecordError::BadRecordMac));
    }
}
