//! Groups frames into flows: those between two addresses and ports, in both directions.

use super::{ETHERNET_BYTES, IPV6_BYTES, PROTOCOL_TCP, TYPE_IPV4, TYPE_IPV6};
use crate::Random;

const PROTOCOL_UDP: u8 = 17;

/// IPv4: more fragments follow, or this is not the first one. Only the first fragment has ports.
const FRAGMENT: u16 = 0x3fff;

/// The flow of a frame, as a number that depends on `seed`. `None` if it is not TCP or UDP straight after an Ethernet and an IP header, or
/// it is a fragment.
#[must_use]
pub fn flow_of(frame: &[u8], seed: u64) -> Option<u64> {
    let ip = frame.get(ETHERNET_BYTES..)?;
    let (addresses, protocol, ports_at) = match [frame[12], frame[13]] {
        TYPE_IPV4 => {
            let fragment = ip.get(6..8)?;
            if u16::from_be_bytes([fragment[0], fragment[1]]) & FRAGMENT != 0 {
                return None;
            }
            (ip.get(12..20)?, ip[9], usize::from(ip[0] & 0x0f) * 4)
        }
        TYPE_IPV6 => (ip.get(8..40)?, ip[6], IPV6_BYTES),
        _ => return None,
    };
    if protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP {
        return None;
    }
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let (from, to) = ip.get(ports_at..ports_at + 4)?.split_at(2);
    let ends = [
        number([protocol].iter().chain(source).chain(from)),
        number([protocol].iter().chain(destination).chain(to)),
    ];
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    Some(Random::new(seed ^ Random::new(low).number().wrapping_add(high)).number())
}

/// FNV-1a, by Fowler, Noll and Vo: the same everywhere, and good enough for packets that no one forges.
fn number<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, from: (u8, u16), to: (u8, u16)) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(TYPE_IPV4);
        frame.extend([0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, from.0, 10, 0, 0, to.0]);
        frame.extend(from.1.to_be_bytes().into_iter().chain(to.1.to_be_bytes()));
        frame.extend([0; 16]);
        frame
    }

    fn ipv6(from: u16, to: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(TYPE_IPV6);
        frame.extend([0x60, 0, 0, 0, 0, 20, PROTOCOL_TCP, 64]);
        frame.extend([1; 16].into_iter().chain([2; 16]));
        frame.extend(from.to_be_bytes().into_iter().chain(to.to_be_bytes()));
        frame.extend([0; 16]);
        frame
    }

    #[test]
    fn both_directions_are_one_flow() {
        let there = flow_of(&ipv4(PROTOCOL_TCP, (1, 5000), (2, 443)), 7);
        assert!(there.is_some());
        assert_eq!(there, flow_of(&ipv4(PROTOCOL_TCP, (2, 443), (1, 5000)), 7));
        let there = flow_of(&ipv6(5000, 443), 7);
        assert!(there.is_some());
        assert_ne!(there, flow_of(&ipv6(443, 5000), 7), "the ports have changed sides");
    }

    #[test]
    fn ports_addresses_protocols_and_seeds_make_flows_different() {
        let mut all: Vec<_> = (5000..6000)
            .map(|port| flow_of(&ipv4(PROTOCOL_TCP, (1, port), (2, 443)), 7))
            .chain([flow_of(&ipv4(PROTOCOL_UDP, (1, 5000), (2, 443)), 7)])
            .chain([flow_of(&ipv4(PROTOCOL_TCP, (3, 5000), (2, 443)), 7)])
            .chain([flow_of(&ipv4(PROTOCOL_TCP, (1, 5000), (2, 443)), 8)])
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1003);
    }

    #[test]
    fn what_has_no_ports_is_of_no_flow() {
        let whole = ipv4(PROTOCOL_TCP, (1, 5000), (2, 443));
        let mut fragment = whole.clone();
        fragment[ETHERNET_BYTES + 7] = 100;
        let ping = ipv4(1, (1, 0), (2, 0));
        let mut arp = whole.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        for frame in [&fragment, &ping, &arp] {
            assert_eq!(flow_of(frame, 7), None);
        }
        for bytes in 0..ETHERNET_BYTES + 24 {
            assert_eq!(flow_of(&whole[..bytes], 7), None, "{bytes} bytes");
        }
    }
}
