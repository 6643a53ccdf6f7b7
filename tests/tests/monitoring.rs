//! The alert rules and the Grafana dashboard in `packaging/monitoring`: they name what the server tells, and nothing else.

use fullbore_tests::{Server, tool};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn packaged(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../packaging/monitoring").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(packaged(name)).expect("it is in the repository")
}

/// Every name of a metric that a running server tells, with those that a histogram has beside its own.
fn told() -> BTreeSet<String> {
    let library = tempfile::tempdir().unwrap();
    let server = Server::start(library.path(), "");
    let (status, text) = server.admin_page("/metrics");
    assert_eq!(status, 200);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.filter_map(|line| line.split_once(' ')).flat_map(|(name, kind)| {
        let suffixes: &[&str] = match kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["", "_sum", "_count"],
            _ => &[""],
        };
        suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
    });
    names.collect()
}

/// The names in `text` that look like ours.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| ["fullbore_", "process_"].iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}

fn unknown<'t>(text: &'t str, told: &BTreeSet<String>) -> Vec<&'t str> {
    named(text).into_iter().filter(|name| !told.contains(*name)).collect()
}

#[test]
fn every_metric_that_rules_and_dashboard_name_exists() {
    let told = told();
    assert_eq!(unknown("rate(fullbore_no_such_total[5m])", &told), ["fullbore_no_such_total"]);
    for (file, named_min) in [("fullbore-alerts.yml", 10), ("fullbore-grafana.json", 20)] {
        let text = read(file);
        let unknown = unknown(&text, &told);
        assert!(unknown.is_empty(), "{file} names what no server tells: {unknown:?}");
        assert!(named(&text).len() >= named_min, "{file} names too little: {:?}", named(&text));
    }
}

#[test]
fn every_panel_asks_for_something_and_has_a_place_of_its_own() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("fullbore-grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut places = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            let asked = target["expr"].as_str().unwrap();
            assert!(asked.contains("$instance"), "{title}: {asked} is of all servers");
        }
        let place = &panel["gridPos"];
        let (x, y) = (place["x"].as_u64().unwrap(), place["y"].as_u64().unwrap());
        assert!(x + place["w"].as_u64().unwrap() <= 24, "{title} is too wide");
        assert!(places.insert((x, y)), "{title} lies on another");
    }
    assert!(panels.len() >= 15);
}

#[test]
fn prometheus_takes_the_rules() {
    if !tool::are_here(&[("promtool", "prometheus")]) {
        return;
    }
    let rules = packaged("fullbore-alerts.yml");
    let ran = tool::run(tool::command("promtool").args(["check", "rules"]).arg(rules));
    assert!(ran.success, "{}{}", ran.text(), ran.stderr);
}
