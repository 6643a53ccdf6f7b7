//! Real clients get the file, byte by byte.

use crate::support::crowd::{UNHURRIED, a_thousand_watch};
use crate::support::far::Far;
use crate::support::served::{Room, Server, V4};
use fullbore_tests::{Namespace, tool};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

const FILM_BYTES: usize = 5_000_001;
const LONG_FILM_BYTES: usize = 50_000_001;

/// A namespace for a test; none if namespaces or `program` are not available.
fn space_with(program: &str, package: &str) -> Option<Arc<Namespace>> {
    tool::are_here(&[(program, package)]).then(Namespace::if_possible).flatten().map(Arc::new)
}

/// Runs curl there and returns its output.
#[track_caller]
fn curl(space: &Namespace, arguments: &[&str]) -> Vec<u8> {
    let common =
        ["--silent", "--show-error", "--fail", "--insecure", "--globoff", "--max-time", "600"];
    space.succeed("curl", &[&common[..], arguments].concat())
}

#[test]
fn curl_gets_every_byte_over_tls_of_both_versions_and_both_kinds_of_ip() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&space, &room, &[], "");
    for url in [server.url(), server.url_v6()] {
        for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
            let got = curl(&space, &[version, &[&url]].concat());
            assert!(got == room.film, "{url} {version:?}: {} bytes", got.len());
        }
    }
    assert_eq!(server.number("connections_by_route_total{route=\"bypass\"}"), 4);
    nothing_was_copied_into_frames(&server, 4 * FILM_BYTES as u64);
    server.end();
}

/// The kernel takes the bytes that go over a TAP from the server's buffers.
#[track_caller]
fn nothing_was_copied_into_frames(server: &Server, sent_bytes: u64) {
    server.await_number("tcp_payload_bytes_total{kind=\"sent\"}", sent_bytes);
    assert_eq!(server.number("bypass_copied_bytes_total{to=\"frame\"}"), 0);
}

#[test]
fn curl_gets_every_byte_without_tls() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&space, &room, &["--tls", "off"], "");
    for url in [server.url(), server.url_v6()] {
        let got = curl(&space, &[&url]);
        assert!(got == room.film, "{url}: {} bytes", got.len());
    }
    nothing_was_copied_into_frames(&server, 2 * FILM_BYTES as u64);
    server.end();
}

/// To a viewer on this machine, and to one behind a device that takes no such frames, so that the kernel splits them.
#[test]
fn frames_longer_than_a_packet_bring_every_byte() {
    let Some(space) = space_with("curl", "curl") else { return };
    let Some(far) = Far::new(1500, "") else { return };
    let mut room = Room::new(LONG_FILM_BYTES);
    room.device += "super_segment_bytes_max = 370000\n";
    for (near, viewer) in [(&space, &space), (&far.server, &far.client)] {
        for tls in ["on", "off"] {
            let server = Server::start(near, &room, &["--tls", tls], "");
            assert!(curl(viewer, &[&server.url()]) == room.film, "--tls {tls}");
            nothing_was_copied_into_frames(&server, LONG_FILM_BYTES as u64);
            let frames = server.number("frames_total{event=\"sent\"}");
            assert!(frames > 0 && frames * 65_535 < LONG_FILM_BYTES as u64, "{frames} frames");
            assert!(curl(viewer, &[&server.url_v6()]) == room.film, "IPv6, --tls {tls}");
            server.end();
        }
    }
}

#[test]
fn ranges_are_those_of_the_file_over_one_connection() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(FILM_BYTES);
    for tls in ["on", "off"] {
        let server = Server::start(&space, &room, &["--tls", tls], "");
        let url = server.url();
        let mut arguments: Vec<&str> = Vec::new();
        let ranges = ["0-0", "5-16388", "1000000-1999999", "4999999-5000000", "16384-32767"];
        for range in ranges {
            if !arguments.is_empty() {
                arguments.extend(["--next", "--silent", "--insecure"]);
            }
            arguments.extend(["--range", range, &url]);
        }
        let mut wanted = Vec::new();
        for range in ranges {
            let (first, last) = range.split_once('-').unwrap();
            let range = first.parse::<usize>().unwrap()..=last.parse().unwrap();
            wanted.extend_from_slice(&room.film[range]);
        }
        assert!(curl(&space, &arguments) == wanted, "--tls {tls}");
        assert_eq!(server.number("connections_accepted_total"), 1, "--tls {tls}");
        server.end();
    }
}

#[test]
fn every_switch_serves_the_same_bytes() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(FILM_BYTES);
    for off in
        ["tso", "coalesce", "merge", "completion", "reread", "lifo", "ahead", "window", "pacing"]
    {
        let server = Server::start(&space, &room, &["--off", off], "");
        assert!(curl(&space, &[&server.url()]) == room.film, "--off {off}");
        server.end();
    }
}

/// A burst may leave before the rate applies, and half of the rate's allowance is left for a clock that jumps.
#[test]
fn a_rate_holds_for_each_connection() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(2_000_000);
    for (tls, off) in [("on", "lifo"), ("off", "pacing")] {
        let limit = "[net]\npacing_bits_per_second = 8_000_000\n";
        let server = Server::start(&space, &room, &["--tls", tls, "--off", off], limit);
        let begun = Instant::now();
        assert!(curl(&space, &[&server.url()]) == room.film, "--tls {tls}");
        let seconds = begun.elapsed().as_secs_f64();
        // Two seconds at that rate; without a rate it takes some hundredths of a second.
        assert!(seconds > 1.0, "--tls {tls} --off {off}: 2 MB at 1 MB/s within {seconds} s");
        server.end();
    }
}

/// All viewers together get the bytes that the rate allows, plus the catch-up allowance and one turn.
#[test]
fn a_rate_holds_for_all_connections_together() {
    const VIEWERS: usize = 4;
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(1_000_000);
    for tls in ["on", "off"] {
        let limit = "[net]\ntotal_bits_per_second = 16_000_000\n";
        let server = Server::start(&space, &room, &["--tls", tls], limit);
        let (url, folder) = (server.url(), tempfile::tempdir().unwrap());
        let files: Vec<_> = (0..VIEWERS).map(|n| folder.path().join(n.to_string())).collect();
        let flags = "--insecure --silent --show-error --fail --parallel --parallel-immediate";
        let mut arguments: Vec<_> = flags.split(' ').collect();
        for file in &files {
            arguments.extend([&*url, "--output", file.to_str().unwrap()]);
        }
        let begun = Instant::now();
        space.succeed("curl", &arguments);
        let seconds = begun.elapsed().as_secs_f64();
        for file in files {
            assert!(std::fs::read(file).unwrap() == room.film, "--tls {tls}: other bytes");
        }
        // Two seconds at that rate; without a rate it takes some hundredths of a second.
        assert!(seconds > 1.95, "--tls {tls}: 4 MB at 2 MB/s within {seconds} s");
        assert!(server.number("total_rate_waits_total") > 0, "--tls {tls}: no viewer waited");
        server.end();
    }
}

#[test]
fn keys_are_changed_as_often_as_they_are_to_be() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&space, &room, &[], "[tls]\nkey_records_max = 64\n");
    assert!(curl(&space, &["--tlsv1.3", &server.url()]) == room.film);
    // 306 records of 16 KiB, and a head.
    server.await_number("key_updates_sent_total", 4);
    server.end();
}

#[test]
fn openssl_gets_every_byte() {
    let Some(space) = space_with("openssl", "openssl") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&space, &room, &[], "");
    let script = format!(
        "printf 'GET /film.mp4 HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n' \
         | openssl s_client -quiet -ign_eof -connect {V4}:8443 2>/dev/null"
    );
    let got = space.succeed("sh", &["-c", &script]);
    assert!(got.ends_with(&room.film), "{} bytes", got.len());
    server.end();
}

#[test]
fn ffmpeg_plays_a_film_and_seeks_in_it() {
    let Some(space) = space_with("ffmpeg", "ffmpeg") else { return };
    let room = Room::new(1000);
    let film = room.path("library/clip.mp4");
    let make =
        "-loglevel error -f lavfi -i testsrc2=size=640x360:rate=25:duration=20 -c:v mpeg4 -q:v 2";
    let mut arguments: Vec<_> = make.split(' ').collect();
    arguments.push(film.to_str().unwrap());
    space.succeed("ffmpeg", &arguments);
    let server = Server::start(&space, &room, &[], "");
    let url = server.url().replace("film", "clip");
    let frames = |input: &str, seek: &str| {
        let arguments = ["-loglevel", "error", "-tls_verify", "0", "-ss", seek, "-i", input];
        let arguments = if input.starts_with("https") { &arguments[..] } else { &arguments[4..] };
        let hashes = ["-frames:v", "50", "-f", "framemd5", "-"];
        let log = ["-loglevel", "error"];
        space.succeed("ffmpeg", &[&log, arguments, &hashes].concat())
    };
    for seek in ["0", "12.5"] {
        let got = frames(&url, seek);
        assert!(!got.is_empty() && got == frames(film.to_str().unwrap(), seek), "from {seek} s on");
    }
    server.end();
}

#[test]
fn many_viewers_at_once_get_their_bytes() {
    let Some(space) = Namespace::if_possible().map(Arc::new) else { return };
    let room = Room::new(1_000_001);
    let server = Server::start(&space, &room, &[], UNHURRIED);
    let accepted = || server.number("connections_accepted_total");
    let before = Cell::new(0);
    a_thousand_watch(&space, &server.url(), "1M", |_| {
        accepted() >= before.replace(accepted()) + 1000
    });
    server.end();
}
