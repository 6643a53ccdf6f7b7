//! `bench eviction` on a small demand: a seed gives the same figures, and the files that it writes are there.

use fullbore_tests::program;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn figures(folder: &Path, seed: &str) -> Value {
    let json = folder.join("figures.json");
    let output = Command::new(program())
        .args(["bench", "eviction", "--demand", "churn,scan", "--titles", "20", "--plays", "20"])
        .args(["--days", "4", "--cache", "10,50", "--seed", seed])
        .arg("--json")
        .arg(&json)
        .arg("--chart")
        .arg(folder.join("chart.svg"))
        .arg("--traces")
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("mean of all demands"), "{said}");
    serde_json::from_slice(&fs::read(json).unwrap()).unwrap()
}

#[test]
fn a_seed_gives_the_same_figures_and_a_trace_of_each_demand() {
    let folder = tempfile::tempdir().unwrap();
    let first = figures(folder.path(), "1");
    assert_eq!((&first["version"], &first["kind"]), (&1.into(), &"eviction".into()));
    for (at, name) in ["churn", "scan"].into_iter().enumerate() {
        assert_eq!(first["demands"][at]["demand"], name);
        let trace = fs::read_to_string(folder.path().join(format!("{name}.csv"))).unwrap();
        assert_eq!(trace.lines().count() as u64, first["demands"][at]["reads"].as_u64().unwrap());
    }
    assert!(fs::read_to_string(folder.path().join("chart.svg")).unwrap().starts_with("<svg"));
    assert_eq!(first, figures(folder.path(), "1"));
    assert_ne!(first, figures(folder.path(), "2"));
}
