//! tshark, an independent program, checks the segments that arrive: none is malformed, none has a wrong checksum, none lies
//! outside the window that the client announced, and none acknowledges data that was not sent.

use crate::support::device::Device;
use crate::support::far::Far;
use crate::support::served::{PORT, Room, Server};
use fullbore_tests::{Namespace, PATIENCE, tool};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The fields of each frame.
const FIELDS: [&str; 9] = [
    "frame.number",
    "tcp.stream",
    "tcp.srcport",
    "tcp.seq",
    "tcp.len",
    "tcp.ack",
    "tcp.window_size",
    "tcp.flags.syn",
    "tcp.flags.ack",
];

/// A running capture.
struct Capture {
    tshark: Child,
    file: PathBuf,
}

impl Capture {
    fn start(space: &Namespace, interface: &str, file: PathBuf) -> Self {
        // An old file would be mistaken for this one's.
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new("tshark");
        command.args(["-i", interface, "-s", "0", "-B", "64", "-q", "-w"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tshark = space.inside(move || command.spawn()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        // It says that it captures before it does, so this sends a probe.
        while read(&file, false, "udp.dstport == 9", &["frame.number"]).is_empty() {
            assert!(tshark.try_wait().unwrap().is_none(), "tshark has ended");
            assert!(Instant::now() < deadline, "tshark does not capture");
            space.inside(|| {
                let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
                let _ = probe.send_to(&[0], "198.51.100.1:9");
            });
            std::thread::sleep(Duration::from_millis(100));
        }
        Self { tshark, file }
    }

    /// Ends it once it has written the frames of `streams` connections to their end.
    fn end(mut self, streams: usize) -> PathBuf {
        let deadline = Instant::now() + PATIENCE;
        while ended_streams(&self.file) < streams {
            assert!(Instant::now() < deadline, "the capture does not end");
            std::thread::sleep(Duration::from_millis(200));
        }
        kill_process(Pid::from_child(&self.tshark), Signal::INT).unwrap();
        self.tshark.wait().unwrap();
        self.file.clone()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.tshark.kill();
        let _ = self.tshark.wait();
    }
}

/// Connections of which the server's FIN is in the file.
fn ended_streams(file: &Path) -> usize {
    let filter = format!("tcp.srcport == {PORT} && tcp.flags.fin == 1");
    let lines = read(file, false, &filter, &["tcp.stream"]);
    lines.into_iter().map(|line| line[0].clone()).collect::<std::collections::HashSet<_>>().len()
}

/// Fields of the frames that a filter lets pass; it verifies checksums.
fn read(file: &Path, has_tls: bool, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args([
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
    ]);
    command.args(["-o", "tcp.reassemble_out_of_order:TRUE", "-Y", filter, "-T", "fields"]);
    // Without TLS the film is noise to every dissector, and some see their own protocol in it: echo (RFC 862) accepts anything.
    let kind = if has_tls { "tls" } else { "echo" };
    command.args(["-d", &format!("tcp.port=={PORT},{kind}")]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Asserts that no frame from the server is wrong. The client's own frames leave with unfinished checksums.
fn assert_faultless(file: &Path, has_tls: bool) {
    // 1 << 23: the severity of errors. ACKed unseen segment: an ACK for what had not been sent.
    let faulty = format!(
        "tcp.srcport == {PORT} && (_ws.malformed || _ws.expert.severity == 8388608 || tcp.checksum.status == 0 \
         || ip.checksum.status == 0 || tcp.analysis.ack_lost_segment)"
    );
    let found =
        read(file, has_tls, &faulty, &["frame.number", "_ws.expert.message", "_ws.col.Info"]);
    assert!(found.is_empty(), "{} frames, the first: {:?}", found.len(), found[0]);
    let good = read(
        file,
        has_tls,
        &format!("tcp.srcport == {PORT} && tcp.checksum.status == 1"),
        &["frame.number"],
    );
    assert!(good.len() > 100, "checksums were verified of {} frames only", good.len());
}

/// Checks against the client's own segments, in the order in which it sent and received.
fn assert_within_window(file: &Path) {
    let (mut edges, mut checked) = (HashMap::<String, u64>::new(), 0);
    for frame in read(file, false, &format!("tcp.port == {PORT}"), &FIELDS) {
        let number = |field: usize| frame[field].parse::<u64>().unwrap_or(0);
        let stream = frame[1].clone();
        if number(2) != u64::from(PORT) {
            let edge = edges.entry(stream).or_default();
            *edge = (*edge).max(number(5) + number(6));
        } else if frame[7] != "1" && frame[7] != "True" && number(4) > 0 {
            // Relative to its first, so 1 is the first byte of all.
            let (last, edge) = (number(3) + number(4), edges.get(&stream).copied().unwrap_or(0));
            assert!(last <= edge, "frame {} goes to {last}, the window to {edge}", frame[0]);
            checked += 1;
        }
    }
    assert!(checked > 400, "{checked} segments only");
}

#[test]
fn tshark_finds_nothing_malformed_and_nothing_outside_the_window_of_a_tap() {
    captured(Device::Tap);
}

#[test]
fn tshark_finds_nothing_malformed_and_nothing_outside_the_window_of_af_xdp() {
    captured(Device::Xdp);
}

/// Fetches films through networks of all kinds, and has tshark check all segments.
fn captured(device: Device) {
    if !tool::are_here(&[("curl", "curl")]) || !tool::are_here(&[("tshark", "tshark")]) {
        return;
    }
    for (mtu_bytes, settings) in [
        (1500, "--delay 2ms"),
        (1500, "--delay 5ms --loss 2% --reorder 1% --duplicate 1% --seed 11"),
        (1280, "--delay 5ms --loss 1% --rate 50Mbit --seed 12"),
        (9000, "--delay 5ms --loss 1% --reorder 1% --seed 13"),
    ] {
        if !device.takes(mtu_bytes) {
            continue;
        }
        let Some(far) = Far::new(mtu_bytes, settings) else { return };
        let mut room = Room::new(2_000_001);
        room.device = device.config(mtu_bytes);
        for tls in ["on", "off"] {
            let server = Server::start(&far.server, &room, &["--tls", tls], "");
            let capture = Capture::start(&far.client, "eth", room.path("capture.pcapng"));
            let urls = device.hosts().map(|host| server.url_at(&host));
            for url in &urls {
                let get =
                    ["--silent", "--show-error", "--insecure", "--globoff", "--max-time", "600"];
                let got = far.client.succeed("curl", &[&get[..], &[url]].concat());
                assert!(got == room.film, "{url}: {} bytes", got.len());
            }
            let file = capture.end(urls.len());
            assert_faultless(&file, tls == "on");
            assert_within_window(&file);
            server.end();
        }
    }
}
