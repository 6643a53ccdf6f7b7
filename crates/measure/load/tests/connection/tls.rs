//! TLS against rustls.

use std::io::Write;
use std::time::Duration;

use crate::server::*;
use fullbore_load::{Connection, ConnectionOptions};
use tls::TlsVersion;

/// Answers requests with films of these sizes.
fn serve_films(stream: &mut Secured, sizes: &[usize]) {
    stream.conn.set_buffer_limit(None);
    for bytes in sizes {
        request(stream);
        write!(stream, "HTTP/1.1 206 Partial Content\r\nContent-Length: {bytes}\r\n").unwrap();
        write!(stream, "Content-Range: bytes 0-{}/9999999\r\n\r\n", bytes - 1).unwrap();
        stream.write_all(&film(*bytes)).unwrap();
    }
}

const SIZES: [usize; 6] = [1, 900, 16_384, 16_385, 100_000, 2_000_000];

fn versions() -> [(&'static rustls::SupportedProtocolVersion, TlsVersion); 2] {
    [(&rustls::version::TLS13, TlsVersion::Tls13), (&rustls::version::TLS12, TlsVersion::Tls12)]
}

#[test]
fn bodies_are_thrown_away_or_read_by_turns_and_no_byte_is_lost() {
    for (version, expected) in versions() {
        let config = rustls_config(version);
        let server = Server::start(move |stream| {
            let mut stream = secure(&config, stream);
            SIZES.iter().for_each(|bytes| serve_films(&mut stream, &[*bytes, *bytes]));
            linger(stream);
        });
        let to = endpoint(server.address, Some(anyone()));
        run(async move {
            let mut connection = Connection::open(&to, &patient()).await.unwrap();
            assert_eq!(connection.session().unwrap().version, expected);
            for bytes in SIZES {
                connection.send_request(GET).await.unwrap();
                let head = connection.head().await.unwrap();
                assert_eq!(head.content_range, Some((0..bytes as u64, Some(9_999_999))));
                assert_eq!(discard_all(&mut connection).await, Ok(bytes as u64));
                connection.send_request(GET).await.unwrap();
                connection.head().await.unwrap();
                assert!(read_all(&mut connection).await.unwrap() == film(bytes));
            }
            connection.close();
        });
        server.join();
    }
}

#[test]
fn tickets_resume_only_if_asked_for() {
    for (version, _) in versions() {
        let config = rustls_config(version);
        let server = Server::each(4, move |stream| {
            let mut stream = secure(&config, stream);
            serve_films(&mut stream, &[1000]);
            linger(stream);
        });
        let tls = anyone();
        let address = server.address;
        let resumed = run(async move {
            let mut resumed = Vec::new();
            for resume in [true, true, true, false] {
                let options = ConnectionOptions { resume, ..patient() };
                let to = endpoint(address, Some(tls.clone()));
                let mut connection = Connection::open(&to, &options).await.unwrap();
                connection.send_request(GET).await.unwrap();
                connection.head().await.unwrap();
                assert_eq!(discard_all(&mut connection).await, Ok(1000));
                resumed.push(connection.is_resumed());
                connection.close();
            }
            resumed
        });
        assert_eq!(resumed, [false, true, true, false], "{version:?}");
        server.join();
    }
}

#[test]
fn a_ticket_can_be_waited_for_without_asking_for_anything() {
    let config = rustls_config(&rustls::version::TLS13);
    let server = Server::each(2, move |stream| linger(secure(&config, stream)));
    let to = endpoint(server.address, Some(anyone()));
    run(async move {
        let options = ConnectionOptions { resume: true, ..patient() };
        for resumed in [false, true] {
            let mut connection = Connection::open(&to, &options).await.unwrap();
            assert_eq!(connection.is_resumed(), resumed);
            assert_eq!(connection.wait_for_ticket(Duration::from_secs(60)).await, Ok(true));
            connection.close();
        }
    });
    server.join();
}

#[test]
fn keys_that_change_in_the_midst_of_a_body_are_followed_and_answered() {
    let server = Server::start(|stream| {
        let mut halves = Halves::accept(stream);
        halves.receive().expect("a request");
        halves.send(b"HTTP/1.1 200 OK\r\nContent-Length: 150000\r\n\r\n");
        for _ in 0..3 {
            halves.send(&film(50_000));
            halves.send_key_update();
        }
        assert_eq!(halves.receive(), None, "one answer to all");
        halves.receive().expect("a request under new keys");
        halves.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody");
        linger(halves.stream);
    });
    let to = endpoint(server.address, Some(anyone()));
    run(async move {
        let mut connection = Connection::open(&to, &patient()).await.unwrap();
        connection.send_request(GET).await.unwrap();
        connection.head().await.unwrap();
        assert_eq!(discard_all(&mut connection).await, Ok(150_000));
        connection.send_request(GET).await.unwrap();
        connection.head().await.unwrap();
        assert_eq!(read_all(&mut connection).await.unwrap(), b"body");
    });
    server.join();
}

#[test]
fn a_body_without_length_ends_with_the_goodbye_although_the_connection_stays() {
    for read in [false, true] {
        let server = Server::start(|stream| {
            let mut halves = Halves::accept(stream);
            halves.receive().expect("a request");
            halves.send(&[b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &film(500)].concat());
            halves.send(&film(5000));
            halves.send_alert(tls::Alert::CloseNotify);
            linger(halves.stream);
        });
        let to = endpoint(server.address, Some(anyone()));
        run(async move {
            let mut connection = Connection::open(&to, &patient()).await.unwrap();
            connection.send_request(GET).await.unwrap();
            assert_eq!(connection.head().await.unwrap().body_bytes, None);
            let bytes = match read {
                true => read_all(&mut connection).await.unwrap().len() as u64,
                false => discard_all(&mut connection).await.unwrap(),
            };
            assert_eq!(bytes, 5500);
        });
        server.join();
    }
}
