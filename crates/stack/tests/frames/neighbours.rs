//! The way to a peer, from the kernel's tables.

use crate::xdp;
use fullbore_stack::{Interface, Mac, Neighbours, Resolved};
use fullbore_tests::Namespace;
use std::net::IpAddr;
use std::time::{Duration, Instant};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn mac_of(namespace: &Namespace, name: &str) -> Mac {
    let shown = namespace.ip(&format!("-o link show {name}"));
    let mut words = shown.split_whitespace().skip_while(|word| *word != "link/ether");
    let octets = words.nth(1).expect("an Ethernet device").split(':');
    let octets: Vec<_> = octets.map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    Mac(octets.try_into().unwrap())
}

/// Asks until the answer is not `Pending`.
fn resolved(neighbours: &mut Neighbours, remote: IpAddr) -> Resolved {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match neighbours.resolve(remote) {
            Resolved::Pending if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
                neighbours.update().unwrap();
            }
            other => return other,
        }
    }
}

#[test]
fn a_station_that_the_kernel_does_not_know_is_asked_for() {
    let Some((near, far)) = xdp::pair(1500) else { return };
    let Interface { mut neighbours, device: _device, .. } = xdp::open(&near);
    for remote in [address("203.0.113.2"), address("2001:db8:2::2")] {
        assert_eq!(neighbours.resolve(remote), Resolved::Pending);
        let Resolved::Known(hop) = resolved(&mut neighbours, remote) else {
            panic!("{remote} was not found")
        };
        assert_eq!((hop.destination, hop.source), (mac_of(&far, "far"), mac_of(&near, "near")));
        assert_eq!(hop.mtu_bytes, 1500);
    }
    assert_eq!(neighbours.resolve(address("192.0.2.1")), Resolved::Unreachable);
    assert_eq!(neighbours.resolve(address("2001:db8:ffff::1")), Resolved::Unreachable);
}

#[test]
fn where_a_frame_came_from_is_the_way_until_the_kernel_knows_better() {
    let Some((near, far)) = xdp::pair(1500) else { return };
    let Interface { mut neighbours, device: _device, .. } = xdp::open(&near);
    let (remote, elsewhere) = (address("203.0.113.2"), Mac([2, 0, 0, 0, 0, 9]));
    neighbours.sighted(remote, elsewhere);
    let Resolved::Known(hop) = neighbours.resolve(remote) else { panic!("it was sighted") };
    assert_eq!(hop.destination, elsewhere);
    let deadline = Instant::now() + Duration::from_secs(5);
    while neighbours.resolve(remote) == Resolved::Known(hop) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
        neighbours.update().unwrap();
    }
    let Resolved::Known(hop) = neighbours.resolve(remote) else { panic!("the kernel knows it") };
    assert_eq!(hop.destination, mac_of(&far, "far"));
}

#[test]
fn changes_of_the_kernels_tables_are_followed() {
    let Some((near, _far)) = xdp::pair(1500) else { return };
    let Interface { mut neighbours, device: _device, .. } = xdp::open(&near);
    let remote = address("192.0.2.7");
    let mut generation = neighbours.generation();
    let mut expect = |command: &str, expected: Option<(Mac, u32)>| {
        near.ip(command);
        // Routes are read at most every 100 ms.
        std::thread::sleep(Duration::from_millis(150));
        neighbours.update().unwrap();
        let hop = match neighbours.resolve(remote) {
            Resolved::Known(hop) => Some((hop.destination, hop.mtu_bytes)),
            _ => None,
        };
        assert_eq!(hop, expected, "after `ip {command}`");
        assert!(neighbours.generation() > generation, "`ip {command}` has changed the ways");
        generation = neighbours.generation();
    };
    let (first, second) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    expect("neigh add 203.0.113.8 lladdr 02:00:00:00:00:01 dev near nud permanent", None);
    expect("route add default via 203.0.113.8", Some((first, 1500)));
    expect(
        "neigh replace 203.0.113.8 lladdr 02:00:00:00:00:02 dev near nud permanent",
        Some((second, 1500)),
    );
    expect(
        "neigh add 203.0.113.9 lladdr 02:00:00:00:00:01 dev near nud permanent",
        Some((second, 1500)),
    );
    expect("route add 192.0.2.0/24 via 203.0.113.9 mtu 1400", Some((first, 1400)));
    expect("link set near mtu 1300", Some((first, 1300)));
    expect("route del 192.0.2.0/24", Some((second, 1300)));
    expect("neigh del 203.0.113.8 dev near", None);
}

#[test]
fn routes_that_change_quickly_are_all_seen_in_the_end() {
    let Some((near, _far)) = xdp::pair(1500) else { return };
    near.ip("neigh add 203.0.113.8 lladdr 02:00:00:00:00:01 dev near nud permanent");
    let Interface { mut neighbours, device: _device, .. } = xdp::open(&near);
    for third in 0..4 {
        near.ip(&format!("route add 192.0.{third}.0/24 via 203.0.113.8"));
        neighbours.update().unwrap();
    }
    // No more news arrives; what was put off is done when it is needed.
    std::thread::sleep(Duration::from_millis(150));
    let known = (0..4).filter(|third| {
        matches!(neighbours.resolve(IpAddr::from([192, 0, *third, 1])), Resolved::Known(_))
    });
    assert_eq!(known.count(), 4);
}
