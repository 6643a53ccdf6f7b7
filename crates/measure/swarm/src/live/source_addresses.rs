//! The addresses that viewers connect from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network from which viewers take their addresses, such as `127.1.0.0/16`: on Linux all addresses in 127.0.0.0/8 belong to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceAddresses {
    network: IpAddr,
    host_bits: u32,
}

/// The text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a network such as 127.1.0.0/16")]
pub struct SourceAddressesError;

impl SourceAddresses {
    /// The address of a viewer. Neighbours differ, and addresses repeat after as many viewers as there are addresses. The network's first
    /// address, which names it, and an IPv4 network's last, which is for broadcasts, are left out.
    pub fn address(&self, viewer: usize) -> IpAddr {
        let all = 1_u128.checked_shl(self.host_bits).unwrap_or(u128::MAX);
        let usable = if all > 2 { all - 2 } else { all };
        let host = viewer as u128 % usable + u128::from(all > 2);
        match self.network {
            // An IPv4 network has at most 32 host bits.
            IpAddr::V4(network) => Ipv4Addr::from(u32::from(network) | host as u32).into(),
            IpAddr::V6(network) => Ipv6Addr::from(u128::from(network) | host).into(),
        }
    }
}

impl FromStr for SourceAddresses {
    type Err = SourceAddressesError;

    fn from_str(text: &str) -> Result<Self, SourceAddressesError> {
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| SourceAddressesError)?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = if bits.is_empty() { Ok(bits_max) } else { bits.parse() };
        let bits = bits.ok().filter(|bits| *bits <= bits_max).ok_or(SourceAddressesError)?;
        let host_bits = bits_max - bits;
        let network = match address {
            IpAddr::V4(address) => {
                Ipv4Addr::from(u32::from(address) & u32::MAX.checked_shl(host_bits).unwrap_or(0))
                    .into()
            }
            IpAddr::V6(address) => {
                Ipv6Addr::from(u128::from(address) & u128::MAX.checked_shl(host_bits).unwrap_or(0))
                    .into()
            }
        };
        Ok(Self { network, host_bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str, viewers: usize) -> Vec<String> {
        let sources: SourceAddresses = text.parse().unwrap();
        (0..viewers).map(|viewer| sources.address(viewer).to_string()).collect()
    }

    #[test]
    fn viewers_get_the_addresses_of_the_network_in_turn() {
        assert_eq!(
            addresses("127.1.0.9/30", 4),
            ["127.1.0.9", "127.1.0.10", "127.1.0.9", "127.1.0.10"]
        );
        assert_eq!(addresses("127.0.0.7", 2), ["127.0.0.7", "127.0.0.7"]);
        assert_eq!(addresses("fd00::/64", 2), ["fd00::1", "fd00::2"]);
        let sources: SourceAddresses = "127.1.0.0/16".parse().unwrap();
        assert_eq!(sources.address(65_533).to_string(), "127.1.255.254");
        assert_eq!(sources.address(65_534).to_string(), "127.1.0.1");
        assert_eq!(
            "0.0.0.0/0".parse::<SourceAddresses>().unwrap().address(0).to_string(),
            "0.0.0.1"
        );
        assert_eq!("::/0".parse::<SourceAddresses>().unwrap().address(0).to_string(), "::1");
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "127.0.0.0/33", "fd00::/129", "127.0.0/8", "127.0.0.0/-1", "localhost/8"] {
            assert_eq!(text.parse::<SourceAddresses>(), Err(SourceAddressesError), "{text}");
        }
    }
}
