//! The table of what a change may affect in the lab (`lab/affected`): each row matches files and leads to pairs that exist.

use crate::tree::{self, File};
use std::process::Command;

/// Words that aren't scenarios.
const WORDS: [&str; 3] = ["none", "each", "own"];

/// Whether a path fits a pattern in which `*` stands for any characters, including slashes.
fn fits(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((start, rest)) => path.strip_prefix(start).is_some_and(|path| {
            (0..=path.len()).any(|at| path.get(at..).is_some_and(|remainder| fits(rest, remainder)))
        }),
    }
}

/// Rows that match no file or lead nowhere.
fn stale_rows(table: &File, files: &[File]) -> Vec<String> {
    let rows = || {
        let lines = table.text.lines().enumerate();
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    };
    let is_there = |path: &str| files.iter().any(|file| file.path == path);
    let mut breaches = Vec::new();
    for (at, row) in rows() {
        let mut words = row.split_whitespace();
        let pattern = words.next().unwrap_or_default();
        if !pattern.starts_with('@') && !files.iter().any(|file| fits(pattern, &file.path)) {
            breaches.push(format!("{}: no file fits {pattern}: remove the row", table.at(at)));
        }
        for word in words.filter(|word| !WORDS.contains(word)) {
            let (scenario, machine) = word.split_once(':').unwrap_or((word, "plain"));
            let machine = machine.split('/').next().unwrap_or_default();
            let leads_somewhere = if word.starts_with('@') {
                rows().any(|(_, row)| row.split_whitespace().next() == Some(word))
            } else {
                is_there(&format!("lab/scenarios/{scenario}.sh"))
                    && is_there(&format!("lab/machines/{machine}"))
            };
            if !leads_somewhere {
                breaches.push(format!("{}: the lab has no {word}", table.at(at)));
            }
        }
    }
    breaches
}

/// The pairs that `./run lab affected` prints, one a line.
fn affected(files: &[&str], environment: &[(&str, &str)]) -> String {
    let mut run = Command::new(tree::root().join("run"));
    run.args(["lab", "affected"]).args(files).envs(environment.iter().copied());
    let ended = run.output().expect("./run starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).expect("names are ASCII")
}

#[test]
fn rows_of_what_a_change_touches_lead_somewhere() {
    let files = tree::files();
    let table = files.iter().find(|file| file.path == "lab/affected").expect("it is there");
    crate::none(stale_rows(table, &files));
}

#[test]
fn planted_rows_that_lead_nowhere_are_found() {
    let table = File::planted(
        "lab/affected",
        "# of files\n@core  serves:plain\ncrates/server/disk/*  serves:plain/kernel @core\n\
         crates/core/gone/*  none\ncrates/*/tests/*  dances\n*.rs  serves:nowhere\n*k/src/*  @shell\n",
    );
    let files = [
        "crates/server/disk/src/lib.rs",
        "crates/server/disk/tests/a.rs",
        "lab/scenarios/serves.sh",
        "lab/machines/plain",
    ]
    .map(|path| File::planted(path, ""));
    crate::found(
        &stale_rows(&table, &files),
        &[
            "lab/affected:4: no file fits crates/core/gone/*",
            "lab/affected:5: the lab has no dances",
            "lab/affected:6: the lab has no serves:nowhere",
            "lab/affected:7: the lab has no @shell",
        ],
    );
}

#[test]
fn a_changed_file_leads_to_its_pairs_of_the_lab() {
    let of = |files: &[&str]| affected(files, &[]);
    assert_eq!(of(&["docs/lab.md", "web/src/player.ts"]), "");
    assert_eq!(of(&["lab/scenarios/paced.sh"]), "paced plain\n");
    assert_eq!(
        of(&["packaging/fullbore.service", "crates/server/frames/src/lib.rs", "README.md"]),
        "frames newest\nframes plain\nframes-card wire\nunit newest\nunit plain\n"
    );
}

#[test]
fn an_unknown_file_leads_to_the_whole_lab() {
    let all = affected(&["lab/lab.bash"], &[]);
    for pair in ["serves trixie", "memory small/kernel", "unit newest", "canary plain"] {
        assert!(all.lines().any(|line| line == pair), "{pair} is not in\n{all}");
    }
    assert_eq!(affected(&["docs/lab.md", "crates/core/brand-new/src/lib.rs"], &[]), all);
}

#[test]
fn no_known_change_leads_to_the_core_scenarios() {
    let core = affected(&[], &[("GIT_DIR", "/nowhere")]);
    assert_eq!(core.lines().count(), 9, "{core}");
    assert!(core.contains("memory small/userspace\n"), "{core}");
}
