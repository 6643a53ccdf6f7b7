//! `bench limit` and `bench fill-beside`: all parts exist, and the sums match the figures next to them. No test asserts a time.

use fullbore_tests::{program, tool};
use serde_json::Value;
use std::process::Command;

fn figure(value: &Value) -> f64 {
    value.as_f64().filter(|figure| *figure > 0.0).unwrap_or_else(|| panic!("no figure: {value}"))
}

#[test]
fn the_ceiling_is_the_sum_of_the_parts_beside_it() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        tool::skip("the limit: it needs two cores");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("limit.json");
    let output = Command::new(program())
        .args(["bench", "limit", "--rounds", "1", "--seconds", "0.1", "--library", "64", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let limit: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&limit["version"], &limit["kind"]), (&Value::from(1), &Value::from("limit")));
    let parts = limit["parts"].as_array().unwrap();
    let rate = |name: &Value| {
        let part = parts.iter().find(|part| part["name"] == *name);
        figure(&part.unwrap_or_else(|| panic!("no part {name}"))["gbps"])
    };
    for name in ["seal aes128-gcm", "read once", "read direct", "sendfile", "pipeline"] {
        assert!(rate(&Value::from(name)) > 0.0);
    }
    let chains = limit["chains"].as_array().unwrap();
    assert_eq!(chains.len(), 4);
    for chain in chains {
        let seconds: f64 =
            chain["chain"].as_array().unwrap().iter().map(|name| 1.0 / rate(name)).sum();
        let ceiling = figure(&chain["ceiling_gbps"]);
        assert!((ceiling * seconds - 1.0).abs() < 1e-6, "{chain}");
        let server = figure(&chain["server"]["gbps_per_cpu_second"]);
        assert!((server / ceiling - figure(&chain["share_of_ceiling"])).abs() < 1e-6, "{chain}");
    }
    let fill = &limit["fill"];
    let seconds: f64 = fill["chain"].as_array().unwrap().iter().map(|name| 1.0 / rate(name)).sum();
    assert!((figure(&fill["ceiling_gbps"]) * seconds - 1.0).abs() < 1e-6, "{fill}");
    let share = figure(&fill["gbps_per_cpu_second"]) / figure(&fill["ceiling_gbps"]);
    assert!((share - figure(&fill["share_of_ceiling"])).abs() < 1e-6, "{fill}");
    assert_eq!(limit["workload"], "tls-warm");
    assert!(limit["bound_by"].as_str().unwrap().contains("bound by"));
    assert!(limit.get("counters_unavailable").is_some());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("of at most") && said.contains("seal aes128-gcm"), "{said}");
}

#[test]
fn viewers_are_measured_beside_a_fill_and_without() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        tool::skip("viewers during a fill: they need two cores");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("beside.json");
    let size = ["--viewers", "10", "--library", "32", "--fill-rate", "40", "--seconds", "0.5"];
    let output = Command::new(program())
        .args(["bench", "fill-beside", "--rounds", "1", "--json"])
        .arg(&file)
        .args(size)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let beside: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&beside["version"], &beside["kind"]), (&1.into(), &"fill-beside".into()));
    let round = &beside["rounds"][0];
    for side in ["without", "with"] {
        let waits = &round[side];
        assert!(figure(&waits["p50_ms"]) <= figure(&waits["p99_ms"]), "{beside}");
        assert!(figure(&waits["requests"]) > 0.0, "{beside}");
    }
    let ratio = figure(&round["with"]["p99_ms"]) / figure(&round["without"]["p99_ms"]);
    assert!((ratio - figure(&beside["p99_ratio"])).abs() < 1e-6, "{beside}");
    assert!(figure(&beside["fill_gbps"]) > 0.0 && figure(&round["share"]) <= 1.0, "{beside}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("during a fill") && said.contains("times that without"), "{said}");
}
