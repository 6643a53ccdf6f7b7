//! One name for one thing: no two public types share a name, in one crate or in two, unless both mean the same. And no word of our own
//! where the field has one.
//!
//! Of types, only `pub` counts, which is what a crate shows to others: the lint `unreachable_pub` ensures that nothing else is `pub`.

use crate::rust;
use crate::tree::File;
use std::collections::BTreeMap;

/// Names that several types have, and why that does not mislead a reader.
const SHARED: &[(&str, &str)] = &[
    ("ClientTls", "one thing: what a client takes for a certificate"),
    ("Config", "each crate's own configuration"),
    ("Device", "the interface that frames go over"),
    ("Failure", "why something that was requested did not come"),
    ("Options", "what its module may be told"),
    ("Outcome", "what its module found"),
    ("Part", "a part of a response"),
    ("Progress", "how far its module has come"),
    ("Source", "where bytes come from: a disk, a pathway"),
    ("Timeouts", "one thing: in seconds as configured, and as durations"),
];

/// Words of our own that once stood where the field has a word, alone or as a part of a name, and the words to use.
const OWN_WORDS: &[(&str, &str)] = &[
    ("desk", "machine API"),
    ("discreet", "redact"),
    ("doorkeeper", "handoff server"),
    ("estate", "listener set"),
    ("hush", "redact"),
    ("judged", "say whose verdict it is: theirs, refused, parsed"),
    ("leash", "limits"),
    ("lent", "sendfile, leased, in flight"),
    ("lesson", "offload history"),
    ("luggage", "connection state"),
    ("pour", "sendfile, or flow"),
    ("poured", "sendfile, or flow"),
    ("pouring", "sendfile, or flow"),
    ("predecessor", "handoff client"),
    ("succession", "hot restart"),
    ("tactics", "features"),
    ("unheard", "rejected message"),
    ("unsealed", "plaintext"),
    ("way_of_absent", "policy"),
];

/// Verbs that are plain English in a sentence, but vague as a name.
const FINE_IN_PROSE: [&str; 12] = [
    "desk",
    "doorkeeper",
    "estate",
    "judged",
    "leash",
    "lesson",
    "luggage",
    "predecessor",
    "succession",
    "tactics",
    "unheard",
    "unsealed",
];

/// The parts of a name, in lower case: `HotSet` and `hot_set` have two each.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for char in name.chars() {
        if char == '_' || (char.is_uppercase() && !parts[parts.len() - 1].is_empty()) {
            parts.push(String::new());
        }
        if char != '_' {
            parts.last_mut().expect("one part at least").extend(char.to_lowercase());
        }
    }
    parts
}

fn has_word(text: &str, word: &str) -> bool {
    rust::words(text).any(|name| name == word || parts(name).iter().any(|part| part == word))
}

fn own_words(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    let is_read =
        |file: &&File| file.is_rust() || (file.is_markdown() && file.path != "CHANGELOG.md");
    let is_table = |file: &&File| file.path == "tests/tests/tidy/names.rs";
    for file in files.iter().filter(is_read).filter(|file| !is_table(file)) {
        let lower = file.text.to_lowercase();
        // Most files have none of them in any form.
        for (word, instead) in OWN_WORDS.iter().filter(|(word, _)| lower.contains(word)) {
            let is_fine_in_prose = FINE_IN_PROSE.contains(word);
            let code = is_fine_in_prose
                .then(|| if file.is_rust() { rust::code(&file.text) } else { String::new() });
            let text = code.as_ref().unwrap_or(&file.text);
            let lines = text.lines().enumerate().filter(|(_, line)| has_word(line, word));
            breaches.extend(lines.map(|(at, _)| {
                format!("{}: \"{word}\": use another word: {instead}", file.at(at))
            }));
        }
    }
    breaches
}

/// The name of the public type that begins in a line.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "union ", "type "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    rust::words(name).next().filter(|name| name.starts_with(char::is_uppercase))
}

fn breaches(files: &[File], shared: &[(&str, &str)]) -> Vec<String> {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for file in files.iter().filter(|file| file.is_rust() && file.source_of().is_some()) {
        for (at, line) in rust::code(&file.text).lines().enumerate() {
            if let Some(name) = public_type(line) {
                places.entry(name.to_owned()).or_default().push(file.at(at));
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    let is_shared = |name: &str| shared.iter().any(|(known, _)| *known == name);
    let twice = places.iter().filter(|(name, _)| !is_shared(name)).map(|(name, places)| {
        format!(
            "{name}: {}: rename one by what it is; if both mean the same, add a row to SHARED in {}",
            places.join(", "),
            file!()
        )
    });
    let idle = shared.iter().filter(|(name, _)| !places.contains_key(*name));
    let idle = idle
        .map(|(name, _)| format!("{name}: not twice: take its row out of SHARED in {}", file!()));
    twice.chain(idle).collect()
}

#[test]
fn one_name_is_one_type() {
    crate::none(breaches(&crate::tree::files(), SHARED));
}

#[test]
fn planted_namesakes_are_found() {
    let files = [
        File::planted(
            "crates/core/a/src/lib.rs",
            "pub struct Refusal;\npub enum Options {}\npub(crate) struct Own;\n",
        ),
        File::planted(
            "crates/core/b/src/x.rs",
            "pub struct Options;\n// pub struct Said;\npub struct Own;\n",
        ),
        File::planted("crates/core/b/src/y.rs", "    pub enum Refusal {}\n"),
        File::planted("crates/core/b/tests/y.rs", "pub enum Own {}\n"),
    ];
    let shared = [("Options", "one for each command"), ("Said", "nothing")];
    crate::found(
        &breaches(&files, &shared),
        &["Refusal: crates/core/a/src/lib.rs:1, crates/core/b/src/y.rs:1", "Said: not twice"],
    );
}

#[test]
fn the_fields_words_are_used() {
    crate::none(own_words(&crate::tree::files()));
}

#[test]
fn planted_words_of_our_own_are_found() {
    let files = [
        File::planted(
            "a.rs",
            "struct Lent;\n// equivalent, judged by others\nlet judged_by = 1;\n",
        ),
        File::planted("b.md", "silent\nPour it\nsource\nby `way_of_absent`\n"),
        File::planted("CHANGELOG.md", "hush\n"),
        File::planted("c.sh", "hush\n"),
    ];
    let places =
        ["a.rs:3: \"judged\"", "a.rs:1: \"lent\"", "b.md:2: \"pour\"", "b.md:4: \"way_of_absent\""];
    crate::found(&own_words(&files), &places);
}
