//! Running ffmpeg over a recipe.
//!
//! If we are killed while it runs, it goes on to its end (some 20 s), into a folder that nobody puts in place any more.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::error::Attempt;
use super::{Recipe, SampleError};

/// What ffmpeg complains of goes here while it runs: a file cannot fill up and stall it as a pipe could.
const LOG: &str = "ffmpeg.log";
/// How much of its complaints is passed on: the first lines name the cause, what follows from it comes after.
const LOG_LINES_MAX: usize = 5;

/// Encodes the film into `folder`; `progress` hears what part of it is done, 0 to 1.
pub(super) fn encode(
    folder: &Path,
    recipe: &Recipe,
    mut progress: impl FnMut(f64),
) -> Result<(), SampleError> {
    let mut encoder = start(folder, recipe)?;
    let microseconds = f64::from(recipe.seconds) * 1e6;
    let reports = encoder.stdout.take().map(BufReader::new);
    for report in reports.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        if let Some(done) = encoded_microseconds(&report) {
            progress((done / microseconds).clamp(0.0, 1.0));
        }
    }
    finish(encoder, folder)
}

fn start(folder: &Path, recipe: &Recipe) -> Result<Child, SampleError> {
    let path = folder.join(LOG);
    let log = File::create(&path).attempt("make the file", &path)?;
    Command::new("ffmpeg")
        .args(["-hide_banner", "-nostdin", "-v", "error", "-nostats", "-progress", "pipe:1"])
        .args(recipe.ffmpeg_arguments())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|source| match source.kind() {
            ErrorKind::NotFound => SampleError::FfmpegMissing,
            _ => SampleError::Io { what: "run", path: "ffmpeg".into(), source },
        })
}

fn finish(mut encoder: Child, folder: &Path) -> Result<(), SampleError> {
    let path = folder.join(LOG);
    let status = encoder.wait().attempt("wait for", Path::new("ffmpeg"))?;
    if !status.success() {
        let said = fs::read(&path).unwrap_or_default();
        return Err(SampleError::FfmpegFailed(format!("{} ({status})", first_lines(&said))));
    }
    fs::remove_file(&path).attempt("remove", &path)
}

fn first_lines(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(LOG_LINES_MAX).collect::<Vec<_>>().join("; ")
}

/// One line of `-progress`: `out_time_us=1234`, or `N/A` before the first frame.
fn encoded_microseconds(report: &str) -> Option<f64> {
    report.strip_prefix("out_time_us=")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_reports_are_read_and_others_passed_over() {
        assert_eq!(encoded_microseconds("out_time_us=2500000"), Some(2_500_000.0));
        assert_eq!(encoded_microseconds("out_time_us=N/A"), None);
        assert_eq!(encoded_microseconds("frame=12"), None);
    }

    #[test]
    fn of_a_long_log_the_first_lines_are_passed_on() {
        assert_eq!(first_lines(b"1\n2\n\n3\n4\n5\n6\n"), "1; 2; 3; 4; 5");
        assert_eq!(first_lines(b""), "");
    }
}
