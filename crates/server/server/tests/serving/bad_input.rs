//! Whatever a peer sends or fails to send, each kind of misbehaviour gets its response and its counter, and no other viewer
//! suffers from it.

use crate::support::content::Content;
use crate::support::library::Library;
use crate::support::served::{Served, await_that, kernel_seals};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::{self, Disk};
use fullbore_tests::shake_hands;
use rustix::fs::{CWD, FileType, Mode, inotify};
use rustls::AlertDescription;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use telemetry::Family;

const GET_A: &[u8] = b"GET /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n";
const GET_LONG: &[u8] = b"GET /long.mp4 HTTP/1.1\r\nHost: h\r\n\r\n";

/// Sends `head`, and reads the response and everything after it until the server ends the connection.
#[track_caller]
fn last_words(served: &Served, head: &[u8]) -> Response {
    let mut viewer = served.viewer();
    viewer.send(head).unwrap();
    let response = viewer.response(true).unwrap();
    let (rest, end) = viewer.rest();
    assert!(rest.is_empty(), "a second answer: {:?}", String::from_utf8_lossy(&rest));
    end.expect("the connection ends in an orderly way");
    response
}

/// How the server ends a TLS connection with bad data: with an alert.
#[track_caller]
fn alert(viewer: &mut Viewer) -> AlertDescription {
    let (_, end) = viewer.rest();
    let error = end.expect_err("an alert was due");
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::AlertReceived(description)) => *description,
        _ => panic!("an alert was due, not {error:?}"),
    }
}

#[test]
fn heads_that_cannot_be_trusted_are_answered_counted_and_closed() {
    let long = |bytes| "x".repeat(bytes);
    let cases: Vec<(u16, &str, String)> = vec![
        (400, "bad_request_line", "GARBAGE\r\n\r\n".into()),
        (400, "bad_request_line", "GET /a.mp4 b HTTP/1.1\r\nHost: h\r\n\r\n".into()),
        (400, "bad_header", "GET /a.mp4 HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n".into()),
        (400, "bad_header", "GET /a.mp4 HTTP/1.1\r\nHost: h\r\nA: b\r\n folded\r\n\r\n".into()),
        (400, "bad_header", "GET /a.mp4 HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n".into()),
        (400, "bad_line_end", "GET /a.mp4 HTTP/1.1\nHost: h\n\n".into()),
        (400, "bad_host", "GET /a.mp4 HTTP/1.1\r\n\r\n".into()),
        (400, "bad_host", "GET /a.mp4 HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n".into()),
        (400, "bad_target", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n".into()),
        (400, "bad_framing", framed("Content-Length: 1\r\nContent-Length: 2")),
        (400, "bad_framing", framed("Content-Length: 1\r\nTransfer-Encoding: chunked")),
        (413, "body_too_large", framed("Content-Length: 1000000")),
        (414, "uri_too_long", format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", long(9000))),
        (417, "expectation_failed", framed("Content-Length: 1\r\nExpect: 100-continue")),
        (431, "head_too_large", format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n", long(20_000))),
        (431, "head_too_large", framed(&"A: b\r\n".repeat(200))),
        (501, "method_not_implemented", "BREW /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n".into()),
        (501, "coding_not_implemented", framed("Transfer-Encoding: gzip, chunked")),
        (505, "version_unsupported", "GET /a.mp4 HTTP/2.0\r\nHost: h\r\n\r\n".into()),
        (400, "bad_request_line", "GET /a.mp4 HTTP/11\r\nHost: h\r\n\r\n".into()),
        (400, "bad_request_line", "GET /a.mp4 HTTP/1\r\nHost: h\r\n\r\n".into()),
        (400, "bad_request_line", "GET /a.mp4 HTTP/01.01\r\nHost: h\r\n\r\n".into()),
    ];
    let library = Library::new();
    for protocol in Protocol::ALL {
        let served = Served::start(library.path(), protocol, |_| {});
        for (index, (status, label, head)) in cases.iter().enumerate() {
            let before = served.count(Family::Refusals, label);
            let response = last_words(&served, head.as_bytes());
            assert_eq!(response.status, *status, "{head:.80}");
            assert_eq!(response.field("Connection"), Some("close"), "{head:.80}");
            assert!(!response.body.is_empty(), "{head:.80} has no readable answer");
            assert_eq!(served.count(Family::Refusals, label), before + 1, "{label} {head:.80}");
            served.await_count(Family::Ends, "answered", index as u64 + 1);
        }
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

fn framed(lines: &str) -> String {
    format!("GET /a.mp4 HTTP/1.1\r\nHost: h\r\n{}\r\n\r\n", lines.trim_end())
}

#[test]
fn known_methods_that_are_not_served_are_405_and_the_connection_goes_on() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Tls13, |_| {});
    let mut viewer = served.viewer();
    for method in ["DELETE", "PUT", "POST", "PATCH", "TRACE"] {
        viewer.send(format!("{method} /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
        let response = viewer.response(true).unwrap();
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"));
    }
    assert_eq!(served.count(Family::Refusals, "method_not_allowed"), 5);
    library.assert_served(&mut viewer);
    served.stop();
}

#[test]
fn a_body_on_get_is_read_past_so_that_the_next_request_is_understood() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    let bodies = [
        framed("Content-Length: 5") + "hello",
        framed("Transfer-Encoding: chunked") + "5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\nA: b\r\n\r\n",
        framed("Content-Length: 33") + "GET /long.mp4 HTTP/1.1\r\nHost: h\r\n",
    ];
    viewer.send((bodies.concat() + &framed("")).as_bytes()).unwrap();
    for _ in 0..=bodies.len() {
        let response = viewer.response(true).unwrap();
        assert_eq!((response.status, response.body.len() as u64), (200, library.a.size));
    }
    assert_eq!(served.number(|n| &n.requests_total), bodies.len() as u64 + 1);
    served.stop();
}

#[test]
fn a_body_that_turns_out_too_large_ends_the_connection_without_a_second_answer() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let endless = framed("Transfer-Encoding: chunked") + "fffffff\r\nand so on";
    assert_eq!(last_words(&served, endless.as_bytes()).status, 200);
    let broken = framed("Transfer-Encoding: chunked") + "not a number\r\n";
    assert_eq!(last_words(&served, broken.as_bytes()).status, 200);
    assert_eq!(served.count(Family::Refusals, "body_too_large"), 1);
    assert_eq!(served.count(Family::Refusals, "bad_framing"), 1);
    served.stop();
}

/// Notices whether a file is opened.
struct Watch(std::os::fd::OwnedFd);

impl Watch {
    fn new(path: &Path) -> Self {
        use inotify::{CreateFlags, WatchFlags};
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&fd, path, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        Self(fd)
    }

    fn has_seen_something(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        inotify::Reader::new(&self.0, &mut buffer).next().is_ok()
    }
}

#[test]
fn no_path_leads_out_of_the_library() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.mp4");
    std::fs::write(&secret, b"secret").unwrap();
    let root = outside.path().join("library");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("inside.mp4"), b"inside").unwrap();
    for (name, target) in [
        ("relative.mp4", Path::new("../secret.mp4")),
        ("absolute.mp4", &secret),
        ("up", Path::new("..")),
        ("rooted.mp4", &root.join("inside.mp4")),
        ("self", Path::new("/proc/self/root")),
        ("loop.mp4", Path::new("loop.mp4")),
        ("within.mp4", Path::new("inside.mp4")),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    let magic = format!("/self{}", secret.display());
    let watch = Watch::new(&secret);
    let served = Served::start(&root, Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    for path in [
        "/../secret.mp4",
        "/sub/../../secret.mp4",
        "/%2e%2e/secret.mp4",
        "/%2E%2e%2fsecret.mp4",
        "/..%2fsecret.mp4",
        "/sub/..%2f..%2fsecret.mp4",
        "/..%5csecret.mp4",
        "/inside.mp4%00",
        "/%00/../secret.mp4",
        "//secret.mp4",
        "/relative.mp4",
        "/absolute.mp4",
        "/up/secret.mp4",
        "/rooted.mp4",
        "/loop.mp4",
        "/self/etc/passwd",
        &magic,
        "/inside.mp4/",
        "/inside.mp4/x",
        "/sub",
        "/sub/",
    ] {
        let before = served.count(Family::Responses, "404");
        let response = viewer.ask(path);
        assert_eq!(response.status, 404, "{path}");
        assert!(!String::from_utf8_lossy(&response.body).contains("secret"), "{path}");
        assert_eq!(served.count(Family::Responses, "404"), before + 1);
    }
    assert!(!watch.has_seen_something(), "a file outside was opened");
    assert!(served.count(Family::Refusals, "not_found") > 0);
    // The control: a file that is opened, and a link that stays inside.
    std::fs::read(&secret).unwrap();
    assert!(watch.has_seen_something());
    assert_eq!(viewer.ask("/within.mp4").body, b"inside");
    // The gauge is refreshed once a second. Of all requests, one opened a file.
    await_that(|| served.number(|n| &n.open_files) > 0, || "no file is open".into());
    assert_eq!(served.number(|n| &n.open_files), 1);
    served.stop();
}

#[test]
fn what_is_not_a_regular_file_is_not_served_and_holds_nobody_up() {
    let library = Library::new();
    let mode = Mode::RUSR | Mode::WUSR;
    let make = |name, kind, device| {
        rustix::fs::mknodat(CWD, library.path().join(name), kind, mode, device)
    };
    make("pipe.mp4", FileType::Fifo, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(library.path().join("s.mp4")).unwrap();
    let mut paths = vec!["/pipe.mp4", "/s.mp4"];
    match make("zero.mp4", FileType::CharacterDevice, rustix::fs::makedev(1, 5)) {
        Ok(()) => paths.push("/zero.mp4"),
        Err(error) => fullbore_tests::tool::skip(&format!(
            "the device file, which only root can make: {error}"
        )),
    }
    let served = Served::start(library.path(), Protocol::Tls13, |_| {});
    let mut viewer = served.viewer();
    for path in paths {
        assert_eq!(viewer.ask(path).status, 404, "{path}");
    }
    library.assert_served(&mut viewer);
    served.stop();
}

#[test]
fn floods_of_ranges_cost_no_more_than_the_file() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    let mut ask = |ranges: &str| {
        let head = format!("GET /a.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes={ranges}\r\n\r\n");
        viewer.send(head.as_bytes()).unwrap();
        viewer.response(true).unwrap()
    };
    let apart = |count: u64| every(2, count);
    let unsatisfiable = ask("100000-");
    assert_eq!(unsatisfiable.status, 416);
    assert_eq!(unsatisfiable.field("Content-Range"), Some("bytes */100000"));
    assert_eq!(served.count(Family::Refusals, "range_not_satisfiable"), 1);
    let near = ask(&apart(64));
    assert_eq!((near.status, near.field("Content-Range")), (206, Some("bytes 0-126/100000")));
    let too_many = ask(&apart(65));
    assert_eq!((too_many.status, too_many.body.len()), (200, 100_000));
    library.a.assert_holds(0, &too_many.body, "the whole file");
    let overlapping = ask(&vec!["0-"; 64].join(","));
    assert_eq!((overlapping.status, overlapping.body.len()), (206, 100_000));
    library.a.assert_holds(0, &overlapping.body, "the whole file");
    let nested: Vec<_> = (0..64).map(|n| format!("{n}-{}", 99_999 - n)).collect();
    assert_eq!(ask(&nested.join(",")).body.len(), 100_000);
    served.stop();
}

/// This many ranges of one byte, each this many bytes after the one before.
fn every(step: u64, count: u64) -> String {
    let ranges: Vec<_> = (0..count).map(|n| format!("{0}-{0}", n * step)).collect();
    ranges.join(",")
}

#[test]
fn many_small_ranges_cost_few_reads_and_sends() {
    let (library, film) = (tempfile::tempdir().unwrap(), Content::new(5, 4_000_000));
    film.write(&library.path().join("film.mp4")).unwrap();
    // Each window is one read, if it is of the file, and one send.
    for (protocol, ranges, bytes, windows_max) in [
        (Protocol::Plain, every(16, 64), 63 * 16 + 1, 2),
        (Protocol::Tls13, every(16, 64), 63 * 16 + 1, 1),
        (Protocol::Plain, every(60_000, 8), 8, 18),
        (Protocol::Tls13, every(60_000, 8), 8, 9),
        // Too many ranges: the response is the whole film, in windows like those of any other request for it.
        (Protocol::Plain, every(60_000, 9), film.size, 40),
        (Protocol::Tls13, every(60_000, 64), film.size, 40),
    ] {
        let served = Served::start(library.path(), protocol, |config| config.disk = Disk::Direct);
        let mut viewer = served.viewer();
        let head = format!("GET /film.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes={ranges}\r\n\r\n");
        viewer.send(head.as_bytes()).unwrap();
        let response = viewer.response(true).unwrap();
        assert!(response.body.len() as u64 >= bytes, "{ranges}");
        let is_whole = response.body.len() as u64 == film.size;
        assert_eq!(response.status, if is_whole { 200 } else { 206 }, "{ranges}");
        drop(viewer);
        // It is counted after the last send.
        served.stop();
        let windows = served.number(|n| &n.windows_total);
        // A client that is slow to read makes TCP take a window in part; then the next windows are smaller.
        let in_part = served.number(|n| &n.windows_taken_in_part_total);
        let windows_max = windows_max + 2 * in_part;
        assert!(
            windows <= windows_max,
            "{protocol:?} {ranges}: {windows} windows, {in_part} in part"
        );
    }
}

#[test]
fn a_later_minor_version_is_answered_as_the_highest_we_speak() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    for version in ["1.2", "1.9"] {
        let head = format!("GET /a.mp4 HTTP/{version}\r\nHost: h\r\n\r\n");
        viewer.send(head.as_bytes()).unwrap();
        let response = viewer.response(true).unwrap();
        assert_eq!((response.status, response.body.len()), (200, 100_000), "HTTP/{version}");
    }
    served.stop();
}

/// Boundaries used to follow a sequence of 64 bits, so that one revealed the next.
#[test]
fn a_boundary_does_not_tell_the_next() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    let mut boundary = || {
        viewer
            .send(b"GET /a.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9,5000-5009\r\n\r\n")
            .unwrap();
        let response = viewer.response(true).unwrap();
        let kind = response.field("Content-Type").unwrap().to_owned();
        let hex = kind.strip_prefix("multipart/byteranges; boundary=fullbore-").unwrap();
        u128::from_str_radix(hex, 16).unwrap()
    };
    let halves = |boundary: u128| [boundary as u64, (boundary >> 64) as u64];
    let next_of = |told: u64| {
        let seed = told ^ (told >> 29) ^ (told >> 58);
        let next = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        next ^ (next >> 29)
    };
    let (first, second) = (boundary(), boundary());
    for told in halves(first) {
        assert!(!halves(second).contains(&next_of(told)), "{first:x} tells {second:x}");
        assert!(!halves(second).contains(&told), "a half comes again");
    }
    served.stop();
}

#[test]
fn plain_http_on_the_tls_port_gets_an_answer_that_a_person_can_read() {
    let library = Library::new();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |_| {});
        let mut viewer = Viewer::connect(served.address(), Protocol::Plain, None);
        viewer.send(GET_A).unwrap();
        let response = viewer.response(true).unwrap();
        assert_eq!(response.status, 400);
        assert!(String::from_utf8_lossy(&response.body).contains("https://"));
        viewer.finish();
        served.await_count(Family::Ends, "plain_http", 1);
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

/// A ClientHello (RFC 5246 section 7.4.1.2) of a client that supports TLS 1.1 at most.
fn client_hello_of_tls11() -> Vec<u8> {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    // Such a client sends no signature_algorithms, which rustls looks for before it looks at the version. supported_groups: X25519.
    hello.extend([0, 8, 0, 10, 0, 4, 0, 2, 0, 29]);
    let mut message = vec![1, 0, 0, hello.len() as u8];
    message.extend(hello);
    let mut record = vec![22, 3, 1, 0, message.len() as u8];
    record.extend(message);
    record
}

#[test]
fn first_words_that_are_no_tls_of_ours_get_an_alert_and_are_counted() {
    const PROTOCOL_VERSION: u8 = 70;
    const DECODE_ERROR: u8 = 50;
    const RECORD_OVERFLOW: u8 = 22;
    let oversized = [&[22, 3, 1, 0xff, 0xff][..], &[0; 2000]].concat();
    let cases = [
        ("unsupported_version", client_hello_of_tls11(), PROTOCOL_VERSION),
        ("garbage", b"\x99\x00\x01\x02\x03 is not TLS at all".to_vec(), DECODE_ERROR),
        ("oversized_record", oversized, RECORD_OVERFLOW),
    ];
    let library = Library::new();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |_| {});
        for (label, words, description) in &cases {
            let mut peer = Viewer::connect(served.address(), Protocol::Plain, None);
            peer.send(words).unwrap();
            let (answer, end) = peer.rest();
            end.unwrap();
            assert_eq!((answer[0], &answer[3..]), (21, &[0, 2, 2, *description][..]), "{label}");
            drop(peer);
            served.await_count(Family::Ends, label, 1);
        }
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

/// A viewer after its handshake, with hand-made records that were not sent yet.
fn with_records(served: &Served, data: &[&[u8]]) -> (Viewer, Vec<Vec<u8>>) {
    let mut viewer = served.viewer();
    let tls = viewer.tls.as_mut().unwrap();
    let records = data.iter().map(|data| {
        tls.writer().write_all(data).unwrap();
        let mut wire = Vec::new();
        tls.write_tls(&mut wire).unwrap();
        wire
    });
    let records = records.collect();
    (viewer, records)
}

#[test]
fn records_reordered_repeated_damaged_or_oversized_get_an_alert() {
    let library = Library::new();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |_| {});

        let (mut viewer, records) = with_records(&served, &[GET_A, GET_A]);
        viewer.stream.write_all(&records[1]).unwrap();
        assert_eq!(alert(&mut viewer), AlertDescription::BadRecordMac, "{protocol:?} reordered");

        let (mut viewer, records) = with_records(&served, &[GET_A]);
        viewer.stream.write_all(&records[0]).unwrap();
        assert_eq!(viewer.response(true).unwrap().status, 200);
        viewer.stream.write_all(&records[0]).unwrap();
        assert_eq!(alert(&mut viewer), AlertDescription::BadRecordMac, "{protocol:?} repeated");

        let (mut viewer, mut records) = with_records(&served, &[GET_A]);
        *records[0].last_mut().unwrap() ^= 1;
        viewer.stream.write_all(&records[0]).unwrap();
        assert_eq!(alert(&mut viewer), AlertDescription::BadRecordMac, "{protocol:?} damaged");
        served.await_count(Family::Ends, "bad_record_mac", 3);
        assert_eq!(served.number(|n| &n.requests_total), 1, "only what could be trusted");

        let (mut viewer, _) = with_records(&served, &[]);
        viewer.stream.write_all(&[23, 3, 3, 0x7f, 0xff]).unwrap();
        assert_eq!(alert(&mut viewer), AlertDescription::RecordOverflow, "{protocol:?} oversized");
        served.await_count(Family::Ends, "oversized_record", 1);

        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

#[test]
fn an_alert_is_not_lost_because_the_viewer_goes_on_sending() {
    /// More than the server reads at once, and less than it reads in total after announcing the end of the connection.
    const BEHIND_BYTES: usize = 700_000;
    let library = Library::new();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |_| {});
        let (mut viewer, mut records) = with_records(&served, &[GET_A]);
        *records[0].last_mut().unwrap() ^= 1;
        let sent = [&records[0][..], &[0; BEHIND_BYTES]].concat();
        viewer.stream.write_all(&sent).expect("the server goes on reading");
        let mut answer = Vec::new();
        viewer.stream.read_to_end(&mut answer).expect("an orderly end, and no reset");
        let tls = viewer.tls.as_mut().unwrap();
        let mut rest = &answer[..];
        let told = loop {
            tls.read_tls(&mut rest).unwrap();
            if let Err(error) = tls.process_new_packets() {
                break error;
            }
            assert!(!rest.is_empty(), "no alert came");
        };
        assert_eq!(told, rustls::Error::AlertReceived(AlertDescription::BadRecordMac));
        served.await_count(Family::Ends, "bad_record_mac", 1);
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

#[test]
fn a_flood_of_key_updates_ends_that_connection_only() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Tls13, |_| {});
    let update = |viewer: &mut Viewer| {
        viewer.tls.as_mut().unwrap().refresh_traffic_keys().unwrap();
        viewer.flush()
    };
    let mut honest = served.viewer();
    for _ in 0..40 {
        update(&mut honest).unwrap();
        library.assert_served(&mut honest);
    }
    let mut flooding = served.viewer();
    // The server may have closed the connection before the last of them.
    while update(&mut flooding).is_ok() && served.count(Family::Ends, "key_update_flood") == 0 {}
    let _ = flooding.rest();
    served.await_count(Family::Ends, "key_update_flood", 1);
    assert!(served.number(|n| &n.key_updates_received_total) >= 40);
    assert!(served.number(|n| &n.key_updates_sent_total) >= 40);
    library.assert_served(&mut honest);
    served.stop();
}

/// The server owes new keys, TCP accepts nothing, and meanwhile the head of the next request times out: the server's response is sealed
/// with the keys that the viewer knows. How full TCP is depends on the film: after some of these films it accepts nothing more.
#[test]
fn keys_stay_in_step_when_waiting_to_change_them_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let films: Vec<_> = (10..110_u64).step_by(4).map(|kb| Content::new(kb, kb * 1000)).collect();
    for film in &films {
        film.write(&dir.path().join(format!("{}.mp4", film.size))).unwrap();
    }
    for route in [config::Route::Userspace, config::Route::Kernel] {
        if route == config::Route::Kernel && !kernel_seals() {
            continue;
        }
        let served = Served::start(dir.path(), Protocol::Tls13, |config| {
            config.route = route;
            config.timeouts.head_seconds = 0.3;
        });
        // sleeps: viewers send when the server has read what came before, and are right if it has not
        let pause = || std::thread::sleep(Duration::from_millis(100));
        let mut viewers: Vec<_> = films.iter().map(|_| served.narrow_viewer(4096)).collect();
        for (viewer, film) in viewers.iter_mut().zip(&films) {
            let get = format!("GET /{}.mp4 HTTP/1.1\r\nHost: h\r\n\r\n", film.size);
            viewer.send(get.as_bytes()).unwrap();
        }
        pause();
        viewers.iter_mut().for_each(|viewer| viewer.send(b"GET /next HT").unwrap());
        pause();
        for viewer in &mut viewers {
            viewer.tls.as_mut().unwrap().refresh_traffic_keys().unwrap();
            viewer.flush().unwrap();
        }
        let key_updates = || served.number(|n| &n.key_updates_received_total);
        await_that(
            || key_updates() > 0,
            || format!("{route:?}: no viewer has got to asking for keys"),
        );
        // If TCP accepts nothing, the head times out now; if it does, or the film has not left yet, later.
        // sleeps: the server's time for a head has to pass, and longer is as well
        std::thread::sleep(Duration::from_millis(800));
        for (viewer, film) in viewers.iter_mut().zip(&films) {
            let case = format!("{route:?}, a film of {} bytes", film.size);
            let response = viewer.response(true).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(response.status, 200, "{case}");
            film.assert_holds(0, &response.body, &case);
            match viewer.response(true) {
                Ok(response) => assert_eq!(response.status, 408, "{case}"),
                // A kernel that cannot change keys had to end the connection.
                Err(error) => {
                    assert!(served.count(Family::Ends, "keys_fixed") > 0, "{case}: {error}")
                }
            }
            let (rest, end) = viewer.rest();
            assert!(rest.is_empty() && end.is_ok(), "{case}: {end:?}");
        }
        served.stop();
    }
}

/// A viewer with hand-made records, and the sealer that makes them.
fn bare(served: &Served) -> (TcpStream, tls::Sealer) {
    let mut stream = TcpStream::connect(served.address()).unwrap();
    let (established, _) = shake_hands(&mut stream);
    (stream, established.sealer)
}

#[test]
fn a_flood_of_empty_records_ends_that_connection_only() {
    let library = Library::new();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |_| {});
        let mut honest = served.viewer();
        let (mut stream, mut sealer) = bare(&served);
        let mut wire = vec![0; 3000 * sealer.record_overhead()];
        for record in wire.chunks_mut(sealer.record_overhead()) {
            sealer.seal_in_place(record, 0).unwrap();
        }
        // The server may have closed the connection before the last of them.
        while stream.write_all(&wire).is_ok() {}
        served.await_count(Family::Ends, "empty_record_flood", 1);
        library.assert_served(&mut honest);
        served.stop();
    }
}

#[test]
fn a_viewer_that_reports_trouble_is_counted_and_its_connection_ends() {
    let library = Library::new();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |_| {});
        let mut viewer = served.viewer();
        viewer.send(GET_A).unwrap();
        // No server sends this: rustls gives up and sends an alert.
        let tls = viewer.tls.as_mut().unwrap();
        tls.read_tls(
            &mut [23, 3, 3, 0, 32].iter().chain(&[0; 32]).copied().collect::<Vec<_>>().as_slice(),
        )
        .unwrap();
        tls.process_new_packets().unwrap_err();
        viewer.flush().unwrap();
        served.await_count(Family::Ends, "peer_alert", 1);
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

#[test]
fn keys_are_changed_when_they_have_sealed_enough_where_the_version_can() {
    let library = Library::new();
    for (protocol, changes) in [(Protocol::Tls12, 0), (Protocol::Tls13, 3)] {
        let served = Served::start(library.path(), protocol, |config| {
            config.tls.key_records_max = 64;
        });
        let mut viewer = served.viewer();
        // Seven records and one for the head, each time.
        (0..40).for_each(|_| library.assert_served(&mut viewer));
        assert!(served.number(|n| &n.key_updates_sent_total) >= changes, "{protocol:?}");
        served.stop();
    }
}

#[test]
fn slow_peers_time_out_by_name() {
    let library = Library::new();
    for protocol in Protocol::ALL {
        let served = Served::start(library.path(), protocol, |config| {
            config.timeouts.head_seconds = 0.3;
        });
        // Sends half of it, then nothing more.
        assert_eq!(last_words(&served, b"GET /a.mp4 HT").status, 408);
        // Sends a little now and then: the timeout covers the whole head.
        let mut dripping = served.viewer();
        for _ in 0..50 {
            // This is in vain after the server has answered.
            let _ = dripping.send(b"G");
            // sleeps: a viewer that sends a byte now and then
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(dripping.response(true).unwrap().status, 408);
        drop(dripping);
        served.await_count(Family::Ends, "answered", 2);
        served.stop();
        let served = Served::start(library.path(), protocol, |config| {
            // Long enough for the request below to arrive in time, however busy the machine is.
            config.timeouts.idle_seconds = 3.0;
        });
        // Was served, and sends nothing more.
        let mut idle = served.viewer();
        library.assert_served(&mut idle);
        let (rest, end) = idle.rest();
        assert!(rest.is_empty());
        end.expect("an idle connection ends in an orderly way");
        served.await_count(Family::Ends, "idle_timeout", 1);
        served.stop();
    }
}

#[test]
fn a_handshake_that_takes_too_long_ends() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Tls13, |config| {
        // Long enough for the good viewer's handshake below, however busy the machine is.
        config.timeouts.handshake_seconds = 3.0;
    });
    let silent = TcpStream::connect(served.address()).unwrap();
    let mut halfway = TcpStream::connect(served.address()).unwrap();
    halfway.write_all(&client_hello_of_tls11()[..20]).unwrap();
    for mut peer in [silent, halfway] {
        // Nothing, then the end, in order or not.
        let mut rest = Vec::new();
        let _ = peer.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    served.await_count(Family::Ends, "handshake_timeout", 2);
    library.assert_served(&mut served.viewer());
    served.stop();
}

#[test]
fn peers_that_take_nothing_time_out_give_their_buffers_back_and_hold_nobody_up() {
    let library = Library::new();
    for protocol in Protocol::ALL {
        for hold_seconds in [0.0, 0.1] {
            let served = Served::start(library.path(), protocol, |config| {
                config.timeouts.send_seconds = 1.5;
                config.timeouts.hold_seconds = hold_seconds;
                config.limits.buffer_bytes_max = 8 * config.net.window_bytes_max;
            });
            // More of them than there are buffers.
            let stalled: Vec<_> = (0..20)
                .map(|_| {
                    let mut viewer = served.narrow_viewer(4096);
                    viewer.send(GET_LONG).unwrap();
                    viewer
                })
                .collect();
            let requests = || served.number(|n| &n.requests_total);
            await_that(|| requests() >= 20, || format!("{} of 20 requests came", requests()));
            for _ in 0..20 {
                library.assert_served(&mut served.viewer());
            }
            served.await_count(Family::Ends, "send_timeout", 20);
            served.await_buffers_back();
            if protocol != Protocol::Plain {
                assert!(served.number(|n| &n.take_backs_total) > 0);
            }
            drop(stalled);
            served.stop();
        }
    }
}

#[test]
fn viewers_who_leave_in_the_middle_leave_nothing_behind() {
    let library = Library::new();
    for protocol in Protocol::ALL {
        let served = Served::start(library.path(), protocol, |_| {});
        for number in 1..=20 {
            let mut viewer = served.narrow_viewer(20_000);
            viewer.send(GET_LONG).unwrap();
            let (taken, result) = viewer.body(number * 1000);
            assert!(result.is_ok() && taken.len() == number * 1000);
            if number % 2 == 0 { viewer.reset() } else { drop(viewer) }
        }
        served.await_count(Family::Ends, "peer_reset", 20);
        served.await_buffers_back();
        await_that(|| served.number(|n| &n.connections) == 0, || "a place is still taken".into());
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

#[test]
fn a_viewer_who_has_said_all_still_gets_its_answer() {
    let library = Library::new();
    for protocol in Protocol::ALL {
        let served = Served::start(library.path(), protocol, |_| {});
        for number in 1..=5 {
            let mut viewer = served.viewer();
            if let Some(tls) = &mut viewer.tls {
                // Request and goodbye arrive together.
                tls.writer().write_all(GET_A).unwrap();
            } else {
                viewer.send(GET_A).unwrap();
            }
            viewer.finish();
            let response = viewer.response(true).unwrap();
            assert_eq!(response.status, 200);
            library.a.assert_holds(0, &response.body, "a.mp4");
            let (rest, end) = viewer.rest();
            assert!(rest.is_empty());
            end.unwrap();
            served.await_count(Family::Ends, "peer_closed", number);
        }
        served.stop();
    }
}

/// Whether the server closed the connection without sending anything.
fn is_turned_away(address: std::net::SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn connections_over_the_limits_are_turned_away_and_places_come_back() {
    let library = Library::new();
    for (label, connections_max, per_address_max) in [("worker_full", 2, 0), ("address_full", 9, 2)]
    {
        let served = Served::start(library.path(), Protocol::Tls13, |config| {
            config.limits.connections_max = connections_max;
            config.limits.connections_per_address_max = Some(per_address_max);
        });
        let (mut one, mut two) = (served.viewer(), served.viewer());
        for count in 1..=3 {
            assert!(is_turned_away(served.address()));
            served.await_count(Family::ConnectionsRefused, label, count);
        }
        library.assert_served(&mut one);
        library.assert_served(&mut two);
        two.finish();
        served.await_count(Family::Ends, "peer_closed", 1);
        drop(two);
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}

#[test]
fn random_bytes_and_cut_heads_never_hurt_the_server() {
    use fullbore_tests::Random;
    let seed = Random::seed_of_run();
    println!("FULLBORE_SEED={seed}");
    let mut random = Random::new(seed);
    let library = Library::new();
    for protocol in [Protocol::Plain, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |config| {
            config.timeouts.head_seconds = 0.5;
        });
        for _ in 0..150 {
            let mut peer = Viewer::connect(served.address(), Protocol::Plain, None);
            let mut words = match random.within(0..3) {
                0 => (0..random.within(1..3000)).map(|_| random.number() as u8).collect(),
                1 => client_hello_of_tls11(),
                _ => GET_A.to_vec(),
            };
            for _ in 0..random.within(1..4) {
                let place = random.within(0..words.len() as u64) as usize;
                words[place] = random.number() as u8;
            }
            // The server may close the connection while it is still receiving.
            let _ = peer.send(&words);
            if random.one_in(2) {
                peer.reset()
            }
        }
        library.assert_served(&mut served.viewer());
        served.stop();
    }
}
