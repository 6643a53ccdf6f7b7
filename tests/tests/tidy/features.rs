//! Cargo chooses the same features of dependencies for the program, and for each package's tests, as for the whole workspace.
//!
//! If it chose others, it would compile the dependency and everything above it once more: minutes each time you go from `./run test` to
//! `cargo test -p CRATE` and back. `workspace-hack/Cargo.toml` evens them out.

use std::collections::BTreeSet;
use std::process::Command;

use crate::tree::File;

/// Dependencies whose features may differ, each with the reason.
const APART: &[(&str, &str)] =
    &[("chrono", "only tests have it: built into the program it would cost more than it saves")];

/// Third-party crates with their features, as `NAME vVERSION|FEATURE,FEATURE`.
type Chosen = BTreeSet<String>;

fn chosen(tree: &str) -> Chosen {
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    // Packages of this workspace are printed with their folders.
    let lines = lines.filter(|line| line.contains('|') && !line.contains(" (/"));
    lines.map(str::to_owned).collect()
}

/// Cargo's features for the packages and the kinds of dependencies in `arguments`.
fn chosen_for(arguments: &[&str]) -> Chosen {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}"]);
    tree.args(arguments).current_dir(crate::tree::root());
    tree.env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION"); // with nightly it would hide the fault
    let output = tree.output().expect("cargo runs the tests, so it is here");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tree:?} failed: {message}");
    let chosen = chosen(&String::from_utf8_lossy(&output.stdout));
    assert!(!chosen.is_empty(), "{tree:?} printed no third-party crate");
    chosen
}

/// The differences between the features of `part` and `whole`.
fn breaches(name: &str, part: &Chosen, whole: &Chosen, apart: &[(&str, &str)]) -> Vec<String> {
    let differing = part.difference(whole);
    let differing = differing.filter(|one| {
        apart.iter().all(|(name, _)| one.split_once(' ').is_none_or(|(found, _)| found != *name))
    });
    let message = |one: &String| {
        let (package, features) = one.split_once('|').unwrap_or((one, ""));
        let wanted = whole.iter().filter_map(|other| other.strip_prefix(package));
        let wanted: Vec<_> = wanted.map(|wanted| wanted.trim_start_matches('|')).collect();
        format!(
            "{name}: {package} has the features [{features}] here, but [{}] in the whole workspace: add it to workspace-hack/Cargo.toml with those",
            wanted.join("] or [")
        )
    };
    differing.map(message).collect()
}

/// The names of the workspace's packages.
fn packages(files: &[File]) -> Vec<&str> {
    let is_other = |file: &File| {
        matches!(&*file.path, "fuzz/Cargo.toml" | "tests/Cargo.toml" | "workspace-hack/Cargo.toml")
    };
    let manifests = files.iter().filter(|file| is_other(file) || file.manifest_of().is_some());
    let name = |file: &'_ File| -> Option<(usize, usize)> {
        let start = file.text.find("\nname = \"")? + "\nname = \"".len();
        Some((start, start + file.text[start..].find('"')?))
    };
    manifests.filter_map(|file| name(file).map(|(from, to)| &file.text[from..to])).collect()
}

#[test]
fn one_package_has_the_same_features_of_dependencies_as_the_whole_workspace() {
    let files = crate::tree::files();
    let packages = packages(&files);
    assert!(packages.len() > 30, "only {packages:?}");
    let whole = chosen_for(&["--workspace", "--edges", "normal,build,dev"]);
    let mut found = Vec::new();
    for programs in [&["--package", "fullbore"][..], &["--workspace"]] {
        let part = chosen_for(&[programs, &["--edges", "normal,build"]].concat());
        let name = format!("cargo build {}", programs.join(" "));
        found.extend(breaches(&name, &part, &whole, APART));
    }
    for package in packages {
        let part = chosen_for(&["--package", package, "--edges", "normal,build,dev"]);
        found.extend(breaches(&format!("{package}'s tests"), &part, &whole, APART));
    }
    crate::none(found);
}

#[test]
fn other_features_are_found() {
    let whole = chosen("a v1.0.0|default,std\nb v2.0.0|\nc v1.1.0|net\nours v0.1.0 (/x)|\n");
    let part = chosen("a v1.0.0|std\nb v2.0.0|\nb v2.0.0| (*)\nc v1.1.0|\nours v0.1.0 (/x)|y\n");
    crate::found(&breaches("p", &part, &whole, &[]), &["a v1.0.0", "c v1.1.0"]);
    crate::found(&breaches("p", &part, &whole, &[("c", "why")]), &["[default,std]"]);
}
