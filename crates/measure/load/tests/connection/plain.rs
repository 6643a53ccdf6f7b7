//! Plain HTTP from honest servers.

use std::io::Write;

use crate::server::*;
use fullbore_load::{Connection, ConnectionOptions, Failure};

fn response(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[test]
fn bodies_are_counted_to_the_byte_and_the_connection_is_used_again() {
    let server = Server::start(|mut stream| {
        for bytes in [0, 1, 70_000, 3_000_000] {
            request(&mut stream);
            stream.write_all(&response(&film(bytes))).unwrap();
        }
        linger(stream);
    });
    let to = endpoint(server.address, None);
    run(async move {
        let mut connection = Connection::open(&to, &patient()).await.unwrap();
        for bytes in [0, 1, 70_000, 3_000_000] {
            connection.send_request(GET).await.unwrap();
            let head = connection.head().await.unwrap();
            assert_eq!((head.status, head.body_bytes, head.closes), (200, Some(bytes), false));
            assert_eq!(discard_all(&mut connection).await, Ok(bytes));
        }
        assert!(!connection.is_resumed() && connection.session().is_none());
        connection.close();
    });
    server.join();
}

#[test]
fn a_body_that_is_wanted_comes_byte_for_byte() {
    let server = answering(response(&film(300_000)), linger);
    let to = endpoint(server.address, None);
    let body = run(async move {
        let mut connection = Connection::open(&to, &patient()).await.unwrap();
        connection.send_request(GET).await.unwrap();
        connection.head().await.unwrap();
        read_all(&mut connection).await.unwrap()
    });
    assert!(body == film(300_000));
    server.join();
}

#[test]
fn no_more_is_thrown_away_at_once_than_was_asked_for() {
    let server = answering(response(&film(100_000)), linger);
    let to = endpoint(server.address, None);
    run(async move {
        let mut connection = Connection::open(&to, &patient()).await.unwrap();
        connection.send_request(GET).await.unwrap();
        connection.head().await.unwrap();
        let mut total = 0;
        loop {
            let bytes = connection.discard(1000).await.unwrap();
            assert!(bytes <= 1000);
            total += bytes;
            if bytes == 0 {
                break;
            }
        }
        assert_eq!(total, 100_000);
    });
    server.join();
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    let response = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &film(50_000)].concat();
    let server = answering(response, drop);
    let (head, bytes) = run(fetch(endpoint(server.address, None), patient())).unwrap();
    assert_eq!((head.body_bytes, head.closes, bytes), (None, true, 50_000));
    server.join();
}

/// The film of this many bytes, in chunks of uneven sizes.
fn in_chunks(bytes: usize) -> Vec<u8> {
    let mut response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in film(bytes).chunks(7001) {
        write!(response, "{:x};part\r\n", chunk.len()).unwrap();
        response.extend_from_slice(chunk);
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"0\r\nDate: now\r\n\r\n");
    response
}

#[test]
fn a_chunked_body_is_taken_apart_if_that_is_wanted_and_the_connection_is_used_again() {
    let server = Server::start(|mut stream| {
        for bytes in [0, 1, 70_000, 300_000] {
            request(&mut stream);
            stream.write_all(&in_chunks(bytes)).unwrap();
        }
        linger(stream);
    });
    let to = endpoint(server.address, None);
    run(async move {
        let options = ConnectionOptions { accept_chunks: true, ..patient() };
        let mut connection = Connection::open(&to, &options).await.unwrap();
        for bytes in [0, 1, 70_000] {
            connection.send_request(GET).await.unwrap();
            let head = connection.head().await.unwrap();
            assert_eq!((head.is_chunked, head.body_bytes, head.closes), (true, None, false));
            assert!(read_all(&mut connection).await.unwrap() == film(bytes));
        }
        connection.send_request(GET).await.unwrap();
        connection.head().await.unwrap();
        assert_eq!(discard_all(&mut connection).await, Ok(300_000));
        assert!(connection.is_body_over());
    });
    server.join();
}

#[test]
fn a_chunked_body_that_breaks_off_has_ended_too_early() {
    let half = in_chunks(70_000);
    let server = answering(half[..half.len() / 2].to_vec(), drop);
    let options = ConnectionOptions { accept_chunks: true, ..patient() };
    let fetched = run(fetch(endpoint(server.address, None), options));
    assert_eq!(fetched.map(|_| ()), Err(Failure::ClosedEarly));
    server.join();
}

#[test]
fn a_chunked_body_is_refused_where_lengths_are_measured() {
    let server = answering(in_chunks(100), linger);
    let fetched = run(fetch(endpoint(server.address, None), patient()));
    assert!(matches!(fetched, Err(Failure::BadResponse(_))), "{fetched:?}");
    server.join();
}

#[test]
fn head_requests_have_no_body_whatever_length_is_stated() {
    let server = Server::start(|mut stream| {
        for _ in 0..2 {
            request(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").unwrap();
        }
        linger(stream);
    });
    let to = endpoint(server.address, None);
    run(async move {
        let mut connection = Connection::open(&to, &patient()).await.unwrap();
        for _ in 0..2 {
            connection.send_request(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            assert_eq!(connection.head().await.unwrap().body_bytes, Some(0));
            assert_eq!(connection.discard(9).await, Ok(0));
        }
    });
    server.join();
}

#[test]
fn a_connection_leaves_from_the_address_that_it_is_given() {
    let server = Server::start(|stream| {
        assert_eq!(stream.peer_addr().unwrap().ip().to_string(), "127.1.2.3");
        linger(stream);
    });
    let to = endpoint(server.address, None);
    run(async move {
        let source = Some("127.1.2.3".parse().unwrap());
        let options = ConnectionOptions { source, ..patient() };
        Connection::open(&to, &options).await.unwrap().close();
    });
    server.join();
}
