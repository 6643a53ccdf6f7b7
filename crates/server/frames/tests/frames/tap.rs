//! A TAP, with the kernel's stack behind it.

use crate::stream::{Stream, exchange, fetch_and_send, film};
use fullbore_frames::checksum::Sum;
use fullbore_frames::{DropReason, Interface, TapSetup};
use fullbore_tests::{Namespace, eventually, until};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FETCH_BYTES: usize = 1_000_000;
const SEND_BYTES: usize = 300_000;

pub(crate) fn ours() -> Vec<IpAddr> {
    vec!["198.51.100.1".parse().unwrap(), "2001:db8:1::1".parse().unwrap()]
}

pub(crate) fn setup() -> TapSetup {
    TapSetup {
        addresses: ours(),
        kernel_addresses: vec![
            ("192.0.2.1".parse().unwrap(), 24),
            ("2001:db8::1".parse().unwrap(), 64),
        ],
        ..TapSetup::default()
    }
}

/// Opens a device. One with the same addresses that was just closed may still be there: while another test starts a program, the child has all
/// descriptors of this process until its exec.
pub(crate) fn open(namespace: &Namespace, setup: &TapSetup) -> Interface {
    let mut interfaces =
        eventually("the routes of the closed device to be gone", || {
            match namespace.inside(|| setup.open()) {
                Ok(interfaces) => Some(interfaces),
                Err(error) if error.io().raw_os_error() == Some(libc::EEXIST) => None,
                Err(error) => panic!("{error}"),
            }
        });
    assert_eq!(interfaces.len(), 1);
    interfaces.remove(0)
}

/// Sends every byte both ways between our device in `near` and a client in `far`. Returns how many frames arrived
/// coalesced, over IPv4 and over IPv6.
fn films_go_both_ways(
    near: &Namespace,
    far: &Namespace,
    setup: &TapSetup,
    segment_bytes: u16,
) -> Vec<usize> {
    let each = |address: IpAddr| {
        let interface = open(near, setup);
        let local = SocketAddr::new(address, 443);
        let fetched = far.start(move || fetch_and_send(local, FETCH_BYTES, SEND_BYTES));
        let mut stream = Stream::accept(interface, local, segment_bytes);
        exchange(&mut stream, FETCH_BYTES, SEND_BYTES);
        assert!(
            fetched.join().unwrap() == film(FETCH_BYTES),
            "the film has arrived as another one"
        );
        let statistics = stream.interface.device.statistics();
        assert!(statistics.super_segments_sent > 10, "{statistics:?}");
        assert_eq!(statistics.payload_bytes_copied, 0, "the kernel gathers separate pieces");
        assert_eq!(statistics.refused(DropReason::TcpChecksum), 0);
        stream.coalesced
    };
    ours().into_iter().map(each).collect()
}

#[test]
fn super_segments_arrive_at_the_kernel_and_come_from_it() {
    let Some(namespace) = Namespace::if_possible() else { return };
    for coalesced in films_go_both_ways(&namespace, &namespace, &setup(), 1428) {
        assert!(coalesced > 0, "the kernel has handed us nothing coalesced");
    }
}

#[test]
fn without_coalescing_segments_come_one_by_one() {
    let Some(namespace) = Namespace::if_possible() else { return };
    let setup = TapSetup { coalesce: false, ..setup() };
    for coalesced in films_go_both_ways(&namespace, &namespace, &setup, 1428) {
        assert_eq!(coalesced, 0);
    }
}

#[test]
fn jumbo_and_small_packets_go_through() {
    let Some(namespace) = Namespace::if_possible() else { return };
    for (mtu_bytes, segment_bytes) in [(1280, 1208), (9000, 8928), (65_521, 60_000)] {
        let setup = TapSetup { mtu_bytes, ..setup() };
        let each = |address: IpAddr| {
            let interface = open(&namespace, &setup);
            let local = SocketAddr::new(address, 443);
            let fetched = namespace.start(move || fetch_and_send(local, FETCH_BYTES, SEND_BYTES));
            let mut stream = Stream::accept(interface, local, segment_bytes);
            exchange(&mut stream, FETCH_BYTES, SEND_BYTES);
            assert!(fetched.join().unwrap() == film(FETCH_BYTES));
        };
        ours().into_iter().for_each(each);
    }
}

/// Over a link that takes no super-segments and completes no checksums: the kernel cuts and checksums the frames.
#[test]
fn the_kernel_forwards_to_viewers_elsewhere() {
    let (Some(near), Some(far)) = (Namespace::if_possible(), Namespace::if_possible()) else {
        return;
    };
    near.ip(&format!("link add near type veth peer name far netns {}", far.path()));
    near.ip("addr add 203.0.113.1/24 dev near");
    near.ip("addr add 2001:db8:2::1/64 dev near nodad");
    far.ip("addr add 203.0.113.2/24 dev far");
    far.ip("addr add 2001:db8:2::2/64 dev far nodad");
    near.ip("link set near gso_max_size 2000 gso_max_segs 1 up");
    far.ip("link set far up");
    near.succeed("ethtool", &["-K", "near", "tx", "off"]);
    far.succeed("ethtool", &["-K", "far", "tx", "off"]);
    far.ip("route add default via 203.0.113.1");
    far.ip("route add default via 2001:db8:2::1");
    near.set("ipv4/ip_forward", "1");
    near.set("ipv6/conf/all/forwarding", "1");
    // The kernel needs no address on the device itself.
    let setup = TapSetup { kernel_addresses: Vec::new(), ..setup() };
    films_go_both_ways(&near, &far, &setup, 1428);
    // The kernel also reports what it cannot forward.
    near.ip("link set near mtu 1300");
    far.ip("link set far mtu 1300");
    let interface = open(&near, &setup);
    let local = SocketAddr::new(ours()[1], 443);
    let fetched = far.start(move || fetch_and_send(local, FETCH_BYTES, SEND_BYTES));
    let mut stream = Stream::accept(interface, local, 1428);
    stream.shrink(1428, 1228);
    assert_eq!(stream.too_big.unwrap().mtu_bytes, 1300);
    exchange(&mut stream, FETCH_BYTES, SEND_BYTES);
    assert!(fetched.join().unwrap() == film(FETCH_BYTES));
}

#[test]
fn what_is_not_for_us_is_counted_and_pings_are_answered() {
    let Some(namespace) = Namespace::if_possible() else { return };
    let mut interface = open(&namespace, &setup());
    let waiting = namespace.start(|| {
        for address in ours() {
            let socket =
                UdpSocket::bind((if address.is_ipv4() { "0.0.0.0" } else { "::" }, 0)).unwrap();
            socket.send_to(b"?", (address, 443)).unwrap();
        }
        ours().into_iter().all(is_answered)
    });
    while !waiting.is_finished() {
        interface.device.receive(64, |_| {}).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(waiting.join().unwrap(), "a ping was not answered");
    let statistics = interface.device.statistics();
    assert!(statistics.pings_answered >= 2, "{statistics:?}");
    assert_eq!(statistics.refused(DropReason::OtherProtocol), 2, "two datagrams: {statistics:?}");
}

/// An IPv4 packet from the kernel's end, made as an attacker would.
fn forged(first_byte: u8, fragment: [u8; 2], segment: &[u8]) -> Vec<u8> {
    let mut packet = vec![first_byte, 0, 0, 0, 0, 1, fragment[0], fragment[1], 64, 6, 0, 0];
    packet.extend([192, 0, 2, 1, 198, 51, 100, 1]);
    packet.resize(usize::from(first_byte & 15) * 4, 1);
    packet.extend(segment);
    packet
}

#[test]
fn fragments_options_and_bad_checksums_end_in_their_counters() {
    let Some(namespace) = Namespace::if_possible() else { return };
    // Otherwise the kernel announces its groups by IPv6, with options.
    namespace.set("ipv6/conf/default/disable_ipv6", "1");
    let mut setup = setup();
    setup.addresses.truncate(1);
    setup.kernel_addresses.truncate(1);
    let mut interface = open(&namespace, &setup);
    let mut syn = [0; 20];
    syn[12..14].copy_from_slice(&[0x50, 2]);
    let packets = [
        forged(0x45, [0x20, 0], &[0; 64]),
        forged(0x45, [0, 8], &[0; 64]),
        forged(0x46, [0, 0], &syn),
        forged(0x45, [0, 0], &syn),
        forged(0x45, [0, 0], &syn[..12]),
    ];
    namespace.inside(move || {
        use socket2::{Domain, Protocol, SockAddr, Socket, Type};
        // IPPROTO_RAW: the header is ours, except for lengths and checksum, which the kernel sets.
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
        let server = SockAddr::from(SocketAddr::new(ours()[0], 0));
        for packet in packets {
            socket.send_to(&packet, &server).unwrap();
        }
    });
    let expected = [
        (DropReason::Fragment, 2),
        (DropReason::Options, 1),
        (DropReason::TcpChecksum, 1),
        (DropReason::TcpHeader, 1),
    ];
    // The kernel may send a moment later.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut counted = [0; 4];
    while counted.iter().sum::<u64>() < 5 && Instant::now() < deadline {
        interface.device.receive(64, |packet| panic!("{packet:?} was taken")).unwrap();
        let statistics = interface.device.statistics();
        counted = expected.map(|(reason, _)| statistics.refused(reason));
    }
    assert_eq!(counted, expected.map(|(_, count)| count), "{:?}", interface.device.statistics());
}

/// Pings `address` for a minute and returns whether an answer arrived. An address of the kernel may take a moment to become usable.
pub(crate) fn is_answered(address: IpAddr) -> bool {
    use socket2::{Domain, Protocol, SockAddr, Socket, Type};
    let (domain, protocol, kinds) = match address {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, [8, 0]),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, [128, 129]),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    // The kernel computes ICMPv6's checksum itself.
    let mut ping = [kinds[0], 0, 0, 0, 0x12, 0x34, 0, 1, b'p', b'i', b'n', b'g', b'!'];
    let mut sum = Sum::default();
    sum.add(&ping);
    ping[2..4].copy_from_slice(&sum.checksum());
    let server = SockAddr::from(SocketAddr::new(address, 0));
    (0..120).any(|_| {
        socket.send_to(&ping, &server).unwrap();
        let mut heard = [0; 128];
        while let Ok(bytes) = std::io::Read::read(&mut &socket, &mut heard) {
            let icmp = &heard[if address.is_ipv4() { 20 } else { 0 }..bytes];
            if icmp[0] == kinds[1] && icmp[4..] == ping[4..] {
                return true;
            }
        }
        false
    })
}

#[test]
fn each_worker_has_a_queue_and_a_connection_stays_on_its_own() {
    let Some(namespace) = Namespace::if_possible() else { return };
    let setup = TapSetup { queues: 2, ..setup() };
    let interfaces = namespace.inside(move || setup.open().unwrap());
    let local = SocketAddr::new(ours()[0], 443);
    let are_done = Arc::new(AtomicBool::new(false));
    // The queue of a connection is random. With this many, both queues get some, except once in a million runs.
    let workers: Vec<_> = interfaces
        .into_iter()
        .map(|interface| {
            let are_done = Arc::clone(&are_done);
            std::thread::spawn(move || serve_all(interface, local, &are_done))
        })
        .collect();
    for _ in 0..CONNECTIONS {
        let fetched = namespace.inside(move || fetch_and_send(local, 100_000, 1000));
        assert!(fetched == film(100_000));
    }
    are_done.store(true, Ordering::Relaxed);
    let served: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    assert_eq!(served.iter().sum::<usize>(), CONNECTIONS);
    assert!(served.iter().all(|&served| served > 0), "one worker has served all: {served:?}");
}

const CONNECTIONS: usize = 21;

/// Serves one connection after the other; returns how many.
fn serve_all(mut interface: Interface, local: SocketAddr, are_done: &AtomicBool) -> usize {
    let mut served = 0;
    while !are_done.load(Ordering::Relaxed) {
        interface = match Stream::accept_within(Duration::from_millis(50), interface, local, 1428) {
            Ok(mut stream) => {
                exchange(&mut stream, 100_000, 1000);
                served += 1;
                stream.interface
            }
            Err(interface) => *interface,
        }
    }
    served
}

#[test]
fn a_name_that_is_taken_and_an_address_that_is_taken_are_refused_with_advice() {
    let Some(namespace) = Namespace::if_possible() else { return };
    let first = TapSetup { name: "one".to_owned(), ..setup() };
    let _held = open(&namespace, &first);
    let same_name = namespace.inside(move || first.open().err().unwrap().to_string());
    assert!(
        same_name.contains("TAP device one") && same_name.contains("another name"),
        "{same_name}"
    );
    let same_address = namespace.inside(move || {
        TapSetup { kernel_addresses: Vec::new(), ..setup() }.open().err().unwrap().to_string()
    });
    assert!(same_address.contains("cannot route 198.51.100.1"), "{same_address}");
    until("the second device to be gone again", || !namespace.ip("link").contains("fullbore0"));
}
