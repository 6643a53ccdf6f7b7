//! Running `fullbore swarm`: to its end, or until the test's condition holds.

use fullbore_tests::{Course, Ran, program};
use std::process::{Command, Stdio};

/// The command with the flags in `words`.
pub(crate) fn command(words: &str, urls: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["swarm", "--threads", "1"]).args(words.split_whitespace()).args(urls);
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn swarm(words: &str, urls: &[&str]) -> Ran {
    Ran::of(command(words, urls), |command| command.output().unwrap())
}

/// Runs it to its end, and does `meanwhile` as soon as it has begun.
pub(crate) fn swarm_while(words: &str, urls: &[&str], meanwhile: impl FnOnce()) -> Ran {
    Ran::of(command(words, urls), |command| {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        meanwhile();
        child.wait_with_output().unwrap()
    })
}

/// Runs it until `meanwhile` has returned.
pub(crate) fn swarm_until(words: &str, urls: &[&str], meanwhile: impl FnOnce(&Course)) -> Ran {
    fullbore_tests::swarm_until(command(words, urls), meanwhile)
}
