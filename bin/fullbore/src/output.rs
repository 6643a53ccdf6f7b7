//! The program's output.
//!
//! Results go to standard output. If writing them fails, the command has failed; [`end`] reports it last, because the rest of the work may still be
//! worth doing. Messages go to standard error, and are lost if writing them fails: there is no other place to report it. Neither panics.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Why writing to standard output failed.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Prints a result. If writing fails, the program continues, and [`end`] reports it.
pub(crate) fn say(text: &str) {
    say_bytes(::ingest::shown_lines(text).as_bytes());
}

/// Prints one line. It may contain names, so line breaks are escaped and cannot start another line.
pub(crate) fn say_line(line: &str) {
    say(&(::ingest::shown(line) + "\n"));
}

/// As [`say`], for output that programs read. After a failed write it writes nothing more, so that truncated output cannot pass for complete.
pub(crate) fn say_bytes(bytes: &[u8]) {
    if LOST.get().is_none() {
        if let Err(error) = write(bytes) {
            // Only the first failure is kept.
            let _ = LOST.set(error);
        }
    }
}

/// Prints that a server has started. It serves even if the message cannot be written.
pub(crate) fn say_started(text: &str) {
    let _ = write(::ingest::shown_lines(text).as_bytes());
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Prints a one-line message to the operator on standard error. It may contain file names and other programs' messages.
pub(crate) fn tell(what: &str) {
    note(&format!("fullbore: {}", ::ingest::shown(what)));
}

/// Writes a progress line to standard error.
pub(crate) fn note(line: &str) {
    // One write, so that lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The exit code of a command that ended with `code`: failure if some of its output was lost. A closed pipe, as with `| head`, gets no
/// message.
pub(crate) fn end(code: ExitCode) -> ExitCode {
    let Some(error) = LOST.get() else { return code };
    if error.kind() != ErrorKind::BrokenPipe {
        tell(&format!(
            "cannot write to standard output: {error}. The output is lost: make room, or send it elsewhere"
        ));
    }
    if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}
