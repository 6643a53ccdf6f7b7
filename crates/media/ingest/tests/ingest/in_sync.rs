//! Whether picture and sound are in sync: films with a white flash and a beep at the same moments, and the distances between the two, decoded
//! by ffmpeg from the source and from the title by HLS and by DASH.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use catalog::Record;
use tempfile::TempDir;

use crate::source::make;

/// Flash and beep of a title may differ by this much more, or less, than those of its source: half a frame at 25 frames a second, and a
/// frame of sound.
pub(crate) const SECONDS_APART_MAX: f64 = 0.04;
/// A title's flashes may come this much sooner or later than those of its source: two frames at 25 frames a second.
const SECONDS_MOVED_MAX: f64 = 0.08;
/// A flash and a beep that are further apart do not belong together.
const PAIR_SECONDS: f64 = 0.7;

/// A flash and the beep that belongs to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) flash_seconds: f64,
    /// From the flash to the beep.
    pub(crate) apart_seconds: f64,
}

/// Eight seconds of black and silence; at 1, 3, 5 and 7 s a flash and a beep. 25 frames a second, a key frame every second.
pub(crate) fn flashing() -> &'static Path {
    static FILM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = FILM.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("flashing.mp4");
        make(
            "-f lavfi -i color=black:size=160x90:rate=25:duration=8,drawbox=c=white:t=fill:enable='lt(mod(t+1,2),0.12)' \
             -f lavfi -i sine=1000:duration=8:sample_rate=48000,volume='lt(mod(t+1,2),0.12)':eval=frame \
             -c:v libx264 -preset veryfast -g 25 -pix_fmt yuv420p -c:a aac",
            &path,
        );
        (folder, path)
    });
    path
}

/// The flashes of the first picture and the beeps of the first sound in a file, playlist or manifest.
pub(crate) fn marks(source: &Path) -> Vec<Mark> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-nostats"]);
    if source.extension().is_some_and(|extension| extension == "mpd") {
        command.args(["-allowed_extensions", "ALL"]);
    }
    command.arg("-i").arg(source).args(["-map", "0:v:0", "-vf"]);
    command.args(["blackdetect=d=0.1:pix_th=0.3:pic_th=0.9", "-map", "0:a:0"]);
    command.args(["-af", "silencedetect=n=-30dB:d=0.1", "-f", "null", "-"]);
    let output = command.output().expect("ffmpeg is here");
    // Some sources have faults on purpose, so complaints are not checked.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    // Both filters also report the end of the film, but nothing begins after it.
    let between = |ends: &str, starts: &str| {
        let last = numbers(&said, starts).into_iter().fold(0.0, f64::max);
        numbers(&said, ends).into_iter().filter(|end| *end < last).collect::<Vec<_>>()
    };
    let flashes = between("black_end:", "black_start:");
    let beeps = between("silence_end: ", "silence_start: ");
    let mark = |flash: f64| {
        let apart = beeps.iter().map(|beep| beep - flash);
        let nearest = apart.min_by(|one, other| one.abs().total_cmp(&other.abs()))?;
        let mark = Mark { flash_seconds: flash, apart_seconds: nearest };
        (nearest.abs() < PAIR_SECONDS).then_some(mark)
    };
    flashes.into_iter().filter_map(mark).collect()
}

/// The number after each `name` in `text`.
fn numbers(text: &str, name: &str) -> Vec<f64> {
    let number = |rest: &str| rest.split([' ', '\n', '\r']).next()?.parse().ok();
    text.split(name).skip(1).filter_map(number).collect()
}

/// By HLS and by DASH, a title has the flashes of its source, with the beeps as far from them.
pub(crate) fn is_in_sync(source: &Path, title: &Path, record: &Record) {
    are_in_sync(source, title, &[&record.hls, &record.dash]);
}

/// By each of these manifests, a title has the flashes of its source, with the beeps as far from them.
pub(crate) fn are_in_sync(source: &Path, title: &Path, manifests: &[&str]) {
    let expected = marks(source);
    assert!(expected.len() >= 2, "{}: {expected:?}", source.display());
    for manifest in manifests {
        let found = marks(&title.join(manifest));
        assert_eq!(found.len(), expected.len(), "{manifest}: {found:?} for {expected:?}");
        for (one, wanted) in found.iter().zip(&expected) {
            let differ = (one.apart_seconds - wanted.apart_seconds).abs();
            assert!(differ <= SECONDS_APART_MAX, "{manifest}: {found:?} for {expected:?}");
            let moved = (one.flash_seconds - wanted.flash_seconds).abs();
            assert!(moved <= SECONDS_MOVED_MAX, "{manifest}: {found:?} for {expected:?}");
        }
    }
}
