//! Words that make English read as translated, in what people read: documents, comments, and texts of the program.
//!
//! Each has a plain word that an operator would use. The rule looks only for words that are wrong wherever they stand.

use crate::rust;
use crate::tree::File;

/// Phrases, and what to write instead.
const TRANSLATED: &[(&str, &str)] = &[
    ("anew", "again, or name what starts over"),
    ("are told", "name who reports or sets it"),
    ("is told", "name who reports or sets it"),
    ("it is said", "name who reports it"),
    ("none is not", "say what is allowed"),
    ("shall", "must, will, or the plain present"),
    ("that was said", "name what was set or reported"),
    ("thrice", "three times"),
    ("was told", "name who reported or set it"),
    ("whoever", "name the subject: a viewer, the caller, you"),
];

/// Whether `phrase` stands in `line` as whole words, in whatever case.
fn has(line: &str, phrase: &str) -> bool {
    let line = line.to_lowercase();
    let is_apart = |rest: Option<char>| !rest.is_some_and(rust::is_of_word);
    line.match_indices(phrase).any(|(at, _)| {
        is_apart(line[..at].chars().next_back())
            && is_apart(line[at + phrase.len()..].chars().next())
    })
}

fn breaches(files: &[File]) -> Vec<String> {
    let is_read = |file: &&File| {
        let is_source = file.is_rust() && file.source_of().is_some();
        (is_source || file.is_markdown()) && !file.path.starts_with("tests/tests/tidy/")
    };
    let mut breaches = Vec::new();
    for file in files.iter().filter(is_read) {
        let lower = file.text.to_lowercase();
        // Most files have none of them.
        for (phrase, instead) in TRANSLATED.iter().filter(|(phrase, _)| lower.contains(phrase)) {
            // Names in code, and in documents that quote code, are the business of another rule.
            let code = if file.is_rust() { rust::code(&file.text) } else { String::new() };
            let code: Vec<_> = code.lines().collect();
            let lines = file.text.lines().enumerate().filter(|(at, line)| {
                has(line, phrase) && !code.get(*at).is_some_and(|code| has(code, phrase))
            });
            breaches.extend(
                lines.map(|(at, _)| format!("{}: \"{phrase}\": write {instead}", file.at(at))),
            );
        }
    }
    breaches
}

#[test]
fn what_people_read_is_plain_english() {
    crate::none(breaches(&crate::tree::files()));
}

#[test]
fn planted_translations_are_found_and_names_are_not() {
    let files = [
        File::planted("docs/a.md", "It serves whoever asks.\n"),
        File::planted("crates/core/a/src/lib.rs", "/// A node that shall leave.\nfn shall() {}\n"),
        File::planted("crates/core/a/src/b.rs", "fn f() { fail(\"the gateway was told\") }\n"),
        File::planted("docs/b.md", "A shallow plan, and `shall_fill`.\n"),
    ];
    crate::found(&breaches(&files), &["whoever", "shall", "was told"]);
}
