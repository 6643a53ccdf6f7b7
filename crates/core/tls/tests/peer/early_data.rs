//! Clients that hold a ticket from another server of the same name, and send early data with it. It is skipped, and they connect.

use std::io::Write;
use std::sync::Arc;

use fullbore_tests::tls::{Offer, client, deliver, outgoing};
use fullbore_tls::{Handshake, HandshakeError, Progress};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, ClientConnection, NamedGroup, ServerConfig, ServerConnection};

use crate::client::server;

/// A server that accepts early data, which ours does not.
fn other_server() -> Arc<ServerConfig> {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.max_early_data_size = 1 << 20;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Gets a ticket from the other server.
fn visit(config: &Arc<ClientConfig>) {
    let mut client = client(config, "localhost");
    let mut server = ServerConnection::new(other_server()).unwrap();
    while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
        let flight = outgoing(&mut client);
        server.read_tls(&mut &flight[..]).unwrap();
        server.process_new_packets().unwrap();
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).unwrap();
        }
        deliver(&mut client, &answer).unwrap();
    }
}

/// A client with a ticket from the other server, and early data in records of one size.
fn with_early_data(offer: Offer, records: usize, bytes: usize) -> (ClientConnection, Vec<u8>) {
    let mut config = (*offer.config()).clone();
    config.enable_early_data = true;
    let config = Arc::new(config);
    visit(&config);
    let mut client = client(&config, "localhost");
    let mut wire = outgoing(&mut client);
    for _ in 0..records {
        let mut early = client.early_data().expect("the ticket allows it");
        assert_eq!(early.write(&vec![7; bytes]).unwrap(), bytes);
        wire.extend(outgoing(&mut client));
    }
    (client, wire)
}

/// Passes all of `wire` on, a record at a time.
fn pass_on(handshake: &mut Handshake, wire: &[u8]) -> Result<(Vec<u8>, bool), HandshakeError> {
    let (mut rest, mut output) = (wire, Vec::new());
    while !rest.is_empty() {
        let record_bytes = 5 + usize::from(u16::from_be_bytes([rest[3], rest[4]]));
        let (record, behind) = rest.split_at(record_bytes);
        let (consumed, progress) = handshake.advance(record, &mut output)?;
        assert_eq!(consumed, record.len());
        if matches!(progress, Progress::Done(_)) {
            assert!(behind.is_empty());
            return Ok((output, true));
        }
        rest = behind;
    }
    Ok((output, false))
}

#[track_caller]
fn connects(offer: Offer, records: usize, bytes: usize) {
    let (mut client, wire) = with_early_data(offer, records, bytes);
    let mut handshake = Handshake::new(&server()).unwrap();
    let (mut answer, mut is_done) = pass_on(&mut handshake, &wire).unwrap();
    while !is_done {
        deliver(&mut client, &answer).unwrap();
        let flight = outgoing(&mut client);
        assert!(!flight.is_empty(), "the handshake stands still");
        (answer, is_done) = pass_on(&mut handshake, &flight).unwrap();
    }
    deliver(&mut client, &answer).unwrap();
    assert!(!client.is_early_data_accepted() && !client.is_handshaking());
}

#[test]
fn early_data_for_another_server_is_passed_over_in_records_of_any_size() {
    for (records, bytes) in [(1, 1), (1, 16_384), (3, 16_000), (40, 500), (120, 400), (2000, 1)] {
        connects(Offer::tls13(), records, bytes);
    }
}

#[test]
fn early_data_is_passed_over_before_a_second_hello_too() {
    // The client's only share is of a group that the server does not have.
    let groups = vec![NamedGroup::secp256r1MLKEM768, NamedGroup::X25519];
    for (records, bytes) in [(1, 100), (40, 500)] {
        connects(Offer { groups: groups.clone(), ..Offer::tls13() }, records, bytes);
    }
}

#[test]
fn early_data_without_end_is_refused() {
    let (_, wire) = with_early_data(Offer::tls13(), 300, 400);
    let mut handshake = Handshake::new(&server()).unwrap();
    assert_eq!(pass_on(&mut handshake, &wire).err(), Some(HandshakeError::TooLong));
}

#[test]
fn a_broken_record_after_the_hello_is_an_error_if_no_early_data_was_offered() {
    let mut client = client(&Offer::tls13().config(), "localhost");
    let wire = [&outgoing(&mut client)[..], &[23, 3, 3, 0, 32], &[0; 32]].concat();
    let mut handshake = Handshake::new(&server()).unwrap();
    assert_eq!(pass_on(&mut handshake, &wire).err(), Some(HandshakeError::BadRecordMac));
}
