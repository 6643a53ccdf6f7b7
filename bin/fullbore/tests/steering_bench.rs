//! `bench steering` on a small fleet: its answers keep their promises, and its figures are there. No test asserts a time.

use fullbore_tests::program;
use serde_json::Value;
use std::process::Command;

#[test]
fn a_small_fleet_is_steered_and_measured() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("steering.json");
    let size = ["--nodes", "200", "--held", "100", "--titles", "400", "--sites", "20"];
    let output = Command::new(program())
        .args(["bench", "steering", "--prefixes", "1000", "--rounds", "2", "--seconds", "0.05"])
        .args(size)
        .arg("--json")
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&figures["version"], &figures["kind"]), (&1.into(), &"steering".into()));
    let figure = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(figures["decisions_per_cpu_second"].as_array().unwrap().len(), 2);
    assert!(figure("median") > 0.0 && figure("resident_bytes") > 0.0);
    assert!(figure("p50_us") <= figure("p99_us") && figure("p99_us") <= figure("max_us"));
    // The drawn fleet has nodes that are full and sites that lack a title.
    assert!(figure("label_c") > 0.0 && figure("label_h") > 0.0 && figure("checked") > 1e5);
    assert!(figures["machine"].is_object());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("decisions per CPU second, on "), "{said}");
}
