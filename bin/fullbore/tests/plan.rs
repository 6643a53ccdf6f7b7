//! `fullbore plan` as people run it, and the chart in docs/notes/plan.md.

use capacity::published::{ERROR_MAX, PublishedRow, RowUse, rows};
use fullbore_tests::program;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Some files of a whole run of the bench, as it wrote them.
fn reference_run() -> PathBuf {
    repository().join("crates/measure/capacity/tests/reference_run")
}

fn machine(name: &str) -> PathBuf {
    repository().join("docs/machines").join(name)
}

fn plan(machine: &Path, arguments: &[&str]) -> Output {
    Command::new(program()).arg("plan").arg(machine).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_rate_comes_first_then_shares_then_the_arithmetic() {
    let output = plan(&machine("400g.toml"), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = said(&output);
    assert!(text.starts_with("400G box: 380 Gb/s. Scarce first: network ports"), "{text}");
    let places: Vec<_> =
        ["Your viewers take", "part ", "Used less than half", "What a change", "The arithmetic"]
            .iter()
            .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")))
            .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn json_has_the_figures_and_software_tls_is_a_flag() {
    let figures = |arguments: &[&str]| -> Value {
        let output = plan(&machine("400g.toml"), arguments);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)))
    };
    let card = figures(&["--json"]);
    assert_eq!((&card["version"], &card["kind"]), (&Value::from(1), &Value::from("plan")));
    assert_eq!(card["scarce"], "ports");
    let software = figures(&["--json", "--tls", "software"]);
    assert_eq!((&software["scarce"], &software["route"]), (&"memory".into(), &"userspace".into()));
    assert!(software["gbps"].as_f64() < card["gbps"].as_f64());
}

#[test]
fn the_page_needs_no_other_file() {
    let scratch = tempfile::tempdir().unwrap();
    let page = scratch.path().join("plan.html");
    let output = plan(&machine("800g.toml"), &["--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = fs::read_to_string(&page).unwrap();
    for part in ["800G box", "The machine with its flows", "network ports", "The arithmetic"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("src=\"") && !text.contains("href=\"http"));
    let nowhere = scratch.path().join("none/plan.html");
    let output = plan(&machine("800g.toml"), &["--html", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("choose another file"), "{}", told(&output));
}

#[test]
fn a_description_is_checked_in_one_line() {
    let output = plan(&machine("10g.toml"), &["--check"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        said(&output).contains("10g.toml is fine. 10G box: 9.5")
            && said(&output).lines().count() == 1
    );
    let scratch = tempfile::tempdir().unwrap();
    let wrong = scratch.path().join("wrong.toml");
    let text = fs::read_to_string(machine("10g.toml")).unwrap();
    let cases = [
        (
            text.replace("gbits_per_second = 10", "gbits_per_second = \"10G\""),
            "gbits_per_second = \"10G\" is not a number",
        ),
        (text.replace("lanes = 8", "lane = 8"), "lanes is missing"),
        (String::new(), "node is missing"),
    ];
    for (text, named) in cases {
        fs::write(&wrong, text).unwrap();
        let output = plan(&wrong, &["--check"]);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(
            told.contains(named) && told.contains("wrong.toml") && told.lines().count() == 1,
            "{told}"
        );
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let output = plan(Path::new("no/such.toml"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("cannot read no/such.toml"), "{}", told(&output));
    assert_eq!(plan(Path::new("/dev/zero"), &[]).status.code(), Some(1));
    let wrong = machine("10g.toml");
    let output = plan(&machine("10g.toml"), &["--costs", wrong.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("bench limit --json"), "{}", told(&output));
}

#[test]
fn costs_come_from_the_bench() {
    let limit = reference_run().join("limit.json");
    let arguments = ["--json", "--tls", "software", "--costs", limit.to_str().unwrap()];
    let output = plan(&machine("100g.toml"), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("lacks seal from hot set"), "{}", told(&output));
    let usual = plan(&machine("100g.toml"), &arguments[..3]);
    let per_core = |output: &Output| {
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        figures["gbps_per_core"].as_f64().unwrap()
    };
    assert!(per_core(&output) > per_core(&usual));
}

/// The reference run was measured before sealing out of memory was a part of its own, so tls-warm is planned with the usual cost.
#[test]
fn a_bench_is_compared_with_the_plan() {
    let scratch = tempfile::tempdir().unwrap();
    let json = scratch.path().join("plan.json");
    let bench = |from: &Path| {
        let mut command = Command::new(program());
        command.args(["bench", "plan", "--from"]).arg(from).arg("--json").arg(&json);
        command.output().unwrap()
    };
    let output = bench(&reference_run());
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let rows = figures["rows"].as_array().unwrap();
    let named = |name: &str| rows.iter().find(|row| row["workload"] == name).expect(name);
    for (name, is_near) in [
        ("tls-warm next to h2o", false),
        ("tls-cold next to nginx", true),
        ("http-warm next to nginx", false),
        ("viewers next to nginx", true),
    ] {
        let error = named(name)["error"].as_f64().unwrap();
        assert_eq!(error.abs() <= 0.15, is_near, "{name}: {error}");
        let line = text.lines().find(|line| line.starts_with(name)).expect(name);
        assert_eq!(line.ends_with("more than 15% off"), !is_near, "{line}");
    }
    assert_eq!(
        figures["at_usual_cost"],
        serde_json::json!(["seal from hot set", "seal for viewers", "send to viewers"])
    );
    assert_eq!((rows.len(), output.status.code()), (5, Some(1)), "{text}");
    let output = bench(scratch.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("no figures of bench limit"), "{}", told(&output));
}

/// Short, because a chart has room for some thirty characters: `400G: no TSO and no LRO`.
fn name(row: &PublishedRow) -> String {
    let machine = row.platform.split(' ').next().unwrap_or_default();
    format!("{machine}: {}", row.what)
}

fn chart(all: &[PublishedRow]) -> String {
    let foretold = |row: &PublishedRow| {
        Some(bench::report::Foretold {
            label: name(row),
            predicted: row.model.as_ref()?.gbps,
            measured: row.measured_gbps,
            error_max: ERROR_MAX,
        })
    };
    let predicted = all.iter().filter(|row| row.used_for == RowUse::Predicted);
    let rows: Vec<_> = predicted.filter_map(foretold).collect();
    let title = "What the model says (mark) beside what was measured (bar)";
    bench::report::foretold_chart(title, &rows, "Gb/s; the line is 15% around what was measured")
        .expect("there are rows")
}

/// Compares a file with what it should be, or writes it.
fn settle(path: &Path, wanted: &str) {
    if fs::read_to_string(path).unwrap_or_default() != wanted {
        assert!(
            std::env::var_os("FULLBORE_WRITE_DOCS").is_some(),
            "{} is not what the model says: run this test with FULLBORE_WRITE_DOCS=1, then look at what changed",
            path.display()
        );
        fs::write(path, wanted).unwrap();
    }
}

#[test]
fn the_chart_in_the_notes_is_the_models() {
    settle(&repository().join("docs/images/plan-published.svg"), &chart(&rows()));
}
