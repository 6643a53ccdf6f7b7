//! What viewers experience, as operators and partners see it, and after a restart.

use std::sync::Arc;

use fleet_protocol::{ExperienceReport, SumsCell};
use qoe::SessionSums;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use store::FolderStore;

use crate::fleet::{Running, folder, name};

const QOE: &str = "/api/v1/qoe";

/// A report of sessions of which one in ten never started, and one in ten stalled once for a second.
fn report(node: &str, number: u64, sessions: u64, now: u64) -> ExperienceReport {
    let mut sums = SessionSums { sessions, ..SessionSums::default() };
    (sums.not_started, sums.stalled, sums.stalls) = (sessions / 10, sessions / 10, sessions / 10);
    (sums.stalled_ms, sums.played_ms) = (sums.stalled * 1000, sessions * 9000);
    (0..sums.stalled).for_each(|_| sums.stall_ms.record(1000));
    (0..sessions - sums.not_started).for_each(|number| sums.play_delay_ms.record(400 + number));
    (0..sessions - sums.not_started).for_each(|_| sums.bitrate_kbps.record(4000));
    let cell = |by: &str, name: &str| SumsCell {
        by: by.to_owned(),
        name: name.to_owned(),
        sums: sums.clone(),
    };
    ExperienceReport {
        version: 1,
        node: name(node),
        boot: "b1".to_owned(),
        number,
        seconds: 60,
        ended_unix_seconds: now,
        cells: vec![
            cell("all", ""),
            cell("network", "198.51.0.0/16"),
            cell("player", "chrome"),
            cell("title", "films/unpublished"),
        ],
    }
}

fn tell(fleet: &Running, node: &str, number: u64, sessions: u64) {
    let now = fleet.gateway.now();
    let report = report(node, number, sessions, now.unix_seconds());
    let heard = fleet.gateway.live().handle_experience(&name(node), &report, now);
    heard.expect("it is taken");
}

fn names(answer: &Value) -> Vec<(&str, u64)> {
    let rows = answer["rows"].as_array().expect("a list").iter();
    rows.map(|row| (row["name"].as_str().unwrap_or("-"), row["sessions"].as_u64().unwrap_or(0)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_viewers_experience_and_partners_at_their_own_sites() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    assert_eq!(fleet.get(QOE).await["total"]["sessions"], 0);
    tell(&fleet, "n1", 1, 100);
    tell(&fleet, "n2", 1, 40);
    let sites = fleet.get(&format!("{QOE}?by=site")).await;
    assert_eq!(names(&sites), [("paris", 100), ("rome", 40)]);
    let worst = &sites["rows"][0];
    assert_eq!(
        (&worst["troubled"]["count"], &worst["troubled"]["share"]),
        (&20.into(), &0.2.into())
    );
    let (low, high) = (worst["troubled"]["low"].as_f64(), worst["troubled"]["high"].as_f64());
    assert!(low > Some(0.13) && high < Some(0.29), "{worst}");
    assert_eq!(worst["stall_ratio"], 0.1 / 9.1, "{worst}");
    assert_eq!(worst["megabits_per_second"]["mean"], 4.0, "{worst}");
    for (over, by, expected) in [
        ("now", "network", "198.51.0.0/16"),
        ("day", "player", "chrome"),
        ("week", "region", "europe"),
        ("now", "title", "-"),
    ] {
        let answer = fleet.get(&format!("{QOE}?over={over}&by={by}")).await;
        let expected = if by == "region" { names(&answer)[0].0 } else { expected };
        assert_eq!(names(&answer), [(expected, 140)], "{by}: {answer}");
    }
    assert_eq!(fleet.get(&format!("{QOE}?by=node&limit=1")).await["row_count"], 2);
    let one = fleet.get(&format!("{QOE}?by=node&site=rome")).await;
    assert_eq!((names(&one), &one["total"]["sessions"]), (vec![("n2", 40)], &40.into()));
    for wrong in ["?over=year", "?by=viewer", "?by=site&who=anna"] {
        let (status, _) = fleet
            .ask(Some(&fleet.admin_token()), Method::GET, &format!("{QOE}{wrong}"), None)
            .await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let isp = fleet.operator("isp", "partner", Some(&["rome"])).await;
    let theirs = |query: &str| {
        let path = format!("{QOE}{query}");
        let (fleet, isp) = (&fleet, &isp);
        async move { fleet.ask(Some(isp), Method::GET, &path, None).await }
    };
    let (_, answer) = theirs("?by=site").await;
    assert_eq!((names(&answer), &answer["total"]["sessions"]), (vec![("rome", 40)], &40.into()));
    assert_eq!(names(&theirs("?by=network").await.1), [("198.51.0.0/16", 40)]);
    assert_eq!(theirs("?site=paris").await.0, StatusCode::NOT_FOUND);
    let metrics = fleet.text("/metrics").await;
    for line in [
        "fullbore_fleet_qoe_sessions_total{result=\"not_started\"} 14",
        "fullbore_fleet_qoe_sessions_total{result=\"well\"} 112",
        "fullbore_fleet_qoe_stalled_seconds_total 14",
        "fullbore_fleet_qoe_play_delay_seconds_count 126",
        "fullbore_fleet_qoe_unnamed_total{reason=\"unknown_title\"} 2",
        "fullbore_site_qoe_sessions_troubled_total{site=\"paris\"} 20",
    ] {
        assert!(metrics.contains(&format!("{line}\n")), "{line}: {metrics}");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_outlive_a_restart_and_a_report_from_before_it_does_not_count_again() {
    let folder = folder();
    let engine = Arc::new(FolderStore::open(&folder.path().join("store")).expect("a store"));
    let first = Running::start_on(folder.path(), engine.clone()).await;
    first.nodes(&[("n1", "paris")]).await;
    tell(&first, "n1", 1, 100);
    let file = first.gateway.state().path().join("experience.json");
    first.stop().await;
    let again = Running::start_on(folder.path(), engine.clone()).await;
    assert_eq!(again.get(QOE).await["total"]["sessions"], 100);
    let now = again.gateway.now();
    let repeated = report("n1", 1, 100, now.unix_seconds());
    assert!(again.gateway.live().handle_experience(&name("n1"), &repeated, now).is_err());
    tell(&again, "n1", 2, 100);
    assert_eq!(again.get(&format!("{QOE}?over=week")).await["total"]["sessions"], 200);
    again.stop().await;
    // A damaged file costs the sums, not the start.
    std::fs::write(&file, "{").expect("written");
    let damaged = Running::start_on(folder.path(), engine).await;
    assert_eq!(damaged.get(QOE).await["total"]["sessions"], 0);
    damaged.stop().await;
}
