//! How commands behave when writing to standard output or standard error fails.

use fullbore_tests::program;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe without a reader.
fn broken() -> Stdio {
    let (own, _) = UnixStream::pair().unwrap();
    OwnedFd::from(own).into()
}

fn run(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).stdout(stdout).stderr(stderr).output().unwrap()
}

/// Commands that print, and need nothing for it.
fn printing() -> Vec<Vec<&'static str>> {
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machines/400g.toml");
    vec![
        vec!["plan", machine],
        vec!["plan", machine, "--json"],
        vec!["plan", machine, "--check"],
        vec!["completions", "bash"],
    ]
}

#[test]
fn what_a_full_disk_does_not_take_is_a_failure_that_is_told() {
    for arguments in printing() {
        let output = run(&arguments, full(), Stdio::piped());
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
        assert!(
            told.starts_with("fullbore: cannot write to standard output: No space left on device")
                && told.lines().count() == 1,
            "{arguments:?}: {told}"
        );
    }
}

#[test]
fn a_reader_who_is_gone_is_a_failure_without_words() {
    for arguments in printing() {
        let output = run(&arguments, broken(), Stdio::piped());
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*told), (Some(1), ""), "{arguments:?}");
    }
}

#[test]
fn a_standard_error_that_takes_no_more_changes_no_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().to_str().unwrap();
    let cases: [(&[&str], i32); 4] = [
        (&["control", "where", "nope", "--state", nowhere], 2),
        (&["plan", "/none/machine.toml"], 1),
        (&["bench", "report", "--from", "/none", "--out", nowhere], 1),
        (&["library", "list", "--library", "/none"], 1),
    ];
    for (arguments, code) in cases {
        let output = run(arguments, Stdio::piped(), Stdio::piped());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
        for stderr in [full(), broken()] {
            let output = run(arguments, Stdio::piped(), stderr);
            assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        }
    }
    // Neither of them.
    let output = run(&printing()[0], full(), full());
    assert_eq!(output.status.code(), Some(1));
}
