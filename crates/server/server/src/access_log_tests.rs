//! Lines that are too long, and a disk that is too slow or full.

use super::*;
use fullbore_http::{Parse, RequestLimits, parse};
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// A request with long fields of bytes that are not text, which grow threefold when written.
fn long_request() -> Request {
    let mut head = b"GET /".to_vec();
    head.extend([b'a'; 6000]);
    head.extend(b" HTTP/1.1\r\nHost: h\r\nUser-Agent: ");
    head.extend([0xff; 8000]);
    head.extend(b"\r\n\r\n");
    match parse(&head, &RequestLimits::default()) {
        Ok(Parse::Complete { request, .. }) => request,
        other => panic!("{other:?}"),
    }
}

fn entry(request: &Request) -> LogEntry<'_> {
    LogEntry {
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        tls: None,
        request: Some(request),
        status: 200,
        response_bytes: 1,
        duration: Duration::ZERO,
        end: None,
    }
}

/// A disk that accepts nothing until it is released, and then everything.
struct Stuck(Arc<Mutex<()>>, std::sync::mpsc::Sender<usize>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.0.lock().unwrap());
        let _ = self.1.send(bytes.iter().filter(|byte| **byte == b'\n').count());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn long_fields_are_cut_and_the_line_says_so() {
    let request = long_request();
    let line = entry(&request).to_json();
    assert_eq!(line["target"].as_str().unwrap().len(), ADDRESS_BYTES_MAX);
    let user_agent = line["user_agent"].as_str().unwrap();
    assert!(user_agent.len() <= FIELD_BYTES_MAX && user_agent.len() > FIELD_BYTES_MAX - 4);
    assert!(user_agent.chars().all(|c| c == '\u{fffd}'), "cut between characters");
    assert_eq!(line["cut"], json!(["target", "user_agent"]));
}

#[test]
fn ordinary_lines_are_whole() {
    let head = b"GET /a?b HTTP/1.1\r\nHost: h\r\nUser-Agent: curl/8\r\n\r\n";
    let Ok(Parse::Complete { request, .. }) = parse(head, &RequestLimits::default()) else {
        panic!()
    };
    let line = entry(&request).to_json();
    assert_eq!((&line["target"], &line["user_agent"]), (&json!("/a?b"), &json!("curl/8")));
    assert_eq!(line["host"], json!("h"));
    assert_eq!(line["cut"], serde_json::Value::Null);
}

#[test]
fn no_field_has_the_signature_of_a_token() {
    let signature = "0a".repeat(32);
    let page = format!("/player.html?src=%2Ft%2F1790000000.{signature}.k1.2%2Ffilms%2Fa.m3u8");
    let lines = format!("Referer: https://h{page}\r\nUser-Agent: p ({page})\r\n");
    let head = format!("GET {page} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    let parsed = parse(head.as_bytes(), &RequestLimits::default());
    let Ok(Parse::Complete { request, .. }) = parsed else { panic!() };
    let (line, page) = (entry(&request).to_json(), page.replace(&signature, "-"));
    assert_eq!(line["target"], json!(page));
    assert_eq!(line["referer"], json!(format!("https://h{page}")));
    assert_eq!(line["user_agent"], json!(format!("p ({page})")));
    assert_eq!(line["cut"], serde_json::Value::Null);
}

#[test]
fn lines_that_wait_for_a_stuck_disk_are_bounded_by_their_bytes() {
    const LINES: u64 = 20_000;
    let lock = Arc::new(Mutex::new(()));
    let stuck = lock.lock().unwrap();
    let (written, lines_written) = channel();
    let log = AccessLog::start(Box::new(Stuck(Arc::clone(&lock), written))).unwrap();
    let request = long_request();
    let worker = log.for_worker();
    for _ in 0..LINES {
        worker.write(&entry(&request));
        assert!(log.waiting_bytes.load(Ordering::Relaxed) <= WAITING_BYTES_MAX);
    }
    let lost = worker.lost();
    assert!(lost > LINES / 2, "20,000 lines of more than 1.5 KB cannot all wait: {lost} lost");
    assert!(lost < LINES - 1000, "thousands fit: {lost} lost");
    drop(stuck);
    let mut written = 0;
    while written < LINES - lost {
        written += lines_written.recv().unwrap() as u64;
    }
    assert_eq!((written, worker.lost()), (LINES - lost, lost), "each line is written or counted");
}

#[test]
fn lines_that_a_full_disk_refuses_are_counted() {
    let log = AccessLog::start(Box::new(Full)).unwrap();
    let worker = log.for_worker();
    let request = long_request();
    // The first 64 KiB wait in the writer's buffer.
    while worker.lost() < 10 {
        worker.write(&entry(&request));
        std::thread::yield_now();
    }
}

#[test]
fn a_reopened_log_begins_with_a_whole_line_and_what_the_full_disk_held_back_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    std::fs::write(&path, "").unwrap();
    let log = AccessLog::start(Box::new(Full)).unwrap();
    let (worker, reopener) = (log.for_worker(), log.reopener(&path).unwrap());
    let head = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let Ok(Parse::Complete { request, .. }) = parse(head, &RequestLimits::default()) else {
        panic!()
    };
    (0..10).for_each(|_| worker.write(&entry(&request)));
    while log.waiting_bytes.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(worker.lost(), 0, "they wait for room");
    reopener.reopen().unwrap();
    while worker.lost() < 10 {
        std::thread::yield_now();
    }
    worker.write(&entry(&request));
    let written = || std::fs::read_to_string(&path).unwrap();
    while !written().ends_with('\n') {
        std::thread::yield_now();
    }
    let line: serde_json::Value = serde_json::from_str(&written()).unwrap();
    assert_eq!((&line["target"], worker.lost()), (&json!("/a"), 10));
}

#[test]
fn only_a_file_can_be_reopened_and_if_it_cannot_the_log_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs/access.log");
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let log = AccessLog::start(open(&path).unwrap()).unwrap();
    let pipe = folder.path().join("pipe");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    for other in [Path::new("-"), Path::new("/dev/null"), &pipe] {
        assert!(log.reopener(other).is_none(), "{}", other.display());
    }
    let reopener = log.reopener(&path).unwrap();
    let moved = folder.path().join("moved");
    std::fs::rename(folder.path().join("logs"), &moved).unwrap();
    assert_eq!(reopener.reopen().unwrap_err().kind(), io::ErrorKind::NotFound);
    let head = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let Ok(Parse::Complete { request, .. }) = parse(head, &RequestLimits::default()) else {
        panic!()
    };
    log.write(&entry(&request));
    while std::fs::read(moved.join("access.log")).unwrap().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_place_where_no_log_can_be_is_found_without_making_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let checked = |name: &str| check(&at(name)).map_err(|error| error.kind());
    assert_eq!(checked("access.log"), Ok(()));
    assert!(!at("access.log").exists());
    assert_eq!(checked("nowhere/access.log"), Err(io::ErrorKind::NotFound));
    std::fs::write(at("file"), "").unwrap();
    assert_eq!(checked("file"), Ok(()));
    assert_eq!(checked("file/access.log"), Err(io::ErrorKind::NotADirectory));
    assert_eq!(checked("."), Err(io::ErrorKind::IsADirectory));
    for path in ["-", "/dev/null", "access.log"] {
        check(Path::new(path)).unwrap();
    }
}
