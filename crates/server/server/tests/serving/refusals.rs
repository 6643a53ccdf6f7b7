//! The allowed content of refusals, and the promises of the listeners' own `Allow`.

use crate::support::library::Library;
use crate::support::served::Served;
use crate::support::viewer::Protocol;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use telemetry::Family;

/// Requests that no parser can take whole, and their statuses. The last one never ends.
const HEADS: [(&str, u16); 6] = [
    ("HEAD /a.mp4 HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", 400),
    ("HEAD /a.mp4 HTTP/1.1\r\n\r\n", 400),
    ("HEAD /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("HEAD /a.mp4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
    ("HEAD /a.mp4 HTTP/3.0\r\nHost: h\r\n\r\n", 505),
    ("HEAD /a.mp4 HT", 408),
];

#[track_caller]
fn assert_has_no_content(answer: &[u8], status: u16, case: &str) {
    let text = String::from_utf8_lossy(answer);
    assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{case}: {text}");
    assert!(text.contains("\r\nContent-Length: "), "{case}: {text}");
    let end = text.find("\r\n\r\n").expect("the head ends");
    assert_eq!(end + 4, text.len(), "{case}: content after the head: {text}");
}

#[test]
fn a_head_request_that_cannot_be_parsed_gets_no_content() {
    let library = Library::new();
    for protocol in Protocol::ALL {
        let served = Served::start(library.path(), protocol, |config| {
            config.timeouts.head_seconds = 0.3;
        });
        for (head, status) in HEADS {
            let mut viewer = served.viewer();
            viewer.send(head.as_bytes()).unwrap();
            let (answer, end) = viewer.rest();
            end.expect("an orderly end");
            assert_has_no_content(&answer, status, &format!("{protocol:?} {head:?}"));
        }
        served.await_count(Family::Ends, "answered", HEADS.len() as u64);
        served.stop();
    }
}

#[test]
fn a_head_request_in_plain_text_on_the_tls_port_gets_no_content() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Tls13, |_| {});
    let answer = ask(served.address(), "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_has_no_content(answer.as_bytes(), 400, "plain HTTP");
    served.stop();
}

/// Everything that comes for `request` until the other side closes.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_admin_listener_answers_every_method_that_its_allow_names() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let of_admin = |line: &str, more: &str| {
        ask(
            served.admin(),
            &format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n"),
        )
    };
    for path in ["/", "/dashboard", "/healthz", "/metrics", "/status.json", "/events", "/none"] {
        let refused = of_admin(&format!("DELETE {path}"), "");
        if refused.starts_with("HTTP/1.1 405 ") {
            assert!(refused.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{refused}");
        }
        let options = of_admin(&format!("OPTIONS {path}"), "");
        assert!(options.starts_with("HTTP/1.1 204 "), "{path}: {options}");
        assert!(options.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{path}: {options}");
        assert!(!options.contains("Access-Control"), "{path}: other pages may not read it");
        let head = of_admin(&format!("HEAD {path}"), "");
        assert!(!head.starts_with("HTTP/1.1 405 "), "{path}: {head}");
        assert!(head.ends_with("\r\n\r\n"), "{path}: {head}");
    }
    assert!(of_admin("OPTIONS *", "").starts_with("HTTP/1.1 204 "));
    // For a method that is served, only a body is unwanted.
    for method in ["GET", "HEAD", "OPTIONS"] {
        let answer = of_admin(&format!("{method} /healthz"), "Content-Length: 1\r\n");
        assert!(answer.starts_with("HTTP/1.1 413 "), "{method}: {answer}");
    }
    let answer = of_admin("POST /healthz", "Content-Length: 1\r\n");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    served.stop();
}

#[test]
fn the_admin_listener_sends_no_content_to_a_head_request_that_it_cannot_parse() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    for (head, status) in HEADS.into_iter().filter(|(_, status)| *status != 408) {
        let answer = ask(served.admin(), head);
        assert_has_no_content(answer.as_bytes(), status, head);
    }
    let with_body = "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n";
    assert_has_no_content(ask(served.admin(), with_body).as_bytes(), 413, with_body);
    served.stop();
}

#[test]
fn a_chunk_extension_that_is_none_ends_the_connection_without_a_second_answer() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let get = "GET /a.mp4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (index, line) in ["5;", "5;bad[=x", "5;a=", "5 x"].into_iter().enumerate() {
        let mut viewer = served.viewer();
        let body = format!("{line}\r\nhello\r\n0\r\n\r\nGET /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n");
        viewer.send((get.to_owned() + &body).as_bytes()).unwrap();
        assert_eq!(viewer.response(true).unwrap().status, 200, "{line}");
        let (rest, _) = viewer.rest();
        assert!(rest.is_empty(), "{line}: a second answer");
        served.await_count(Family::Refusals, "bad_framing", index as u64 + 1);
    }
    served.stop();
}
