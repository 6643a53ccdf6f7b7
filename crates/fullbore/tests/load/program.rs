//! Running the program: as a server that ends with the test, and as the load.

use fullbore_tests::{Ran, Server, program};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Bytes of each film of [`library`].
pub(crate) const FILM_BYTES: usize = 3_000_001;

/// A folder with `films` films, `0.mp4` and so on, whose bytes tell where they belong.
pub(crate) fn library(films: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for film in 0..films {
        let bytes: Vec<u8> =
            (0..FILM_BYTES).map(|offset| ((offset * 7 + film * 31) >> 3) as u8).collect();
        fs::write(folder.path().join(format!("{film}.mp4")), bytes).unwrap();
    }
    folder
}

/// Serves a library with one worker, and the flags in `words`.
pub(crate) fn serve(library: &Path, words: &str) -> Server {
    Server::start(library, &format!("--workers 1 {words}"))
}

/// The command, short and without a ramp.
pub(crate) fn command(words: &str, urls: &[String]) -> Command {
    let mut command = Command::new(program());
    command.arg("load").args(words.split_whitespace()).args(urls);
    for (flag, value) in [("--duration", "1s"), ("--ramp", "0"), ("--threads", "1")] {
        if !words.contains(flag) {
            command.args([flag, value]);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end, with the flags in `words`.
pub(crate) fn load(words: &str, urls: &[String]) -> Ran {
    Ran::of(command(words, urls), |command| command.output().unwrap())
}

/// As [`load`], for twice as long each time, until what it did is `enough`: a busy machine may do nothing at all in a second. Fails if a run was not
/// clean. The flags in `words` must not say for how long it runs.
pub(crate) fn load_until(words: &str, urls: &[String], enough: impl Fn(&Ran) -> bool) -> Ran {
    const SECONDS_MAX: u64 = 512;
    let mut seconds = 1;
    loop {
        let ran = load(&format!("{words} --duration {seconds}s"), urls);
        let is_zero = |name: &&str| ran.figures.is_object() && ran.number(name) == 0.0;
        let did_nothing = ["requests", "handshakes"].iter().all(is_zero);
        let ran = if did_nothing { ran } else { ran.clean() };
        if !did_nothing && enough(&ran) {
            return ran;
        }
        seconds *= 2;
        assert!(seconds <= SECONDS_MAX, "it does not do enough: {}{}", ran.figures, ran.stderr);
    }
}
