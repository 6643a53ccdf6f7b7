//! No test sleeps instead of waiting for a condition. "Sleep, then nothing has happened" passes because a machine is slow; "sleep, then it has
//! happened" fails because it is.
//!
//! A sleep belongs in a loop that ends when its condition holds (`eventually`, `until` and `within` are such loops), or gives its reason:
//!
//! ```text
//! // sleeps: the camera sends two pictures a second
//! std::thread::sleep(HALF_A_SECOND);
//! ```
//!
//! Good reasons: the program's own time has to pass, and longer is fine; a peer that is slow on purpose; a random moment; a timer is
//! under test. To show that nothing happens, wait for a counter or an event that says "looked, and found nothing to do".

use crate::rust;
use crate::times::test_code;
use crate::tree::File;

/// Files that test timers themselves.
const TIMERS: &[&str] = &["crates/core/reactor/tests/reactor.rs"];

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn calls_sleep(line: &str) -> bool {
    line.match_indices("sleep(").any(|(at, _)| {
        let is_whole = !line[..at].ends_with(rust::is_of_word);
        is_whole && !line[..at].ends_with("fn ")
    })
}

/// Whether the block that begins in a line loops until a condition holds. A loop for some time, or a number of times, counts if it may
/// end early.
fn polls(lines: &[&str], at: usize) -> bool {
    let header = lines[at].trim_start();
    let has = |word: &str| rust::words(header).any(|own| own == word);
    if header.ends_with("loop {") || has("while") && !header.contains(".elapsed()") {
        return true;
    }
    let is_inside = |line: &&&str| {
        line.trim().is_empty() || indent(line) > indent(lines[at]) || line.trim() == "{"
    };
    let ends_early =
        |line: &&str| rust::words(line).any(|word| ["break", "return"].contains(&word));
    let mut body = lines[at + 1..].iter().take_while(is_inside);
    (has("for") || has("while")) && body.any(ends_early)
}

/// The first lines of the blocks around a line, the innermost first, up to its function.
fn blocks_around(lines: &[&str], at: usize) -> Vec<usize> {
    let (mut around, mut inner) = (Vec::new(), indent(lines[at]));
    // A brace alone ends a header of several lines, which begins above at the same indent.
    let mut header_goes_on = false;
    for (above, line) in lines[..at].iter().enumerate().rev() {
        let is_outer = indent(line) < inner || header_goes_on && indent(line) == inner;
        if line.trim().is_empty() || !is_outer {
            continue;
        }
        inner = indent(line);
        header_goes_on = line.trim_start().starts_with(['{', '}', ')', '|']);
        if rust::function_name(line).is_some() {
            break;
        }
        around.push(above);
    }
    around
}

/// Whether the comment above a statement gives a reason.
fn has_reason(text: &[&str], at: usize) -> bool {
    let comments = text[..at].iter().rev().take_while(|line| line.trim_start().starts_with("//"));
    comments.into_iter().any(|line| {
        let reason = line.trim_start().trim_start_matches('/').trim_start();
        reason.strip_prefix("sleeps: ").is_some_and(|reason| reason.trim().len() > 10)
    })
}

/// Lines of a file's tests that sleep, in no loop that polls and without a reason.
fn idle_sleeps(file: &File) -> Vec<usize> {
    let code = test_code(file);
    let (lines, text): (Vec<_>, Vec<_>) = (code.lines().collect(), file.text.lines().collect());
    let sleeping = lines.iter().enumerate().filter(|(_, line)| calls_sleep(line));
    let idle = sleeping.filter(|(at, line)| {
        // An arm of `select!` that fails the test is a deadline.
        if line.contains("=> panic!") {
            return false;
        }
        let is_polling = blocks_around(&lines, *at).into_iter().any(|above| polls(&lines, above));
        !is_polling && !has_reason(&text, *at)
    });
    idle.map(|(at, _)| at).collect()
}

fn sleeping_tests(files: &[File], timers: &[&str]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !timers.contains(&&*file.path)) {
        breaches.extend(idle_sleeps(file).into_iter().map(|at| {
            format!(
                "{}: sleeps instead of waiting for a condition: use fullbore_tests::until or a counter, or give the reason in a comment \
                 above (// sleeps: REASON), see {}",
                file.at(at),
                file!()
            )
        }));
    }
    breaches
}

#[test]
fn no_test_sleeps_without_a_reason() {
    crate::none(sleeping_tests(&crate::tree::files(), TIMERS));
}

#[test]
fn planted_sleeps_are_found() {
    let hopes = "fn hopes() {\n    for _ in 0..2 {\n        sleep(SECOND);\n        assert!(nothing());\n    }\n}\n";
    let polls = "fn polls() {\n    while a\n        && !b()\n    {\n        if c {\n            std::thread::sleep(SECOND);\n        }\n    }\n}\n";
    let awhile =
        "fn awhile() {\n    while begun.elapsed() < SECOND {\n        sleep(STEP);\n    }\n}\n";
    let comes = "fn comes() {\n    for _ in 0..9 {\n        if here() {\n            return;\n        }\n        sleep(SECOND).await;\n    }\n}\n";
    let fails = "fn fails() {\n    tokio::select! {\n        () = sleep(MINUTE) => panic!(\"late\"),\n        () = comes() => {}\n    }\n}\n";
    let because = "fn because() {\n    // sleeps: the file's time has steps of ten milliseconds\n    sleep(STEP);\n    // sleeps: so\n    sleep(STEP);\n}\n";
    let code = "fn main() {\n    sleep(SECOND);\n}\n";
    let files = [
        File::planted("crates/core/a/src/b.rs", &format!("{code}#[cfg(test)]\nmod tests {{\n}}\n")),
        File::planted("crates/core/a/src/c.rs", &format!("#[cfg(test)]\n{hopes}")),
        File::planted(
            "crates/core/a/tests/d.rs",
            &format!("{polls}{comes}fn sleep(a: u8) {{\n}}\n"),
        ),
        File::planted("crates/core/a/tests/e.rs", &format!("{because}{fails}")),
        File::planted("crates/core/a/tests/f.rs", awhile),
        File::planted("crates/core/a/tests/timers.rs", hopes),
        File::planted("tests/tests/g.rs", &format!("{hopes}{hopes}")),
    ];
    crate::found(
        &sleeping_tests(&files, &["crates/core/a/tests/timers.rs"]),
        &[
            "crates/core/a/src/c.rs:4",
            "crates/core/a/tests/e.rs:5",
            "crates/core/a/tests/f.rs:3",
            "tests/tests/g.rs:3",
            "tests/tests/g.rs:9",
        ],
    );
}
