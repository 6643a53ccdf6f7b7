//! The sample as ffmpeg makes it and plays it. Tests that need ffmpeg report loudly if it is missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use catalog::{Form, LibraryEntry, TitleName, titles};
use fullbore_ingest::sample::{Progress, Recipe, TITLE, ensure_recipe, ensure_title};
use fullbore_ingest::{Ladder, Rung, ingest};
use tempfile::TempDir;

fn recipe() -> Recipe {
    let rungs = [(90, 60), (136, 120), (180, 200)];
    let rungs = rungs.map(|(height, kbps)| Rung { height, kbps }).to_vec();
    Recipe { seconds: 4, ladder: Ladder::new(rungs).expect("a ladder") }
}

fn ffmpeg_is_here() -> bool {
    let here = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !here {
        fullbore_tests::tool::skip("there is no ffmpeg on this machine (apt install ffmpeg)");
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

/// Decodes every rung to the end; any message of ffmpeg is an error.
fn decode(manifest: &Path) -> String {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error"]);
    if manifest.extension() == Some("mpd".as_ref()) {
        // For DASH, ffmpeg accepts no file named .vtt, as captions are.
        command.args(["-allowed_extensions", "ALL"]);
    }
    command.arg("-i").arg(manifest);
    said(command.args(["-map", "0:v", "-map", "0:a", "-f", "null", "-progress", "pipe:1", "-"]))
}

fn entry(library: &Path) -> LibraryEntry {
    let mut listing = catalog::list(library).expect("a readable library");
    listing.entries.pop().expect("a title with a record")
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

    let entry = entry(library.path());
    assert_eq!(catalog::verify(&entry), []);
    let record = entry.record.expect("a whole record");
    let video = record.video.iter().map(|one| &one.file);
    let files: Vec<_> = video.chain(record.audio.iter().map(|one| &one.file)).collect();
    let streams = ["h264,160,90", "h264,242,136", "h264,320,180", "aac"];
    assert_eq!(files.len(), streams.len());
    for (file, stream) in files.into_iter().zip(streams) {
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
    let captions = fs::read_to_string(title.join(&record.subtitles[0].file)).expect("captions");
    assert!(captions.contains("00:03.000 --> 00:04.000\nsecond 3"), "{captions}");
    assert!(record.poster.is_some());
    assert_eq!(heard.first(), Some(&Progress::Started));
    assert_eq!(heard.last(), Some(&Progress::Ingest(ingest::Progress::Finishing)));

    let found = titles(library.path()).expect("a readable library");
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].streams.iter().map(|stream| stream.form).collect::<Vec<_>>(),
        [Form::Hls, Form::Dash]
    );
}

#[test]
fn a_small_sample_has_a_name_of_its_own_and_begins_at_400_kilobits() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = TempDir::new().expect("a temporary folder");
    let name = TitleName::new("long").expect("a name");
    let title = ensure_title(library.path(), &name, &Recipe::small(6), |_| {}).expect("a film");
    assert_eq!(title, library.path().join("long"));
    let master = fs::read_to_string(title.join("master.m3u8")).expect("a manifest");
    let rates = master
        .split("#EXT-X-STREAM-INF:BANDWIDTH=")
        .skip(1)
        .filter_map(|rest| rest.split(',').next());
    let rates: Vec<u32> = rates.map(|rate| rate.parse().expect("a number")).collect();
    assert_eq!(rates.len(), 3);
    // Pictures and sound; the first second of a film may take more than its share.
    assert!((200_000..650_000).contains(&rates[0]), "{rates:?}");
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
    let left = library.path().join(".sample");
    fs::create_dir(&left).expect("a folder");
    fs::write(left.join("sample.mkv"), b"half").expect("a file");
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
        let mut started = 0;
        let count = |progress| started += usize::from(progress == Progress::Started);
        ensure_recipe(library.path(), &recipe(), count).expect("a sample");
        started
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
    let none = Recipe { seconds: 0, ..recipe() };
    let error = ensure_recipe(library.path(), &none, |_| {}).expect_err("there is nothing to play");
    let said = error.to_string();
    assert!(
        said.starts_with("cannot make a sample film: ") && said.contains("serve DIR"),
        "{said}"
    );
    let left: Vec<_> = fs::read_dir(library.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, [".sample.lock"]);
}
