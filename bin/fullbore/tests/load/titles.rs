//! HLS and DASH titles as a packager makes them: every segment of the manifest is requested, and every byte is right.

use crate::bad::Bad;
use crate::program::{load, load_until, serve};
use fullbore_tests::tool;
use ingest::sample::{Recipe, TITLE, ensure_recipe};
use ingest::{Ladder, Rung};
use std::io::Write;
use std::process::Command;

#[test]
fn hls_and_dash_titles_are_played_from_their_manifests() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        tool::skip("there is no ffmpeg: apt install ffmpeg");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rungs = vec![Rung { height: 90, kbps: 200 }, Rung { height: 180, kbps: 600 }];
    let recipe = Recipe { seconds: 6, ladder: Ladder::new(rungs).unwrap() };
    ensure_recipe(folder.path(), &recipe, |_| ()).unwrap();
    let server = serve(folder.path(), "");
    for manifest in ["master.m3u8", "manifest.mpd"] {
        let url = [format!("{}/{TITLE}/{manifest}", server.url)];
        let against = folder.path().display();
        for rung in ["", "--rung 1"] {
            let words = format!("--insecure --connections 1 --verify 1 --against {against} {rung}");
            load_until(&words, &url, |ran| ran.number("verified") > 4.0);
        }
        let ran = load("--insecure --rung 3", &url);
        assert!(ran.code == Some(1) && ran.stderr.contains("it has 2"), "{}", ran.stderr);
    }
}

#[test]
fn a_manifest_that_is_none_is_said_and_nothing_is_asked_for() {
    let bad = Bad::start(|stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_ok()
    });
    let ran = load("--pattern title", std::slice::from_ref(&bad.url));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains(&bad.url) && ran.stderr.contains("neither"), "{}", ran.stderr);
}

#[test]
fn a_manifest_without_end_is_cut_off() {
    let bad = Bad::start(|stream, _| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n#EXTM3U\n");
        while stream.write_all(&[b'#'; 65_536]).is_ok() {}
        false
    });
    let ran = load("--pattern title", &[bad.url]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("too long"), "{}", ran.stderr);
}
