//! Tests of the page with invented figures: complete, correct, and safe whatever the files contain.

use super::Report;
use super::number::significant;
use super::page::{Material, render};
use super::source::{Skipped, Source};
use super::steps::{Fate, Taken};
use super::{model::Bench, number::THIN_SPACE};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn fixtures() -> Report {
    let report =
        Report::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/fixtures")).unwrap();
    assert!(report.skipped.is_empty(), "{:?}", report.skipped);
    report
}

fn source(file: &str, raw: Value) -> Source {
    let bench = Bench::of(&raw).unwrap();
    Source { file: file.to_owned(), raw, bench }
}

fn page(report: &Report) -> String {
    let Report { sources, skipped, steps } = report;
    render(Material { sources, skipped, steps }).0
}

fn page_of(sources: Vec<Source>) -> String {
    page(&Report { sources, ..Report::default() })
}

fn plain(page: &str) -> String {
    page.replace(THIN_SPACE, " ")
}

#[test]
fn each_chart_is_well_formed_alone_and_in_the_page_and_says_what_it_shows() {
    let Report { sources, skipped, steps } = &fixtures();
    let (page, charts) = render(Material { sources, skipped, steps });
    assert!(charts.len() >= 16);
    for chart in &charts {
        for text in [chart.standalone(), format!("<g>{}</g>", chart.inline())] {
            let document = roxmltree::Document::parse(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", chart.slug));
            let named = |name: &str| {
                document.descendants().find(|node| node.tag_name().name() == name).unwrap()
            };
            assert_eq!(named("svg").attribute("role"), Some("img"));
            assert!(
                !named("title").text().unwrap().is_empty()
                    && !named("desc").text().unwrap().is_empty()
            );
        }
        assert!(page.contains(&chart.inline()), "{} is not in the page", chart.slug);
    }
    let mut names: Vec<_> = charts.iter().map(|chart| &chart.slug).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), charts.len(), "each chart has a name of its own");
}

#[test]
fn every_sides_median_is_in_a_table_with_its_rounds() {
    let report = fixtures();
    let page = page(&report);
    let mut sides = 0;
    for source in &report.sources {
        let Bench::Versus(versus) = &source.bench else { continue };
        for side in versus.parts.iter().flat_map(|part| part.sides()) {
            let median = side.median.unwrap();
            let shown = if versus.workload() == "idle" {
                super::number::bytes(median)
            } else {
                significant(median)
            };
            assert!(
                page.contains(&format!(
                    "<th scope=\"row\">{}</th><td class=\"number\">{shown}</td>",
                    side.name()
                )),
                "{shown}"
            );
            sides += 1;
        }
    }
    assert_eq!(sides, 26);
}

#[test]
fn ids_are_given_once_and_every_link_leads_somewhere() {
    let page = page(&fixtures());
    let mut ids: Vec<_> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.contains(&target), "nothing is called {target}");
    }
}

#[test]
fn losses_and_draws_are_said_like_wins() {
    let page = plain(&page(&fixtures()));
    assert!(
        page.contains("Fullbore is behind nginx in http-warm (0.4"),
        "the headline hides a loss"
    );
    assert!(page.contains("the work of nginx per CPU second: behind, nginx does 2."));
    assert!(page.contains("Fullbore is ahead of nginx in tls-warm (3.1"));
}

#[test]
fn a_client_of_others_is_named_wherever_its_figures_are() {
    let mut report = fixtures();
    let file = "versus-http-warm-nginx.json";
    let fixture = report.sources.iter().find(|source| source.file.ends_with(file)).unwrap();
    let mut raw = fixture.raw.clone();
    raw["client"] = json!("wrk");
    report.sources.push(source("versus-http-warm-nginx-wrk.json", raw));
    let page = plain(&page(&report));
    assert!(page.contains("Compared with nginx, with wrk as the client"), "the heading");
    assert!(page.contains("http-warm with wrk (0.4"), "the headline");
    assert!(page.contains("http-warm with wrk · nginx"), "the chart of all");
    assert!(page.contains("--workload http-warm --client wrk"), "how to run it again");
}

#[test]
fn the_page_needs_no_other_host_and_no_script() {
    let page = page(&fixtures());
    for reference in
        ["src=", "url(", "@import", "<link", "<iframe", "href=\"http", "href=\"//", "onload="]
    {
        assert!(!page.contains(reference), "{reference}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("<script type=\"application/json\" id=\"data\">"));
    for chart in render(Material { sources: &fixtures().sources, skipped: &[], steps: &[] }).1 {
        let text = chart.standalone().replace("http://www.w3.org/2000/svg", "");
        assert!(
            !text.contains("http:")
                && !text.contains("https:")
                && !text.contains("url(")
                && !text.contains("var(")
        );
    }
}

#[test]
fn the_figures_can_be_taken_out_as_they_were_written() {
    let report = fixtures();
    let page = page(&report);
    let begin = page.split("id=\"data\">").nth(1).unwrap();
    let data: Value = serde_json::from_str(begin.split("</script>").next().unwrap()).unwrap();
    for (index, source) in report.sources.iter().enumerate() {
        assert_eq!(data[index]["file"], source.file);
        assert_eq!(data[index]["data"], source.raw);
    }
}

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=y>\u{0}\u{202e}\"'&";

fn hostile_everywhere(value: &mut Value) {
    match value {
        Value::String(text) => *text = HOSTILE.to_owned(),
        Value::Array(items) => items.iter_mut().for_each(hostile_everywhere),
        Value::Object(members) => {
            let kept = ["kind", "unit", "better"];
            members
                .iter_mut()
                .filter(|(name, _)| !kept.contains(&name.as_str()))
                .for_each(|(_, value)| hostile_everywhere(value));
            if members.contains_key("errors") {
                members.insert("errors".into(), json!({ HOSTILE: { "count": HOSTILE } }));
            }
        }
        _ => {}
    }
}

#[test]
fn no_text_of_a_file_becomes_markup() {
    let mut report = fixtures();
    for source in &mut report.sources {
        hostile_everywhere(&mut source.raw);
        source.file = HOSTILE.to_owned();
        source.bench = Bench::of(&source.raw).unwrap();
    }
    report.skipped.push(Skipped { file: HOSTILE.into(), why: HOSTILE.into() });
    report.steps.push(Taken { name: HOSTILE.into(), fate: Fate::Failed(HOSTILE.into()) });
    let Report { sources, skipped, steps } = &report;
    let (page, charts) = render(Material { sources, skipped, steps });
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img") && !page.contains('\u{202e}'));
    for chart in charts {
        roxmltree::Document::parse(&chart.standalone()).unwrap();
        assert!(
            chart.slug.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{}",
            chart.slug
        );
    }
}

/// Sets every place of a document to null, one at a time.
fn with_nulls(value: &Value, make: &mut dyn FnMut(Value)) {
    let inner: Vec<String> = match value {
        Value::Object(members) => members.keys().cloned().collect(),
        Value::Array(items) => (0..items.len().min(2)).map(|index| index.to_string()).collect(),
        _ => Vec::new(),
    };
    for name in inner {
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        let mut nulled = value.clone();
        *nulled.pointer_mut(&pointer).unwrap() = Value::Null;
        make(nulled);
        with_nulls(value.pointer(&pointer).unwrap(), &mut |changed| {
            let mut whole = value.clone();
            *whole.pointer_mut(&pointer).unwrap() = changed;
            make(whole);
        });
    }
}

#[test]
fn whatever_is_null_the_page_is_made_of_the_rest_or_the_file_is_refused() {
    let (mut pages, mut refused) = (0, 0);
    for source in fixtures()
        .sources
        .iter()
        .filter(|source| !source.file.contains("cold") && !source.file.contains("mixed"))
    {
        with_nulls(&source.raw, &mut |raw| match Bench::of(&raw) {
            Ok(bench) => {
                let page = page_of(vec![Source { file: "f".into(), raw, bench }]);
                assert!(page.ends_with("</html>\n") && !page.contains("NaN"));
                pages += 1;
            }
            Err(why) => {
                assert!(!why.is_empty());
                refused += 1;
            }
        });
    }
    assert!(pages > 100 && refused > 0, "{pages} pages, {refused} refused");
}

#[test]
fn viewers_at_no_stall_are_said_for_each_side_and_the_swarm_s_limit_as_a_lower_bound() {
    let page = plain(&page(&fixtures()));
    for said in [
        "fullbore: at least 3 000 viewers played without a stall at 4.00 Mb/s each. Why the search ended: the swarm itself was the limit",
        "nginx: 2 150 viewers played without a stall at 4.00 Mb/s each. Why the search ended: 14 stalls, most of them slow_network.",
        "Fullbore carries 2.51 × the viewers of nginx per CPU second",
        "Viewers who played without a stall",
        "./run bench versus nginx --workload swarm",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(
        !page.contains("the clients' cores were full: Gb/s over the wire are the clients' limit")
    );
}

#[test]
fn figures_out_of_all_bounds_do_not_break_a_drawing() {
    for figure in [0.0, -1.0, 1e-300, 1e300] {
        let side = |name: &str| {
            json!({ "name": name, "median": figure, "deviation": figure, "rounds": [{ "figure": figure,
            "first_byte_ms": { "p50": figure, "p99": figure, "p999": figure },
            "viewer_mbps": { "p1": figure, "p50": figure, "p99": figure } }] })
        };
        let versus = json!({ "version": 1, "kind": "versus", "workload": "viewers", "unit": "gbps_per_cpu_second", "better": "higher",
            "sides": [side("a"), side("b")], "ratio": figure, "ratio_deviation": figure });
        let limit = json!({ "version": 1, "kind": "limit", "parts": [{ "name": "a", "gbps": figure }], "chain": ["a", "missing"],
            "ceiling_gbps": figure, "share_of_ceiling": figure });
        let ablate = json!({ "version": 1, "kind": "ablate", "rows": [{ "switch": "a", "change": figure, "cpu_percent": figure }] });
        let start =
            json!({ "version": 1, "kind": "start", "milliseconds": [figure], "median": figure });
        let page = page_of(
            [versus, limit, ablate, start].into_iter().map(|raw| source("f", raw)).collect(),
        );
        assert!(!page.contains("NaN") && !page.contains("inf<") && !page.contains("\"inf"));
    }
}

#[test]
fn what_was_skipped_failed_or_cut_short_is_said_with_its_reason() {
    let mut report = fixtures();
    report
        .steps
        .push(Taken { name: "versus h2o idle".into(), fate: Fate::Failed("it fell over".into()) });
    report.steps.push(Taken {
        name: "versus h2o".into(),
        fate: Fate::NotRun("h2o is not installed".into()),
    });
    report.skipped.push(Skipped { file: "broken.json".into(), why: "it is not JSON".into() });
    let page = page(&report);
    for said in [
        "mtu: skipped, it needs root and ethtool",
        "versus h2o idle: failed. it fell over",
        "versus h2o: not run, h2o is not installed",
        "broken.json: left out, it is not JSON",
        "Hardware counters: not available on this machine",
        "Unfair: nginx in viewers",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(!page.contains("do not cite"));
    let mut short =
        report.sources.iter().find(|source| source.file.contains("tls-warm")).unwrap().raw.clone();
    short["seconds"] = json!(0.3);
    short["interrupted"] = json!(true);
    let page = page_of(vec![source("f", short)]);
    assert!(page.contains("do not cite") && page.contains("This run was interrupted"));
}

#[test]
fn figures_of_two_machines_are_not_mixed_silently() {
    let mut report = fixtures();
    assert!(!page(&report).contains("more than one machine"));
    let mut other = report.sources[0].clone();
    other.raw["machine"]["cores"] = json!(64);
    other.file = "other.json".into();
    report.sources.push(other);
    assert!(page(&report).contains("more than one machine"));
}

#[test]
fn files_that_are_no_figures_are_named_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let files: [(&str, &[u8], &str); 7] = [
        ("a.json", b"{", "not JSON"),
        ("b.json", b"\xff\xfe", "not JSON"),
        ("c.json", b"[]", "no \"kind\""),
        ("d.json", br#"{"kind":"versus"}"#, "no \"version\""),
        ("e.json", br#"{"kind":"versus","version":2}"#, "version 2"),
        ("f.json", br#"{"kind":"weather","version":1}"#, "\"weather\""),
        ("g.json", br#"{"kind":"start","version":1,"milliseconds":"x"}"#, "not what that kind"),
    ];
    for (name, content, _) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    fs::create_dir(folder.path().join("h.json")).unwrap();
    fs::write(folder.path().join("notes.txt"), "not looked at").unwrap();
    let report = Report::read(folder.path()).unwrap();
    assert!(report.is_empty());
    assert_eq!(report.skipped().len(), 8);
    for ((name, _, why), skipped) in files.iter().zip(report.skipped()) {
        assert_eq!(skipped.file, *name);
        assert!(skipped.why.contains(why), "{skipped:?}");
    }
    assert!(
        Report::read(&folder.path().join("missing")).unwrap_err().to_string().contains("missing")
    );
}
