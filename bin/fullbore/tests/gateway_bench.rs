//! `bench gateway` and `bench heartbeats` on small fleets: real gateways, real connections, right answers, figures that are there. No test asserts a
//! time.

use fullbore_tests::program;
use serde_json::Value;
use std::process::{Command, Output};

/// Runs a bench, and reads its figures.
fn figures(arguments: &[&str]) -> (Value, Output) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("figures.json");
    let output =
        Command::new(program()).arg("bench").args(arguments).arg("--json").arg(&file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap(), output)
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("no {name}: {of}"))
}

#[test]
fn a_gateway_is_measured_beside_a_plain_server() {
    let arguments = ["gateway", "--nodes", "30", "--titles", "5", "--rounds", "2"];
    let (figures, output) =
        figures(&[&arguments[..], &["--seconds", "1", "--signed", "--connections", "4"]].concat());
    assert_eq!((&figures["version"], &figures["kind"]), (&1.into(), &"gateway".into()));
    let sides = figures["sides"].as_array().unwrap();
    let names: Vec<_> = sides.iter().map(|side| side["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hello", "hls", "dash", "steering", "route"]);
    for side in sides {
        assert_eq!(side["answers_per_cpu_second"].as_array().unwrap().len(), 2);
        assert!(number(side, "median") > 0.0 && number(side, "answer_bytes") > 0.0, "{side}");
        let ratio = number(side, "ratio");
        assert!(number(side, "ratio_min") <= ratio && ratio <= number(side, "ratio_max"));
    }
    assert_eq!(number(&sides[0], "ratio"), 1.0);
    // Signed addresses are in it.
    assert!(number(&sides[1], "answer_bytes") > 3000.0, "{}", sides[1]);
    assert!(figures["machine"].is_object());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("compared with a plain axum server, on "), "{said}");
}

#[test]
fn a_beating_fleet_is_measured_and_writes_nothing_to_the_store() {
    let size = ["heartbeats", "--nodes", "150", "--titles", "20", "--interval", "1s"];
    let (figures, _) = figures(&[&size[..], &["--duration", "4s", "--snapshots", "2s"]].concat());
    assert_eq!((&figures["version"], &figures["kind"]), (&1.into(), &"heartbeats".into()));
    let (rest, beating) = (&figures["at_rest"], &figures["beating"]);
    assert_eq!(number(rest, "beats"), 0.0);
    // 150 nodes for four seconds; a machine that has other work may lose some, and no more than it answers.
    assert!(number(beating, "beats") > 150.0, "{beating}");
    assert!(number(beating, "beats_lost") <= number(beating, "beats"), "{figures}");
    assert_eq!(number(beating, "store_changes"), 0.0);
    // The lease alone: it is renewed every five seconds.
    assert!(number(beating, "store_writes") <= number(beating, "seconds") / 2.0 + 2.0, "{beating}");
    assert!(number(beating, "snapshots_fetched") > 0.0, "{beating}");
    assert!(number(beating, "p50_ms") <= number(beating, "p99_ms"));
    assert!(number(beating, "received_bytes_per_second") > 1000.0);
    assert!(number(&figures, "rss_bytes_max") >= number(beating, "rss_bytes"));
    assert!(number(&figures, "serving") > 0.0);
}

#[test]
fn a_gateway_hears_more_nodes_than_it_was_given_files_for() {
    // The soft limit is what a gateway starts with; it may go up to the hard one, as the bench's own process does.
    let limited = Command::new("prlimit")
        .args(["--nofile=64:", "--"])
        .arg(program())
        // A node that is late by a whole interval has to connect again.
        .args(["bench", "heartbeats", "--nodes", "120", "--titles", "1", "--interval", "3s"])
        .args(["--duration", "2s"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stdout);
    let errors = String::from_utf8_lossy(&limited.stderr);
    assert!(limited.status.success(), "{errors}");
    assert!(said.contains("120 serve at the end"), "{said}{errors}");
}

#[test]
fn too_few_open_files_are_said_before_nodes_are_lost() {
    let limited = Command::new("prlimit")
        .args(["--nofile=256:256", "--"])
        .arg(program())
        .args(["bench", "heartbeats", "--nodes", "300", "--titles", "1", "--duration", "1s"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{said}");
    assert!(said.contains("raise the hard limit") && said.contains("--nodes 56"), "{said}");
}
