//! The sample as ffmpeg makes it and plays it. Tests that need ffmpeg say so loudly where there is none.

use std::fs;
use std::path::Path;
use std::process::Command;

use fullbore_library::sample::{Progress, Recipe, Rung, TITLE, ensure_recipe};
use fullbore_library::{Form, titles};
use tempfile::TempDir;

fn recipe() -> Recipe {
    let rungs = vec![
        Rung { width: 160, height: 90, kbps: 60 },
        Rung { width: 240, height: 136, kbps: 120 },
        Rung { width: 320, height: 180, kbps: 200 },
    ];
    Recipe { seconds: 4, rungs }
}

fn ffmpeg_is_here() -> bool {
    let here = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !here {
        eprintln!("SKIPPED: there is no ffmpeg on this machine (apt install ffmpeg)");
    }
    here
}

fn said(command: &mut Command) -> String {
    let output = command.output().expect("ffmpeg and ffprobe come together");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("plain text")
}

fn probe(file: &Path) -> String {
    let entries = "stream=codec_name,width,height:format=duration";
    said(
        Command::new("ffprobe")
            .args(["-v", "error", "-of", "csv=p=0", "-show_entries", entries])
            .arg(file),
    )
}

/// Decodes every rung to the end; anything ffmpeg has to say about it is an error.
fn decode(manifest: &Path) -> String {
    said(Command::new("ffmpeg").args(["-nostdin", "-v", "error", "-i"]).arg(manifest).args([
        "-map",
        "0",
        "-f",
        "null",
        "-progress",
        "pipe:1",
        "-",
    ]))
}

#[test]
fn the_sample_plays_in_every_rung_and_by_both_manifests() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = TempDir::new().expect("a temporary folder");
    let mut heard = Vec::new();
    let title = ensure_recipe(library.path(), &recipe(), |progress| heard.push(progress))
        .expect("a sample");

    for (file, stream) in [
        ("0.mp4", "h264,160,90"),
        ("1.mp4", "h264,240,136"),
        ("2.mp4", "h264,320,180"),
        ("3.mp4", "aac"),
    ] {
        let probed = probe(&title.join(file));
        assert!(probed.starts_with(stream), "{file}: {probed}");
        let seconds: f64 = probed.lines().last().expect("a duration").parse().expect("a number");
        assert!((4.0..4.1).contains(&seconds), "{file}: {probed}");
    }
    for manifest in ["master.m3u8", "manifest.mpd"] {
        // 4 s at 30 frames a second.
        let decoded = decode(&title.join(manifest));
        assert!(decoded.lines().any(|line| line == "frame=120"), "{manifest}: {decoded}");
    }
    assert_eq!(heard.first(), Some(&Progress::Started));
    assert_eq!(heard.last(), Some(&Progress::Finished));

    let found = titles(library.path()).expect("a readable library");
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].streams.iter().map(|stream| stream.form).collect::<Vec<_>>(),
        [Form::Hls, Form::Dash]
    );
}

#[test]
fn a_sample_that_is_there_is_kept_as_it_is() {
    let library = TempDir::new().expect("a temporary folder");
    let title = library.path().join(TITLE);
    fs::create_dir(&title).expect("a folder");
    let found = ensure_recipe(library.path(), &recipe(), |progress| {
        panic!("nothing to do, but {progress:?}")
    });
    assert_eq!(found.expect("the sample that is there"), title);
}

#[test]
fn what_an_interrupted_attempt_left_is_removed_and_the_sample_made() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = TempDir::new().expect("a temporary folder");
    let left = library.path().join(".sample.partial-1");
    fs::create_dir(&left).expect("a folder");
    fs::write(left.join("0.mp4"), b"half").expect("a file");
    let title = ensure_recipe(library.path(), &recipe(), |_| {}).expect("a sample");
    assert!(title.join("manifest.mpd").exists());
    assert!(!left.exists());
}

#[test]
fn of_two_that_start_together_one_makes_the_sample_and_both_have_it() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = TempDir::new().expect("a temporary folder");
    let made = || {
        let mut finished = 0;
        let count = |progress| finished += usize::from(progress == Progress::Finished);
        ensure_recipe(library.path(), &recipe(), count).expect("a sample");
        finished
    };
    let total = std::thread::scope(|scope| {
        let other = scope.spawn(made);
        made() + other.join().expect("the other thread made or found it")
    });
    assert_eq!(total, 1);
}

#[test]
fn a_film_that_ffmpeg_refuses_leaves_nothing_in_sight_and_says_why() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = TempDir::new().expect("a temporary folder");
    let odd = Recipe { seconds: 2, rungs: vec![Rung { width: 161, height: 91, kbps: 60 }] };
    let error =
        ensure_recipe(library.path(), &odd, |_| {}).expect_err("odd sizes cannot be encoded");
    assert!(error.to_string().contains("not divisible by 2"), "{error}");
    let left: Vec<_> = fs::read_dir(library.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, [".sample.lock"]);
}
