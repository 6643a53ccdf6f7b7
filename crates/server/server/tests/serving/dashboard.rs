//! The dashboard: its page, and the stream that fills it.

use crate::support::served::{Served, await_that};
use crate::support::viewer::Protocol;
use fullbore_server::admin::all_metrics;
use fullbore_tests::{Plain, free_port};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::{Kind, Metric};
use token::CopyRing;

/// How long to wait for anything: an event is due every second, but the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

fn ask(admin: SocketAddr, path: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

fn fetch(admin: SocketAddr, path: &str) -> String {
    let mut text = String::new();
    ask(admin, path).read_to_string(&mut text).unwrap();
    text
}

/// A dashboard without a browser.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(admin: SocketAddr) -> Self {
        let mut lines = ask(admin, "/events");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "the head is cut off: {head}");
        }
        assert!(head.contains("Content-Type: text/event-stream\r\n"), "{head}");
        Self(lines)
    }

    /// The data of the next event of that name.
    fn next(&mut self, name: &str) -> Value {
        let (wanted, mut line) = (format!("event: {name}\n"), String::new());
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            if line == wanted {
                line.clear();
                self.0.read_line(&mut line).unwrap();
                return serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
            }
        }
    }

    /// The first snapshot for which this holds.
    fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..30 {
            last = self.next("snapshot");
            if holds(&last) {
                return last;
            }
        }
        panic!("it never came to be so: {last:#}");
    }
}

fn library() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("a film")).unwrap();
    std::fs::write(root.path().join("a film/1.m4s"), vec![7; 3 << 20]).unwrap();
    root
}

#[test]
fn a_snapshot_tells_what_viewers_did() {
    let library = library();
    let served = Served::start(library.path(), Protocol::Tls13, |_| {});
    let mut events = Events::open(served.admin());
    assert_eq!(events.next("history")["kind"], "dashboard_history");
    let mut viewer = served.viewer();
    for _ in 0..3 {
        assert_eq!(viewer.ask("/a%20film/1.m4s").body.len(), 3 << 20);
    }
    assert_eq!(viewer.ask("/missing").status, 404);
    // A response is counted before its first byte leaves, so a snapshot may show the one without the other.
    let told =
        events.until(|told| told["responses"]["404"] == 1 && told["first_byte"]["count"] == 4);
    assert_eq!(told["titles"][0]["title"], "a film");
    assert!(told["titles"][0]["bytes"].as_u64().unwrap() >= 9 << 20);
    assert_eq!(told["handshakes"].as_object().unwrap().len(), 1);
    assert_eq!(told["first_byte"]["count"], 4);
    assert!(told["first_byte"]["p50_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(told["cpu"]["workers"].as_array().unwrap().len(), 1);
    let missed = |fault: &&Value| fault["label"] == "not_found";
    let errors = told["errors"].as_array().unwrap();
    assert_eq!(errors.iter().find(missed).unwrap()["last_minute"], 1);
    let told = events.until(|told| told["connections"] == 1);
    assert_eq!(told["sending"], 0);
    served.stop();
}

/// The keys of nodes' copies as a gateway gives them today, in a file as an agent keeps it.
fn copy_keys(place: &Path, secret: u8) -> CopyRing {
    let days = token::copy_key_days(now());
    let lines = days.map(|day| token::copy_key_line(day, &[secret; 32]).to_string());
    let text = lines.collect::<String>();
    files::replace(place, text.as_bytes(), 0o600).unwrap();
    CopyRing::parse(&text).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A viewer could once hide from all statistics by sending the `User-Agent` of a node.
#[test]
fn what_nodes_copy_counts_for_no_title_if_they_prove_it_and_a_viewer_who_claims_it_is_counted() {
    let library = tempfile::tempdir().unwrap();
    std::fs::write(library.path().join("a film.mp4"), vec![7; 1 << 20]).unwrap();
    std::fs::write(library.path().join("the last.mp4"), "x").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("copy-keys");
    let nodes = copy_keys(&place, 1);
    let strangers = copy_keys(&folder.path().join("other-keys"), 2);
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        config.signing.copies = Some(place.clone());
    });
    let mut viewer = served.viewer();
    let mut ask = |fields: &str| {
        let head = "GET /a%20film.mp4 HTTP/1.1\r\nHost: localhost\r\n";
        viewer.send(format!("{head}{fields}\r\n").as_bytes()).unwrap();
        assert_eq!(viewer.response(true).unwrap().body.len(), 1 << 20);
    };
    let agent = "User-Agent: fullbore-node/0.1.0\r\n";
    let of = |ring: &CopyRing, path: &[u8], now| {
        format!("{agent}Fullbore-Copy: {}\r\n", ring.prove(path, now).unwrap())
    };
    let (proof, path) = (of(&nodes, b"a film.mp4", now()), b"a film.mp4");
    let claims = [
        agent.to_owned(),
        of(&strangers, path, now()),
        of(&nodes, b"another.mp4", now()),
        of(&nodes, path, now() - 600),
        format!("{proof}{proof}"),
    ];
    claims.iter().for_each(|fields| ask(fields));
    let status = || -> Value {
        serde_json::from_slice(&Plain::connect(served.admin()).fetch("/status.json").body).unwrap()
    };
    let number = |value: &Value| value.as_u64().unwrap();
    // A response is counted after it has ended.
    ask(&proof);
    let is_counted = || number(&status()["total"]["sent_to_nodes_bytes_total"]) > 1 << 20;
    await_that(is_counted, || "the copy is not counted as one".to_owned());
    // Titles are added up once a second. Once the last view is in the sum, everything before it is, too.
    assert_eq!(viewer.ask("/the%20last.mp4").body, b"x");
    let title = |name: &str| {
        let titles = status()["titles"].as_array().cloned().unwrap_or_default();
        titles.into_iter().find(|title| title["title"] == name)
    };
    await_that(|| title("the last.mp4").is_some(), || "the last view is not counted".to_owned());
    let title = title("a film.mp4").unwrap();
    assert_eq!(number(&title["starts"]), 5, "{title}");
    assert!((5 << 20..6 << 20).contains(&number(&title["bytes"])), "{title}");
    served.stop();
}

/// Workers once got the keys only after they had begun to accept, so a copy that began in between counted as a view.
#[test]
fn a_nodes_copy_that_waits_for_the_server_to_start_counts_for_no_title() {
    let library = tempfile::tempdir().unwrap();
    std::fs::write(library.path().join("a film.mp4"), vec![7; 1 << 20]).unwrap();
    std::fs::write(library.path().join("the last.mp4"), "x").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("copy-keys");
    let proof = copy_keys(&place, 1).prove(b"a film.mp4", now()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    // It connects as soon as the server listens, long before the server has started.
    let node = std::thread::spawn(move || {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(why) => assert!(Instant::now() < deadline, "{why}"),
            }
            std::thread::yield_now();
        };
        let head = "GET /a%20film.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        write!(stream, "{head}Fullbore-Copy: {proof}\r\n\r\n").unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        response.len()
    });
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        config.signing.copies = Some(place.clone());
        config.listen = address;
    });
    assert!(node.join().unwrap() > 1 << 20);
    // Titles are added up once a second. Once this view is in the sum, everything before it is, too.
    assert_eq!(served.viewer().ask("/the%20last.mp4").body, b"x");
    let status = || -> Value {
        serde_json::from_slice(&Plain::connect(served.admin()).fetch("/status.json").body).unwrap()
    };
    let titles = || status()["titles"].as_array().cloned().unwrap_or_default();
    let is_there = |name: &str| titles().iter().any(|title| title["title"] == name);
    await_that(|| is_there("the last.mp4"), || "the view is not counted".to_owned());
    assert!(!is_there("a film.mp4"), "{:?}", titles());
    served.stop();
}

#[test]
fn who_comes_later_sees_what_was() {
    let library = library();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut first = Events::open(served.admin());
    let seen = first.next("snapshot")["point"]["unix_seconds"].clone();
    first.next("snapshot");
    let mut second = Events::open(served.admin());
    let history = second.next("history");
    let times = history["columns"]["unix_seconds"].as_array().unwrap();
    assert!(times.contains(&seen), "{seen} is not in {history}");
    served.stop();
}

#[test]
fn the_page_is_at_the_root_under_a_strict_policy() {
    let library = library();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    for path in ["/", "/dashboard"] {
        let page = fetch(served.admin(), path);
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        assert!(page.contains("default-src 'self'"), "{page}");
    }
    for (path, start) in [
        ("/healthz", "HTTP/1.1 200 "),
        ("/metrics", "HTTP/1.1 200 "),
        ("/status.json", "HTTP/1.1 200 "),
        ("/-/assets/none.js", "HTTP/1.1 404 "),
        ("/else", "HTTP/1.1 404 "),
    ] {
        assert!(fetch(served.admin(), path).starts_with(start), "{path}");
    }
    served.stop();
}

#[test]
fn there_are_only_so_many_dashboards() {
    let library = library();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let open: Vec<_> = (0..16).map(|_| Events::open(served.admin())).collect();
    assert!(fetch(served.admin(), "/events").starts_with("HTTP/1.1 503 "));
    assert!(fetch(served.admin(), "/metrics").contains("\nfullbore_dashboards 16\n"));
    drop(open);
    served.stop();
}

/// The status and text of the admin listener's response to a request with these `lines`.
fn answer_to(admin: SocketAddr, path: &str, lines: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

#[test]
fn a_name_that_is_not_the_servers_is_told_nothing() {
    let library = tempfile::tempdir().unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        config.admin_hosts = vec!["video-1.example.org".into()];
    });
    let admin = served.admin();
    let paths = ["/", "/dashboard", "/healthz", "/metrics", "/status.json", "/events"];
    for path in paths {
        let (status, text) =
            answer_to(admin, path, &format!("Host: evil.example:{}\r\n", admin.port()));
        assert_eq!(status, 421, "{path}: {text}");
        assert!(text.contains("admin_hosts") && !text.contains("fullbore_"), "{text}");
    }
    for host in [&*admin.to_string(), "localhost", "[::1]:1", "video-1.example.org:9443"] {
        assert_eq!(answer_to(admin, "/healthz", &format!("Host: {host}\r\n")).0, 200, "{host}");
    }
    let metrics = fetch(admin, "/metrics");
    let counted = "fullbore_admin_requests_refused_total{reason=\"misdirected\"} 6\n";
    assert!(metrics.contains(counted), "{metrics}");
    served.stop();
}

/// The rest of the lines with this start, by the metric's name.
fn said_of_each(metrics: &str, start: &str) -> BTreeMap<String, String> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(start)?.split_once(' '));
    lines.map(|(name, said)| (name.to_owned(), said.to_owned())).collect()
}

#[test]
fn what_is_told_is_what_is_declared() {
    let library = library();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let text = fetch(served.admin(), "/metrics");
    let told = said_of_each(&text, "# TYPE ");
    // Metrics of kernel TLS exist only if the kernel seals, those of certificates only if the server gets its own,
    // and those of redirects only if it redirects viewers.
    let is_told = |metric: &&Metric| {
        let at_times = [
            "fullbore_kernel_tls_e",
            "fullbore_kernel_tls_connections",
            "fullbore_acme_",
            "fullbore_redirects",
        ];
        !at_times.iter().any(|start| metric.name.starts_with(start))
            || told.contains_key(metric.name)
    };
    let declared = || all_metrics().filter(is_told);
    let kinds = declared().map(|metric| (metric.name.to_owned(), metric.kind.name().to_owned()));
    assert_eq!(told, kinds.collect::<BTreeMap<_, _>>());
    let helps = declared().map(|metric| (metric.name.to_owned(), metric.help.to_owned()));
    assert_eq!(said_of_each(&text, "# HELP "), helps.collect::<BTreeMap<_, _>>());
    let status = fetch(served.admin(), "/status.json");
    let (_, status) = status.split_once("\r\n\r\n").unwrap();
    let status: Value = serde_json::from_str(status).unwrap();
    for metric in telemetry::metrics().filter(|metric| metric.kind != Kind::Histogram) {
        for figures in [&status["total"], &status["workers"][0]] {
            assert!(!figures[metric.key()].is_null(), "no {} in {figures}", metric.key());
        }
    }
    served.stop();
}

#[test]
fn live_pages_are_never_current_and_never_kept() {
    let library = tempfile::tempdir().unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    for path in ["/metrics", "/status.json", "/healthz"] {
        for condition in [
            "If-None-Match: \"now\"",
            "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT",
            "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
            "Range: bytes=0-0",
        ] {
            let lines = format!("Host: localhost\r\n{condition}\r\n");
            let (status, text) = answer_to(served.admin(), path, &lines);
            assert_eq!(status, 200, "{path} with {condition}");
            assert!(text.contains("Cache-Control: no-store\r\n"), "{text}");
            assert!(!text.contains("ETag:") && !text.contains("Last-Modified:"), "{text}");
        }
    }
    served.stop();
}
