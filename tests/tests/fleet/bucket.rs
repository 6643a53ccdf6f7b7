//! A title goes from a library to viewers through a bucket: `fullbore publish`, then `fullbore control publish`, then nodes.

#[path = "../../../crates/media/publish/tests/publish/store.rs"]
mod store;

use crate::house::Fleet;
use fullbore_tests::{FILM, make_title, program, until};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use store::Store;

/// The size of a block in records.
const BLOCK: usize = 4 << 20;

fn film(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 % 251) as u8).collect()
}

fn publish(library: &Path, title: &str, to: &str) -> Output {
    let mut command = Command::new(program());
    command.args(["publish", title, "--to", to, "--json", "--patience", "1s", "--library"]);
    command.arg(library).env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "a-secret");
    command.output().unwrap()
}

/// One test, because starting a fleet takes time.
#[test]
fn a_title_in_a_bucket_reaches_all_nodes_and_a_cut_copy_goes_on() {
    let mut fleet = Fleet::start(&["a", "a", "b"], 10);
    let (store, library) = (Store::start(), fleet.path("more"));
    let film = film(6 * BLOCK + 12_345);
    fs::create_dir_all(library.join("films/second")).unwrap();
    make_title(&library.join("films/second"), &film).unwrap();
    let early = fleet.control_ends(&["publish", "films/second", "--origin", &store.to()]);
    let said = String::from_utf8_lossy(&early.stderr);
    assert!(!early.status.success() && said.contains("fullbore publish films/second"), "{said}");

    let ran = publish(&library, "films/second", &store.to());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&told["kept_bytes"], &told["objects"]), (&Value::from(0), &Value::from(4)));
    // Slow enough to be interrupted: a block in an eighth of a second. Only the title's address names this server, so nodes need `--origin`.
    let origin = store.to();
    let slow = ["--fill-rate", "270M", "--origin", &origin];
    fleet.nodes.iter_mut().for_each(|node| node.restart_agent(&slow));
    let published = fleet.control(&["publish", "films/second", "--origin", &store.to()]);
    assert_eq!(published["digest"], told["digest"], "{published}");
    until("a node to be in the middle of it", || store.sent_bytes("/v-") > 2 * BLOCK as u64);
    fleet.nodes.iter_mut().for_each(|node| node.restart_agent(&slow));
    until("all nodes to hold it", || fleet.holders("films/second") == fleet.nodes.len());
    for node in &fleet.nodes {
        let own = node.library.join("films/second");
        let own = own.join(catalog::Record::read(&own).unwrap().folder).join(FILM);
        assert!(fs::read(own).unwrap() == film, "{}", node.name);
    }
    // At most a copy for each node, because agents that have just started don't know their neighbours, and the block that was under way when
    // each was interrupted.
    let (one, block) = (film.len() as u64, BLOCK as u64);
    let sent = store.sent_bytes("/v-");
    assert!((one..=3 * one + 3 * block).contains(&sent), "{sent} of {one}");
}

#[test]
fn mistakes_of_a_publisher_are_told_in_one_line_with_an_exit_code() {
    let library = tempfile::tempdir().unwrap();
    fs::create_dir_all(library.path().join("film")).unwrap();
    make_title(&library.path().join("film"), &film(1000)).unwrap();
    let gone = "s3://films/hd?endpoint=http://127.0.0.1:9";
    let table = [
        ("film", "/srv/films", 2, "begins with s3://"),
        ("film", "s3://", 2, "names no bucket"),
        ("../film", gone, 2, "cannot be a title's name"),
        ("none", gone, 1, "holds no title"),
        ("film", gone, 1, "run the same command again"),
    ];
    for (title, to, code, advice) in table {
        let ran = publish(library.path(), title, to);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(code), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.contains(advice) && !said.contains("a-secret"), "{said}");
        assert!(ran.stdout.is_empty());
    }
}
