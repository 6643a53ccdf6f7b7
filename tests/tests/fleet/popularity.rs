//! Watching on real servers, up to a plan.

use crate::house::{Fleet, get};
use fullbore_tests::within;
use serde_json::Value;
use std::time::Duration;

/// A report comes once a minute, and two heartbeats later the gateway has it.
const A_REPORT: Duration = Duration::from_secs(100);

#[test]
#[ignore = "nodes report what was watched once a minute"]
fn what_viewers_take_of_nodes_is_known_to_the_gateway_and_to_a_plan() {
    let mut fleet = Fleet::start(&["a", "b", "c"], 10);
    let (_, master) = get(&fleet.film());
    let playlist = master.lines().find(|line| line.starts_with("http")).expect("an address");
    let folder = playlist.rsplit_once('/').expect("a path").0;
    let (_, media) = get(playlist);
    let segments: Vec<_> = media.lines().filter(|line| line.ends_with(".m4s")).collect();
    let mut taken = 0;
    for segment in &segments {
        let (status, bytes) = get(&format!("{folder}/{segment}"));
        assert_eq!(status, 200);
        taken += bytes.len() as u64;
    }
    assert!(taken > 0, "{media}");
    let watched = |fleet: &Fleet| fleet.control(&["where", "film"])["watched"][0].clone();
    let region = within(A_REPORT, "the gateway to know what was watched", || {
        Some(watched(&fleet)).filter(|region| region["bytes_a_day"].as_u64() >= Some(taken))
    });
    assert_eq!(region["region"], "r");
    let plan = fleet.control(&["plan", "--dry-run"]);
    assert_eq!(plan["near_after_permille"].as_u64(), Some(1000), "{plan}");
    assert_eq!((plan["moved_bytes"].as_u64(), &plan["left_out"]), (Some(0), &Value::Array(vec![])));
    // A gateway that exits has saved it.
    assert!(fleet.gateway.end());
    fleet.restart_gateway();
    let again = watched(&fleet);
    assert!(again["bytes_a_day"].as_u64() >= Some(taken), "{again}");
    assert!(!fleet.control_ends(&["plan"]).status.success(), "neither --dry-run nor --apply");
}
