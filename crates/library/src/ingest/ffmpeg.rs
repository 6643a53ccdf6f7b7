//! Running ffmpeg: with progress, ended when we are told to stop or end ourselves, its complaints kept.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Signal, set_parent_process_death_signal};

use super::error::{Attempt, IngestError};
use super::stop::Stop;

/// How much of its complaints is kept: the first lines name the cause, what follows from it comes after.
const SAID_BYTES_MAX: u64 = 8 << 10;
const SAID_LINES_MAX: usize = 3;
/// In what it says when there is no room (strerror of ENOSPC, and of EDQUOT).
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// One run of ffmpeg.
pub(crate) struct Run<'a> {
    /// What it makes, for messages: "video 720".
    pub(crate) making: &'a str,
    /// Its working directory, where its output goes.
    pub(crate) folder: &'a Path,
    /// From the inputs on.
    pub(crate) arguments: &'a [OsString],
}

impl Run<'_> {
    /// Runs it to its end; `progress` hears how many seconds of film are done. Returns the first of its complaints, if it had any and
    /// ended well all the same.
    pub(crate) fn run(
        &self,
        stop: &Stop,
        mut progress: impl FnMut(f64),
    ) -> Result<Option<String>, IngestError> {
        let mut child = self.start()?;
        stop.watch(&child);
        let complaints = child.stderr.take().map(|stderr| thread::spawn(|| keep_first(stderr)));
        let reports = child.stdout.take().map(BufReader::new);
        for report in reports.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if let Some(seconds) = encoded_seconds(&report) {
                progress(seconds);
            }
        }
        stop.forget();
        let status = child.wait().attempt("wait for", Path::new("ffmpeg"))?;
        // The thread reads to the end of a pipe, and does nothing that panics.
        let said = complaints.and_then(|thread| thread.join().ok()).unwrap_or_default();
        self.judge(status, &said, stop)
    }

    fn judge(
        &self,
        status: ExitStatus,
        said: &str,
        stop: &Stop,
    ) -> Result<Option<String>, IngestError> {
        if stop.is_stopped() {
            return Err(IngestError::Interrupted);
        }
        // Some versions end well although the last bytes found no room.
        if FULL.iter().any(|full| said.contains(full)) {
            return Err(IngestError::DiskFull { library: self.folder.to_path_buf(), bytes: None });
        }
        if !status.success() {
            let said = match said {
                "" => status.to_string(),
                said => said.to_owned(),
            };
            return Err(IngestError::FfmpegFailed { making: self.making.to_owned(), said });
        }
        Ok(said.split("; ").next().filter(|first| !first.is_empty()).map(str::to_owned))
    }

    fn start(&self) -> Result<Child, IngestError> {
        let mut command = Command::new("ffmpeg");
        command
            .args(["-hide_banner", "-nostdin", "-y", "-v", "error", "-nostats"])
            .args(["-progress", "pipe:1"])
            .args(self.arguments)
            // SVT-AV1 introduces itself on standard error whatever ffmpeg is told: errors only.
            .env("SVT_LOG", "1")
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C at a terminal is for us to hear, and to end it.
            .process_group(0);
        // SAFETY: between fork and exec only system calls are made here, which allocate nothing and take no lock.
        unsafe { command.pre_exec(die_with_parent) };
        command.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound => IngestError::ToolMissing("ffmpeg"),
            _ => IngestError::Io { what: "run", path: "ffmpeg".into(), source },
        })
    }
}

/// Killed outright we could not end it, and it would go on for hours into a folder that the next attempt works in.
fn die_with_parent() -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// The beginning of what comes, as one line; the rest is read and forgotten, so that nobody waits for room in the pipe.
fn keep_first(mut stderr: ChildStderr) -> String {
    let mut said = Vec::new();
    // What cannot be read is not said.
    let _ = stderr.by_ref().take(SAID_BYTES_MAX).read_to_end(&mut said);
    let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    let text = String::from_utf8_lossy(&said);
    let full = text.lines().find(|line| FULL.iter().any(|full| line.contains(full)));
    let lines = text.lines().map(without_speaker).filter(|line| !line.is_empty());
    lines.take(SAID_LINES_MAX).chain(full).collect::<Vec<_>>().join("; ")
}

/// A line without "[libx264 @ 0x55d0c8e0]" in front.
fn without_speaker(line: &str) -> &str {
    let line = line.trim();
    match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((speaker, said)) if speaker.contains(" @ 0x") => said.trim(),
        _ => line,
    }
}

/// One line of `-progress`: `out_time_us=1234`, or `N/A` before the first frame.
fn encoded_seconds(report: &str) -> Option<f64> {
    let microseconds: f64 = report.strip_prefix("out_time_us=")?.trim().parse().ok()?;
    Some(microseconds / 1e6)
}

/// Whether this ffmpeg has the filter or encoder `name`, by the list that `listing` prints (`-filters`, `-encoders`).
pub(super) fn has(listing: &str, name: &str) -> bool {
    let output = Command::new("ffmpeg").args(["-hide_banner", "-v", "error", listing]).output();
    let Ok(output) = output else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().any(|line| line.split_whitespace().nth(1) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_reports_are_read_and_others_passed_over() {
        assert_eq!(encoded_seconds("out_time_us=2500000"), Some(2.5));
        assert_eq!(encoded_seconds("out_time_us=N/A"), None);
        assert_eq!(encoded_seconds("frame=12"), None);
    }

    #[test]
    fn who_speaks_is_left_out_of_what_is_said() {
        assert_eq!(without_speaker("[h264 @ 0x55d0] no frame!"), "no frame!");
        assert_eq!(without_speaker("[not] a speaker"), "[not] a speaker");
        assert_eq!(without_speaker("file:a.mp4: Invalid"), "file:a.mp4: Invalid");
    }

    #[test]
    fn a_run_that_is_stopped_ends_its_ffmpeg_and_says_so() {
        if Command::new("ffmpeg").arg("-version").output().is_err() {
            eprintln!("SKIPPED: there is no ffmpeg on this machine (apt install ffmpeg)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let arguments: Vec<OsString> =
            ["-re", "-f", "lavfi", "-i", "anullsrc", "-f", "null", "-"].map(Into::into).into();
        let run = Run { making: "nothing", folder: folder.path(), arguments: &arguments };
        // It would go on for ever; its first report stops it.
        let ended = run.run(&stop, |_| stop.stop());
        assert!(matches!(ended, Err(IngestError::Interrupted)), "{ended:?}");
    }
}
