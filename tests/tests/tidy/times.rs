//! No test asserts that something took less than some time: on a busy machine it takes longer, and nothing is wrong. Benches measure
//! costs.
//!
//! Tests may wait for a condition, and give up after a while (`timeout`, `eventually`, `Instant::now() < ends` in a loop). They may assert that
//! something took at least some time, which is true on every machine.

use crate::rust;
use crate::tree::File;

/// Upper bounds that stay: the file, the function, and the failure that would certainly take longer than the bound.
const BOUNDED: &[(&str, &str, &str)] = &[
    (
        "crates/fleet/store/tests/store/etcd.rs",
        "etcds_leader_dies_then_its_quorum_and_all_comes_back",
        "reads that ask for a quorum each: each waits until its time-out, all together twice the bound at least",
    ),
    (
        "tests/tests/silo_of_disk.rs",
        "a_worker_that_hangs_keeps_no_connection_of_another_waiting",
        "the hang, whose length the test chooses",
    ),
];

/// The code of a file's tests; line numbers stay the same.
pub(crate) fn test_code(file: &File) -> String {
    let code = rust::code(&file.text);
    if file.source_of().is_none() {
        return code;
    }
    let before = code.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
    let lines = code.lines().enumerate().map(|(at, line)| if at < before { "" } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}

/// The name that a statement gives to an elapsed time.
fn named_time(statement: &str) -> Option<&str> {
    let (_, rest) = statement.split_once("let ")?;
    let is_time = rest.contains(".elapsed()") && !rest.contains("assert");
    rust::words(rest).find(|word| *word != "mut").filter(|_| is_time)
}

/// Whether a statement asserts an upper bound of an elapsed time.
fn bounds_a_time(statement: &str, times: &[&str]) -> bool {
    let Some((_, asserted)) = statement.split_once("assert") else { return false };
    let is_timed =
        asserted.contains(".elapsed()") || rust::words(asserted).any(|word| times.contains(&word));
    is_timed && [" < ", " <= ", ".contains("].iter().any(|bound| asserted.contains(bound))
}

fn asserted_times(files: &[File], bounded: &[(&str, &str, &str)]) -> Vec<String> {
    let (mut breaches, mut used) = (Vec::new(), vec![false; bounded.len()]);
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = test_code(file);
        let lines: Vec<_> = code.lines().collect();
        for (at, name, count) in rust::functions(&code) {
            let body = lines[at..at + count].join("\n");
            let statements: Vec<_> = body.split(';').collect();
            let times: Vec<_> = statements.iter().copied().filter_map(named_time).collect();
            if !statements.iter().any(|statement| bounds_a_time(statement, &times)) {
                continue;
            }
            match bounded.iter().position(|row| row.0 == file.path && row.1 == name) {
                Some(row) => used[row] = true,
                None => breaches.push(format!(
                    "{}: {name} asserts that something takes less than some time: assert what it does instead, or add a row to BOUNDED in {}",
                    file.at(at),
                    file!()
                )),
            }
        }
    }
    let idle = bounded.iter().zip(used).filter(|(_, is_used)| !is_used);
    breaches.extend(idle.map(|((_, name, _), _)| {
        format!("{name} asserts no time: take its row out of BOUNDED in {}", file!())
    }));
    breaches
}

#[test]
fn no_test_asserts_that_something_is_quick() {
    crate::none(asserted_times(&crate::tree::files(), BOUNDED));
}

#[test]
fn planted_times_are_found() {
    let quick = "fn quick() {\n    assert!(begun.elapsed() < SECOND);\n}\n";
    let named = "fn named() {\n    let took = begun.elapsed();\n    assert!((1..3).contains(&took.as_secs()));\n}\n";
    let fine = "fn fine() {\n    assert!(begun.elapsed() >= SECOND);\n    assert!(a < b);\n}\n";
    let files = [
        File::planted(
            "crates/core/a/src/b.rs",
            &format!("{quick}#[cfg(test)]\nmod tests {{\n}}\n"),
        ),
        File::planted("crates/core/a/src/c.rs", &format!("#[cfg(test)]\n{quick}")),
        File::planted("crates/core/a/tests/d.rs", &format!("{named}{fine}")),
        File::planted("crates/core/a/tests/e.rs", quick),
    ];
    let bounded = [
        ("crates/core/a/tests/e.rs", "quick", "a hang"),
        ("crates/core/a/tests/d.rs", "fine", "nothing"),
    ];
    crate::found(
        &asserted_times(&files, &bounded),
        &[
            "crates/core/a/src/c.rs:2: quick",
            "crates/core/a/tests/d.rs:1: named",
            "fine asserts no time",
        ],
    );
}
