//! Commands in documents name tests, scenarios and targets that exist. Most of the commands are in SPECIFICATION.md.

use crate::rust;
use crate::tree::{self, File};

/// A test, by its name in `cargo test`, and where it is.
struct Test {
    /// The package: `fullbore-tcp`.
    package: String,
    /// The file or folder in `tests/`; `None` for a test next to the code.
    target: Option<String>,
    /// The name, with its modules.
    name: String,
}

/// The parts of a command, as in `./run test -p fullbore-tcp --test exchanges path`, each part if present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Command {
    package: Option<String>,
    target: Option<String>,
    filters: Vec<String>,
    /// Has more than one filter, which cargo accepts only after `--`.
    is_refused: bool,
}

fn all_tests(files: &[File]) -> Vec<Test> {
    let mut tests = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let in_tests = || file.path.strip_prefix("tests/").map(|path| ("tests", path));
        let Some((folder, path)) = file.in_crate().or_else(in_tests) else { continue };
        let package = tree::package(folder);
        let mut parts: Vec<_> = path.trim_end_matches(".rs").split('/').collect();
        let target = (parts.remove(0) == "tests").then(|| parts.remove(0).to_owned());
        parts.retain(|part| !["main", "mod", "lib"].contains(part));
        for name in rust::tests(&rust::code(&file.text)) {
            let name = parts.iter().copied().chain([name.as_str()]).collect::<Vec<_>>().join("::");
            tests.push(Test { package: package.clone(), target: target.clone(), name });
        }
    }
    tests
}

/// The commands in a line, without their first two words. `... name` and `--test name` continue the command before.
fn commands(line: &str) -> Vec<Command> {
    let mut commands = Vec::<Command>::new();
    for text in quoted(line) {
        let told = ["run test ", "cargo test "].iter().find_map(|verb| text.split_once(verb));
        let before = commands.last().cloned();
        let (text, command) = match (told, before) {
            (Some((_, text)), _) => (text, Command::default()),
            (None, Some(before)) if text.starts_with("... ") => {
                (&text[4..], Command { filters: Vec::new(), ..before })
            }
            (None, Some(before)) if text.starts_with("--test ") => {
                (text, Command { package: before.package, ..Command::default() })
            }
            _ => continue,
        };
        commands.push(with(command, text));
    }
    commands
}

fn with(mut command: Command, text: &str) -> Command {
    let text = text.split([';', '#', '>', '|', '"', '(']).next().unwrap_or_default();
    let mut words = text.split_whitespace();
    let mut is_for_cargo = true;
    while let Some(word) = words.next() {
        match word {
            "--" => is_for_cargo = false,
            "-p" => command.package = words.next().map(str::to_owned),
            "--test" => command.target = words.next().map(str::to_owned),
            "--test-threads" | "--busy" => drop(words.next()),
            word if word.starts_with('-') || word == "NAME" => {}
            word => {
                command.is_refused |= is_for_cargo && !command.filters.is_empty();
                command.filters.push(word.to_owned());
            }
        }
    }
    command
}

fn is_met(command: &Command, tests: &[Test]) -> bool {
    let runs = |test: &&Test| {
        let is_of = |wanted: &Option<String>, is: Option<&String>| {
            wanted.is_none() || wanted.as_ref() == is
        };
        is_of(&command.package, Some(&test.package)) && is_of(&command.target, test.target.as_ref())
    };
    let mut run = tests.iter().filter(runs).peekable();
    let is_one = run.peek().is_some();
    let names: Vec<_> = run.map(|test| test.name.as_str()).collect();
    is_one
        && !command.is_refused
        && command.filters.iter().all(|filter| names.iter().any(|name| name.contains(filter)))
}

fn broken_tests(files: &[File]) -> Vec<String> {
    let tests = all_tests(files);
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_markdown()) {
        for (at, line) in file.text.lines().enumerate() {
            let broken = commands(line).into_iter().filter(|command| !is_met(command, &tests));
            breaches.extend(
                broken
                    .map(|command| format!("{}: there is no such test: {command:?}", file.at(at))),
            );
        }
    }
    breaches
}

/// Verbs of `./run` that take a name, and the file that belongs to it.
const NAMED: [(&str, &str, &str); 2] =
    [("lab", "lab/scenarios/", ".sh"), ("fuzz", "fuzz/targets/", ".rs")];

/// Placeholders for any name, and words that `./run lab` and `./run fuzz` take.
const ANY: [&str; 7] = ["SCENARIO", "TARGET", "help", "shell", "fetch", "list", "affected"];

/// The commands in a line: in backquotes, or the whole line if it is indented.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, text)| text);
    quoted.chain(line.strip_prefix("    "))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|char: char| char.is_ascii_lowercase())
        && word.chars().all(|char| char.is_ascii_lowercase() || "-_".contains(char))
}

fn broken_names(files: &[File]) -> Vec<String> {
    let is_there = |path: &str| files.iter().any(|file| file.path == path);
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_markdown()) {
        for (at, line) in file.text.lines().enumerate() {
            for text in quoted(line) {
                let text = text.split('#').next().unwrap_or_default();
                let words = text.trim_start_matches("./run ").split_whitespace();
                let mut words = words.filter(|word| !word.starts_with('-'));
                let verb = words.next().unwrap_or_default();
                let named = NAMED.iter().find(|(named, ..)| verb == *named);
                let (Some((_, folder, end)), Some(name)) = (named, words.next()) else { continue };
                let mut paths = Vec::new();
                if is_name(name) && !ANY.contains(&name) {
                    paths.push(format!("{folder}{name}{end}"));
                }
                let machine = words.next().and_then(|word| word.split('/').next());
                if let Some(machine) = machine.filter(|word| verb == "lab" && is_name(word)) {
                    paths.extend((name != "affected").then(|| format!("lab/machines/{machine}")));
                }
                let missing = paths.iter().filter(|path| !is_there(path));
                breaches.extend(missing.map(|path| format!("{}: there is no {path}", file.at(at))));
            }
        }
    }
    breaches
}

/// The verbs in `./run help`.
fn verbs(run: &str) -> Vec<&str> {
    let help = run.split("<<'TEXT'\n").nth(1).and_then(|rest| rest.split("\nTEXT\n").next());
    let rows = help.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("  "));
    rows.filter_map(|row| row.split_whitespace().next().filter(|_| !row.starts_with(' '))).collect()
}

/// Commands of `./run` whose verb it does not have, or that name no test of the pages.
fn broken_runs(files: &[File]) -> Vec<String> {
    let run = files.iter().find(|file| file.path == "run").map_or("", |file| &file.text);
    let verbs = verbs(run);
    let of_pages = |file: &&File| file.path.starts_with("web/tests/");
    let pages: String = files.iter().filter(of_pages).map(|file| file.text.as_str()).collect();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_markdown()) {
        for (at, line) in file.text.lines().enumerate() {
            for command in quoted(line).filter_map(|text| text.strip_prefix("./run ")) {
                let command = command.split('#').next().unwrap_or_default().trim();
                let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
                if is_name(verb) && verb != "help" && !verbs.contains(&verb) {
                    breaches.push(format!("{}: ./run has no verb {verb}", file.at(at)));
                }
                let names = rest.split('"').map(str::trim).filter(|name| !name.is_empty());
                let is_missing = |name: &&str| verb == "pages" && !pages.contains(name);
                breaches.extend(names.filter(is_missing).map(|name| {
                    format!("{}: no test of the pages has {name:?} in its name", file.at(at))
                }));
            }
        }
    }
    breaches
}

#[test]
fn tests_that_documents_name_are_there() {
    crate::none(broken_tests(&tree::files()));
}

#[test]
fn scenarios_and_fuzz_targets_that_documents_name_are_there() {
    crate::none(broken_names(&tree::files()));
}

#[test]
fn verbs_and_tests_of_the_pages_that_documents_name_are_there() {
    crate::none(broken_runs(&tree::files()));
}

#[test]
fn planted_commands_of_no_test_are_found() {
    let document = "| a | `./run test -p fullbore-net --test frames reads`, `... writes`, `... burns` |\n\
        | b | `./run test --test start`, `--test stop` |\n| c | `./run test -p fullbore-net window` |\n\
        | d | `./run test -p fullbore-net door` |\n    cargo test -p fullbore-gone\n\
        | e | `./run test --test start -- reads writes`, `./run test --test start reads writes` |\n";
    let test = "#[test]\nfn it_reads() {}\n\nmod later {\n    #[test]\n    fn it_writes() {}\n}\n";
    let files = [
        File::planted("A.md", document),
        File::planted("crates/server/net/tests/frames/main.rs", test),
        File::planted(
            "crates/server/net/src/window.rs",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn grows() {}\n}\n",
        ),
        File::planted("tests/tests/start.rs", test),
    ];
    crate::found(&broken_tests(&files), &["A.md:1", "A.md:2", "A.md:4", "A.md:5", "A.md:6"]);
}

#[test]
fn planted_names_of_nothing_are_found() {
    let document = "`./run lab ktls plain/kernel`, `lab gone`\n`./run fuzz cmcd`, `./run fuzz TARGET 60`\n    ./run fuzz nothing\n\
        `./run lab ktls huge`\n";
    let files = [
        File::planted("a.md", document),
        File::planted("lab/machines/plain", ""),
        File::planted("lab/scenarios/ktls.sh", ""),
        File::planted("fuzz/targets/cmcd.rs", ""),
    ];
    crate::found(
        &broken_names(&files),
        &[
            "a.md:1: there is no lab/scenarios/gone.sh",
            "a.md:3: there is no fuzz/targets/nothing.rs",
            "a.md:4: there is no lab/machines/huge",
        ],
    );
}

#[test]
fn planted_verbs_and_tests_of_pages_that_are_not_there_are_found() {
    let run = "cat <<'TEXT'\nusage:\n\n  pages [NAME]    test\n                  more\n  soak   load\nTEXT\n";
    let document = "`./run pages`, `./run soak 10`\n`./run dance`\n    ./run pages \"a film\" \"no film\"   # two\n`./run pages sinks`\n";
    let files = [
        File::planted("a.md", document),
        File::planted("run", run),
        File::planted("web/tests/a.test.mjs", "test(\"a film plays\", () => {});\n"),
    ];
    crate::found(
        &broken_runs(&files),
        &["a.md:2: ./run has no verb dance", "a.md:3: no test", "a.md:4: no test"],
    );
}
