//! Telling a person how far the sample is.

use std::io::{IsTerminal, Write};

/// What becomes of the sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Another process is making it; we wait.
    Waiting,
    /// The encoder starts.
    Started,
    /// This part of the film is encoded, 0 to 1.
    Encoded(f64),
    /// It is whole.
    Finished,
}

/// Shows progress as one line on standard error that is rewritten; only that it began, if that is not a terminal.
pub fn on_terminal() -> impl FnMut(Progress) {
    let terminal = std::io::stderr().is_terminal();
    move |progress| {
        // A person who closed the terminal loses the progress line, not the film.
        let _ = std::io::stderr().write_all(line(progress, terminal).as_bytes());
    }
}

fn line(progress: Progress, terminal: bool) -> String {
    match (progress, terminal) {
        (Progress::Waiting, _) => {
            "waiting for another process that is making the sample film\n".to_owned()
        }
        (Progress::Started, false) => "making the sample film, once\n".to_owned(),
        (Progress::Encoded(_) | Progress::Finished, false) => String::new(),
        (Progress::Started, true) => bar(0.0),
        (Progress::Encoded(done), true) => bar(done),
        (Progress::Finished, true) => format!("{}\n", bar(1.0)),
    }
}

fn bar(done: f64) -> String {
    format!("\rmaking the sample film, once: {:3.0}%", done * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_one_line_and_a_terminal_a_line_that_is_rewritten() {
        let all = [Progress::Started, Progress::Encoded(0.5), Progress::Finished];
        let shown = |terminal| all.map(|progress| line(progress, terminal)).concat();
        assert_eq!(shown(false), "making the sample film, once\n");
        assert_eq!(shown(true).matches('\r').count(), 3);
        assert!(shown(true).ends_with("100%\n"));
    }
}
