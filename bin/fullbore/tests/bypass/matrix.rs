//! Clients, versions of TLS and of IP, packet sizes and bad networks, in pairs with each other, on both devices.
//!
//! The table does not have all combinations, but every two values that can occur together do so in some row. All rows of a
//! device run at once, since they wait more than they work. A failing row prints its own text, which with its number is all
//! that is needed to run it again.

use crate::support::crowd::UNHURRIED;
use crate::support::device::Device;
use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::{Namespace, program, tool};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Loss and reorder in percent, the round trip in ms, the MTU in bytes; `tls` as in the configuration.
const TABLE: &str = "
    loss  reorder  rtt  mtu   client   tls  ip
    0     0        20   1500  curl     1.2  4
    0     0        20   1280  ffmpeg   off  4
    0     0        200  9000  load     1.3  6
    0     5        1    1280  openssl  1.3  4
    1     0        1    1500  ffmpeg   1.3  6
    1     0        20   1280  load     1.2  6
    1     5        1    9000  curl     off  6
    1     5        1    9000  ffmpeg   1.2  6
    1     5        200  1500  openssl  1.2  4
    5     0        1    1500  load     off  4
    5     0        20   9000  openssl  1.3  6
    5     0        200  9000  ffmpeg   off  4
    5     5        20   1280  load     1.2  6
    5     5        200  1280  curl     1.3  4
";

/// All values, column by column.
const VALUES: [(&str, &[&str]); COLUMNS] = [
    ("loss", &["0", "1", "5"]),
    ("reorder", &["0", "5"]),
    ("rtt", &["1", "20", "200"]),
    ("mtu", &["1280", "1500", "9000"]),
    ("client", &["curl", "openssl", "ffmpeg", "load"]),
    ("tls", &["1.2", "1.3", "off"]),
    ("ip", &["4", "6"]),
];
const COLUMNS: usize = 7;

/// How long a client may take, in seconds. Fourteen of them and their servers share the machine with other tests.
const CLIENT_SECONDS: &str = "900";

/// How long `fullbore load` requests films, until it has a whole one.
const LOAD_TIMES: [&str; 4] = ["10s", "40s", "160s", "640s"];

/// The rows of the table, as they are written.
fn rows() -> Vec<[&'static str; COLUMNS]> {
    let lines = TABLE.trim().lines().skip(1);
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().try_into().unwrap()).collect()
}

#[test]
fn every_two_values_meet_in_the_table() {
    assert!(
        TABLE.trim().lines().next().unwrap().split_whitespace().eq(VALUES.map(|(name, _)| name))
    );
    let mut missing = BTreeSet::new();
    for (first, (_, ones)) in VALUES.iter().enumerate() {
        for (second, (_, others)) in VALUES.iter().enumerate().skip(first + 1) {
            for one in *ones {
                missing.extend(others.iter().map(|other| (first, *one, second, *other)));
            }
        }
    }
    // It knows TLS only.
    missing.remove(&(4, "openssl", 5, "off"));
    for row in rows() {
        for (column, value) in row.iter().enumerate() {
            let (name, values) = VALUES[column];
            assert!(values.contains(value), "{name} {value} is not among the values");
        }
        missing.retain(|(first, one, second, other)| row[*first] != *one || row[*second] != *other);
    }
    assert!(missing.is_empty(), "these never meet: {missing:?}");
}

#[test]
fn over_a_tap_every_client_gets_every_byte_through_every_network() {
    all_rows(Device::Tap);
}

#[test]
fn over_af_xdp_every_client_gets_every_byte_through_every_network() {
    all_rows(Device::Xdp);
}

/// Runs all rows, and fails with the list of those that did.
fn all_rows(device: Device) {
    let tools =
        [("curl", "curl"), ("openssl", "openssl"), ("ffmpeg", "ffmpeg"), ("ip", "iproute2")];
    if !tool::are_here(&tools) || !fullbore_tests::namespace::can_be_made() {
        return;
    }
    let start = |(number, row): (usize, [&'static str; COLUMNS])| {
        let name = format!("{device:?}, row {number} ({})", row.join(" "));
        let thread = std::thread::Builder::new().name(name.clone());
        (name, thread.spawn(move || Cell::new(device, number, row).run()).unwrap())
    };
    let running: Vec<_> = (1..).zip(rows()).map(start).collect();
    let (mut failed, mut again_bytes) = (Vec::new(), 0);
    for (name, thread) in running {
        match thread.join() {
            Ok(bytes) => again_bytes += bytes,
            Err(_) => failed.push(name),
        }
    }
    assert!(failed.is_empty(), "failed, each with its message above: {failed:#?}");
    // Otherwise the networks were not bad enough.
    assert!(again_bytes > 100_000, "only {again_bytes} bytes were sent again");
}

/// A row, on a device.
struct Cell {
    device: Device,
    /// The number of the row, and the seed of its network.
    number: usize,
    loss: &'static str,
    reorder: &'static str,
    rtt_ms: u32,
    mtu_bytes: u32,
    client: &'static str,
    tls: &'static str,
    is_v6: bool,
}

impl Cell {
    fn new(device: Device, number: usize, row: [&'static str; COLUMNS]) -> Self {
        let [loss, reorder, rtt, mtu, client, tls, ip] = row;
        let (rtt_ms, mtu_bytes) = (rtt.parse().unwrap(), mtu.parse().unwrap());
        Self { device, number, loss, reorder, rtt_ms, mtu_bytes, client, tls, is_v6: ip == "6" }
    }

    /// The settings of the middlebox.
    fn network(&self) -> String {
        let way_us = self.rtt_ms * 500;
        let Self { number, loss, reorder, .. } = self;
        format!("--delay {way_us}us --loss {loss}% --reorder {reorder}% --seed {number}")
    }

    /// The number of bytes that a window of a few segments can transfer in some seconds.
    fn film_bytes(&self) -> usize {
        if self.rtt_ms == 200 || self.loss == "5" { 400_001 } else { 3_000_001 }
    }

    /// Runs the row. Returns how many bytes were retransmitted.
    fn run(&self) -> u64 {
        if !self.device.takes(self.mtu_bytes) {
            return 0;
        }
        let Some(far) = Far::new(self.mtu_bytes, &self.network()) else { return 0 };
        let mut room = Room::new(self.film_bytes());
        room.device = self.device.config(self.mtu_bytes);
        let (arguments, config) = match self.tls {
            "off" => (&["--tls", "off"][..], UNHURRIED.to_owned()),
            version => (&[][..], format!("{UNHURRIED}[tls]\nversions = \"{version}\"\n")),
        };
        if self.client == "ffmpeg" {
            make_clip(&far.server, &room);
        }
        let server = Server::start(&far.server, &room, arguments, &config);
        let url = server.url_at(&self.device.hosts()[usize::from(self.is_v6)]);
        match self.client {
            "curl" => curl(&far.client, &room, &url),
            "openssl" => openssl(&far.client, &room, &url),
            "ffmpeg" => ffmpeg(&far.client, &room, &url.replace("film", "clip")),
            _ => load(&far.client, &room, &url),
        }
        assert!(server.number("connections_by_route_total{route=\"bypass\"}") > 0);
        // It is published once a second.
        server.wait_for_news();
        let again_bytes = server.number("tcp_payload_bytes_total{kind=\"retransmitted\"}");
        server.end();
        again_bytes
    }
}

fn curl(space: &Arc<Namespace>, room: &Room, url: &str) {
    let get = ["--silent", "--show-error", "--fail", "--insecure", "--globoff", "--max-time"];
    let got = space.succeed("curl", &[&get[..], &[CLIENT_SECONDS, url]].concat());
    assert!(got == room.film, "curl got {} bytes", got.len());
}

fn openssl(space: &Arc<Namespace>, room: &Room, url: &str) {
    let authority = url.trim_start_matches("https://").split('/').next().unwrap();
    let script = format!(
        "printf 'GET /film.mp4 HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n' \
         | timeout {CLIENT_SECONDS} openssl s_client -quiet -ign_eof -connect '{authority}' 2>/dev/null"
    );
    let got = space.succeed("sh", &["-c", &script]);
    let head_bytes =
        got.windows(4).position(|four| four == b"\r\n\r\n").expect("there is a head") + 4;
    assert!(got[head_bytes..] == room.film, "openssl got {} bytes", got.len() - head_bytes);
}

/// A film for players, with its index at the front.
fn make_clip(space: &Arc<Namespace>, room: &Room) {
    let make = "-loglevel error -f lavfi -i testsrc2=size=320x180:rate=25:duration=4 \
                -c:v mpeg4 -b:v 400k -movflags +faststart";
    let clip = room.path("library/clip.mp4");
    let arguments: Vec<_> = make.split_whitespace().chain(clip.to_str()).collect();
    space.succeed("ffmpeg", &arguments);
}

/// A digest of each packet of the film, and of the same in the file.
fn ffmpeg(space: &Arc<Namespace>, room: &Room, url: &str) {
    let packets = |before: &[&str], input: &str| {
        let hash = ["-i", input, "-map", "0", "-c", "copy", "-f", "framehash", "-"];
        let common = [CLIENT_SECONDS, "ffmpeg", "-nostdin", "-loglevel", "error"];
        space.succeed("timeout", &[&common[..], before, &hash].concat())
    };
    let clip = room.path("library/clip.mp4");
    let before = if url.starts_with("https") { &["-tls_verify", "0"][..] } else { &[] };
    let (got, wanted) = (packets(before, url), packets(&[], clip.to_str().unwrap()));
    assert!(wanted.len() > 1000 && got == wanted, "{}", String::from_utf8_lossy(&got));
}

/// Each response is compared with the file.
fn load(space: &Arc<Namespace>, room: &Room, url: &str) {
    let (library, json) = (room.path("library"), room.path("load.json"));
    let common = "load --insecure -c 1 --ramp 0s --pattern whole --patience 1h --verify 1";
    for time in LOAD_TIMES {
        let mut arguments: Vec<_> = common.split(' ').collect();
        arguments.extend(["--against", library.to_str().unwrap()]);
        arguments.extend(["--json", json.to_str().unwrap(), "--allow-errors"]);
        arguments.extend(["--duration", time, url]);
        let told = space.succeed(program(), &arguments);
        let text = std::fs::read_to_string(&json).unwrap();
        let outcome: serde_json::Value = serde_json::from_str(&text).unwrap();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(outcome["errors"], serde_json::json!({}), "{told}");
        if outcome["verified"].as_u64().unwrap() >= 1 {
            return;
        }
        eprintln!("no response was compared within {time}: {told}");
    }
    panic!("no response was compared");
}
