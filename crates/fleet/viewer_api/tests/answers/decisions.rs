//! The log of decisions with several gateways, and in large fleets.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use fleet_protocol::FleetSnapshot;
use fullbore_viewer_api::decisions::{DecisionLog, replay_all};
use steering::{Fleet, Logged, Question, decide};

use crate::world::{name, snapshot};

fn indexed(change: impl FnOnce(&mut FleetSnapshot)) -> Arc<Fleet> {
    let mut one = snapshot();
    change(&mut one);
    Arc::new(Fleet::new(one, None).expect("a good snapshot"))
}

fn ask(log: &DecisionLog, fleet: &Fleet, viewer: u64) {
    let address = IpAddr::from([127, 0, 0, 1]);
    let question = Question { address, title: "films/a", viewer, region: None, playing: None };
    let decision = decide(fleet, &question);
    log.decision(Logged::new(fleet, &question, &decision, 1_790_000_000));
}

fn bytes_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("listed").flatten();
    files.map(|entry| entry.metadata().expect("a file").len()).sum()
}

#[test]
fn a_decision_is_made_again_from_the_snapshot_of_its_own_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = DecisionLog::open(folder.path(), 1 << 20).expect("a log");
    // Two gateways use the same numbers, and one of them has lost contact with two nodes.
    let one = indexed(|_| {});
    let other = indexed(|own| {
        own.gateway = name("other");
        own.nodes.truncate(1);
    });
    for (at, fleet) in [&one, &other, &one, &other].into_iter().enumerate() {
        log.snapshot(Arc::clone(fleet));
        ask(&log, fleet, at as u64);
    }
    log.flush();
    let replayed = replay_all(folder.path(), |_| true).expect("read");
    assert_eq!((replayed.same, replayed.different), (4, 0), "{replayed:?}");
    assert_eq!(replayed.without_snapshot + replayed.broken_lines, 0, "{replayed:?}");
}

#[test]
fn a_decision_that_comes_out_otherwise_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = DecisionLog::open(folder.path(), 1 << 20).expect("a log");
    let fleet = indexed(|_| {});
    log.snapshot(Arc::clone(&fleet));
    ask(&log, &fleet, 1);
    drop(log);
    let mut files = std::fs::read_dir(folder.path()).expect("listed").flatten();
    let file = files.next().expect("a file").path();
    let text = std::fs::read_to_string(&file).expect("text");
    let (whole, decision) = text.trim_end().rsplit_once('\n').expect("two lines");
    let swapped = decision.replace("\"node-2\"", "\"x\"").replace("\"node-3\"", "\"node-2\"");
    std::fs::write(&file, format!("{whole}\n{}\n", swapped.replace("\"x\"", "\"node-3\"")))
        .expect("written");
    let replayed = replay_all(folder.path(), |_| true).expect("read");
    assert_eq!((replayed.same, replayed.different), (0, 1), "{replayed:?}");
    assert_eq!(replayed.differences[0].now.len(), 3, "{replayed:?}");
}

#[test]
fn snapshots_that_are_larger_than_a_file_of_the_log_are_not_written_again_for_every_decision() {
    let folder = tempfile::tempdir().expect("a folder");
    let fleet = indexed(|_| {});
    let snapshot_bytes = serde_json::to_vec(fleet.snapshot()).expect("JSON").len() as u64;
    // A file has a sixteenth of the log.
    let log = DecisionLog::open(folder.path(), 4 * snapshot_bytes).expect("a log");
    log.snapshot(Arc::clone(&fleet));
    (0..10).for_each(|viewer| ask(&log, &fleet, viewer));
    log.flush();
    let replayed = replay_all(folder.path(), |_| true).expect("read");
    assert_eq!((replayed.same, replayed.different), (10, 0), "{replayed:?}");
    assert!(bytes_of(folder.path()) < 4 * snapshot_bytes, "{}", bytes_of(folder.path()));
}
