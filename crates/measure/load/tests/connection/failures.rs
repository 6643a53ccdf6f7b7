//! Servers that fail, each in its own way.

use std::io::Write;
use std::time::Duration;

use crate::server::*;
use fullbore_load::tls::ClientTls;
use fullbore_load::{ConnectionOptions, Failure};
use tls::client::{ClientOptions, Trust};

const HEAD_OF_100: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";

fn failure(server: Server) -> Failure {
    let to = endpoint(server.address, None);
    let failure = run(fetch(to, patient())).unwrap_err();
    server.join();
    failure
}

#[test]
fn nobody_listens() {
    // A socket that has the port but does not listen, so that no other program can listen there meanwhile.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    assert_eq!(run(fetch(endpoint(address, None), patient())), Err(Failure::Refused));
}

#[test]
fn a_server_that_closes_without_a_word() {
    let server = Server::start(|mut stream| {
        request(&mut stream);
    });
    assert_eq!(failure(server), Failure::ClosedEarly);
}

#[test]
fn a_server_that_sends_short() {
    let server = answering([HEAD_OF_100.as_bytes(), &[7; 40]].concat(), drop);
    assert_eq!(failure(server), Failure::Short { received_bytes: 40, promised_bytes: 100 });
}

#[test]
fn a_server_that_sends_more_than_it_said() {
    let server = answering([HEAD_OF_100.as_bytes(), &[7; 101]].concat(), linger);
    assert_eq!(failure(server), Failure::TooLong { promised_bytes: 100 });
}

#[test]
fn a_server_that_does_not_speak_http() {
    let server = answering("SSH-2.0-OpenSSH_9.2\r\n", linger);
    assert_eq!(failure(server), Failure::BadResponse("it is not HTTP/1.1"));
}

#[test]
fn a_server_that_resets_the_connection() {
    let server = answering([HEAD_OF_100.as_bytes(), &[7; 40]].concat(), |stream| {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    assert!(matches!(failure(server), Failure::Reset | Failure::Short { .. }));
}

#[test]
fn a_server_that_never_answers() {
    // Long enough for connecting, which has an error of its own.
    let options =
        ConnectionOptions { patience: Duration::from_secs(1), ..ConnectionOptions::default() };
    for tls in [None, Some(anyone())] {
        let server = Server::start(linger);
        let failed = run(fetch(endpoint(server.address, tls), options)).unwrap_err();
        assert!(matches!(failed, Failure::Timeout { .. }), "{failed:?}");
        server.join();
    }
}

#[test]
fn a_plain_server_on_a_tls_port() {
    let server = Server::start(|mut stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        linger(stream);
    });
    let to = endpoint(server.address, Some(anyone()));
    let failed = run(fetch(to, patient())).unwrap_err();
    assert_eq!(failed, Failure::Handshake(tls::HandshakeError::PlainHttp));
    assert!(failed.to_string().contains("http://"), "{failed}");
    server.join();
}

const HEAD_OF_50_000: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n";

/// The failure of a request over TLS whose answer is the head of a body of 50,000 bytes, followed by `work`.
fn secured_failure(work: impl FnOnce(&mut Halves) + Send + 'static) -> Failure {
    let server = Server::start(|stream| {
        let mut halves = Halves::accept(stream);
        halves.receive().expect("a request");
        halves.send(HEAD_OF_50_000);
        work(&mut halves);
    });
    let to = endpoint(server.address, Some(anyone()));
    let failure = run(fetch(to, patient())).unwrap_err();
    server.join();
    failure
}

#[test]
fn an_alert_in_the_midst_of_a_body() {
    let failure = secured_failure(|halves| {
        halves.send(&film(20_000));
        halves.send_alert(tls::Alert::InternalError);
        linger(&halves.stream);
    });
    assert_eq!(failure, Failure::Alert(80));
}

#[test]
fn a_body_over_tls_that_ends_early_with_or_without_goodbye() {
    for goodbye in [true, false] {
        let failure = secured_failure(move |halves| {
            halves.send(&film(20_000));
            if goodbye {
                halves.send_alert(tls::Alert::CloseNotify);
            }
        });
        let expected = Failure::Short { received_bytes: 20_000, promised_bytes: 50_000 };
        assert_eq!(failure, expected);
    }
}

#[test]
fn a_body_over_tls_that_is_too_long() {
    for bytes in [50_001, 60_000] {
        let failure = secured_failure(move |halves| {
            halves.send(&film(bytes));
            linger(&halves.stream);
        });
        assert_eq!(failure, Failure::TooLong { promised_bytes: 50_000 });
    }
}

#[test]
fn garbage_in_the_midst_of_a_body_over_tls() {
    let failure = secured_failure(|halves| {
        halves.send(&film(20_000));
        halves.stream.write_all(b"\x16\x03\x03\x00\x04abcd").unwrap();
        linger(&halves.stream);
    });
    assert_eq!(failure, Failure::Record(tls::OpenRecordError::Unexpected));
}

#[test]
fn a_server_that_hangs_up_while_hands_are_shaken() {
    let server = Server::start(drop);
    let to = endpoint(server.address, Some(anyone()));
    let failed = run(fetch(to, patient())).unwrap_err();
    assert!(matches!(failed, Failure::ClosedEarly | Failure::Reset), "{failed:?}");
    server.join();
}

#[test]
fn certificates_that_are_not_trusted_or_for_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let tls = tls::TlsContext::load(tls::TlsOptions::new(dir.path())).unwrap();
    let other = Trust::File(tls.files()[0].clone());
    let config = rustls_config(&rustls::version::TLS13);
    let server = Server::start(move |stream| linger(secure(&config, stream)));
    let trust = ClientOptions { trust: other, ..ClientOptions::default() };
    let to = endpoint(server.address, Some(ClientTls::load(&trust).unwrap()));
    let failed = run(fetch(to, patient())).unwrap_err();
    assert_eq!(failed.as_str(), "certificate_untrusted");
    assert!(failed.to_string().contains("--insecure"), "{failed}");
    server.join();
}
