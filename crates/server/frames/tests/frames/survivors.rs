//! A process that is killed leaves nothing behind.

use crate::xdp;
use fullbore_frames::TapSetup;
use fullbore_tests::Namespace;
use std::io::{BufRead, BufReader};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names the device to hold for the test below.
const HOLD: &str = "FULLBORE_TEST_HOLD";

/// Not a test by itself: the other tests here start and kill it.
#[test]
fn holds_a_device_until_it_is_killed() {
    let Ok(what) = std::env::var(HOLD) else { return };
    let held = match what.as_str() {
        "tap" => TapSetup {
            name: "held".to_owned(),
            addresses: vec!["198.51.100.1".parse().unwrap(), "2001:db8:1::1".parse().unwrap()],
            ..TapSetup::default()
        }
        .open(),
        _ => xdp::setup().open(),
    };
    let _held = held.unwrap();
    println!("held");
    // sleeps: this process holds the device until it is killed
    std::thread::sleep(std::time::Duration::from_secs(60));
}

fn hold(namespace: &Namespace, what: &'static str) -> Child {
    namespace.inside(move || {
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
    let Some(namespace) = Namespace::if_possible() else { return };
    // Twice: nothing may be in the way of the second one.
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

#[test]
fn a_killed_process_leaves_no_program() {
    let Some((near, _far)) = xdp::pair(1500) else { return };
    for _ in 0..2 {
        let mut child = hold(&near, "xdp");
        let shown = near.ip("-d link show near");
        let words: Vec<_> = shown.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "prog/xdp").expect("a program is there");
        let program: u32 = words[at + 2].parse().unwrap();
        assert!(is_loaded(program));
        child.kill().unwrap();
        child.wait().unwrap();
        // The kernel takes a moment to forget.
        let deadline = Instant::now() + Duration::from_secs(60);
        while is_loaded(program) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_loaded(program));
        assert!(!near.ip("-d link show near").contains("prog/xdp"));
    }
}

/// Asks bpf(2) for a program by its number (`BPF_PROG_GET_FD_BY_ID`).
fn is_loaded(program: u32) -> bool {
    let attributes = [program, 0, 0, 0];
    // SAFETY: the attributes live until the call is over; the kernel only reads them.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, 13, attributes.as_ptr(), size_of_val(&attributes)) };
    if fd >= 0 {
        // SAFETY: the call has made this descriptor, and it has no other owner.
        drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    }
    fd >= 0
}
