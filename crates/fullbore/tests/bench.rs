//! The bench itself: its output has the promised shape, and it compares nothing that went wrong. Never a timing.

use std::process::{Command, Output};

fn versus(path: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
    command.args([
        "bench",
        "versus",
        "nginx",
        "--rounds",
        "2",
        "--seconds",
        "0.3",
        "--library",
        "16",
    ]);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.args(arguments).output().unwrap()
}

#[test]
fn a_comparison_reports_both_sides_and_their_ratio() {
    if Command::new("nginx").arg("-v").output().is_err() {
        eprintln!("SKIPPED a comparison with nginx: apt install nginx-light, or ./run bench once");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    for workload in ["tls-warm", "tls-cold", "http-warm"] {
        let file = scratch.path().join("outcome.json");
        let output = versus(None, &["--workload", workload, "--json", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{workload}: {said}");
        let outcome: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(outcome["version"], 1);
        assert_eq!(outcome["workload"], workload);
        for (side, name) in [(0, "fullbore"), (1, "nginx")] {
            let side = &outcome["sides"][side];
            assert_eq!(side["name"], name);
            assert_eq!(side["rounds"].as_array().unwrap().len(), 2);
            assert!(side["median"].as_f64().unwrap() > 0.0);
        }
        assert!(outcome["ratio"].as_f64().unwrap() > 0.0);
        assert!(String::from_utf8_lossy(&output.stdout).contains("ratio"));
    }
}

#[test]
fn a_missing_peer_is_said_with_a_way_to_get_it() {
    // taskset is found, nginx is not.
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/usr/bin/taskset", tools.path().join("taskset")).unwrap();
    let output = versus(Some(tools.path().to_str().unwrap()), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("apt install nginx"), "{said}");
}

#[test]
fn the_start_is_measured_to_the_first_byte() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
    let output = command.args(["bench", "start", "--rounds", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("first byte served after"), "{said}");
}
