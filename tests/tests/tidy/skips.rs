//! A skipped test reports that where people see it: `fullbore_tests::tool::skip` writes past the capture of output, by which a passing test's
//! `eprintln!` is hidden.

use crate::tree::File;

/// In two parts, so that this file has none itself.
const HIDDEN: &str = concat!("println!(\"", "SKIPPED");

fn hidden(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().enumerate().filter(|(_, line)| line.contains(HIDDEN));
        breaches.extend(lines.map(|(at, _)| {
            format!("{}: this skip is not reported: use fullbore_tests::tool::skip", file.at(at))
        }));
    }
    breaches
}

#[test]
fn skipped_tests_say_so_where_it_is_seen() {
    crate::none(hidden(&crate::tree::files()));
}

#[test]
fn planted_hidden_skips_are_found() {
    let hides = format!("fn a() {{\n    e{HIDDEN}: no curl\");\n}}\n");
    let files = [
        File::planted("crates/server/net/src/a.rs", &hides),
        File::planted("tests/tests/b.rs", "fn b() {\n    tool::skip(\"no curl\");\n}\n"),
    ];
    crate::found(&hidden(&files), &["crates/server/net/src/a.rs:2"]);
}
