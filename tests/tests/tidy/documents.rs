//! Documents and comments refer only to things in the repository: files, chapters, and nothing that only their authors
//! know.

use crate::rust::is_of_word;
use crate::tree::{self, File};
use std::collections::HashSet;

/// Words about documents and work that readers do not have.
const STRANGE: &[&str] = &[
    "DESIGN's",
    "DESIGN.md",
    "FLEET.md",
    "the seeds'",
    "the first source",
    "the second source",
    "the third source",
    "the source documents",
    "he source's own",
    "../shared",
    "the brief",
    "issue #",
    "pull request #",
    "this session",
];

/// Personal folders, which exist on one machine only.
const PRIVATE: [&str; 3] = ["/home/", "/root/", "/Users/"];

fn is_written_by_people(file: &File) -> bool {
    let is_made = file.path.ends_with("package-lock.json") || file.path.ends_with("Cargo.lock");
    !is_made && !file.path.starts_with("tests/tests/tidy/") && !file.path.starts_with("fuzz/seeds/")
}

fn strange(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| is_written_by_people(file)) {
        for (at, line) in file.text.lines().enumerate() {
            let words = STRANGE.iter().filter(|words| line.contains(**words));
            breaches.extend(words.map(|words| {
                format!("{}: \"{words}\" is not in the repository: say it here, or cite what can be read", file.at(at))
            }));
        }
    }
    breaches
}

/// Lines that git writes between the two sides of a conflict.
fn unmerged(files: &[File]) -> Vec<String> {
    let is_mark = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| is_written_by_people(file)) {
        let marks = file.text.lines().enumerate().filter(|(_, line)| is_mark(line));
        breaches.extend(marks.map(|(at, _)| format!("{}: both sides of a merge", file.at(at))));
    }
    breaches
}

/// Paths below a personal folder, and below the folder in which this is built. If that folder is at the top, such as `/fullbore`, its path
/// says nothing of a machine, and stands for other things.
fn private(files: &[File], here: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let here = Some(here).filter(|here| here.matches('/').count() > 1);
    for file in files.iter().filter(|file| is_written_by_people(file)) {
        for (at, line) in file.text.lines().enumerate() {
            let told = PRIVATE.into_iter().filter(|prefix| begins(line, prefix));
            let own = here.filter(|here| begins(line, &format!("{here}/")));
            breaches.extend(
                told.chain(own)
                    .map(|path| format!("{}: {path} is there on one machine only", file.at(at))),
            );
        }
    }
    breaches
}

/// Whether a path in `line` begins with `prefix`: `/src/` does not begin `crates/server/net/src/lib.rs`.
fn begins(line: &str, prefix: &str) -> bool {
    let is_of_path = |char| is_of_word(char) || "./-}".contains(char);
    line.match_indices(prefix).any(|(at, _)| !line[..at].ends_with(is_of_path))
}

/// The targets of a document's links: `[text](target)`, by lines.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let prose = text.lines().enumerate().filter(|(_, line)| !line.starts_with("    "));
    prose.flat_map(|(at, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        targets.map(move |(target, _)| (at, target))
    })
}

/// `a/../b` and `./b` are `b`.
fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The anchors of a document, as code-hosting sites derive them from its headings.
fn anchors(text: &str) -> HashSet<String> {
    let headings = text.lines().filter_map(|line| {
        line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
    });
    let slug = |heading: &str| {
        let kept =
            heading.trim().chars().filter(|char| is_of_word(*char) || *char == ' ' || *char == '-');
        kept.map(|char| if char == ' ' { '-' } else { char.to_ascii_lowercase() }).collect()
    };
    headings.map(slug).collect()
}

fn broken_links(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_markdown()) {
        for (at, target) in links(&file.text).filter(|(_, target)| !target.contains(':')) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() {
                file.path.clone()
            } else {
                resolved(folder(&file.path), path)
            };
            let found = files.iter().find(|file| file.path == path);
            let is_folder = || files.iter().any(|file| file.path.starts_with(&format!("{path}/")));
            if found.is_none() && !is_folder() {
                breaches.push(format!("{}: {target}: there is no {path}", file.at(at)));
            } else if !anchor.is_empty()
                && !found.is_some_and(|file| anchors(&file.text).contains(anchor))
            {
                breaches
                    .push(format!("{}: {target}: {path} has no heading #{anchor}", file.at(at)));
            }
        }
    }
    breaches
}

/// Names of documents in a line: `docs/serve.md`.
fn documents(line: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |char: char| is_of_word(char) || ".-/".contains(char);
    let parts = line.split(move |char| !is_of_path(char)).map(|part| part.trim_end_matches('.'));
    parts.filter(|part| {
        part.strip_suffix(".md").is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'))
    })
}

/// A document is named by its path, or by its name alone if it is in the same folder, at the top or in docs/.
fn missing_documents(files: &[File]) -> Vec<String> {
    let paths: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| is_written_by_people(file)) {
        for (at, line) in file.text.lines().enumerate().filter(|(_, line)| !line.contains("://")) {
            for name in documents(line) {
                let is_there = ["", "docs", folder(&file.path)]
                    .iter()
                    .any(|from| paths.contains(resolved(from, name).as_str()));
                if !is_there {
                    breaches.push(format!("{}: there is no document {name}", file.at(at)));
                }
            }
        }
    }
    breaches
}

#[test]
fn nothing_is_told_that_only_its_writers_know() {
    crate::none(strange(&tree::files()));
}

#[test]
fn merges_are_complete() {
    crate::none(unmerged(&tree::files()));
}

#[test]
fn no_path_of_one_machine_is_told() {
    crate::none(private(&tree::files(), &tree::root().display().to_string()));
}

#[test]
fn links_lead_somewhere() {
    crate::none(broken_links(&tree::files()));
}

#[test]
fn documents_that_are_named_are_there() {
    crate::none(missing_documents(&tree::files()));
}

#[test]
fn planted_strange_words_are_found() {
    let files = [
        File::planted("a.rs", "// as\n// DESIGN's rule\n"),
        File::planted("b.md", "the third source\n"),
        File::planted("c.rs", "\"The source's own rows\"\n"),
    ];
    crate::found(
        &strange(&files),
        &["a.rs:2: \"DESIGN's\"", "b.md:1: \"the third source\"", "c.rs:1: \"he source's own\""],
    );
}

#[test]
fn planted_marks_of_a_merge_are_found() {
    let files = [
        File::planted("a.md", "one\n<<<<<<< HEAD\ntwo\n=======\nthree\n>>>>>>> 52336c7 (four)\n"),
        File::planted("b.md", "a heading\n=======\nx >>>>>>> y\n"),
    ];
    crate::found(&unmerged(&files), &["a.md:2: both sides", "a.md:6: both sides"]);
}

#[test]
fn planted_private_paths_are_found() {
    let files = [
        File::planted("a.md", "in\n/home/ann/films\n"),
        File::planted("b.md", "`/build/x/y`\nsub/build/x/y\n"),
        File::planted("c.md", "/build/xy, https://a.example/home/ann\n"),
    ];
    let places = ["a.md:2: /home/", "b.md:1: /build/x"];
    crate::found(&private(&files, "/build/x"), &places);
}

#[test]
fn planted_broken_links_are_found() {
    let files = [
        File::planted(
            "docs/a.md",
            "# One thing: `two`\n[a](b.md) [b](#one-thing-two) [c](../run) [d](https://a.example/b.md)\n[e](c.md)\n",
        ),
        File::planted("docs/b.md", "[a](a.md#nothing)\n    [b](code)\n[n](notes)\n"),
        File::planted("docs/notes/c.md", ""),
        File::planted("run", ""),
    ];
    crate::found(&broken_links(&files), &["docs/a.md:3: c.md", "docs/b.md:1: a.md#nothing"]);
}

#[test]
fn planted_missing_documents_are_found() {
    let files = [
        File::planted(
            "docs/a.md",
            "See b.md, and https://a.example/c.md. SPEC.md is gone.\nSee SPEC.md.\n",
        ),
        File::planted("docs/b.md", ""),
        File::planted("c.rs", "// (docs/a.md)\n// *.md, docs/plan.md\n"),
    ];
    crate::found(
        &missing_documents(&files),
        &["docs/a.md:2: there is no document SPEC.md", "c.rs:2: there is no document docs/plan.md"],
    );
}
