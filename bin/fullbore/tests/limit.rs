//! `bench limit` and `bench fill-beside`: all parts exist, and the sums match the figures next to them. No test asserts a time.

use fullbore_tests::{program, tool};
use serde_json::Value;
use std::process::{Command, Output};

fn figure(value: &Value) -> f64 {
    value.as_f64().filter(|figure| *figure > 0.0).unwrap_or_else(|| panic!("no figure: {value}"))
}

/// What a bench says if nothing could be measured in its time.
const TOO_SHORT: [&str; 2] =
    ["it did no work in the measured time", "no response began in the measured time"];

/// Runs a round of a bench, and reads its figures. Each turn lasts for one of `tries`, in seconds, after the other: on a machine that is busy with
/// other tests, a server may do nothing for a while, and the source of a fill, which has the lowest priority, for longer.
fn measured(arguments: &[&str], tries: &[&str]) -> (Output, Value) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("figures.json");
    for seconds in tries {
        let mut bench = Command::new(program());
        bench.arg("bench").args(arguments).args(["--rounds", "1", "--seconds", seconds]);
        let output = bench.arg("--json").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if TOO_SHORT.iter().any(|words| said.contains(words)) {
            continue;
        }
        assert!(output.status.success(), "{said}");
        let figures: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        if figures["fill_gbps"] != 0.0 {
            return (output, figures);
        }
    }
    panic!("nothing to measure in {tries:?} s");
}

#[test]
fn the_ceiling_is_the_sum_of_the_parts_beside_it() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        tool::skip("the limit: it needs two cores");
        return;
    }
    let (output, limit) = measured(&["limit", "--library", "64"], &["0.1", "1", "4", "16"]);
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
    let size = ["fill-beside", "--viewers", "10", "--library", "32", "--fill-rate", "40"];
    let (output, beside) = measured(&size, &["0.5", "4", "30"]);
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
