//! Runs ffmpeg: confined, with progress reports, and with its messages collected. It ends when ingest is stopped, or when this process
//! ends.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus};

use super::error::IngestError;
use super::jobs::words;
use super::progress::EncodingPace;
use super::stop::Stop;
use crate::confined::{Bound, Bounds, Confined, Fault, Limits};

/// How many of its messages are kept.
const SAID_LINES_MAX: usize = 3;
/// Parts of its messages when the disk is full (strerror of ENOSPC and of EDQUOT).
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
/// A line of `-progress` has some thirty bytes.
const REPORT_BYTES_MAX: usize = 4 << 10;

/// One run of ffmpeg.
pub(crate) struct Run<'a> {
    /// The part that it makes, for messages: "video 720".
    pub(crate) making: &'a str,
    /// Its input, read as [`crate::confined::FILM`].
    pub(crate) film: Option<&'a File>,
    /// Its working directory, where its output goes.
    pub(crate) folder: &'a Path,
    /// The arguments, beginning with the inputs.
    pub(crate) arguments: &'a [OsString],
}

/// The limits of all runs for one title.
#[derive(Clone, Copy)]
pub(crate) struct RunLimits<'a> {
    pub(crate) stop: &'a Stop,
    pub(crate) bounds: &'a Bounds,
    /// The folder for all output, and its size limit.
    pub(crate) output: (&'a Path, u64),
}

impl Run<'_> {
    /// Runs it to its end; passes its reports to `progress`. Returns its first message, if it wrote any and still succeeded.
    pub(crate) fn run(
        &self,
        limits: &RunLimits<'_>,
        mut progress: impl FnMut(Report),
    ) -> Result<Option<String>, IngestError> {
        let mut arguments = words("-hide_banner -nostdin -y -v error -nostats -progress pipe:1");
        arguments.extend_from_slice(self.arguments);
        let ffmpeg = Confined {
            program: "ffmpeg",
            arguments: &arguments,
            film: self.film,
            folder: Some(self.folder),
            limits: Limits {
                time: Bound::RunSeconds(limits.bounds.run_seconds_max),
                memory_bytes_max: limits.bounds.memory_bytes_max,
                output: Some(limits.output),
            },
        };
        let (mut reports, mut report) = (Vec::new(), Report::default());
        let hear = |bytes: &[u8]| {
            each_line(&mut reports, bytes, |line| {
                if report.ends_with(line) {
                    progress(report);
                }
            })
        };
        let ended = ffmpeg.run(limits.stop, hear).map_err(|fault| told(fault, self.making))?;
        self.judge(ended.status, &complaints(&ended.said))
    }

    fn judge(&self, status: ExitStatus, said: &str) -> Result<Option<String>, IngestError> {
        // Some versions report success although the disk had no space for the last bytes.
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
}

/// Why a run of ffmpeg or ffprobe did not complete.
pub(super) fn told(fault: Fault, making: &str) -> IngestError {
    match fault {
        Fault::Missing(program) => IngestError::ToolMissing(program),
        Fault::Stopped => IngestError::Interrupted,
        Fault::Passed(bound) => IngestError::Passed { making: making.to_owned(), bound },
        Fault::Io(source) => IngestError::Io { what: "run", path: "ffmpeg".into(), source },
    }
}

/// Passes on complete lines; `rest` keeps the incomplete one.
fn each_line(rest: &mut Vec<u8>, bytes: &[u8], mut hear: impl FnMut(&str)) {
    for part in bytes.split_inclusive(|&byte| byte == b'\n') {
        rest.extend_from_slice(part);
        if part.ends_with(b"\n") || rest.len() > REPORT_BYTES_MAX {
            hear(&String::from_utf8_lossy(rest));
            rest.clear();
        }
    }
}

/// libgcrypt, which ffmpeg loads for protocols that it isn't allowed to use here, says this where it may lock no memory (`ulimit -l 0`).
const UNLOCKED: &str = "Warning: using insecure memory!";

/// The beginning of its messages, as one line.
fn complaints(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let full = text.lines().find(|line| FULL.iter().any(|full| line.contains(full)));
    let lines = text.lines().map(without_speaker);
    let lines = lines.filter(|line| !line.is_empty() && *line != UNLOCKED);
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

/// How far a run is, by the last complete block of lines of `-progress`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// Seconds of film that are done.
    pub(crate) seconds: f64,
    pub(crate) pace: EncodingPace,
}

impl Report {
    /// Takes one line: `out_time_us=1234`, or `N/A` before the first frame. Returns whether it ends a block.
    fn ends_with(&mut self, line: &str) -> bool {
        let Some((key, value)) = line.trim().split_once('=') else { return false };
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| *number > 0.0);
        match key {
            "out_time_us" => {
                self.seconds = number(value).map_or(self.seconds, |microseconds| microseconds / 1e6)
            }
            "fps" => self.pace.frames_per_second = number(value),
            "speed" => self.pace.speed = number(value.trim_end_matches('x')),
            _ => return key == "progress",
        }
        false
    }
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
        let mut report = Report::default();
        for line in ["frame=12", "fps=0.00", "out_time_us=N/A", "speed=N/A", "words"] {
            assert!(!report.ends_with(line), "{line}");
        }
        assert!(report.ends_with("progress=continue\n"));
        assert_eq!(report, Report::default());
        for line in ["fps=87.5\n", "out_time_us=2500000\n", "speed=  3.4x\n", "progress=end\n"] {
            report.ends_with(line);
        }
        let pace = EncodingPace { frames_per_second: Some(87.5), speed: Some(3.4) };
        assert_eq!(report, Report { seconds: 2.5, pace });
    }

    #[test]
    fn reports_are_heard_as_lines_however_they_come() {
        let (mut rest, mut lines) = (Vec::new(), Vec::new());
        for part in ["a=1\nb", "=2\n", "", "c=3"] {
            each_line(&mut rest, part.as_bytes(), |line| lines.push(line.to_owned()));
        }
        assert_eq!(lines, ["a=1\n", "b=2\n"]);
        // A line that never ends must not be stored forever.
        each_line(&mut rest, &[b'x'; 2 * REPORT_BYTES_MAX], |_| {});
        assert!(rest.len() <= REPORT_BYTES_MAX);
    }

    #[test]
    fn who_speaks_is_left_out_of_what_is_said() {
        assert_eq!(without_speaker("[h264 @ 0x55d0] no frame!"), "no frame!");
        assert_eq!(without_speaker("[not] a speaker"), "[not] a speaker");
        assert_eq!(without_speaker("file:a.mp4: Invalid"), "file:a.mp4: Invalid");
    }

    #[test]
    fn a_machine_where_no_memory_may_be_locked_is_no_fault_of_the_film() {
        assert_eq!(complaints(b"Warning: using insecure memory!\n"), "");
        let said = b"Warning: using insecure memory!\n[h264 @ 0x55d0] no frame!\n";
        assert_eq!(complaints(said), "no frame!");
    }

    #[test]
    fn a_run_that_is_stopped_ends_its_ffmpeg_and_says_so() {
        if Command::new("ffmpeg").arg("-version").output().is_err() {
            fullbore_tests::tool::skip("there is no ffmpeg on this machine (apt install ffmpeg)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let arguments: Vec<OsString> =
            ["-re", "-f", "lavfi", "-i", "anullsrc", "-f", "null", "-"].map(Into::into).into();
        let run =
            Run { making: "nothing", film: None, folder: folder.path(), arguments: &arguments };
        let bounds = Bounds::default();
        let limits = RunLimits { stop: &stop, bounds: &bounds, output: (folder.path(), 1000) };
        // It would run forever; its first report stops it.
        let ended = run.run(&limits, |_| stop.stop());
        assert!(matches!(ended, Err(IngestError::Interrupted)), "{ended:?}");
    }
}
