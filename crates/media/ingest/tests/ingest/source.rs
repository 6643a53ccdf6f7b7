//! Video files to ingest.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// Whether ffmpeg is installed. If not, reports that loudly: the caller then skips its test.
pub(crate) fn ffmpeg_is_here() -> bool {
    let here = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !here {
        fullbore_tests::tool::skip("there is no ffmpeg on this machine (apt install ffmpeg)");
    }
    here
}

/// Runs ffmpeg with the arguments in `words` (divided by spaces), which write `file`.
pub(crate) fn make(words: &str, file: &Path) {
    make_with(&words.split_whitespace().collect::<Vec<_>>(), file);
}

/// Runs ffmpeg with the arguments, which write `file`.
pub(crate) fn make_with(arguments: &[impl AsRef<OsStr>], file: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y"]).args(arguments).arg(file);
    let output = command.output().expect("there is an ffmpeg");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// The playing time of [`film`] and [`plain`].
pub(crate) const SECONDS: f64 = 6.0;
/// The number of frames of [`film`].
pub(crate) const FRAMES: usize = 90;

/// A film with everything: a picture of 426x240, two languages, subtitles. Made once for all tests of a run.
pub(crate) fn film() -> &'static Path {
    static FILM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = FILM.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let subtitles = folder.path().join("words.srt");
        std::fs::write(&subtitles, "1\n00:00:01,000 --> 00:00:02,500\nHello <i>there</i>\n\n2\n00:00:04,000 --> 00:00:05,000\nÜber & out\n")
            .expect("a file");
        let path = folder.path().join("A film.mkv");
        make(
            &format!(
                "-f lavfi -i testsrc2=size=426x240:rate=15:duration={SECONDS} \
                 -f lavfi -i sine=440:duration={SECONDS} -f lavfi -i sine=880:duration={SECONDS} -i {} \
                 -map 0 -map 1 -map 2 -map 3 -c:v libx264 -preset ultrafast -g 30 -c:a aac -c:s srt \
                 -metadata:s:a:0 language=eng -metadata:s:a:1 language=ger -metadata:s:a:1 title=Kommentar \
                 -disposition:a:0 0 -disposition:a:1 default -metadata:s:s:0 language=fre",
                subtitles.display()
            ),
            &path,
        );
        (folder, path)
    });
    path
}

/// A picture of 320x180 and one sound, in MP4 with the head in front, in a folder of its own.
pub(crate) fn plain() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("plain.mp4");
    make(
        &format!(
            "-f lavfi -i testsrc2=size=320x180:rate=15:duration={SECONDS} -f lavfi -i sine=440:duration={SECONDS} \
             -c:v libx264 -preset ultrafast -g 15 -pix_fmt yuv420p -c:a aac -movflags +faststart"
        ),
        &path,
    );
    (folder, path)
}
