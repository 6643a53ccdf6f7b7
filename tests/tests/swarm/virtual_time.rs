//! `fullbore swarm --virtual`, as the real program.

use fullbore_tests::program;
use std::process::{Command, Output};

fn swarm(arguments: &str) -> Output {
    let mut command = Command::new(program());
    command.arg("swarm").args(arguments.split(' ')).output().expect("the program runs")
}

#[test]
fn a_seed_gives_the_same_figures_to_the_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let figures = |name: &str, threads: &str| {
        let path = folder.path().join(name);
        let options = format!(
            "--virtual --viewers 30 --duration 40m --over 10m --watch 20m --servers 3 --bad-evening --threads {threads} --json {}",
            path.display()
        );
        let ran = swarm(&options);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(String::from_utf8_lossy(&ran.stdout).contains("30 sessions: 30 started"));
        std::fs::read(path).expect("figures")
    };
    let first = figures("first.json", "1");
    assert!(!first.is_empty());
    assert_eq!(first, figures("second.json", "1"));
    assert_eq!(first, figures("threads.json", "2"));
}

#[test]
fn options_that_do_not_go_together_are_wrong_usage() {
    for options in [
        "--virtual --servers 2 --fault 3:dead",
        "--virtual --pathways 2",
        "--virtual --fault 1:tired",
        "--virtual https://127.0.0.1:1/master.m3u8",
        "--servers 2 https://127.0.0.1:1/master.m3u8",
    ] {
        let ran = swarm(options);
        assert_eq!(ran.status.code(), Some(2), "{options}");
        assert!(!ran.stderr.is_empty(), "{options}");
    }
}
