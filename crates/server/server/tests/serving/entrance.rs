//! Access: proxies that announce their clients' addresses, address lists, and health checks.
//!
//! Clients bind addresses of 127.0.0.0/8, which all are this machine's: a proxy and a stranger differ only in their address.

use crate::support::content::Content;
use crate::support::library::Library;
use crate::support::served::{Served, await_that};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::Config;
use fullbore_server::Server;
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use telemetry::Family;

const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const STRANGER: Ipv4Addr = Ipv4Addr::LOCALHOST;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

fn behind_proxy(config: &mut Config) {
    config.proxy_protocol.from = vec![PROXY.to_string()];
}

/// A connection from `source` to the server.
fn connect_from(source: Ipv4Addr, served: &Served) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&served.address().into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A header of TCP over IPv4, with `more` behind the addresses.
fn header_of(viewer: Ipv4Addr, more: &[u8]) -> Vec<u8> {
    let length = u16::try_from(12 + more.len()).unwrap().to_be_bytes();
    let ports = [0xc3, 0x50, 1, 0xbb];
    let addresses = [viewer.octets(), [198, 51, 100, 1], ports].concat();
    [&SIGNATURE[..], &[0x21, 0x11], &length, &addresses, more].concat()
}

fn local_header() -> Vec<u8> {
    [&SIGNATURE[..], &[0x20, 0, 0, 0]].concat()
}

/// A connection through the proxy that begins with `header`.
fn through_proxy(served: &Served, header: &[u8]) -> TcpStream {
    let mut stream = connect_from(PROXY, served);
    stream.write_all(header).unwrap();
    stream
}

/// Whether the server closes the connection without a byte.
fn is_closed(mut stream: TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

/// The addresses that the access log has for the responses so far.
fn logged(log: &Path, count: usize) -> Vec<String> {
    let read = || -> Vec<String> {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines = text.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["peer"].as_str().unwrap().to_owned()
        });
        lines.collect()
    };
    await_that(|| read().len() >= count, || format!("{:?} lines of {count}", read()));
    read()
}

#[test]
fn a_viewer_behind_a_proxy_is_served_and_logged_by_the_address_in_the_header() {
    let library = Library::new();
    let folder = tempfile::tempdir().unwrap();
    for (number, protocol) in Protocol::ALL.into_iter().enumerate() {
        let log = folder.path().join(format!("{number}.log"));
        let served = Served::start(library.path(), protocol, |config| {
            behind_proxy(config);
            config.access_log = Some(log.clone());
        });
        let tlv = [&[2, 0, 1, b'h'][..], &[0xe0, 3, 0], &[7; 768]].concat();
        let viewer = through_proxy(&served, &header_of(Ipv4Addr::new(192, 0, 2, 7), &tlv));
        let mut viewer = Viewer::over(viewer, protocol).unwrap();
        library.assert_served(&mut viewer);
        library.assert_served(&mut viewer);
        let mut local = Viewer::over(through_proxy(&served, &local_header()), protocol).unwrap();
        library.assert_served(&mut local);
        let expected = ["192.0.2.7", "192.0.2.7", "127.0.0.9"];
        assert_eq!(logged(&log, 3), expected, "{protocol:?}");
        served.stop();
    }
}

#[test]
fn a_header_may_come_byte_by_byte_or_with_what_follows() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, behind_proxy);
    let header = header_of(Ipv4Addr::new(192, 0, 2, 7), b"\x04\0\0");
    let request = b"GET /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut together = connect_from(PROXY, &served);
    together.write_all(&[&header[..], request].concat()).unwrap();
    let mut pieces = connect_from(PROXY, &served);
    for byte in header.iter().chain(request) {
        pieces.write_all(&[*byte]).unwrap();
    }
    for stream in [together, pieces] {
        let response: Response =
            Viewer::over(stream, Protocol::Plain).unwrap().response(true).unwrap();
        assert_eq!(response.status, 200);
        library.a.assert_holds(0, &response.body, "a.mp4");
    }
    served.stop();
}

#[test]
fn a_proxys_connection_without_a_good_header_is_closed_and_counted() {
    let library = Library::new();
    for protocol in [Protocol::Plain, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, behind_proxy);
        let good = header_of(Ipv4Addr::new(192, 0, 2, 7), &[]);
        let with = |at: usize, byte: u8| {
            let mut header = good.clone();
            header[at] = byte;
            header
        };
        for (label, bytes) in [
            ("proxy_signature", b"GET /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()),
            ("proxy_signature", b"PROXY TCP4 192.0.2.7 127.0.0.1 5 6\r\n".to_vec()),
            ("proxy_version", with(12, 0x11)),
            ("proxy_command", with(12, 0x2f)),
            ("proxy_family", with(13, 0x12)),
            ("proxy_too_short", with(15, 11)),
            ("proxy_too_long", with(14, 0xff)),
        ] {
            let before = served.count(Family::ConnectionsRefused, label);
            assert!(is_closed(through_proxy(&served, &bytes)), "{label}");
            served.await_count(Family::ConnectionsRefused, label, before + 1);
        }
        let cut_off = through_proxy(&served, &good[..20]);
        cut_off.shutdown(Shutdown::Write).unwrap();
        assert!(is_closed(cut_off));
        served.await_count(Family::ConnectionsRefused, "proxy_cut_off", 1);
        // A proxy that only checks whether the port is open is no fault.
        drop(connect_from(PROXY, &served));
        served.await_count(Family::Ends, "peer_closed", 1);
        assert_eq!(served.total(Family::ConnectionsRefused), 8);
        let mut viewer = Viewer::over(through_proxy(&served, &good), protocol).unwrap();
        library.assert_served(&mut viewer);
        served.stop();
    }
}

#[test]
fn a_proxy_that_says_nothing_has_as_long_as_a_requests_head() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Tls13, |config| {
        behind_proxy(config);
        // Long enough for the proxy to send a part of a header before the server closes, however busy the machine is.
        config.timeouts.head_seconds = 1.5;
    });
    let good = header_of(Ipv4Addr::new(192, 0, 2, 7), &[]);
    for (number, bytes) in [&good[..0], &good[..20]].into_iter().enumerate() {
        assert!(is_closed(through_proxy(&served, bytes)));
        served.await_count(Family::ConnectionsRefused, "proxy_timeout", number as u64 + 1);
    }
    served.stop();
}

#[test]
fn a_header_from_anybody_else_is_garbage_like_any_other() {
    let library = Library::new();
    let header = header_of(Ipv4Addr::new(192, 0, 2, 7), &[]);
    let served = Served::start(library.path(), Protocol::Plain, behind_proxy);
    let mut stream = connect_from(STRANGER, &served);
    stream.write_all(&header).unwrap();
    let response = Viewer::over(stream, Protocol::Plain).unwrap().response(true).unwrap();
    assert_eq!(response.status, 400);
    library.assert_served(&mut served.viewer());
    assert_eq!(served.total(Family::ConnectionsRefused), 0);
    served.stop();
    let served = Served::start(library.path(), Protocol::Tls13, behind_proxy);
    let mut stream = connect_from(STRANGER, &served);
    stream.write_all(&header).unwrap();
    let mut alert = [0; 7];
    stream.read_exact(&mut alert).unwrap();
    assert_eq!((alert[0], alert[5]), (21, 2), "a fatal alert");
    library.assert_served(&mut served.viewer());
    served.stop();
}

#[test]
fn limits_per_address_are_the_viewers_behind_the_proxy() {
    let library = Library::new();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        behind_proxy(config);
        config.limits.connections_per_address_max = Some(2);
    });
    let connect = |last: u8| {
        let header = header_of(Ipv4Addr::new(192, 0, 2, last), &[]);
        through_proxy(&served, &header)
    };
    let mut watching: Vec<Viewer> = Vec::new();
    for last in [7, 7, 8, 8, 9] {
        let mut viewer = Viewer::over(connect(last), Protocol::Plain).unwrap();
        library.assert_served(&mut viewer);
        watching.push(viewer);
    }
    assert!(is_closed(connect(7)));
    served.await_count(Family::ConnectionsRefused, "address_full", 1);
    drop(watching.remove(0));
    served.await_count(Family::Ends, "peer_closed", 1);
    library.assert_served(&mut Viewer::over(connect(7), Protocol::Plain).unwrap());
    served.stop();
}

#[test]
fn lists_judge_the_viewer_and_not_the_proxy() {
    let library = Library::new();
    let folder = tempfile::tempdir().unwrap();
    let [allow, deny] = ["allow", "deny"].map(|name| folder.path().join(name));
    std::fs::write(&allow, "192.0.2.0/24 # viewers\n127.0.0.1\n").unwrap();
    std::fs::write(&deny, "192.0.2.128/25\n").unwrap();
    for protocol in [Protocol::Plain, Protocol::Tls13] {
        let served = Served::start(library.path(), protocol, |config| {
            behind_proxy(config);
            (config.access.allow, config.access.deny) = (vec![allow.clone()], vec![deny.clone()]);
        });
        assert!(served.describe().contains("2 allowed, 1 denied"), "{}", served.describe());
        let of = |last: [u8; 4]| through_proxy(&served, &header_of(last.into(), &[]));
        library.assert_served(&mut Viewer::over(of([192, 0, 2, 7]), protocol).unwrap());
        // The proxy is in neither list, and its own checks are answered.
        let local = through_proxy(&served, &local_header());
        library.assert_served(&mut Viewer::over(local, protocol).unwrap());
        library.assert_served(&mut served.viewer());
        assert!(is_closed(of([192, 0, 2, 200])));
        served.await_count(Family::ConnectionsRefused, "denied", 1);
        assert!(is_closed(of([198, 51, 100, 7])));
        served.await_count(Family::ConnectionsRefused, "not_allowed", 1);
        assert!(is_closed(connect_from(Ipv4Addr::new(127, 0, 0, 2), &served)));
        served.await_count(Family::ConnectionsRefused, "not_allowed", 2);
        served.stop();
    }
}

#[test]
fn a_list_that_cannot_be_used_is_named_at_the_start_and_by_check() {
    let library = Library::new();
    let folder = tempfile::tempdir().unwrap();
    let deny = folder.path().join("deny");
    std::fs::write(&deny, "192.0.2.0/24\n192.0.2.0/99\n").unwrap();
    let mut config = Config {
        library: vec![library.path().into()],
        state: folder.path().into(),
        sandbox: false,
        ..Config::default()
    };
    config.tls.enabled = false;
    config.access.deny = vec![deny.clone()];
    for said in [
        Server::check(&config).err().map(|error| error.to_string()),
        Server::start(config.clone()).err().map(|error| error.to_string()),
    ] {
        let said = said.expect("it has to be refused");
        assert!(said.contains(deny.to_str().unwrap()) && said.contains("line 2"), "{said}");
    }
    std::fs::write(&deny, "192.0.2.0/24\n").unwrap();
    Server::check(&config).unwrap();
}

#[test]
fn healthz_is_answered_on_the_viewers_port_if_asked_for() {
    let room = tempfile::tempdir().unwrap();
    let (folder, key) = (room.path().join("library"), room.path().join("url.key"));
    std::fs::create_dir(&folder).unwrap();
    Content::new(1, 1000).write(&folder.join("a.mp4")).unwrap();
    token::make_key_file(&key).unwrap();
    let start = |healthz: bool| {
        Served::start(&folder, Protocol::Tls13, |config| {
            config.http.healthz = healthz;
            config.signing.keys = vec![key.clone()];
        })
    };
    let quiet = start(false);
    assert_eq!(quiet.viewer().ask("/healthz").status, 403);
    quiet.stop();
    let served = start(true);
    let mut viewer = served.viewer();
    let well = viewer.ask("/healthz");
    assert_eq!((well.status, &well.body[..]), (200, &b"ok\n"[..]));
    assert_eq!(well.field("Cache-Control"), Some("no-store"));
    assert_eq!(viewer.ask("/a.mp4").status, 403, "a film needs its token");
    std::fs::rename(&folder, room.path().join("away")).unwrap();
    // A refusal of this kind ends the connection, so each question has its own.
    let health = || served.viewer().ask("/healthz");
    await_that(|| health().status == 503, || "the library is not lost".into());
    assert!(!String::from_utf8_lossy(&health().body).contains(folder.to_str().unwrap()));
    assert!(served.count(Family::Refusals, "unhealthy") > 0);
    std::fs::rename(room.path().join("away"), &folder).unwrap();
    await_that(|| health().status == 200, || "the library is still lost".into());
    served.stop();
}
