//! Words that make English read as translated, in what people read: documents, comments, and texts of the program.
//!
//! Each has a plain word that an operator would use. The rule looks only for words that native engineers would not write in any such place.

use crate::rust;
use crate::tree::File;

/// Phrases, and what to write instead.
const TRANSLATED: &[(&str, &str)] = &[
    ("anew", "again, or name what starts over"),
    ("anybody", "anyone, or name the subject"),
    ("are to be", "will be, must be, or an imperative"),
    ("are told", "name who reports or sets it"),
    ("been told", "name who reported or set it"),
    ("beside linux", "compared with, or next to"),
    ("beside nginx", "compared with, or next to"),
    ("beside one", "compared with, or next to"),
    ("beside the", "compared with, or next to"),
    ("everybody", "everyone, or name the subject"),
    ("for ever", "forever"),
    ("heard of", "name who reported it"),
    ("is to be", "will be, must be, or an imperative"),
    ("is told", "name who reports or sets it"),
    ("it is said", "name who reports it"),
    ("nobody", "no one, or name the subject: no viewer, no client"),
    ("none is not", "say what is allowed"),
    ("shall", "must, will, or the plain present"),
    ("so many", "the number, or a large number"),
    ("that was said", "name what was set or reported"),
    ("thrice", "three times"),
    ("was to be", "would have been, or name the plan"),
    ("was told", "name who reported or set it"),
    ("were told", "name who reported or set it"),
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

/// Whether a sentence that is no question begins with "What is" or "What was". Its subject comes late: "What is stored at a
/// path is over". Headings, bold ones too, may begin like this.
fn has_late_subject(line: &str) -> bool {
    ["What is ", "What was "].iter().flat_map(|words| line.match_indices(words)).any(|(at, _)| {
        let before = line[..at].trim_end();
        let begins = before.trim_start_matches(['/', '!', '-', ' ']).is_empty()
            || before.ends_with(['.', ':', '!', '?']);
        begins && !line[at..].contains('?')
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
        let late = file.text.lines().enumerate().filter(|(_, line)| has_late_subject(line));
        breaches.extend(late.map(|(at, _)| {
            format!("{}: \"What is\" as a subject: name the thing itself", file.at(at))
        }));
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
        File::planted(
            "docs/b.md",
            "A shallow plan, and `shall_fill`.\nWhat is promised?\n## What is kept\n",
        ),
        File::planted(
            "docs/c.md",
            "It was faster beside nginx.\nIt stays for ever, and nobody asks.\n",
        ),
        File::planted(
            "crates/core/a/src/c.rs",
            "/// Bytes that are to be sent. What was sent is gone.\nfn g() {}\n",
        ),
    ];
    let expected = [
        "whoever",
        "shall",
        "was told",
        "beside nginx",
        "for ever",
        "nobody",
        "are to be",
        "a subject",
    ];
    crate::found(&breaches(&files), &expected);
}
