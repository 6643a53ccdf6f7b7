//! `fullbore doctor` on the machine that the tests run on, whatever that is.

use fullbore_tests::{program, tool};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn doctor(arguments: &[&str], library: Option<&Path>) -> Output {
    let mut command = Command::new(program());
    command.arg("doctor").args(arguments).args(library);
    command.output().unwrap()
}

fn library() -> tempfile::TempDir {
    let library = tempfile::tempdir().unwrap();
    fs::write(library.path().join("film.mp4"), "film").unwrap();
    library
}

fn names(json: &Value) -> Vec<&str> {
    let findings = json["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["name"].as_str().unwrap()).collect()
}

#[test]
fn text_and_json_say_the_same_and_the_exit_code_is_theirs() {
    let library = library();
    let output = doctor(&["--json"], Some(library.path()));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["version"], &json["kind"]), (&1.into(), &"doctor".into()));
    let is_large = json["costs_more_than_10_percent"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(is_large)), "{json:#}");
    let text = doctor(&[], Some(library.path()));
    assert_eq!(text.status.code(), Some(i32::from(is_large)));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("machine   "), "{text}");
    for name in names(&json) {
        assert!(text.contains(&format!(" {name}")), "{name} is not in {text}");
    }
    let costs = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|finding| finding["cost"]["percent"].as_f64());
    assert!(costs.collect::<Vec<_>>().is_sorted_by(|one, other| one >= other), "{json:#}");
}

#[test]
fn a_library_that_is_not_there_is_wrong_usage() {
    let library = library();
    for path in [library.path().join("nothing"), library.path().join("film.mp4")] {
        let output = doctor(&[], Some(&path));
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("name the folder of your library"), "{said}");
    }
    assert_eq!(doctor(&["--cure"], None).status.code(), Some(2));
}

#[test]
fn without_a_library_it_says_what_it_did_not_look_at() {
    let output = doctor(&["--json"], None);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let unknown = json["unknown"].as_array().unwrap();
    let why = unknown.iter().map(|unknown| unknown["why"].as_str().unwrap());
    assert_eq!(why.filter(|why| why.contains("name the library")).count(), 1, "{json:#}");
}

#[test]
fn another_users_films_cannot_be_leased_without_the_capability() {
    if !rustix::process::geteuid().is_root() {
        return tool::skip("another user's files: run as root");
    }
    if !tool::are_here(&[("setpriv", "util-linux")]) {
        return;
    }
    let library = library();
    // The program may lie where only root may look. It is not copied in this process: others that it starts meanwhile would have the copy open for
    // writing for a moment, and the kernel executes no such file.
    let copy = library.path().join(".fullbore");
    assert!(Command::new("cp").arg(program()).arg(&copy).status().unwrap().success());
    fs::set_permissions(library.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |user: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(user).arg(&copy).args(["doctor", "--json"]).arg(library.path());
        serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap()
    };
    let other = run(&["--reuid=65534", "--regid=65534", "--clear-groups"]);
    assert!(names(&other).contains(&"read-leases"), "{other:#}");
    let owner = run(&["--reuid=0"]);
    assert!(!names(&owner).contains(&"read-leases"), "{owner:#}");
}

/// No test asserts a time or a speed: every figure is there, and is one.
#[test]
fn what_is_measured_has_a_figure_for_each_part_of_the_machine() {
    // Next to the program: the system's temporary folder may be in memory.
    let library = tempfile::tempdir_in(program().parent().unwrap()).unwrap();
    fs::write(library.path().join("film.mp4"), vec![7; 4 << 20]).unwrap();
    let output = doctor(&["--json", "--measure", "--seconds", "1"], Some(library.path()));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = &json["measured"];
    let is_figure = |value: &Value| value.as_f64().is_some_and(|figure| figure > 0.0);
    let figures = |list: &str, name: &str| {
        let rows = measured[list].as_array().unwrap();
        assert!(rows.iter().all(|row| is_figure(&row[name])), "{measured:#}");
        rows.len()
    };
    assert!(figures("memory", "gbytes_per_second") > 0, "{measured:#}");
    let has_two_cores = std::thread::available_parallelism().map_or(1, usize::from) > 1;
    assert_eq!(figures("parts", "gbps"), if has_two_cores { 3 } else { 0 }, "{measured:#}");
    let troubles = measured["not_measured"].to_string();
    assert_eq!(
        figures("disks", "gbps"),
        usize::from(!troubles.contains("page cache")),
        "{measured:#}"
    );
    assert_eq!(measured["interrupted"], false);
    let without = doctor(&["--json"], None);
    let json: Value = serde_json::from_slice(&without.stdout).unwrap();
    assert_eq!(json["measured"], Value::Null);
    assert_eq!(
        doctor(&["--seconds", "1"], None).status.code(),
        Some(2),
        "--seconds is for --measure"
    );
}
