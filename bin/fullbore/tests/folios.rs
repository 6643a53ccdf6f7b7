//! The server loads popular films into the page cache in large folios, if the filesystem supports them.

use fullbore_tests::{Launch, tool};
use reactor::residency::cached_pages;
use rustix::fs::Advice;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

const FILM_BYTES: usize = 16 << 20;

/// More than this share of a film's pages is in large folios. Each part that is read begins with a few small ones.
const MOST: f64 = 0.5;

/// With `--off folios`, at most this share of the pages is in large folios.
const FEW: f64 = 0.1;

/// Where the filesystem has large folios, a program that reads a film in order gets more than this share in them.
const MOST_IN_ORDER: f64 = 0.7;

/// Makes a film of which nothing is in the page cache. Returns false where files cannot be evicted, as in memory.
fn make(path: &Path) -> bool {
    let mut file = File::create(path).unwrap();
    let chunk: Vec<_> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    for _ in 0..FILM_BYTES / chunk.len() {
        file.write_all(&chunk).unwrap();
    }
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    matches!(cached_pages(file.as_fd(), 0..FILM_BYTES as u64), Ok(0))
}

/// The share of the file's cached pages that belong to large folios; none if this machine does not show them.
fn share_in_large_folios(path: &Path) -> Option<f64> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/folios.py");
    let output = Command::new("python3").arg(script).arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let counts: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [cached, large] = counts[..] else { return None };
    let expected = (FILM_BYTES / rustix::param::page_size()) as f64;
    assert!(cached > expected * MOST, "only {cached} pages of {} are cached", path.display());
    Some(large / cached)
}

#[test]
fn what_is_worth_memory_is_cached_in_large_folios() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control.mp4");
    if !make(&control) {
        return tool::skip("temporary files cannot be evicted: set TMPDIR to a folder on a disk");
    }
    io::copy(&mut File::open(&control).unwrap(), &mut io::sink()).unwrap();
    match share_in_large_folios(&control) {
        None => return tool::skip("the size of folios: run as root, apt install python3"),
        Some(share) if share < MOST_IN_ORDER => {
            return tool::skip("temporary files are on a filesystem without large folios");
        }
        Some(_) => {}
    }
    for tls in ["on", "off"] {
        for (off, is_large) in [("hot", true), ("hot,folios", false)] {
            let film = format!("{tls}-{is_large}.mp4");
            let path = folder.path().join(&film);
            assert!(make(&path));
            let launch = Launch::of(folder.path()).config("workers = 1\n");
            let server = launch.arguments(&format!("--tls {tls} --disk auto --off {off}")).start();
            // What a second viewer requests is worth memory.
            for _ in 0..2 {
                let curl = ["--silent", "--fail", "--insecure", "--noproxy", "*"];
                let got = Command::new("curl").args(curl).arg(server.url_of(&film)).output();
                assert_eq!(got.unwrap().stdout.len(), FILM_BYTES);
            }
            server.finish();
            let share = share_in_large_folios(&path).expect("it was shown before");
            let is_as_expected = if is_large { share > MOST } else { share < FEW };
            println!("--tls {tls} --off {off}: {share:.2} in large folios");
            assert!(is_as_expected, "--tls {tls} --off {off}: {share:.2} in large folios");
        }
    }
}
