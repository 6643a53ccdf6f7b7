//! How wide a line and how long a function and a file may be, and which names a file may not have.

use crate::rust;
use crate::tree::File;

/// rustfmt keeps code to 100. Comments may be wider, because prose is easier to edit in few lines; strings in code, and tables in comments,
/// cannot be broken.
const COLUMNS_MAX: usize = 150;

/// A function that doesn't fit on a screen is hard to keep in mind.
const FUNCTION_LINES_MAX: usize = 70;

/// A longer file has more than one idea.
const FILE_LINES_MAX: usize = 650;

/// Tests are lists of cases, and are read that way.
const TEST_LINES_MAX: usize = 900;

/// Longer functions: their crate, their name, and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[("load", "check", "one option after the other")];

/// Vague names: a reader should guess a file from its name.
const EMPTY_NAMES: [&str; 8] =
    ["common", "helper", "helpers", "manager", "misc", "util", "utils", "stuff"];

fn wide(file: &File) -> Vec<String> {
    let is_breakable = |line: &&str| {
        let comment = line.trim_start().strip_prefix("//");
        comment.map_or(!line.contains('"'), |text| {
            !text.trim_start_matches(['/', '!', ' ']).starts_with('|')
        })
    };
    let lines = file
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX && is_breakable(line));
    lines.map(|(at, _)| format!("{}: wider than {COLUMNS_MAX} columns", file.at(at))).collect()
}

fn long(file: &File) -> Option<String> {
    let bound = if file.source_of().is_some() { FILE_LINES_MAX } else { TEST_LINES_MAX };
    let lines = file.text.lines().count();
    (lines > bound).then(|| {
        format!(
            "{}: {lines} lines, more than {bound}: which idea can have a file of its own?",
            file.path
        )
    })
}

fn named_for_nothing(file: &File) -> Option<String> {
    let mut parts = file.path.trim_end_matches(".rs").split('/');
    let part = parts.find(|part| EMPTY_NAMES.contains(part))?;
    Some(format!("{}: {part} says nothing: name it after what it does", file.path))
}

/// The crate that a file belongs to, or the first folder of its path.
fn crate_of(file: &File) -> &str {
    file.in_crate()
        .map_or_else(|| file.path.split('/').next().unwrap_or_default(), |(name, _)| name)
}

fn long_functions(files: &[File], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut used = vec![false; exceptions.len()];
    for file in files {
        for (at, name, lines) in rust::functions(&rust::code(&file.text)) {
            if lines <= FUNCTION_LINES_MAX {
                continue;
            }
            let is_this = |row: &(&str, &str, &str)| row.0 == crate_of(file) && row.1 == name;
            match exceptions.iter().position(is_this) {
                Some(row) => used[row] = true,
                None => breaches.push(format!(
                    "{}: {name} has {lines} lines, more than {FUNCTION_LINES_MAX}",
                    file.at(at)
                )),
            }
        }
    }
    let idle = exceptions.iter().zip(used).filter(|(_, is_used)| !is_used);
    breaches.extend(idle.map(|((of, name, _), _)| {
        format!("{of}: {name} is not long: take its row out of LONG_FUNCTIONS in {}", file!())
    }));
    breaches
}

fn rust_files() -> Vec<File> {
    crate::tree::files().into_iter().filter(File::is_rust).collect()
}

#[test]
fn lines_functions_and_files_have_their_measure() {
    let files = rust_files();
    let mut breaches: Vec<_> = files.iter().flat_map(wide).collect();
    breaches.extend(files.iter().filter_map(long));
    breaches.extend(files.iter().filter_map(named_for_nothing));
    breaches.extend(long_functions(&files, LONG_FUNCTIONS));
    crate::none(breaches);
}

#[test]
fn planted_wide_lines_are_found() {
    let wide_line = "x".repeat(COLUMNS_MAX + 1);
    let text = format!(
        "// {wide_line}\n//! | {wide_line}\nlet a = \"{wide_line}\";\n/// \"{wide_line}\"\n// {}\n",
        "x".repeat(COLUMNS_MAX - 3)
    );
    crate::found(&wide(&File::planted("a.rs", &text)), &["a.rs:1", "a.rs:4"]);
}

#[test]
fn planted_long_files_and_empty_names_are_found() {
    let of = |path: &str, lines: usize| long(&File::planted(path, &"\n".repeat(lines)));
    assert_eq!(of("crates/core/a/src/b.rs", FILE_LINES_MAX), None);
    assert_eq!(of("crates/core/a/tests/b.rs", TEST_LINES_MAX), None);
    crate::found(
        &[of("crates/core/a/src/b.rs", FILE_LINES_MAX + 1)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>(),
        &["b.rs"],
    );
    crate::found(
        &[of("crates/core/a/tests/b.rs", TEST_LINES_MAX + 1)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>(),
        &["b.rs"],
    );
    assert!(named_for_nothing(&File::planted("crates/core/a/src/utils.rs", "")).is_some());
    assert!(named_for_nothing(&File::planted("crates/core/a/src/helpers/b.rs", "")).is_some());
    assert_eq!(named_for_nothing(&File::planted("crates/core/a/src/utilisation.rs", "")), None);
}

#[test]
fn planted_long_functions_are_found() {
    let function = |name: &str, lines: usize| {
        format!("fn {name}() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    };
    let text = function("short", FUNCTION_LINES_MAX)
        + &function("long", FUNCTION_LINES_MAX + 1)
        + &function("known", 200);
    let exceptions = [("a", "known", "a list"), ("a", "short", "nothing")];
    crate::found(
        &long_functions(&[File::planted("crates/core/a/src/b.rs", &text)], &exceptions),
        &["long has 71 lines", "short is not long"],
    );
}
