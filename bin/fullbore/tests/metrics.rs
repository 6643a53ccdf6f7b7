//! The metrics and the pages that name them: docs/metrics.md has all of them, and no guide, alert rule, dashboard or scenario names one that
//! does not exist.

use gateway::api::METRICS;
use server::admin;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use telemetry::{Kind, Metric};

/// The position of the table of a server's metrics in docs/metrics.md, and of the table of a gateway's.
const TABLES: [(&str, &str); 2] = [
    ("--test metrics -->\n", "\n<!-- end of the table -->"),
    ("<!-- table of a gateway's -->\n", "\n<!-- end of a gateway's table -->"),
];

fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    admin::all_metrics().chain(METRICS)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files in a folder of the repository whose names end in `end`.
fn files_in(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

fn table(metrics: impl Iterator<Item = &'static Metric>) -> String {
    let row = |metric: &Metric| {
        let label = match metric.label {
            Some(label) => format!("`{label}`"),
            None => String::new(),
        };
        let (name, kind, unit) = (metric.name, metric.kind.name(), metric.unit().name());
        format!("| `{name}` | {kind} | {unit} | {label} | {} |\n", metric.help)
    };
    let rows: String = metrics.map(row).collect();
    format!("\n| name | kind | unit | label | meaning |\n|---|---|---|---|---|\n{rows}")
}

/// Every name that a sample can have.
fn sample_names() -> BTreeSet<String> {
    let names = all_metrics().flat_map(|metric| {
        let suffixes: &[&str] = match metric.kind {
            Kind::Histogram => &["", "_bucket", "_sum", "_count"],
            Kind::Summary => &["", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        suffixes.iter().map(move |suffix| format!("{}{suffix}", metric.name))
    });
    names.collect()
}

/// The names in `text` that look like our metrics and do not exist. A name that ends in `_` or `_*` is a prefix of several names.
fn unknown(text: &str, known: &BTreeSet<String>) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("fullbore_") || word.starts_with("process_"));
    let is_known = |word: &str| {
        known.contains(word)
            || word.ends_with('_') && known.iter().any(|name| name.starts_with(word))
    };
    ours.filter(|word| !is_known(word)).map(str::to_owned).collect()
}

/// The names that a scenario of the lab reads with its function `metric`, except those made with a variable.
fn asked_for(scenario: &str) -> BTreeSet<String> {
    let asked = scenario.split("metric ").skip(1).map(|rest| rest.trim_start_matches(['"', '\'']));
    let names = asked.map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    });
    let is_whole = |name: &&str| !name.is_empty() && !name.ends_with('_');
    names.filter(is_whole).map(|name| format!("fullbore_{name}")).collect()
}

/// The names of counters, with or without labels, at the beginning of a program's strings.
fn counters_in(program: &str) -> BTreeSet<String> {
    let strings = program.split('"').skip(1);
    let names = strings.filter_map(|text| text.split(['{', '\\']).next());
    let is_name = |name: &&str| {
        name.ends_with("_total") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    names.filter(is_name).map(|name| name.trim_start_matches("fullbore_").to_owned()).collect()
}

#[test]
fn no_name_is_used_twice_and_all_follow_the_conventions() {
    let mut names = BTreeSet::new();
    for metric in all_metrics() {
        assert_eq!(metric.fault(), None, "{}", metric.name);
        assert!(names.insert(metric.name), "{} is there twice", metric.name);
    }
}

#[test]
fn the_guide_has_every_metric() {
    let guide = repository().join("docs/metrics.md");
    let mut text = fs::read_to_string(&guide).unwrap();
    let wanted = [table(admin::all_metrics()), table(METRICS.into_iter())];
    let mut is_old = false;
    for ((start, end), table) in TABLES.into_iter().zip(wanted) {
        let start = text.find(start).expect("the mark is there") + start.len();
        let end = text.find(end).expect("the mark is there");
        is_old |= text[start..end] != table;
        text.replace_range(start..end, &table);
    }
    if is_old {
        assert!(
            std::env::var_os("FULLBORE_WRITE_DOCS").is_some(),
            "docs/metrics.md is not what the program says: run this test with FULLBORE_WRITE_DOCS=1, then look at what changed"
        );
        fs::write(guide, text).unwrap();
    }
}

#[test]
fn nothing_names_a_metric_that_does_not_exist() {
    let known = sample_names();
    assert_eq!(unknown("rate(fullbore_no_such_total[5m])", &known).len(), 1);
    assert_eq!(unknown("`fullbore_qoe_*`, fullbore_first_byte_seconds_bucket", &known).len(), 0);
    let mut pages = files_in("docs", ".md");
    pages.extend(files_in("packaging/monitoring", ""));
    pages.extend(["README.md", "SPECIFICATION.md"].map(|name| repository().join(name)));
    for page in pages {
        let unknown = unknown(&fs::read_to_string(&page).unwrap(), &known);
        assert!(unknown.is_empty(), "{} names {unknown:?}", page.display());
    }
}

#[test]
fn no_scenario_of_the_lab_asks_for_a_metric_that_does_not_exist() {
    let known = sample_names();
    let mut asked_in_all = 0;
    assert_eq!(asked_for("$(metric 'a_total{b=\"c\"}') $(metric d)").len(), 2);
    for scenario in files_in("lab/scenarios", ".sh") {
        let asked = asked_for(&fs::read_to_string(&scenario).unwrap());
        asked_in_all += asked.len();
        let unknown: Vec<_> = asked.difference(&known).collect();
        assert!(unknown.is_empty(), "{} asks for {unknown:?}", scenario.display());
    }
    assert!(asked_in_all >= 20, "{asked_in_all}");
}

/// A counter that does not exist reads as 0, so a test of it could not fail.
#[test]
fn no_test_asks_for_a_counter_that_does_not_exist() {
    let known = sample_names();
    let is_known = |name: &str| {
        ["fullbore_", "fullbore_qoe_"]
            .iter()
            .any(|prefix| known.contains(&format!("{prefix}{name}")))
    };
    let sample = "number(\"a_total{b=\\\"c\\\"}\"); all[\"d_total\"]; say(\"in total\")";
    assert_eq!(counters_in(sample).len(), 2);
    let folders = ["tests/src", "tests/tests", "bin/fullbore/tests", "bin/fullbore/tests/bypass"];
    let more = ["bin/fullbore/tests/endurance", "bin/fullbore/tests/load"];
    let mut asked_in_all = 0;
    let files = folders.iter().chain(&more).flat_map(|folder| files_in(folder, ".rs"));
    for file in files.filter(|file| !file.ends_with("metrics.rs")) {
        let asked = counters_in(&fs::read_to_string(&file).unwrap());
        asked_in_all += asked.len();
        let unknown: Vec<_> = asked.iter().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{} asks for {unknown:?}", file.display());
    }
    assert!(asked_in_all >= 50, "{asked_in_all}");
}
