//! Fetching ahead by the numbers in segments' names, as titles of DASH have them.

use crate::ahead::{ahead, curl, is_hit, put_playlist};
use crate::origin::Origin;
use crate::purging::run_edge;
use crate::{MIB, PATIENT, launch};
use fullbore_tests::{Plain, Server, tool, until};
use std::path::Path;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

fn edge(origin: &Origin, cache: &Path, settings: &str) -> Server {
    let config = format!("{PATIENT}{settings}\n");
    launch(origin, cache).config(&config).arguments("--tls off").start()
}

fn fetch(server: &Server, path: &str) -> fullbore_tests::Response {
    Plain::connect(server.address).fetch(path)
}

#[test]
fn segments_of_dash_that_ffmpeg_has_made_are_fetched_ahead_by_their_numbers() {
    const SEGMENTS: usize = 6;
    if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("curl", "curl")]) {
        return;
    }
    let (origin, cache, folder) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let mut command = tool::command("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25"]);
    command.args(["-t", "6", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-f", "dash"]);
    command.args(["-seg_duration", "1", "-use_timeline", "0", "-use_template", "1"]);
    let ran = tool::run(command.arg(folder.path().join("film.mpd")));
    assert!(ran.success, "{}", ran.stderr);
    let manifest = std::fs::read_to_string(folder.path().join("film.mpd")).unwrap();
    assert!(manifest.contains("$Number%05d$"), "{manifest}");
    let segment = |number: usize| format!("chunk-stream0-{number:05}.m4s");
    let mut names = vec!["film.mpd".to_owned(), "init-stream0.m4s".to_owned()];
    names.extend((1..=SEGMENTS).map(segment));
    for name in &names {
        let path = format!("/dash/{name}");
        origin.put(&path, 1, 0, LASTING);
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        origin.change(&path, |object| object.bytes = bytes.into());
    }
    let server = edge(&origin, cache.path(), "ahead_numbered = 2");
    for (at, name) in names.iter().enumerate() {
        let (head, body) = curl(folder.path(), &server.url_of(&format!("dash/{name}")), &[]);
        assert!(body == std::fs::read(folder.path().join(name)).unwrap(), "{name}: {head}");
        // The manifest, the initialization segment and the first segment are for this viewer. After that, two are always there.
        assert_eq!(head.contains("Cache-Status: fullbore; hit"), at >= 3, "{name}: {head}");
        let there = if at < 2 { 0 } else { at };
        let expected: u64 =
            names.iter().skip(3).take(there).map(|name| length(folder.path(), name)).sum();
        server.wait_for_counter("edge_ahead_bytes_total{result=\"fetched\"}", expected);
    }
    let all: u64 = names.iter().skip(3).map(|name| length(folder.path(), name)).sum();
    server.wait_for_counter("edge_ahead_bytes_total{result=\"used\"}", all);
    assert_eq!((ahead(&server, "fetched"), ahead(&server, "wasted")), (all, 0));
    for name in &names {
        assert_eq!(origin.count(&format!("/dash/{name}")), 1, "{name}");
    }
    let why = String::from_utf8(run_edge(&server, "why /dash/chunk-stream0-00003.m4s").stdout);
    assert!(why.unwrap().contains("it follows by its number; used since"));
    // The end of the title, and of the initialization segments, costs a few requests, which bring nothing.
    let past = origin.seen().into_iter().filter(|seen| !names.contains(&seen.path[6..].to_owned()));
    let past: Vec<_> = past.map(|seen| seen.path).collect();
    assert!((1..=6).contains(&past.len()), "{past:?}");
}

fn length(folder: &Path, name: &str) -> u64 {
    folder.join(name).metadata().unwrap().len()
}

#[test]
fn a_series_whose_next_segment_is_missing_is_left_alone_for_a_while_without_counting_as_waste() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "ahead_numbered = 1\nahead_waste_percent = 0");
    for number in 1..=20 {
        origin.put(&format!("/end-{number}.m4s"), 1, 1000, LASTING);
    }
    // Many series end here, and none pauses what is fetched for others.
    for series in 0..10 {
        origin.put(&format!("/{series}-7.ts"), 1, 1000, LASTING);
        assert_eq!(fetch(&server, &format!("/{series}-7.ts")).status, 200);
        until("the next one to be asked for", || origin.count(&format!("/{series}-8.ts")) == 1);
    }
    assert_eq!(fetch(&server, "/end-20.m4s").status, 200);
    until("the end", || origin.count("/end-21.m4s") == 1);
    let asked = std::time::Instant::now();
    (10..=19)
        .for_each(|number| assert_eq!(fetch(&server, &format!("/end-{number}.m4s")).status, 200));
    assert!(
        run_edge(&server, "why /end-10.m4s").success,
        "the helper has read what came before that"
    );
    let fetched = ahead(&server, "fetched");
    // On a slow machine, the series is tried again.
    assert!(fetched == 0 || asked.elapsed().as_secs() >= 9, "{fetched}: {:?}", origin.seen());
    origin.put("/next-1.m4s", 1, 1000, LASTING);
    origin.put("/next-2.m4s", 1, 1000, LASTING);
    assert_eq!(fetch(&server, "/next-1.m4s").status, 200);
    server.wait_for_counter("edge_ahead_bytes_total{result=\"fetched\"}", fetched + 1000);
    assert!(is_hit(&fetch(&server, "/next-2.m4s")));
    assert_eq!((ahead(&server, "wasted"), server.counter("edge_ahead_paused")), (0, 0));
}

#[test]
fn a_playlist_comes_before_numbers_and_films_and_other_files_have_no_next() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let settings = "ahead_segments = 1\nahead_numbered = 1\n\
        [[edge.rules]]\npath = \"/never/*\"\ncache = false";
    let server = edge(&origin, cache.path(), settings);
    put_playlist(&origin, "/hls/list.m3u8", &["1.ts", "5.ts"]);
    let long = ["/film-1.mp4", "/film-2.mp4"];
    let others = [
        "/page-1.html",
        "/page-2.html",
        "/a-1.ts?x=1",
        "/a-2.ts?x=1",
        "/never/1.ts",
        "/never/2.ts",
    ];
    let segments =
        ["/hls/1.ts", "/hls/2.ts", "/hls/5.ts", "/hls/6.ts", "/dash/1.m4s", "/dash/2.m4s"];
    long.iter().for_each(|path| drop(origin.put(path, 1, 9 * MIB, LASTING)));
    for path in others.iter().chain(&segments) {
        origin.put(path, 1, 1000, LASTING);
    }
    // A film of more than is fetched ahead is no segment.
    let answer = Plain::connect(server.address).fetch_with("/film-1.mp4", "Range: bytes=0-9\r\n");
    assert_eq!(answer.status, 206);
    for path in ["/page-1.html", "/a-1.ts?x=1", "/never/1.ts", "/hls/list.m3u8", "/hls/1.ts"] {
        assert_eq!(fetch(&server, path).status, 200, "{path}");
    }
    // What the playlist names, and nothing after its end.
    server.wait_for_counter("edge_ahead_bytes_total{result=\"fetched\"}", 1000);
    assert!(is_hit(&fetch(&server, "/hls/5.ts")));
    assert_eq!(fetch(&server, "/dash/1.m4s").status, 200);
    server.wait_for_counter("edge_ahead_bytes_total{result=\"fetched\"}", 2000);
    let not_asked = ["/film-2", "/page-2", "/a-2", "/never/2", "/hls/2", "/hls/6"];
    for path in not_asked {
        assert_eq!(origin.count(path), 0, "{path}");
    }
    assert_eq!(origin.count("/hls/5.ts") + origin.count("/dash/2.m4s"), 2);
}
