//! Fetching ahead: what players announce (CMCD), and what follows in a playlist, is there when viewers request it. The players are curl.
//! [`crate::ahead_numbered`] is about segments that follow by their numbers.

use crate::origin::{Manner, Origin};
use crate::purging::{purge, run_edge};
use crate::{MIB, PATIENT, launch};
use fullbore_tests::{Plain, Response, Server, program, tool, until};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// An edge that fetches what players announce.
fn edge(origin: &Origin, cache: &Path) -> Server {
    let config = format!("{PATIENT}ahead_cmcd = true\n");
    launch(origin, cache).config(&config).arguments("--tls off").start()
}

/// Bytes that were fetched ahead, used or wasted.
pub(crate) fn ahead(server: &Server, result: &str) -> u64 {
    server.counter(&format!("edge_ahead_bytes_total{{result=\"{result}\"}}"))
}

/// Requests `path` as a player that announces `next`.
fn fetch(server: &Server, path: &str, next: &str) -> Response {
    let lines = format!("CMCD-Request: nor=\"{next}\"\r\n");
    Plain::connect(server.address).fetch_with(path, &lines)
}

pub(crate) fn is_hit(answer: &Response) -> bool {
    answer.head.contains("Cache-Status: fullbore; hit")
}

/// Puts an HLS playlist with these segments there.
pub(crate) fn put_playlist(origin: &Origin, path: &str, names: &[&str]) {
    let segments: String = names.iter().map(|name| format!("#EXTINF:4,\n{name}\n")).collect();
    let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n{segments}#EXT-X-ENDLIST\n");
    origin.put(path, 1, 0, LASTING);
    origin.change(path, |object| object.bytes = text.into_bytes().into());
}

/// A player's request by curl: the header and the body of the answer.
pub(crate) fn curl(folder: &Path, url: &str, words: &[&str]) -> (String, Vec<u8>) {
    let body = folder.join("body");
    let mut command = tool::command("curl");
    command.args(["--silent", "--show-error", "--fail", "--dump-header", "-", "--output"]);
    let ran = tool::run(command.arg(&body).args(words).arg(url));
    assert!(ran.success, "{url}: {}", ran.stderr);
    (ran.text(), std::fs::read(body).unwrap())
}

#[test]
fn what_a_player_announces_is_a_hit_and_the_origin_is_asked_once() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let (origin, cache, folder) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let server = edge(&origin, cache.path());
    // One that is kept in blocks, in a request or two; and one that is stored whole.
    let kinds = [("\"v\"", 1000), ("\"v\"", 3 * MIB + 5), ("W/\"v\"", 2000)];
    let path = |number: usize| format!("/films/s%20{number}.m4s");
    let objects: Vec<_> = (0..2 * kinds.len())
        .map(|number| {
            let (etag, length) = kinds[number % kinds.len()];
            let bytes = origin.put(&path(number), number as u64, length, LASTING);
            origin.change(&path(number), |object| object.etag = etag.into());
            bytes
        })
        .collect();
    let mut expected = 0;
    for (number, object) in objects.iter().enumerate() {
        // Percent-encoded as a whole, by CTA-5004; in a query, the whole value is encoded once more.
        // The last one announces itself: nothing follows it.
        let next = format!("s%2520{}.m4s", (number + 1).min(objects.len() - 1));
        let url = server.url_of(path(number).trim_start_matches('/'));
        let (head, body) = match number % 2 {
            0 => curl(
                folder.path(),
                &url,
                &["--header", &format!("CMCD-Request: su,nor=\"{next}\"")],
            ),
            _ => {
                let value = format!("nor%3D%22{}%22%2Csu", next.replace('%', "%25"));
                curl(folder.path(), &format!("{url}?CMCD={value}"), &[])
            }
        };
        assert!(body == **object, "{number}: {head}");
        let is_hit = head.contains("Cache-Status: fullbore; hit");
        assert_eq!(is_hit, number > 0, "{number}: {head}");
        if let Some(next) = objects.get(number + 1) {
            expected += next.len() as u64;
            server.wait_for_counter("edge_ahead_bytes_total{result=\"fetched\"}", expected);
        }
    }
    server.wait_for_counter("edge_ahead_bytes_total{result=\"used\"}", expected);
    assert_eq!((ahead(&server, "fetched"), ahead(&server, "wasted")), (expected, 0));
    let mut seen = BTreeSet::new();
    for request in origin.seen() {
        let is_new = seen.insert((request.path.clone(), request.range.filter(|range| range.0 > 0)));
        assert!(is_new, "{request:?}: {:?}", origin.seen());
        assert!(!request.head.to_ascii_lowercase().contains("cmcd"), "{}", request.head);
    }
    // The first block of an object comes with its first answer, and the rest of it in one request.
    assert_eq!(seen.len(), objects.len() + 2, "{seen:?}");
    let why = run_edge(&server, &format!("why {}", path(1)));
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("a player had announced it; used since"), "{why}");
    let why = run_edge(&server, &format!("why {} --json", path(0)));
    let why: serde_json::Value = serde_json::from_slice(&why.stdout).unwrap();
    assert!(why["paths"][0]["copies"][0]["ahead"].is_null(), "a viewer requested it first: {why}");
}

#[test]
fn segments_that_ffmpeg_has_made_are_fetched_ahead_by_their_playlist() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("curl", "curl")]) {
        return;
    }
    let (origin, cache, folder) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let mut command = tool::command("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25"]);
    command.args(["-t", "6", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-f", "hls"]);
    command.args(["-hls_time", "1", "-hls_playlist_type", "vod"]);
    let ran = tool::run(command.arg(folder.path().join("film.m3u8")));
    assert!(ran.success, "{}", ran.stderr);
    let names =
        ["film.m3u8", "film0.ts", "film1.ts", "film2.ts", "film3.ts", "film4.ts", "film5.ts"];
    for name in names {
        let path = format!("/hls/{name}");
        origin.put(&path, 1, 0, LASTING);
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        origin.change(&path, |object| object.bytes = bytes.into());
    }
    let server = launch(&origin, cache.path())
        .config(&format!("{PATIENT}ahead_segments = 2\n"))
        .arguments("--tls off")
        .start();
    let mut expected = 0;
    for (number, name) in names.iter().enumerate() {
        let (head, body) = curl(folder.path(), &server.url_of(&format!("hls/{name}")), &[]);
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        assert!(body == bytes, "{name}: {head}");
        // The playlist and the first segment are for this viewer. After those, two are always there.
        assert_eq!(head.contains("Cache-Status: fullbore; hit"), number >= 2, "{name}: {head}");
        expected = match number {
            0 => 0,
            _ => names[2..]
                .iter()
                .take(number + 1)
                .map(|name| folder.path().join(name).metadata().unwrap().len())
                .sum(),
        };
        server.wait_for_counter("edge_ahead_bytes_total{result=\"fetched\"}", expected);
    }
    server.wait_for_counter("edge_ahead_bytes_total{result=\"used\"}", expected);
    for name in names {
        assert_eq!(origin.count(&format!("/hls/{name}")), 1, "{name}");
    }
    let why = run_edge(&server, "why /hls/film3.ts");
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("it follows in a playlist; used since"), "{why}");
}

/// A viewer who comes while it is being fetched ahead gets it from there, and does not ask the origin again.
#[test]
fn a_viewer_who_comes_meanwhile_shares_the_fetch() {
    for etag in ["\"v2\"", "W/\"v2\""] {
        let (origin, cache) = (Origin::start(), tempdir().unwrap());
        let server = edge(&origin, cache.path());
        origin.put("/1.ts", 1, 1000, LASTING);
        let next = origin.put("/2.ts", 2, 3000, LASTING);
        origin.change("/2.ts", |object| object.etag = etag.into());
        origin.behave(Manner::Withholds("/2.ts"));
        assert_eq!(fetch(&server, "/1.ts", "2.ts").status, 200);
        until("the fetch to begin", || origin.count("/2.ts") == 1);
        let mut viewer = Plain::connect(server.address);
        viewer.ask("/2.ts");
        let mut other = Plain::connect(server.address);
        assert_eq!(other.fetch("/1.ts").status, 200, "the viewer's question is under way");
        origin.behave(Manner::Good);
        let answer = viewer.answer();
        assert!(answer.status == 200 && answer.body == *next, "{}", answer.head);
        assert_eq!(origin.count("/2.ts"), 1, "{etag}");
        server.wait_for_counter("edge_ahead_bytes_total{result=\"used\"}", 3000);
    }
}

#[test]
fn viewers_go_first() {
    const WAITING: usize = 60;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path());
    for path in ["/1.ts", "/2.ts"] {
        origin.put(path, 1, 1000, LASTING);
    }
    for number in 0..WAITING {
        origin.put(&format!("/new/{number}"), 1, 1000, LASTING);
    }
    assert_eq!(fetch(&server, "/1.ts", "").status, 200);
    origin.behave(Manner::Withholds("/new/"));
    // From two addresses: one address has 30 of the 40 places for questions about new paths.
    let viewers: Vec<_> = (0..WAITING)
        .map(|number| {
            let from = if number % 2 == 0 { [127, 0, 0, 1] } else { [127, 0, 0, 2] };
            let mut viewer = Plain::connect_from(from.into(), server.address);
            viewer.ask(&format!("/new/{number}"));
            viewer
        })
        .collect();
    server.wait_for_counter("edge_waiting", WAITING as u64 - 40);
    until("the origin to be asked", || origin.count("/new/") == 40);
    assert!(is_hit(&fetch(&server, "/1.ts", "2.ts")));
    assert!(run_edge(&server, "why /2.ts").success, "the helper has read what came before that");
    server.wait_for_news();
    assert_eq!(origin.count("/2.ts"), 0, "it waits until the origin has answered viewers");
    origin.behave(Manner::Good);
    for mut viewer in viewers {
        assert_eq!(viewer.answer().status, 200);
    }
    until("the rest", || {
        // On a slow machine, what was announced has waited for too long.
        assert_eq!(fetch(&server, "/1.ts", "2.ts").status, 200);
        origin.count("/2.ts") == 1
    });
}

#[test]
fn too_much_waste_ends_it_for_its_client_and_that_of_several_for_all() {
    const CLIENTS: u8 = 4;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path());
    origin.put("/1.ts", 1, 1000, LASTING);
    assert_eq!(fetch(&server, "/1.ts", "").status, 200);
    let announce = |client: u8, number: usize| {
        let next = format!("next/{client}-{number}.ts");
        origin.put(&format!("/{next}"), 1, 1000, LASTING);
        let lines = format!("CMCD-Request: nor=\"{next}\"\r\n");
        let mut viewer = Plain::connect_from([127, 0, 0, client].into(), server.address);
        assert_eq!(viewer.fetch_with("/1.ts", &lines).status, 200);
        format!("/{next}")
    };
    let announce_and_wait = |client, number| {
        let path = announce(client, number);
        until("it to be fetched ahead", || origin.count(&path) == 1);
    };
    let wait_for_all = || {
        let fetched = 1000 * origin.count("/next/") as u64;
        server.wait_for_counter("edge_ahead_bytes_total{result=\"fetched\"}", fetched);
        fetched
    };
    (0..8).for_each(|number| announce_and_wait(1, number));
    wait_for_all();
    // One of them is used.
    assert!(is_hit(&Plain::connect(server.address).fetch("/next/1-0.ts")));
    assert_eq!(purge(&server, "--prefix /next/"), (8, 0));
    server.wait_for_counter("edge_ahead_bytes_total{result=\"wasted\"}", 7000);
    assert_eq!(ahead(&server, "used"), 1000);
    // For this client, one is tried, to see whether that has changed. Another one after 30 seconds, if this machine is that slow.
    (8..20).for_each(|number| drop(announce(1, number)));
    until("the one that is tried", || origin.count("/next/1-") > 8);
    assert!(run_edge(&server, "why /1.ts").success);
    assert!((9..20).contains(&origin.count("/next/1-")), "{:?}", origin.seen());
    for client in 2..=CLIENTS {
        (0..8).for_each(|number| announce_and_wait(client, number));
        assert_eq!(server.counter("edge_ahead_paused"), 0, "others go on");
    }
    let fetched = wait_for_all();
    assert!(run_edge(&server, "purge --prefix /next/").success);
    server.wait_for_counter("edge_ahead_bytes_total{result=\"wasted\"}", fetched - 1000);
    server.wait_for_counter("edge_ahead_paused", 1);
}

/// A film is fetched by ranges, and a short response whole. Anything else would be received to its end, for as long as the origin sends.
#[test]
fn what_turns_out_to_be_long_is_given_up_at_once() {
    let weak = "max-age=3600\r\nETag: W/\"v\"";
    let without_ranges = "max-age=3600\r\nETag: \"v\"";
    for (length, lines) in
        [(Some(100 * MIB), weak), (Some(100 * MIB), without_ranges), (None, weak)]
    {
        let (origin, cache) = (Origin::start(), tempdir().unwrap());
        let server = edge(&origin, cache.path());
        origin.put("/1.ts", 1, 1000, LASTING);
        origin.behave(Manner::Drips("/2.ts", length, lines));
        assert_eq!(fetch(&server, "/1.ts", "2.ts").status, 200);
        until("the edge to leave", || origin.left() == 1);
        // With the bytes in the sockets' buffers.
        assert!(origin.dripped() < 16 * MIB, "{}", origin.dripped());
        assert_eq!((origin.count("/2.ts"), ahead(&server, "fetched")), (1, 0), "{lines}");
    }
}

/// Such a range once made a sum overflow, and viewers of that path waited forever.
#[test]
fn a_range_that_no_object_has_does_not_keep_viewers_from_the_path() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path());
    origin.put("/1.ts", 1, 1000, LASTING);
    for (number, range) in [
        "18446744073709551615-",
        "1152921504606846975-",
        "18446744073709551614-18446744073709551615",
    ]
    .iter()
    .enumerate()
    {
        let next = format!("next-{number}.ts");
        let object = origin.put(&format!("/{next}"), 2, 1000, LASTING);
        let lines = format!("CMCD-Request: nor=\"{next}\",nrr=\"{range}\"\r\n");
        let mut viewer = Plain::connect(server.address);
        assert_eq!(viewer.fetch_with("/1.ts", &lines).status, 200);
        assert!(
            run_edge(&server, "why /1.ts").success,
            "the helper has read what came before that"
        );
        let answer = viewer.fetch(&format!("/{next}"));
        assert!(answer.status == 200 && answer.body == *object, "{range}: {}", answer.head);
    }
}

#[test]
fn nothing_is_fetched_ahead_for_viewers_with_passwords_or_beyond_what_a_viewer_may_request() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = launch(&origin, cache.path())
        .config(&format!("{PATIENT}ahead_cmcd = true\ncookies = true\nahead_segments = 2\n"))
        .arguments("--tls off --workers 1")
        .start();
    for path in ["/a/1.ts", "/a/2.ts", "/a/3.ts", "/b.m3u8", "/.hidden/b.ts", "/-/b.ts", "/a/b/"] {
        origin.put(path, 1, 1000, LASTING);
    }
    let mut viewer = Plain::connect(server.address);
    for line in ["Authorization: Basic YQ==", "Cookie: a=b", "X-Plex-Token: a"] {
        let lines = format!("CMCD-Request: nor=\"2.ts\"\r\n{line}\r\n");
        assert_eq!(viewer.fetch_with("/a/1.ts", &lines).status, 200, "{line}");
    }
    for next in [
        "https%3A%2F%2Fother.example%2Fa%2F2.ts",
        "%2F%2Fother.example%2Fa%2F2.ts",
        "%2F.hidden%2Fb.ts",
        "%2F-%2Fb.ts",
        "b%2F",
        "..%2Fb.m3u8",
        "2.ts%00",
        "%zz",
    ] {
        assert_eq!(fetch(&server, "/a/1.ts", next).status, 200, "{next}");
    }
    // The same in a playlist.
    let names = ["1.ts", "/.hidden/b.ts", "/-/b.ts", "/%2ehidden/b.ts", "../b/", "2.ts"];
    put_playlist(&origin, "/c/list.m3u8", &names);
    origin.put("/c/1.ts", 1, 1000, LASTING);
    origin.put("/c/2.ts", 1, 1000, LASTING);
    for path in ["/c/list.m3u8", "/c/1.ts"] {
        assert_eq!(fetch(&server, path, "").status, 200);
    }
    assert_eq!(viewer.fetch_with("/a/1.ts", "CMCD-Request: nor=\"3.ts\"\r\n").status, 200);
    until("what may be fetched", || ahead(&server, "fetched") == 2000);
    let seen: BTreeSet<_> = origin.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["/a/1.ts", "/a/3.ts", "/c/1.ts", "/c/2.ts", "/c/list.m3u8"]
    );
}

#[test]
fn a_token_has_to_cover_what_is_announced_and_playlists_are_not_followed_then() {
    let (origin, folder) = (Origin::start(), tempdir().unwrap());
    let key = folder.path().join("url.key");
    assert!(tool::run(Command::new(program()).args(["sign", "--new-key"]).arg(&key)).success);
    let server = launch(&origin, &folder.path().join("cache"))
        .config(&format!(
            "{PATIENT}ahead_cmcd = true\nahead_segments = 2\n[signing]\nkeys = [{key:?}]\n"
        ))
        .arguments("--tls off")
        .start();
    for path in ["/a/1.ts", "/a/2.ts", "/b/1.ts"] {
        origin.put(path, 1, 1000, LASTING);
    }
    let mut sign = Command::new(program());
    sign.args(["sign", "a", "--scope", "a", "--expires", "1h", "--key"]).arg(&key);
    let signed = tool::run(&mut sign).text().trim().trim_end_matches('/').to_owned();
    // Only the server knows what a token covers, so playlists are not followed.
    put_playlist(&origin, "/a/list.m3u8", &["1.ts", "../b/1.ts"]);
    assert_eq!(fetch(&server, &format!("{signed}/list.m3u8"), "").status, 200);
    for next in ["..%2Fb%2F1.ts", "%2Fb%2F1.ts", "%2Fa%2F..%2Fb%2F1.ts", "2.ts"] {
        let answer = fetch(&server, &format!("{signed}/1.ts"), next);
        assert_eq!(answer.status, 200, "{signed}: {}", answer.head);
    }
    until("what the token covers", || ahead(&server, "fetched") == 1000);
    assert_eq!((origin.count("/a/2.ts"), origin.count("/b/")), (1, 0), "{:?}", origin.seen());
    assert!(is_hit(&Plain::connect(server.address).fetch(&format!("{signed}/2.ts"))));
}
