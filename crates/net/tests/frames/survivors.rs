//! A process that is killed leaves nothing behind.

use crate::namespace::Namespace;
use fullbore_net::frames::TapPlan;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Says to the test below what it is to hold.
const HOLD: &str = "FULLBORE_TEST_HOLD";

/// Not a test of its own: what the other tests here start and kill.
#[test]
fn holds_a_device_until_it_is_killed() {
    let Ok(what) = std::env::var(HOLD) else { return };
    assert_eq!(what, "tap");
    let plan = TapPlan {
        name: "held".to_owned(),
        addresses: vec!["198.51.100.1".parse().unwrap(), "2001:db8:1::1".parse().unwrap()],
        ..TapPlan::default()
    };
    let _held = plan.open().unwrap();
    println!("held");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

fn hold(namespace: &Namespace, what: &'static str) -> Child {
    namespace.run(move || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "survivors::holds_a_device_until_it_is_killed", "--nocapture"])
            .env(HOLD, what)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("held")), "it holds it");
        child
    })
}

#[test]
fn a_killed_process_leaves_no_tap_no_route_and_no_neighbour() {
    let Some(namespace) = Namespace::new() else { return };
    // Twice: the second one finds nothing in its way.
    for _ in 0..2 {
        let mut child = hold(&namespace, "tap");
        assert!(namespace.ip("link").contains("held"));
        assert!(namespace.ip("route").contains("198.51.100.1 dev held"));
        assert!(namespace.ip("-6 route").contains("2001:db8:1::1 dev held"));
        assert!(namespace.ip("neigh show nud permanent").contains("198.51.100.1 dev held"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!namespace.ip("link").contains("held"));
        assert!(!namespace.ip("route").contains("held"));
        assert!(!namespace.ip("-6 route").contains("held"));
        assert!(!namespace.ip("neigh show nud permanent").contains("held"));
    }
}
