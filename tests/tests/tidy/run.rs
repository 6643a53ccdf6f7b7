//! `./run` and its scripts stop at the first failure, also in functions that `$(...)` calls, so `./run serve` never starts a program of an earlier
//! build. Bash by itself goes on in `$(...)` (`inherit_errexit` is off), and always goes on in a condition such as `f || ...`: there, functions
//! have to return by themselves.

use crate::tree::{self, File};
use std::path::Path;
use std::process::{Command, Output};

/// The script's functions, with a cargo that fails, nothing to install, and a disk with room.
const FAILS: &str = "need() { :; }\nneed_rust() { :; }\nweb_is_built() { :; }\nweb_build_or_not() { :; }\n\
                     df() { printf 'Filesystem MB\\nx 9 9 1000000 1%% /\\n'; }\n\
                     cargo() { echo 'cargo failed' >&2; return 101; }\n";

/// Bash with the script's functions.
fn bash(script: &str, target: &Path) -> Output {
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!(". ./run help >/dev/null\n{script}")]).current_dir(tree::root());
    bash.env("CARGO_TARGET_DIR", target).output().expect("bash is here")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_of_an_earlier_build_is_not_used_after_a_failed_build() {
    let target = tempfile::tempdir().unwrap();
    for profile in ["release", "dist"] {
        std::fs::create_dir(target.path().join(profile)).unwrap();
        std::fs::write(target.path().join(profile).join("fullbore"), "older").unwrap();
    }
    for build in ["build", "build --dist", "fuzz_build"] {
        let script = format!("{FAILS}it=$({build})\necho \"starts $it\"");
        let ran = bash(&script, target.path());
        assert_eq!(text(&ran.stdout), "", "{build}");
        assert_eq!(text(&ran.stderr), "cargo failed\n", "{build}");
        assert!(!ran.status.success(), "{build}");
    }
}

#[test]
fn a_function_in_a_substitution_ends_at_its_first_failure() {
    let script = "f() { false; echo 'went on'; }\nit=$(f)\necho \"takes $it\"";
    let ran = bash(script, Path::new("nowhere"));
    assert_eq!((text(&ran.stdout).as_str(), ran.status.code()), ("", Some(1)));
}

/// A failed installation of packages once counted as done, because a condition called it.
#[test]
fn packages_of_the_pages_that_were_not_installed_are_installed_the_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let web = folder.path().join("web");
    std::fs::create_dir_all(web.join("node_modules")).unwrap();
    std::fs::write(web.join("package-lock.json"), "{}").unwrap();
    let script = format!(
        "need_node() {{ :; }}\nweb_is_built() {{ return 1; }}\nnpm() {{ echo npm; return 1; }}\n\
         cd '{}'\nweb_build_or_not",
        folder.path().display()
    );
    let ran = bash(&script, folder.path());
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stderr).matches("npm\n").count(), 1, "it does not build without them");
    assert!(!web.join("node_modules/.package-lock.json").exists(), "{}", text(&ran.stderr));
}

/// Without a folder of its own, a package was once unpacked into the repository.
#[test]
fn nothing_is_unpacked_without_a_folder_for_it() {
    for need in ["need_etcd", "need_promtool", "need_pebble", "need_bird", "need_h2o", "need_bunny"]
    {
        let script = format!(
            "have() {{ [ \"$1\" = apt-get ]; }}\nmktemp() {{ return 1; }}\nTOOLS=/nowhere\n\
             unpack_peer() {{ echo \"unpacks into '$2'\"; }}\npip3() {{ echo 'downloads'; }}\n\
             ({need}) || echo lacking"
        );
        let ran = bash(&script, Path::new("nowhere"));
        assert_eq!(text(&ran.stdout), "lacking\n", "{need}: {}", text(&ran.stderr));
    }
}

#[test]
fn a_disk_that_is_too_small_for_a_build_is_named_before_it() {
    let target = tempfile::tempdir().unwrap();
    let needs = |free: u32, had: u32| {
        let disk = format!(
            "df() {{ printf 'Filesystem MB\\nx 9 9 {free} 1%% /\\n'; }}\ndu() {{ printf '{had}\\tx\\n'; }}\n"
        );
        text(&bash(&format!("{FAILS}{disk}build || true"), target.path()).stderr)
    };
    let warned = needs(1500, 1000);
    assert!(warned.starts_with("run: the disk may become full: this build takes about 3000 MB"));
    assert!(warned.contains("(1000 MB are there already), and 1500 MB are free"), "{warned}");
    assert!(warned.contains("SIGBUS") && warned.ends_with("cargo failed\n"), "{warned}");
    assert_eq!(needs(1500, 1500), "cargo failed\n", "there is room for the rest");
}

/// Scripts for bash that end at a failure, but not at one in `$(...)`.
fn without_inheriting(files: &[File]) -> Vec<String> {
    let is_meant = |file: &&File| {
        let is_bash = file
            .text
            .lines()
            .next()
            .is_some_and(|line| line.starts_with("#!") && line.ends_with("bash"));
        is_bash
            && file.text.contains("\nset -e")
            && !file.text.contains("\nshopt -s inherit_errexit")
    };
    let found = files.iter().filter(is_meant);
    found
        .map(|file| format!("{}: after set -e, it lacks shopt -s inherit_errexit", file.path))
        .collect()
}

#[test]
fn every_script_that_ends_at_a_failure_ends_at_one_in_a_substitution() {
    crate::none(without_inheriting(&tree::files()));
}

#[test]
fn a_planted_script_that_goes_on_in_a_substitution_is_found() {
    let bash = "#!/usr/bin/env bash\n# Does it.\nset -euo pipefail\n";
    let files = [
        File::planted("a", bash),
        File::planted("b", &format!("{bash}shopt -s inherit_errexit\n")),
        File::planted("c", "#!/bin/sh\nset -e\n"),
    ];
    crate::found(&without_inheriting(&files), &["a: "]);
}
