//! `bench report` as people run it: from files of earlier runs, with and without figures in them. The figures are invented.

use fullbore_tests::program;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn report(from: &Path, out: &Path) -> Output {
    let mut command = Command::new(program());
    command.args(["bench", "report", "--from"]).arg(from).arg("--out").arg(out).output().unwrap()
}

fn fixtures() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/measure/bench/src/report/fixtures");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn files_of_earlier_runs_become_a_page_whatever_they_are_called() {
    let scratch = tempfile::tempdir().unwrap();
    let (from, out) = (scratch.path().join("from"), scratch.path().join("deep/out"));
    fs::create_dir(&from).unwrap();
    for (number, path) in fixtures().iter().enumerate() {
        fs::copy(path, from.join(format!("{number}.json"))).unwrap();
    }
    fs::write(from.join("broken.json"), "{ \"version\": 1").unwrap();
    let output = report(&from, &out);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("skipped broken.json: it is not JSON"), "{said}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        out.join("index.html").display().to_string()
    );
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(
        page.contains("is behind nginx in http-warm") && page.contains("broken.json: left out")
    );
    for chart in [
        "overview",
        "versus-tls-warm-nginx",
        "versus-tls-warm-h2o",
        "limit-shares-tls-warm",
        "ablate-waterfall",
    ] {
        let text = fs::read_to_string(out.join(format!("{chart}.svg"))).unwrap();
        assert!(
            text.starts_with("<svg") && page.contains(&format!("href=\"{chart}.svg\"")),
            "{chart}"
        );
    }
}

#[test]
fn without_any_figures_there_is_no_page_and_it_says_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    fs::write(scratch.path().join("broken.json"), "nonsense").unwrap();
    let output = report(scratch.path(), &out);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("skipped broken.json")
            && said.contains("no figures in")
            && said.contains("bench versus"),
        "{said}"
    );
    assert!(!out.exists());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let output = report(&scratch.path().join("nowhere"), scratch.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere"));
}

#[test]
fn where_to_write_must_be_said() {
    let output = Command::new(program()).args(["bench", "report"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn ctrl_c_ends_the_running_step_and_begins_no_other() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    // Nothing is on this PATH, so there are no peers.
    command
        .args(["bench", "report", "--quick", "--out"])
        .arg(scratch.path())
        .env("PATH", scratch.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        said.push(line.unwrap());
        if said.last().is_some_and(|line| line.starts_with("[1/4] limit")) {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
    }
    let code = child.wait().unwrap().code();
    let said = said.join("\n");
    assert_eq!(code, Some(130), "{said}");
    assert!(!said.contains("[2/4]") && said.contains("interrupted"), "{said}");
    // If limit had measured anything by then, a page shows it and says so; otherwise there is no page.
    if let Ok(page) = fs::read_to_string(scratch.path().join("index.html")) {
        assert!(page.contains("ablate: not run, the report was interrupted before it"), "{said}");
        assert!(page.contains("versus nginx: not run, nginx is not installed"));
    }
}
