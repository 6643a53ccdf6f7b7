//! Checks with Prometheus' own tools the metrics of servers and gateways, and the alert rules and the Grafana dashboard in
//! `packaging/monitoring`. That these name only existing metrics is checked by `metrics.rs` of the program's tests.

use fullbore_tests::{Plain, Said, Server, eventually, program, tool};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
    for rules in ["fullbore-alerts.yml", "fullbore-fleet-alerts.yml"] {
        let rules = packaged(rules);
        let ran = tool::run(tool::command("promtool").args(["check", "rules"]).arg(rules));
        assert!(ran.success, "{}{}", ran.text(), ran.stderr);
    }
}

#[track_caller]
fn prometheus_takes(metrics: &Path) {
    let mut promtool = tool::command("promtool");
    let ran = tool::run(promtool.args(["check", "metrics"]).stdin(File::open(metrics).unwrap()));
    assert!(ran.success, "{}{}", ran.text(), ran.stderr);
}

/// The number of `series` for which the alert fires this many minutes after the series began.
fn firing(alert: &str, minutes: u32, count: u32, series: &[(&str, &str)]) -> String {
    let inputs = series.iter().map(|(name, values)| {
        // Further labels are a part of the name.
        let name = match name.strip_suffix('}') {
            Some(begun) => format!("{begun},instance=\"a\"}}"),
            None => format!("{name}{{instance=\"a\"}}"),
        };
        format!("      - series: '{name}'\n        values: '{values}'\n")
    });
    let samples = match count {
        0 => "[]".to_owned(),
        _ => format!("[{{ labels: '{{}}', value: {count} }}]"),
    };
    format!(
        "  - interval: 1m\n    input_series:\n{}    promql_expr_test:\n      - \
         expr: count(ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}})\n        \
         eval_time: {minutes}m\n        exp_samples: {samples}\n",
        inputs.collect::<String>()
    )
}

/// The rules about certificates fire when they should, and not before.
#[test]
fn alerts_about_certificates_fire_when_they_should() {
    if !tool::are_here(&[("promtool", "prometheus")]) {
        return;
    }
    let (left, overdue) =
        ("fullbore_acme_certificate_left_seconds", "fullbore_acme_overdue_seconds");
    let overdue_for = |values| [(left, "2000000-60x200"), (overdue, values)];
    let ending = |values| [(left, values), (overdue, "80000+0x200")];
    let none = [(left, "0x200"), (overdue, "0+60x200")];
    let failing = [("fullbore_reload_failing", "0x9 1x50")];
    let cases = [
        // Due since 23 h 50 min: a day later there is a warning, five minutes after that.
        firing("FullboreCertificateOverdue", 14, 0, &overdue_for("85800+60x200")),
        firing("FullboreCertificateOverdue", 20, 1, &overdue_for("85800+60x200")),
        firing("FullboreCertificateOverdue", 200, 0, &overdue_for("0x200")),
        // Three days are left after ten minutes, and it stays so for an hour.
        firing("FullboreCertificateEnds", 65, 0, &ending("259800-60x200")),
        firing("FullboreCertificateEnds", 75, 1, &ending("259800-60x200")),
        firing("FullboreCertificateEnds", 200, 0, &ending("400000-60x200")),
        // There never was one.
        firing("FullboreCertificateEnds", 65, 1, &none),
        // An authority that issues for less than three days is fine while it keeps issuing.
        firing("FullboreCertificateEnds", 200, 0, &[(left, "100000x200"), (overdue, "0x200")]),
        firing("FullboreReloadFails", 14, 0, &failing),
        firing("FullboreReloadFails", 17, 1, &failing),
    ];
    assert_fires(&cases.concat(), true);
    // And a wrong case is found.
    assert_fires(&firing("FullboreReloadFails", 17, 0, &failing), false);
}

/// Whether the rules for servers do what `cases` say.
#[track_caller]
fn assert_fires(cases: &str, is_right: bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests.yml");
    let rules = fs::canonicalize(packaged("fullbore-alerts.yml")).unwrap();
    let text = format!("rule_files: [{rules:?}]\ntests:\n{cases}");
    fs::write(&file, &text).unwrap();
    let ran = tool::run(tool::command("promtool").args(["test", "rules"]).arg(&file));
    assert_eq!(ran.success, is_right, "{}{}\n{text}", ran.text(), ran.stderr);
}

#[test]
fn alerts_about_a_caching_edge_fire_when_they_should() {
    if !tool::are_here(&[("promtool", "prometheus")]) {
        return;
    }
    let passed = |values| [("fullbore_edge_origins_passed_over", values)];
    let paused = |values| [("fullbore_edge_ahead_paused", values)];
    let held = |values| [("fullbore_requests_refused_total{reason=\"edge_held_full\"}", values)];
    let queue = [("fullbore_requests_refused_total{reason=\"edge_address_queue_full\"}", "0+5x40")];
    let cases = [
        firing("FullboreOriginPassedOver", 9, 0, &passed("1x30")),
        firing("FullboreOriginPassedOver", 11, 1, &passed("1x30")),
        // It fails now and then.
        firing("FullboreOriginPassedOver", 30, 0, &passed("1x4 0x4 1x4 0x4 1x4 0x20")),
        firing("FullboreEdgeAheadWastes", 55, 0, &paused("1x90")),
        firing("FullboreEdgeAheadWastes", 65, 1, &paused("1x90")),
        firing("FullboreEdgeHeldFull", 5, 0, &held("0+2x40")),
        firing("FullboreEdgeHeldFull", 20, 1, &held("0+2x40")),
        firing("FullboreEdgeHeldFull", 40, 0, &held("7x60")),
        firing("FullboreEdgeQueueFull", 20, 1, &queue),
    ];
    assert_fires(&cases.concat(), true);
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
    prometheus_takes(&metrics);
}

/// A gateway with a node that has joined and was never started: there are series of sites and of nodes.
struct Gateway {
    folder: tempfile::TempDir,
    child: Child,
    admin: String,
}

impl Gateway {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command.args(["control", "serve", "--state"]).arg(folder.path());
        for listener in ["--public", "--machines", "--admin"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let ready = Said::listen(child.stdout.take().unwrap()).wait_for("ready ");
        let admin = ready.split("admin ").nth(1).and_then(|rest| rest.split(['/', ')']).nth(2));
        let admin = format!("http://{}", admin.expect("its admin listener"));
        Self { folder, child, admin }
    }

    fn control(&self, words: &[&str]) -> String {
        let mut command = Command::new(program());
        command.arg("control").args(words).args(["--admin", &self.admin]);
        let ran = tool::run(command.arg("--state").arg(self.folder.path()));
        assert!(ran.success, "{words:?}: {}{}", ran.text(), ran.stderr);
        ran.text()
    }

    fn add_node(&self) {
        let invited =
            self.control(&["invite", "--cluster", "paris-1", "--site", "paris", "--region", "eu"]);
        let words = invited.split_whitespace().skip_while(|word| *word != "join").skip(1);
        let mut join = Command::new(program());
        join.arg("join").args(words.take(3)).args(["--host", "127.0.0.1", "--ceiling", "1"]);
        let ran = tool::run(join.arg("--state").arg(self.folder.path().join("node")));
        assert!(ran.success, "{invited}: {}{}", ran.text(), ran.stderr);
    }

    fn metrics(&self) -> String {
        let token = fs::read_to_string(self.folder.path().join("admin.token")).unwrap();
        let mut curl = tool::command("curl");
        curl.args(["-sS", "--fail", "-H", &format!("Authorization: Bearer {}", token.trim())]);
        let ran = tool::run(curl.arg(format!("{}/metrics", self.admin)));
        assert!(ran.success, "{}", ran.stderr);
        ran.text()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names in a file of rules that are ours.
fn named(rules: &str) -> BTreeSet<&str> {
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let words = expressions.flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with("fullbore_")).collect()
}

#[test]
fn a_gateway_tells_what_the_rules_of_fleets_ask_for_and_prometheus_takes_it() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let gateway = Gateway::start();
    gateway.add_node();
    let text = eventually("the node's own series", || {
        let text = gateway.metrics();
        text.contains("fullbore_node_up{node=").then_some(text)
    });
    let rules = read("fullbore-fleet-alerts.yml");
    let names = named(&rules);
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let is_there = text
            .lines()
            .any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        assert!(is_there, "the rules ask for {name}, which is not there:\n{text}");
    }
    if tool::are_here(&[("promtool", "prometheus")]) {
        let metrics = gateway.folder.path().join("metrics");
        fs::write(&metrics, text).unwrap();
        prometheus_takes(&metrics);
    }
}
