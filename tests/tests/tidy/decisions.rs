//! Decisions are found by their number: `docs/decisions/README.md` lists each with its title and its file, and a number that code or documents cite
//! exists.

use crate::tree::File;
use std::collections::BTreeMap;

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";

/// The number and the rest of a text that begins with a number.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The numbers that a text cites: `decision 7`, `Decision 7`, `decisions 7 and 8`.
fn cited(text: &str) -> Vec<u32> {
    let lower = text.to_lowercase();
    let mut numbers = Vec::new();
    for (at, _) in lower.match_indices("decision") {
        let rest = &lower[at + "decision".len()..];
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        let Some((first, rest)) = rest.strip_prefix(' ').and_then(number) else { continue };
        numbers.push(first);
        numbers.extend(rest.strip_prefix(" and ").and_then(number).map(|(second, _)| second));
    }
    numbers
}

fn breaches(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    // By number: where it is, and the end of its row in the index.
    let mut titles = BTreeMap::<u32, (String, String)>::new();
    for file in files.iter().filter(|file| file.path.starts_with(FOLDER)) {
        let name = &file.path[FOLDER.len()..];
        for (at, line) in file.text.lines().enumerate() {
            let heading = line.strip_prefix("### ").and_then(number);
            let Some((number, title)) =
                heading.and_then(|(number, rest)| Some((number, rest.strip_prefix(". ")?)))
            else {
                continue;
            };
            let row = format!("| {number} | [{}]({name}#{number}-", title.replace('`', ""));
            if titles.insert(number, (file.at(at), row)).is_some() {
                breaches.push(format!("{}: decision {number} is there twice", file.at(at)));
            }
        }
    }
    let index = files.iter().find(|file| file.path == INDEX);
    let rows = index.map_or("", |file| &file.text).replace('`', "");
    let missing = titles.values().filter(|(_, row)| !rows.contains(row.as_str()));
    breaches.extend(missing.map(|(at, row)| format!("{at}: {INDEX} needs the row: {row}...")));
    for file in files.iter().filter(|file| file.is_rust() || file.is_markdown()) {
        if file.path.starts_with("tests/tests/tidy/") {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            let unknown = cited(line).into_iter().filter(|number| !titles.contains_key(number));
            breaches.extend(
                unknown.map(|number| format!("{}: there is no decision {number}", file.at(at))),
            );
        }
    }
    breaches
}

#[test]
fn each_decision_is_listed_and_each_cited_one_exists() {
    crate::none(breaches(&crate::tree::files()));
}

#[test]
fn planted_decisions_that_are_twice_unlisted_or_missing_are_found() {
    let files = [
        File::planted(INDEX, "| 1 | [One, two](a.md#1-one-two) |\n"),
        File::planted("docs/decisions/a.md", "### 1. One, `two`\n\n### 2. Unlisted\n"),
        File::planted("docs/decisions/b.md", "### 1. One, `two`\n"),
        File::planted("crates/core/a/src/lib.rs", "// decisions 1 and 2, Decision 44\n"),
    ];
    crate::found(
        &breaches(&files),
        &["is there twice", "needs the row", "needs the row", "no decision 44"],
    );
}
