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
    repeated(words, urls, |ran| {
        let is_zero = |name: &&str| ran.figures.is_object() && ran.number(name) == 0.0;
        if ["requests", "handshakes"].iter().all(is_zero) {
            return None;
        }
        let ran = ran.clean();
        enough(&ran).then_some(ran)
    })
}

/// The same for servers that fail: a run need not be clean, but there was an error of this kind.
pub(crate) fn load_until_error(words: &str, urls: &[String], kind: &str) -> Ran {
    repeated(words, urls, |ran| (ran.errors(kind) > 0).then_some(ran))
}

/// Runs it for twice as long each time, until `judge` accepts a run.
fn repeated(words: &str, urls: &[String], judge: impl Fn(Ran) -> Option<Ran>) -> Ran {
    const SECONDS_MAX: u64 = 512;
    let mut seconds = 1;
    while seconds <= SECONDS_MAX {
        let ran = load(&format!("{words} --duration {seconds}s"), urls);
        println!("{words} for {seconds} s: {}{}", ran.figures, ran.stderr);
        if let Some(ran) = judge(ran) {
            return ran;
        }
        seconds *= 2;
    }
    panic!("it does not do enough, see above");
}
