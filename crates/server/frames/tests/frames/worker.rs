//! A worker's use of a device: waits for it in its ring, and works without any privileges.

use crate::stream::{Stream, exchange, fetch_and_send, film};
use crate::{tap, xdp};
use fullbore_frames::Interface;
use fullbore_tests::Namespace;
use reactor::{Fd, Reactor, RingOptions, op};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FETCH_BYTES: usize = 500_000;
const SEND_BYTES: usize = 100_000;

// linux/capability.h
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// Drops all capabilities of this thread except these, for good (capset(2)).
fn keep_privileges(kept: u64) {
    // _LINUX_CAPABILITY_VERSION_3, ourselves; then twice effective, permitted, inheritable: low halves first.
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    let (header, sets) = ([0x2008_0522u32, 0], [low, low, 0, high, high, 0]);
    // SAFETY: both are laid out as capset(2) requires and live until the call is over.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Waits in a ring for the first frame, then serves, all without privileges.
fn serve(interface: Interface, address: IpAddr, far: &Namespace) {
    let local = SocketAddr::new(address, 443);
    let fetched = far.start(move || fetch_and_send(local, FETCH_BYTES, SEND_BYTES));
    let worker = std::thread::spawn(move || {
        keep_privileges(0);
        let device = interface.device.fd().try_clone_to_owned().unwrap();
        let reactor = Reactor::new(RingOptions::default()).expect("this kernel has io_uring");
        let (events, _) = reactor
            .run(async move {
                let device = Fd::from(device);
                op::writable(&device).await.0.expect("there is room to send");
                op::readable(&device).await
            })
            .unwrap();
        assert!(events.unwrap() & libc::POLLIN as u32 != 0, "something has arrived");
        let mut stream = Stream::accept(interface, local, 1428);
        exchange(&mut stream, FETCH_BYTES, SEND_BYTES);
    });
    worker.join().unwrap();
    assert!(fetched.join().unwrap() == film(FETCH_BYTES));
}

#[test]
fn a_tap_is_waited_for_in_the_ring_and_needs_no_privileges() {
    let Some(namespace) = Namespace::if_possible() else { return };
    for address in tap::ours() {
        serve(tap::open(&namespace, &tap::setup()), address, &namespace);
    }
}

#[test]
fn a_queue_of_a_card_is_waited_for_in_the_ring_and_needs_no_privileges() {
    let Some((near, far)) = xdp::pair(1500) else { return };
    for address in xdp::ours() {
        serve(xdp::open(&near), address, &far);
    }
}

#[test]
fn opening_without_privileges_says_which_are_needed() {
    let Some((near, _far)) = xdp::pair(1500) else { return };
    let said = near.inside(|| {
        keep_privileges(0);
        [
            tap::setup().open().err().unwrap().to_string(),
            xdp::setup().open().err().unwrap().to_string(),
        ]
    });
    for said in said {
        assert!(said.contains("CAP_NET_ADMIN") && said.contains("AmbientCapabilities"), "{said}");
    }
}

#[test]
fn the_privileges_that_are_named_are_enough() {
    let Some((near, _far)) = xdp::pair(1500) else { return };
    near.inside(|| {
        keep_privileges(NET_ADMIN | NET_RAW | BPF | PERFMON);
        xdp::setup().open().unwrap_or_else(|error| panic!("{error}"));
        keep_privileges(NET_ADMIN);
        tap::setup().open().unwrap_or_else(|error| panic!("{error}"));
    });
}

/// As if a cable is pulled: routes and neighbours disappear, and come back.
#[test]
fn a_card_that_was_down_goes_on_when_it_is_up_again() {
    let Some((near, far)) = xdp::pair(1500) else { return };
    let film = film(2 * FETCH_BYTES);
    let (first, second) = film.split_at(FETCH_BYTES);
    let local = SocketAddr::new(xdp::ours()[0], 443);
    let interface = xdp::open(&near);
    let fetched = far.start(move || fetch_and_send(local, 2 * FETCH_BYTES, 0));
    let mut stream = Stream::accept(interface, local, 1428);
    stream.send(first, 20_000);
    near.ip("link set near down");
    let goes_up = Arc::new(AtomicBool::new(false));
    let is_up = near.start({
        let goes_up = Arc::clone(&goes_up);
        move || {
            // sleeps: the card is down for a while, during which nothing can be sent, and longer is as well
            std::thread::sleep(Duration::from_millis(500));
            goes_up.store(true, Ordering::SeqCst);
            Command::new("ip").args(["link", "set", "near", "up"]).status().unwrap()
        }
    });
    stream.send(second, 20_000);
    assert!(goes_up.load(Ordering::SeqCst), "nothing was sent while it was down");
    assert!(is_up.join().unwrap().success());
    stream.finish();
    assert!(fetched.join().unwrap() == film);
}
