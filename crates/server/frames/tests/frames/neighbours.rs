//! The next hop to a peer, from the kernel's tables.

use crate::xdp;
use fullbore_frames::{Interface, Mac, Neighbours, Resolved};
use fullbore_tests::{Namespace, eventually, tool, until};
use std::net::IpAddr;

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

/// Repeats the query until the answer is not `Pending`.
fn resolved(neighbours: &mut Neighbours, remote: IpAddr) -> Resolved {
    eventually("the kernel to find the station", || {
        neighbours.update().unwrap();
        Some(neighbours.resolve(remote)).filter(|resolved| *resolved != Resolved::Pending)
    })
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
    until("the kernel to know better", || {
        neighbours.update().unwrap();
        neighbours.resolve(remote) != Resolved::Known(hop)
    });
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
        // Routes are read at most every 100 ms, so a change may be seen later than its report.
        let what = format!("{expected:?} and new ways after `ip {command}`");
        until(&what, || {
            neighbours.update().unwrap();
            let hop = match neighbours.resolve(remote) {
                Resolved::Known(hop) => Some((hop.destination, hop.mtu_bytes)),
                _ => None,
            };
            hop == expected && neighbours.generation() > generation
        });
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

/// A change that follows another one within 100 ms is postponed. How soon a command is done depends on the machine, so this tries until one was.
#[test]
fn a_change_of_routes_that_was_put_off_is_seen_without_further_news() {
    let Some((near, _far)) = xdp::pair(1500) else { return };
    near.ip("neigh add 203.0.113.8 lladdr 02:00:00:00:00:01 dev near nud permanent");
    let Interface { mut neighbours, device: _device, .. } = xdp::open(&near);
    for third in 0..=255 {
        near.ip(&format!("route add 192.0.{third}.0/24 via 203.0.113.8"));
        neighbours.update().unwrap();
        let remote = IpAddr::from([192, 0, third, 1]);
        let was_put_off = neighbours.resolve(remote) == Resolved::Unreachable;
        // No further changes are read.
        until("the way to be known", || matches!(neighbours.resolve(remote), Resolved::Known(_)));
        if was_put_off {
            return;
        }
    }
    tool::skip("no change of a route followed another within 100 ms: this machine is too slow");
}
