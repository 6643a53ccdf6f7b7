//! What the program prints.
//!
//! What was asked for goes to standard output. If that takes no more, the command has failed: [`end`] says so at last, because the rest
//! of the work may still be worth doing. What goes to standard error is lost if that takes no more: there is nobody left to tell. Neither panics.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Why standard output took no more.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Prints what was asked for. If it cannot be written, the program continues, and [`end`] says it.
pub(crate) fn say(text: &str) {
    say_bytes(::library::shown_lines(text).as_bytes());
}

/// Says one line. It may contain names: a line break in one is escaped, too, and does not begin another line.
pub(crate) fn say_line(line: &str) {
    say(&(::library::shown(line) + "\n"));
}

/// As [`say`], for what programs read as it is. After a part that was lost there is no further one: it would pass for the whole.
pub(crate) fn say_bytes(bytes: &[u8]) {
    if LOST.get().is_none() {
        if let Err(error) = write(bytes) {
            // Whoever was first has said why.
            let _ = LOST.set(error);
        }
    }
}

/// Says that a server has started. It serves whether or not anybody reads that.
pub(crate) fn say_started(text: &str) {
    let _ = write(::library::shown_lines(text).as_bytes());
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Tells the operator in one line what is wrong, or worth knowing. It may contain file names and messages of other programs.
pub(crate) fn tell(what: &str) {
    note(&format!("fullbore: {}", ::library::shown(what)));
}

/// Writes a line about the work to standard error.
pub(crate) fn note(line: &str) {
    // One write, so that lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The exit code of a command that ended with `code`: it has failed if what it printed was lost. That nobody wanted more, as with `| head`,
/// needs no words.
pub(crate) fn end(code: ExitCode) -> ExitCode {
    let Some(error) = LOST.get() else { return code };
    if error.kind() != ErrorKind::BrokenPipe {
        tell(&format!(
            "cannot write to standard output: {error}. What was to be printed is lost: make room, or send it elsewhere"
        ));
    }
    if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}
