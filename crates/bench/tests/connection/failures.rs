//! Servers that fail, each in its own way.

use std::io::Write;
use std::time::Duration;

use crate::server::*;
use fullbore_bench::load::{ConnectionOptions, Failure};

const HEAD_OF_100: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";

fn failure(server: Server) -> Failure {
    let to = endpoint(server.address, None);
    let failure = run(fetch(to, patient())).unwrap_err();
    server.join();
    failure
}

#[test]
fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
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
    let options =
        ConnectionOptions { patience: Duration::from_millis(50), ..ConnectionOptions::default() };
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
    assert_eq!(failed, Failure::Handshake(crypt::HandshakeError::PlainHttp));
    assert!(failed.to_string().contains("http://"), "{failed}");
    server.join();
}
