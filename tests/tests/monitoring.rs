//! Checks with Prometheus' own tools the server's metrics, and the alert rules and the Grafana dashboard in
//! `packaging/monitoring`. That these name only existing metrics is checked by `metrics.rs` of the appliance's tests.

use fullbore_tests::{Plain, Server, eventually, tool};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;

fn packaged(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../packaging/monitoring").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(packaged(name)).expect("it is in the repository")
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

#[test]
fn prometheus_takes_the_metrics() {
    if !tool::are_here(&[("promtool", "prometheus")]) {
        return;
    }
    let library = tempfile::tempdir().unwrap();
    fs::write(library.path().join("film.mp4"), "a film").unwrap();
    let server = Server::start(library.path(), "--tls off");
    let mut viewer = Plain::connect(server.address);
    assert_eq!(
        viewer.fetch("/film.mp4?CMCD=sid%3D%22me%22%2Cot%3Dv%2Cd%3D4000%2Cmsd%3D90").status,
        200
    );
    assert_eq!(viewer.fetch("/missing").status, 404);
    let text = eventually("the report of a player", || {
        let (_, text) = server.admin_page("/metrics");
        text.contains("fullbore_qoe_title_play_delay_seconds{title=").then_some(text)
    });
    let metrics = library.path().join("metrics");
    fs::write(&metrics, text).unwrap();
    let mut promtool = tool::command("promtool");
    let ran = tool::run(promtool.args(["check", "metrics"]).stdin(File::open(metrics).unwrap()));
    assert!(ran.success, "{}{}", ran.text(), ran.stderr);
}
