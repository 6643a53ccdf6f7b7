//! Our own client's end against our own server's end, and against a rustls server where tickets matter.

use crate::client::server;
use fullbore_tls::client::{
    ClientEstablished, ClientHandshake, ClientOptions, ClientProgress, ClientTls, Trust,
};
use fullbore_tls::{
    Content, Established, Group, Handshake, HandshakeError, Opened, Opener, Progress, Sealer,
    SessionInfo, Suite, TlsContext, TlsOptions, TlsVersion, TlsVersions,
};

const SUITES: [Suite; 3] = [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

/// Both ends of a connection. `wire` holds the bytes that the server sent after the handshake.
struct Ends {
    client: ClientEstablished,
    server: Established,
    wire: Vec<u8>,
}

fn options() -> ClientOptions {
    ClientOptions { trust: Trust::AnyCertificate, ..ClientOptions::default() }
}

/// Does a handshake, with each flight cut into pieces of `chunk` bytes.
fn try_connect(
    client: &ClientTls,
    server: &TlsContext,
    name: &str,
    chunk: usize,
) -> Result<Ends, HandshakeError> {
    let mut hello = ClientHandshake::new(client, name)?;
    let mut answer = Handshake::new(server)?;
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut client_end, mut server_end) = (None, None);
    let (mut client_held, mut server_held) = (Vec::new(), Vec::new());
    hello.advance(&[], &mut to_server)?;
    while client_end.is_none() || server_end.is_none() {
        assert!(!to_server.is_empty(), "the handshake stands still");
        for piece in std::mem::take(&mut to_server).chunks(chunk) {
            server_held.extend_from_slice(piece);
            let (consumed, progress) = answer.advance(&server_held, &mut to_client)?;
            server_held.drain(..consumed);
            if let Progress::Done(established) = progress {
                server_end = Some(*established);
                break;
            }
        }
        for piece in std::mem::take(&mut to_client).chunks(chunk) {
            client_held.extend_from_slice(piece);
            if client_end.is_some() {
                continue;
            }
            let (consumed, progress) = hello.advance(&client_held, &mut to_server)?;
            client_held.drain(..consumed);
            if let ClientProgress::Done(established) = progress {
                client_end = Some(*established);
            }
        }
    }
    let (client, server) = (client_end.expect("done"), server_end.expect("done"));
    Ok(Ends { client, server, wire: client_held })
}

fn connect(client: &ClientTls, server: &TlsContext) -> Ends {
    try_connect(client, server, "localhost", usize::MAX).unwrap()
}

fn seal(sealer: &mut Sealer, plaintext: &[u8]) -> Vec<u8> {
    let mut wire = vec![0; sealer.sealed_bytes(plaintext.len() as u64) as usize];
    sealer.seal(plaintext, &mut wire).unwrap();
    wire
}

fn open(opener: &mut Opener, wire: &mut [u8]) -> (usize, Content) {
    match opener.open(wire).unwrap() {
        Opened::Record { consumed_bytes, content } => (consumed_bytes, content),
        partial => panic!("{partial:?}"),
    }
}

fn open_data(opener: &mut Opener, wire: &mut [u8]) -> Vec<u8> {
    match open(opener, wire) {
        (_, Content::Data(range)) => wire[range].to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Reads the tickets on the wire, and keeps them if the client does. Returns how many records they took.
fn take_tickets(ends: &mut Ends) -> usize {
    let mut records = 0;
    while !ends.wire.is_empty() {
        let (consumed, content) = open(&mut ends.client.opener, &mut ends.wire);
        let Content::Tickets(range) = content else { panic!("{content:?}") };
        if let Some(tickets) = &mut ends.client.tickets {
            tickets.keep(&ends.wire[range]).unwrap();
        }
        ends.wire.drain(..consumed);
        records += 1;
    }
    records
}

fn exchange(ends: &mut Ends) {
    let mut wire = seal(&mut ends.client.sealer, b"question");
    assert_eq!(open_data(&mut ends.server.opener, &mut wire), b"question");
    let mut wire = seal(&mut ends.server.sealer, b"answer");
    assert_eq!(open_data(&mut ends.client.opener, &mut wire), b"answer");
}

#[test]
fn every_version_suite_and_group_connects_and_carries_data_both_ways() {
    let server = server();
    for (versions, version) in
        [(TlsVersions::Tls13, TlsVersion::Tls13), (TlsVersions::Tls12, TlsVersion::Tls12)]
    {
        for suite in SUITES {
            for group in [Group::X25519, Group::Secp256r1, Group::Secp384r1] {
                let (suites, groups) = (vec![suite], vec![group]);
                let options = ClientOptions { versions, suites, groups, ..options() };
                let client = ClientTls::load(&options).unwrap();
                for chunk in [1, 100, usize::MAX] {
                    let mut ends = try_connect(&client, &server, "localhost", chunk).unwrap();
                    let (ours, theirs) = (&ends.client.info, &ends.server.info);
                    // Only the server counts viewers.
                    assert_eq!(*ours, SessionInfo { viewer: 0, ..theirs.clone() });
                    assert_eq!((ours.version, ours.suite), (version, suite));
                    assert_eq!((ours.group, ours.resumed), (Some(group), false));
                    take_tickets(&mut ends);
                    exchange(&mut ends);
                }
            }
        }
    }
}

#[test]
fn everything_is_offered_unless_the_options_say_otherwise() {
    let ends = connect(&ClientTls::load(&options()).unwrap(), &server());
    assert_eq!(ends.client.info.version, TlsVersion::Tls13);
    assert_eq!(ends.client.info.group, Some(Group::X25519MlKem768));
}

#[test]
fn records_that_were_passed_over_unopened_leave_the_next_one_readable() {
    let server = server();
    for versions in [TlsVersions::Tls13, TlsVersions::Tls12] {
        for suite in SUITES {
            let options = ClientOptions { versions, suites: vec![suite], ..options() };
            let mut ends = connect(&ClientTls::load(&options).unwrap(), &server);
            take_tickets(&mut ends);
            let mut wire = seal(&mut ends.server.sealer, &[7; 3 * 16_384 + 1]);
            let mut records = 0;
            let mut plaintext_bytes = 0;
            while let Some(&[_, _, _, a, b]) = wire.first_chunk() {
                let body_bytes = usize::from(u16::from_be_bytes([a, b]));
                plaintext_bytes += body_bytes - ends.client.opener.body_overhead();
                wire.drain(..5 + body_bytes);
                records += 1;
            }
            assert_eq!((records, plaintext_bytes), (4, 3 * 16_384 + 1));
            ends.client.opener.skip(records);
            exchange(&mut ends);
        }
    }
}

#[test]
fn tickets_resume_only_if_asked_for() {
    let server = server();
    for versions in [TlsVersions::Tls13, TlsVersions::Tls12] {
        let resuming =
            ClientTls::load(&ClientOptions { versions, resume: true, ..options() }).unwrap();
        for turn in 0..3 {
            let mut ends = connect(&resuming, &server);
            let resumed = turn > 0;
            assert_eq!(
                (ends.client.info.resumed, ends.server.info.resumed),
                (resumed, resumed),
                "{versions:?} turn {turn}"
            );
            take_tickets(&mut ends);
            exchange(&mut ends);
        }
        let plain = resuming.without_resumption();
        let mut ends = connect(&plain, &server);
        assert!(!ends.client.info.resumed && ends.client.tickets.is_none());
        let records = take_tickets(&mut ends);
        assert_eq!(
            records > 0,
            versions == TlsVersions::Tls13,
            "the server issues them all the same"
        );
        exchange(&mut ends);
    }
}

#[test]
fn keys_are_updated_in_both_directions() {
    let mut ends = connect(&ClientTls::load(&options()).unwrap(), &server());
    take_tickets(&mut ends);
    let mut record = [0; 48];
    let bytes = ends.server.sealer.seal_key_update(true, &mut record).unwrap();
    let (_, content) = open(&mut ends.client.opener, &mut record[..bytes]);
    assert_eq!(content, Content::KeyUpdate { peer_requests_answer: true });
    let bytes = ends.client.sealer.seal_key_update(false, &mut record).unwrap();
    open(&mut ends.server.opener, &mut record[..bytes]);
    exchange(&mut ends);
}

#[test]
fn a_certificate_that_nobody_trusted_has_issued_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let issuers = ClientOptions::default();
    let Ok(client) = ClientTls::load(&issuers) else {
        fullbore_tests::tool::skip("this machine has no list of trusted issuers");
        return;
    };
    let tls = TlsContext::load(TlsOptions::new(dir.path())).unwrap();
    assert_eq!(
        try_connect(&client, &tls, "localhost", usize::MAX).err(),
        Some(HandshakeError::CertificateUntrusted)
    );
}

#[test]
fn a_self_signed_certificate_is_trusted_by_the_file_it_lies_in_but_not_for_other_names() {
    let dir = tempfile::tempdir().unwrap();
    let tls = TlsContext::load(TlsOptions::new(dir.path())).unwrap();
    let trust = Trust::File(tls.files()[0].clone());
    let client = ClientTls::load(&ClientOptions { trust, ..options() }).unwrap();
    for name in ["localhost", "127.0.0.1"] {
        exchange_after_tickets(try_connect(&client, &tls, name, usize::MAX).unwrap());
    }
    assert_eq!(
        try_connect(&client, &tls, "elsewhere.example", usize::MAX).err(),
        Some(HandshakeError::CertificateWrongName)
    );
}

fn exchange_after_tickets(mut ends: Ends) {
    take_tickets(&mut ends);
    exchange(&mut ends);
}

#[test]
fn an_expired_certificate_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (chain, key) = expired_pair(&dir);
    let options =
        TlsOptions { certificates: vec![(chain.clone(), key)], ..TlsOptions::new(dir.path()) };
    let tls = TlsContext::load(options).unwrap();
    let trust = Trust::File(chain);
    let client = ClientTls::load(&ClientOptions { trust, ..ClientOptions::default() }).unwrap();
    assert_eq!(
        try_connect(&client, &tls, "localhost", usize::MAX).err(),
        Some(HandshakeError::CertificateExpired)
    );
}

/// As `openssl req -x509` makes it. Trusting the certificate itself does not help.
#[test]
fn a_self_signed_certificate_of_an_authority_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = parameters.self_signed(&key).unwrap();
    let (chain, key_path) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
    std::fs::write(&chain, certificate.pem()).unwrap();
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    let certificates = vec![(chain.clone(), key_path)];
    let tls = TlsContext::load(TlsOptions { certificates, ..TlsOptions::new(dir.path()) }).unwrap();
    let trust = Trust::File(chain);
    let client = ClientTls::load(&ClientOptions { trust, ..ClientOptions::default() }).unwrap();
    assert_eq!(
        try_connect(&client, &tls, "localhost", usize::MAX).err(),
        Some(HandshakeError::CertificateOfAuthority)
    );
}

fn expired_pair(dir: &tempfile::TempDir) -> (std::path::PathBuf, std::path::PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2001, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let certificate = parameters.self_signed(&key).unwrap();
    let (chain_path, key_path) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
    std::fs::write(&chain_path, certificate.pem()).unwrap();
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    (chain_path, key_path)
}

#[test]
fn what_cannot_be_a_tls_server_is_told_apart() {
    let client = ClientTls::load(&options()).unwrap();
    let cases: [(&[u8], HandshakeError); 4] = [
        (b"HTTP/1.1 400 Bad Request\r\n", HandshakeError::PlainHttp),
        (b"SSH-2.0-OpenSSH_9.2", HandshakeError::Garbage),
        (&[22, 3, 3, 255, 255], HandshakeError::OversizedRecord),
        (&[21, 3, 3, 0, 2, 2, 40], HandshakeError::PeerAlert(40)),
    ];
    for (input, expected) in cases {
        let mut handshake = ClientHandshake::new(&client, "localhost").unwrap();
        handshake.advance(&[], &mut Vec::new()).unwrap();
        assert_eq!(handshake.advance(input, &mut Vec::new()).err(), Some(expected));
    }
}

#[test]
fn a_missing_or_useless_list_of_issuers_is_named_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.pem");
    let trust = Trust::File(path.clone());
    let missing =
        ClientTls::load(&ClientOptions { trust: trust.clone(), ..options() }).unwrap_err();
    std::fs::write(&path, "no certificate").unwrap();
    let empty = ClientTls::load(&ClientOptions { trust, ..options() }).unwrap_err();
    for (error, what) in [(missing, "cannot read it"), (empty, "holds no usable certificate")] {
        let text = error.to_string();
        assert!(
            text.contains("empty.pem") && text.contains(what) && text.contains("PEM"),
            "{text}"
        );
    }
}
