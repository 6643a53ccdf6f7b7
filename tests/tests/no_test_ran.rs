//! `./run test FILTER` fails if the filter matches no test, because that is probably a typo, and what failed is repeated at the end. The part of the
//! script that adds cargo's results up is run unchanged, on cargo's output.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The script's function alone.
fn add_up() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../run");
    let script = std::fs::read_to_string(script).unwrap();
    let (_, function) = script.split_once("\nadd_up() {\n").expect("run has this function");
    let (body, _) = function.split_once("\n}\n").expect("it ends");
    format!("set -euo pipefail\nadd_up() {{\n{body}\n}}\n")
}

/// Adds up the results of test programs: for each, the tests that passed, failed, were ignored and were filtered out. Cargo exits with `status`.
fn added_up(results: &[[u32; 4]], status: i32) -> Output {
    let mut said = String::from("    Finished `test` profile [unoptimized] target(s) in 0.1s\n");
    for [passed, failed, ignored, filtered] in results {
        let word = if *failed > 0 { "FAILED" } else { "ok" };
        said += &format!(
            "test result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {filtered} filtered out; finished in 0.01s\n"
        );
    }
    let output = through_add_up(&said, status);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with(&said), "cargo's own output comes first: {printed}");
    assert_eq!(printed.lines().filter(|line| line.starts_with("tests: ")).count(), 1, "{printed}");
    output
}

/// Gives the script's function the output of cargo, which exits with `status`.
fn through_add_up(said: &str, status: i32) -> Output {
    let script = format!("{}{{ cat; exit {status}; }} | add_up", add_up());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bash = bash.spawn().unwrap();
    bash.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    bash.wait_with_output().unwrap()
}

#[track_caller]
fn fails_with(output: &Output, message: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.starts_with("no test ran: ") && errors.contains(message), "{errors}");
}

#[track_caller]
fn returns(output: &Output, code: i32) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*errors), (Some(code), ""));
}

#[test]
fn a_filter_that_matches_no_test_in_any_program_fails() {
    fails_with(&added_up(&[[0, 0, 0, 7]], 0), "-- --list");
    fails_with(&added_up(&[[0, 0, 0, 7], [0, 0, 0, 0], [0, 0, 0, 31]], 0), "check the spelling");
}

#[test]
fn a_filter_that_matches_ignored_tests_only_fails_and_says_how_to_run_them() {
    fails_with(&added_up(&[[0, 0, 0, 7], [0, 0, 2, 5]], 0), "-- --ignored");
}

#[test]
fn one_test_that_ran_is_enough() {
    returns(&added_up(&[[0, 0, 0, 7], [1, 0, 3, 6]], 0), 0);
    returns(&added_up(&[[0, 0, 0, 7], [0, 1, 0, 6]], 101), 101);
}

/// Packages without tests, tests that are all ignored, names that are listed, a build that failed: no test was chosen by its name.
#[test]
fn without_a_filter_no_test_has_to_run() {
    returns(&added_up(&[[0, 0, 0, 0]], 0), 0);
    returns(&added_up(&[[0, 0, 4, 0], [0, 0, 0, 0]], 0), 0);
    returns(&added_up(&[], 0), 0);
    returns(&added_up(&[], 101), 101);
}

/// A failure in the middle of thousands of lines would be lost where only the end of a log is kept.
#[test]
fn what_failed_is_repeated_at_the_end() {
    let failures = "failures:\n\n---- reads::one stdout ----\nthread 'reads::one' panicked at 'no'\n\nfailures:\n    reads::one\n\n";
    let ended = "error: test failed, to rerun pass `-p fullbore-disk --test reads`\n";
    let crashed =
        "  process didn't exit successfully: `reads` (signal: 6, SIGABRT: process abort signal)\n";
    let said = format!(
        "test reads::one ... FAILED\n{failures}test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
         {ended}{crashed}test later ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"
    );
    let output = through_add_up(&said, 101);
    let printed = String::from_utf8_lossy(&output.stdout);
    let repeated = printed.strip_prefix(&said).expect("cargo's own output comes first");
    assert_eq!(
        repeated,
        format!("\nFAILED:\n{failures}{ended}{crashed}tests: 2 passed, 1 failed, 0 skipped\n")
    );
    returns(&output, 101);
}
