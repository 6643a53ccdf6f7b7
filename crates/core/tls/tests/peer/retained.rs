//! Connections that rustls keeps, with a rustls client.

use crate::client::server;
use fullbore_tests::tls::{Offer, client, deliver, outgoing, received};
use fullbore_tls::{Handshake, OpenRecordError, Progress, Retained, RetainedError, TlsContext};
use rustls::ClientConnection;
use std::io::Write;

/// Does a handshake. Also returns the bytes that the client sends with its last flight.
fn connect(tls: &TlsContext, offer: &Offer, early: &[u8]) -> (ClientConnection, Retained, Vec<u8>) {
    let mut handshake = Handshake::retaining(tls).unwrap();
    let mut client = client(&offer.config(), "localhost");
    client.writer().write_all(early).unwrap();
    let mut held = Vec::new();
    loop {
        held.extend_from_slice(&outgoing(&mut client));
        let mut output = Vec::new();
        let (consumed, progress) = handshake.advance(&held, &mut output).unwrap();
        held.drain(..consumed);
        deliver(&mut client, &output).unwrap();
        match progress {
            Progress::NeedsInput => {}
            Progress::Retained(retained) => return (client, retained, held),
            Progress::Done(_) => panic!("the keys were handed out"),
        }
    }
}

fn owed(retained: &mut Retained) -> Vec<u8> {
    let mut wire = Vec::new();
    while retained.owes() {
        retained.write_to(&mut wire).unwrap();
    }
    wire
}

#[test]
fn data_crosses_both_ways_and_what_came_with_the_handshake_is_not_lost() {
    let tls = server();
    for offer in [Offer::tls13(), Offer::tls12()] {
        let (mut client, mut retained, rest) = connect(&tls, &offer, b"early ");
        let mut heard = Vec::new();
        assert_eq!(retained.open(&rest, &mut heard), Ok(false));
        client.writer().write_all(&[7; 40_000]).unwrap();
        // Cut anywhere: rustls keeps incomplete records.
        for piece in outgoing(&mut client).chunks(999) {
            assert_eq!(retained.open(piece, &mut heard), Ok(false));
        }
        assert_eq!(heard, [b"early ".as_slice(), &[7; 40_000]].concat());
        retained.seal(&[9; 300_000]);
        let sealed = owed(&mut retained);
        let mut answer = Vec::new();
        for piece in sealed.chunks(16_000) {
            deliver(&mut client, piece).unwrap();
            answer.extend(received(&mut client));
        }
        assert!(answer == [9; 300_000], "{} bytes came", answer.len());
    }
}

#[test]
fn what_the_peer_asks_of_its_keys_is_answered() {
    let (mut client, mut retained, _) = connect(&server(), &Offer::tls13(), b"");
    let mut heard = Vec::new();
    client.refresh_traffic_keys().unwrap();
    client.writer().write_all(b"under new keys").unwrap();
    assert_eq!(retained.open(&outgoing(&mut client), &mut heard), Ok(false));
    assert_eq!(heard, b"under new keys");
    retained.seal(b"and so is this");
    deliver(&mut client, &owed(&mut retained)).unwrap();
    assert_eq!(received(&mut client), b"and so is this");
}

#[test]
fn both_sides_can_say_goodbye() {
    for offer in [Offer::tls13(), Offer::tls12()] {
        let (mut client, mut retained, _) = connect(&server(), &offer, b"");
        client.send_close_notify();
        assert_eq!(retained.open(&outgoing(&mut client), &mut Vec::new()), Ok(true));
        retained.seal_close_notify();
        deliver(&mut client, &owed(&mut retained)).unwrap();
        assert!(client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn a_forged_record_ends_it_with_an_alert() {
    let (mut client, mut retained, _) = connect(&server(), &Offer::tls13(), b"");
    client.writer().write_all(b"request").unwrap();
    let mut wire = outgoing(&mut client);
    *wire.last_mut().unwrap() ^= 1;
    let error = retained.open(&wire, &mut Vec::new());
    assert_eq!(error, Err(RetainedError::Record(OpenRecordError::BadRecordMac)));
    assert!(deliver(&mut client, &owed(&mut retained)).is_err(), "the alert arrives");
}
