//! AF_XDP on a `veth`, with the kernel's stack behind it and next to it.

use crate::stream::{Stream, exchange, fetch_and_send, film};
use crate::tap::is_answered;
use fullbore_frames::{DropReason, Interface, Resolved, XdpSetup};
use fullbore_tests::{Namespace, until};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

const FETCH_BYTES: usize = 700_000;
const SEND_BYTES: usize = 200_000;

pub(crate) fn ours() -> Vec<IpAddr> {
    vec!["203.0.113.1".parse().unwrap(), "2001:db8:2::1".parse().unwrap()]
}

pub(crate) fn setup() -> XdpSetup {
    XdpSetup {
        interface: "near".to_owned(),
        queues: 1,
        flows: ours().into_iter().map(|address| (address, 443).into()).collect(),
        zero_copy: true,
        lends: Vec::new(),
        lends_to_kernel: false,
        streams_payload: false,
    }
}

/// If this is set, two NICs called `near` and `far`, connected by a cable, replace the pair of `veth`.
const CARDS: &str = "FULLBORE_TEST_CARDS";

/// Two namespaces, connected by a pair of `veth` or by two NICs, with this MTU.
pub(crate) fn pair(mtu_bytes: u32) -> Option<(Namespace, Namespace)> {
    let (near, far) = (Namespace::if_possible()?, Namespace::if_possible()?);
    if std::env::var_os(CARDS).is_some() {
        take_card(&near, "near");
        take_card(&far, "far");
        near.ip(&format!("link set near mtu {mtu_bytes}"));
        far.ip(&format!("link set far mtu {mtu_bytes}"));
    } else {
        near.ip(&format!(
            "link add near mtu {mtu_bytes} type veth peer name far mtu {mtu_bytes} netns {}",
            far.path()
        ));
    }
    near.ip("addr add 203.0.113.1/24 dev near");
    near.ip("addr add 2001:db8:2::1/64 dev near nodad");
    near.ip("link set near up");
    far.ip("addr add 203.0.113.2/24 dev far");
    far.ip("addr add 2001:db8:2::2/64 dev far nodad");
    far.ip("link set far up");
    Some((near, far))
}

/// Moves a NIC into `namespace`. It returns to the program's namespace shortly after this one is gone, so the next test may have to wait for it.
fn take_card(namespace: &Namespace, name: &str) {
    let link = ["link", "set", name, "netns", &namespace.path()];
    let is_taken = || Command::new("ip").args(link).status().is_ok_and(|status| status.success());
    until(&format!("the network card {name} is there"), is_taken);
}

pub(crate) fn open(near: &Namespace) -> Interface {
    open_by(near, setup())
}

fn open_by(near: &Namespace, setup: XdpSetup) -> Interface {
    let opened = near.inside(move || setup.open());
    let mut interfaces = opened.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(interfaces.len(), 1);
    interfaces.remove(0)
}

/// Sends every byte both ways, for each of our addresses.
fn films_go_both_ways(near: &Namespace, far: &Namespace, mtu_bytes: u32) {
    films_go_over(open(near), far, mtu_bytes);
}

fn films_go_over(mut interface: Interface, far: &Namespace, mtu_bytes: u32) {
    for address in ours() {
        let local = SocketAddr::new(address, 443);
        let fetched = far.start(move || fetch_and_send(local, FETCH_BYTES, SEND_BYTES));
        let headers = if address.is_ipv4() { 40 } else { 60 };
        let mut stream = Stream::accept(interface, local, (mtu_bytes - headers) as u16);
        exchange(&mut stream, FETCH_BYTES, SEND_BYTES);
        assert!(
            fetched.join().unwrap() == film(FETCH_BYTES),
            "the film has arrived as another one"
        );
        let statistics = stream.interface.device.statistics();
        assert!(statistics.super_segments_sent > 10, "{statistics:?}");
        assert_eq!(statistics.payload_bytes_copied, statistics.payload_bytes_sent);
        assert_eq!(statistics.coalesced_received, 0);
        for reason in DropReason::ALL {
            assert_eq!(statistics.refused(reason), 0, "{}", reason.name());
        }
        interface = stream.interface;
    }
}

#[test]
fn frames_go_both_ways_without_the_kernels_stack() {
    let Some((near, far)) = pair(1500) else { return };
    films_go_both_ways(&near, &far, 1500);
}

#[test]
fn frames_written_past_the_caches_are_the_same() {
    let Some((near, far)) = pair(1500) else { return };
    let setup = XdpSetup { streams_payload: true, ..setup() };
    films_go_over(open_by(&near, setup), &far, 1500);
}

#[test]
fn small_packets_go_through() {
    let Some((near, far)) = pair(1280) else { return };
    films_go_both_ways(&near, &far, 1280);
}

#[test]
fn jumbo_packets_go_through_or_are_refused_with_advice() {
    let Some((near, far)) = pair(9000) else { return };
    if knows_jumbo_frames() {
        films_go_both_ways(&near, &far, 9000);
    } else {
        let refused = near.inside(|| setup().open().err().unwrap().to_string());
        assert!(refused.contains("Linux 6.6"), "{refused}");
    }
}

/// Returns true for Linux 6.6 or later.
fn knows_jumbo_frames() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']);
    let mut number = || numbers.next().unwrap().parse::<u32>().unwrap();
    (number(), number()) >= (6, 6)
}

#[test]
fn everything_else_still_goes_to_the_kernel() {
    let Some((near, far)) = pair(1500) else { return };
    let mut interface = open(&near);
    let expected = match std::env::var_os(CARDS) {
        None => "AF_XDP with copies, XDP in the driver",
        Some(_) => "AF_XDP without copies",
    };
    assert_eq!(interface.device.describe(), expected);
    assert_eq!(interface.mtu_bytes, 1500);
    for address in ours() {
        assert!(far.inside(move || is_answered(address)), "{address} answers no ping");
        // Another port belongs to the kernel.
        let listener = near.inside(move || TcpListener::bind((address, 8080)).unwrap());
        let asked = far.start(move || {
            let mut stream = TcpStream::connect((address, 8080)).unwrap();
            stream.write_all(b"ssh").unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        near.inside(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = String::new();
            stream.read_to_string(&mut heard).unwrap();
            stream.write_all(heard.as_bytes()).unwrap();
        });
        assert_eq!(asked.join().unwrap(), "ssh");
    }
    assert_eq!(interface.device.receive(64, |_| {}).unwrap(), 0, "none of it was ours");
    // Gone with its owner: the kernel, where nothing listens, refuses.
    drop(interface);
    let refused = far.inside(|| TcpStream::connect((ours()[0], 443)).err().unwrap().kind());
    assert_eq!(refused, std::io::ErrorKind::ConnectionRefused);
}

/// A router is in between. Only the kernel's tables know its station, and it does not forward packets that are too big.
#[test]
fn viewers_behind_a_router_are_reached() {
    let Some((near, router)) = pair(1500) else { return };
    let Some(far) = Namespace::if_possible() else { return };
    router.ip(&format!("link add out type veth peer name viewer netns {}", far.path()));
    router.ip("addr add 198.51.100.1/24 dev out");
    router.ip("addr add 2001:db8:9::1/64 dev out nodad");
    router.ip("link set out up");
    router.set("ipv4/ip_forward", "1");
    router.set("ipv6/conf/all/forwarding", "1");
    far.ip("addr add 198.51.100.2/24 dev viewer");
    far.ip("addr add 2001:db8:9::2/64 dev viewer nodad");
    far.ip("link set viewer up");
    router.ip("link set out mtu 1300");
    far.ip("link set viewer mtu 1300");
    far.ip("route add default via 198.51.100.1");
    far.ip("route add default via 2001:db8:9::1");
    // The device is opened before the routes are added, so that it is notified of them.
    let mut interface = open(&near);
    near.ip("route add 198.51.100.0/24 via 203.0.113.2 mtu 1400");
    near.ip("route add default via 2001:db8:2::2");
    for viewer in ["198.51.100.2", "2001:db8:9::2"] {
        until("the route to be read", || {
            interface.neighbours.update().unwrap();
            interface.neighbours.resolve(viewer.parse().unwrap()) != Resolved::Unreachable
        });
    }
    films_with(interface, &far);
}

fn films_with(mut interface: Interface, far: &Namespace) {
    interface.neighbours.update().unwrap();
    for address in ours() {
        let local = SocketAddr::new(address, 443);
        let fetched = far.start(move || fetch_and_send(local, FETCH_BYTES, SEND_BYTES));
        let mut stream = Stream::accept(interface, local, 1340);
        stream.shrink(1340, 1240);
        assert_eq!(stream.too_big.unwrap().mtu_bytes, 1300);
        exchange(&mut stream, FETCH_BYTES, SEND_BYTES);
        assert!(fetched.join().unwrap() == film(FETCH_BYTES));
        interface = stream.interface;
    }
}

#[test]
fn a_queue_without_a_worker_is_refused_with_advice() {
    let Some((near, _far)) = pair(1500) else { return };
    let refused =
        near.inside(|| XdpSetup { queues: 2, ..setup() }.open().err().unwrap().to_string());
    assert!(refused.contains("1 receive queues") && refused.contains("ethtool -L"), "{refused}");
    let refused = near.inside(|| {
        let setup = XdpSetup { interface: "nowhere".to_owned(), ..setup() };
        setup.open().err().unwrap().to_string()
    });
    assert!(refused.contains("nowhere") && refused.contains("ip link"), "{refused}");
}

/// A bridge has no driver to run a program in, so the program runs behind it.
#[test]
fn an_interface_without_a_driver_of_its_own_serves_too() {
    let (Some(near), Some(far)) = (Namespace::if_possible(), Namespace::if_possible()) else {
        return;
    };
    near.ip(&format!("link add port type veth peer name far netns {}", far.path()));
    near.ip("link add near type bridge");
    near.ip("link set port master near up");
    near.ip("addr add 203.0.113.1/24 dev near");
    near.ip("addr add 2001:db8:2::1/64 dev near nodad");
    near.ip("link set near up");
    far.ip("addr add 203.0.113.2/24 dev far");
    far.ip("addr add 2001:db8:2::2/64 dev far nodad");
    far.ip("link set far up");
    // A bridge would hand over what its ports coalesce; the card behind it must not coalesce.
    near.succeed("ethtool", &["-K", "port", "gro", "off"]);
    far.succeed("ethtool", &["-K", "far", "tx", "off"]);
    films_go_both_ways(&near, &far, 1500);
}
