//! Address lists change while the server runs: on request, and when their files are replaced. An unusable list changes nothing.
//!
//! Signals and the sandbox are a process's. So this test program starts itself again as the server, with [`ROOM`] set to its folder.

use crate::support::content::Content;
use crate::support::viewer::{Protocol, Viewer};
use config::Config;
use fullbore_server::{Server, signals};
use fullbore_tests::{Plain, Said, Signal, eventually};
use rustix::process::{Pid, kill_process};
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ROOM: &str = "FULLBORE_RELOADED_LISTS_ROOM";
const TEST: &str =
    "reloaded_lists::lists_change_on_request_and_by_themselves_and_a_bad_line_keeps_them";

/// Serves the room's library, sandboxed, until a signal stops it.
fn serve(room: &Path) {
    let signals = signals::signals().unwrap();
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut config = Config {
        library: vec![room.join("library")],
        listen: any_port,
        admin: any_port,
        state: room.join("state"),
        workers: 2,
        ..Config::default()
    };
    config.tls.enabled = false;
    config.access.deny = vec![room.join("lists/deny")];
    config.proxy_protocol.from = vec!["127.0.0.9".into()];
    let server = Server::start(config).unwrap();
    println!("admin {}", server.admin_address());
    println!("ready {}", server.address());
    server.run_until_signalled(signals).unwrap();
}

struct Running {
    child: Child,
    said: Said,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Running {
    fn start(room: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
            .env(ROOM, room)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Said::listen(child.stdout.take().unwrap());
        let said = Said::listen(child.stderr.take().unwrap());
        let ready = eventually("the server to be ready", || {
            assert!(!stdout.has_ended(), "it ended: {:?} {:?}", stdout.lines(), said.lines());
            stdout.line_with("ready ")
        });
        let address = ready.split("ready ").nth(1).unwrap().parse().unwrap();
        let admin = stdout.line_with("admin ").unwrap();
        let admin = admin.split("admin ").nth(1).unwrap().parse().unwrap();
        Self { child, said, address, admin }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn connect_from(&self, last: u8) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
        socket.connect(&self.address.into()).unwrap();
        TcpStream::from(socket)
    }

    /// A viewer at 127.0.0.`last`, if it is served.
    fn viewer(&self, last: u8) -> Option<Viewer> {
        let mut viewer = Viewer::over(self.connect_from(last), Protocol::Plain).unwrap();
        is_served(&mut viewer).then_some(viewer)
    }

    /// A sample of `/metrics`.
    fn metric(&self, name: &str) -> u64 {
        let page = Plain::connect(self.admin).fetch("/metrics");
        let text = String::from_utf8(page.body).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
    }

    fn serves(&self, last: u8) -> bool {
        self.viewer(last).is_some()
    }

    fn wait_for(&self, line: &str) {
        eventually(&format!("{line:?} in {:?}", self.said.lines()), || self.said.line_with(line));
    }
}

fn is_served(viewer: &mut Viewer) -> bool {
    // A connection that was refused may be reset before or after the request has left.
    let sent = viewer.send(b"GET /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n");
    sent.is_ok() && viewer.response(true).is_ok_and(|response| response.status == 200)
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces the list as an operator should: by renaming.
fn replace(room: &Path, text: &str) {
    let new = room.join("lists/new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, room.join("lists/deny")).unwrap();
}

#[test]
fn lists_change_on_request_and_by_themselves_and_a_bad_line_keeps_them() {
    if let Some(room) = std::env::var_os(ROOM) {
        return serve(Path::new(&room));
    }
    let room = tempfile::tempdir().unwrap();
    let room = room.path();
    for folder in ["library", "lists", "state"] {
        std::fs::create_dir(room.join(folder)).unwrap();
    }
    Content::new(1, 1000).write(&room.join("library/a.mp4")).unwrap();
    replace(room, "127.0.0.2\n");
    let mut server = Running::start(room);
    assert!(!server.serves(2));
    let mut watching = server.viewer(3).expect("it is not denied yet");

    replace(room, "127.0.0.3\n127.0.0.5\n");
    server.signal(Signal::HUP);
    server.wait_for(
        "lists of addresses reloaded on request: ranges of addresses: all allowed, 2 denied",
    );
    // Each worker has them a moment later.
    eventually("3 to be denied", || (0..8).all(|_| !server.serves(3)).then_some(()));
    assert!(server.serves(2));
    assert!(is_served(&mut watching), "a connected viewer stays connected");

    replace(room, "127.0.0.2\n127.0.0.2/8\n");
    server.signal(Signal::HUP);
    server.wait_for("line 2: \"127.0.0.2/8\" is not a prefix");
    server.wait_for("the lists already loaded stay in use");
    assert!(server.serves(2) && !server.serves(3));
    // Twice if the server looked for changes between the replacement and the request, which repeats every complaint.
    let failed = server.metric("fullbore_reloads_failed_total{kind=\"address_lists\"}");
    assert!((1..=2).contains(&failed), "{failed}");
    assert_eq!(server.metric("fullbore_reload_failing{kind=\"address_lists\"}"), 1);

    replace(room, "127.0.0.2\n");
    server.wait_for(
        "reloaded because they changed on disk: ranges of addresses: all allowed, 1 denied",
    );
    eventually("2 to be denied", || (0..8).all(|_| !server.serves(2)).then_some(()));
    assert!(server.serves(3));
    assert_eq!(server.metric("fullbore_reload_failing{kind=\"address_lists\"}"), 0);
    drop(watching);

    let mut proxy = server.connect_from(9);
    proxy.write_all(b"GET /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    server.wait_for("a connection from 127.0.0.9:");
    server.wait_for("but it does not begin with a header of version 2 (proxy_signature); have");

    server.signal(Signal::TERM);
    assert!(server.child.wait().unwrap().success(), "{:?}", server.said.lines());
}
