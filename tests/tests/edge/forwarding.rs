//! What travels between viewers and the origin, and what doesn't.

use crate::origin::{Manner, Origin};
use crate::{PATIENT, edge, launch, launch_at};
use fullbore_tests::Plain;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use tempfile::tempdir;

/// Header fields by which a viewer could have the origin make a response for everyone that is about another host, URL, method or client.
const OF_PROXIES: [&str; 20] = [
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X_Forwarded_Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Prefix",
    "X-Forwarded-Server",
    "X-Host",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-HTTP-Method-Override",
    "X-Real-IP",
    "True-Client-IP",
    "CF-Connecting-IP",
    "Proxy",
    "X-Sendfile-Type",
    "X-Originating-IP",
    "X-Remote-Addr",
    "X-Envoy-Original-Path",
    "X-Client-Cert",
];

#[test]
fn what_only_a_proxy_may_say_does_not_reach_the_origin_from_a_viewer() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    let mut lines = "X-Own: 1\r\nContent-Length: 0\r\n".to_owned();
    OF_PROXIES.iter().for_each(|name| lines += &format!("{name}: evil.example\r\n"));
    for method in ["GET", "POST"] {
        origin.put("/list", 1, 1000, "Cache-Control: no-store\r\n");
        viewer.ask_by(method, "/list", &lines);
        assert_eq!(viewer.answer().status, 200);
        let head = origin.seen().pop().unwrap().head.to_ascii_lowercase();
        assert!(head.starts_with(&method.to_ascii_lowercase()), "{head}");
        assert!(head.contains("x-own: 1") && !head.contains("evil.example"), "{head}");
        assert!(!head.contains("x-forwarded"), "the edge sends none of its own by default: {head}");
    }
}

#[test]
fn an_origin_that_wants_to_know_gets_the_viewers_address_and_the_edges_url() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config =
        format!("{PATIENT}forwarded_for = true\npublic_url = \"https://edge.example:8443/\"\n");
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    origin.put("/list", 1, 1000, "Cache-Control: no-store\r\n");
    let lines = "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-Host: evil.example\r\n";
    assert_eq!(Plain::connect(server.address).fetch_with("/list", lines).status, 200);
    let head = origin.seen().pop().unwrap().head;
    for line in [
        "x-forwarded-for: 127.0.0.1\r\n",
        "x-forwarded-proto: https\r\n",
        "x-forwarded-host: edge.example:8443\r\n",
    ] {
        assert_eq!(head.matches(line).count(), 1, "{line}: {head}");
    }
    assert!(!head.contains("192.0.2.66") && !head.contains("evil"), "{head}");
}

#[test]
fn redirects_to_the_origin_lead_to_the_edge() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let url = format!("{}/films", origin.url());
    let server = launch_at(&url, cache.path()).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    for (number, (named, local)) in [
        ("/films/b?c#d".to_owned(), "/b?c#d"),
        (format!("{url}/b"), "/b"),
        ("b".to_owned(), "b"),
        ("https://cdn.example/films/b".to_owned(), "https://cdn.example/films/b"),
        ("/films//evil.example/b".to_owned(), "/films//evil.example/b"),
    ]
    .into_iter()
    .enumerate()
    {
        let lines = format!("Cache-Control: max-age=3600\r\nLocation: {named}\r\n");
        origin.behave(Manner::Status(302, lines));
        // The second one is from the cache.
        for _ in 0..2 {
            let answer = viewer.fetch(&format!("/a{number}"));
            assert_eq!(answer.status, 302, "{}", answer.head);
            assert!(answer.head.contains(&format!("Location: {local}\r\n")), "{}", answer.head);
        }
        assert_eq!(origin.count(&format!("/films/a{number}")), 1);
    }
    origin.behave(Manner::Good);
    let film = origin.put("/films/b", 1, 1000, "");
    assert!(viewer.fetch("/b").body == *film, "where the redirects lead");
}

#[test]
fn a_films_own_address_is_that_at_the_edge_also_after_a_confirmation() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server =
        launch_at(&format!("{}/films", origin.url()), cache.path()).arguments("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    let lines = "Cache-Control: max-age=0\r\nContent-Location: /films/a?v=1\r\n";
    let film = origin.put("/films/a", 1, 1000, lines);
    for _ in 0..3 {
        let answer = viewer.fetch("/a");
        assert!(answer.body == *film, "{}", answer.head);
        assert!(answer.head.contains("Content-Location: /a?v=1\r\n"), "{}", answer.head);
    }
}

#[test]
fn a_body_in_chunks_is_refused_because_its_length_is_needed() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let server = launch(&origin, cache.path()).config(&config).arguments("--tls off").start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    let request =
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).unwrap();
    assert_eq!(status, "HTTP/1.1 411 Length Required\r\n");
    assert_eq!(origin.count("/a"), 0);
}

#[test]
fn what_the_viewers_of_one_address_wait_for_is_bounded_with_their_headers() {
    const VIEWERS: usize = 80;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Withholds("/random"));
    let large = format!("X-Large: {}\r\n", "x".repeat(15_000));
    let ask = |number: usize| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask_with(&format!("/random{number}"), &large);
        viewer
    };
    let viewers: Vec<_> = (0..VIEWERS).map(ask).collect();
    // 30 are under way, and 256 KiB wait.
    server.wait_for_counter(
        "requests_refused_total{reason=\"edge_address_queue_full\"}",
        (VIEWERS - 30 - 16) as u64,
    );
    server.wait_for_news();
    let waiting = server.counter("edge_waiting");
    assert!((10..=16).contains(&waiting), "{waiting}");
    origin.behave(Manner::Good);
    drop(viewers);
}
