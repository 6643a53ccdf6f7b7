//! The claim `catnip`: the networks that a token is for.
//!
//! An address is bytes under the tag 52 or 54, and a network its length in bits and its first bytes (RFC 9164). The number of an autonomous
//! system is allowed, too, but a server doesn't know the viewer's: such an entry matches no viewer, and a token with nothing else is refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use coset::cbor::Value;

use super::CatFault;

/// Tags of addresses and networks (RFC 9164, section 5).
const IPV4_TAG: u64 = 52;
const IPV6_TAG: u64 = 54;

/// Entries of a claim, each of which is compared with each request.
const NETWORKS_MAX: usize = 256;

/// A network, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatNetwork {
    /// Its first address.
    first: IpAddr,
    /// The length of its prefix.
    bits: u8,
}

impl CatNetwork {
    /// The network of one address.
    pub fn of_address(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self { first, bits: bits_of(first) }
    }

    /// `None` if the prefix is too long, or if the address has bits after it.
    fn new(first: IpAddr, bits: u8) -> Option<Self> {
        let network = Self { first, bits };
        (bits <= bits_of(first) && network.contains(first) && network.has_no_more_bits())
            .then_some(network)
    }

    fn has_no_more_bits(self) -> bool {
        let past = 128 - u32::from(bits_of(self.first)) + u32::from(self.bits);
        past >= 128 || number(self.first) << past == 0
    }

    /// Whether `address` is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if address.is_ipv4() != self.first.is_ipv4() {
            return false;
        }
        let host_bits = u32::from(bits_of(self.first) - self.bits);
        let differs = number(address) ^ number(self.first);
        differs.checked_shr(host_bits).unwrap_or(0) == 0
    }

    pub(super) fn to_value(self) -> Value {
        let (tag, bytes) = match self.first {
            IpAddr::V4(address) => (IPV4_TAG, address.octets().to_vec()),
            IpAddr::V6(address) => (IPV6_TAG, address.octets().to_vec()),
        };
        let value = if self.bits == bits_of(self.first) {
            Value::Bytes(bytes)
        } else {
            // Without the zeros at the end (RFC 9164, section 4).
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            Value::Array(vec![self.bits.into(), Value::Bytes(bytes[..used].to_vec())])
        };
        Value::Tag(tag, Box::new(value))
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address as a number; one of IPv4 has 32 bits.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl FromStr for CatNetwork {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let Some((first, bits)) = text.split_once('/') else {
            return text.parse().map(Self::of_address).map_err(|_| ());
        };
        let is_plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|_| is_plain).ok_or(())?;
        Self::new(first.parse().map_err(|_| ())?, bits).ok_or(())
    }
}

impl fmt::Display for CatNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// The networks of a claim.
pub(super) fn networks(value: &Value) -> Result<Vec<CatNetwork>, CatFault> {
    let Value::Array(entries) = value else {
        return Err(CatFault::Malformed("catnip is an array"));
    };
    if entries.len() > NETWORKS_MAX {
        return Err(CatFault::Malformed("catnip has more than 256 entries"));
    }
    let mut networks = Vec::with_capacity(entries.len());
    let mut has_numbers = false;
    for entry in entries {
        match entry {
            Value::Integer(_) => has_numbers = true,
            entry => {
                let wrong = CatFault::Malformed("catnip has an address that is none");
                networks.push(network(entry).ok_or(wrong)?);
            }
        }
    }
    if networks.is_empty() && has_numbers {
        return Err(CatFault::unsupported("catnip with autonomous systems only"));
    }
    Ok(networks)
}

fn network(value: &Value) -> Option<CatNetwork> {
    let (tag, value) = match value {
        Value::Tag(tag, value) => (*tag, &**value),
        // Some issuers write text.
        Value::Text(text) => return text.parse().ok(),
        _ => return None,
    };
    match value {
        Value::Bytes(bytes) => {
            let address = address(tag, bytes)?;
            (bytes.len() == usize::from(bits_of(address)) / 8)
                .then(|| CatNetwork::of_address(address))
        }
        Value::Array(parts) => {
            let [Value::Integer(bits), Value::Bytes(bytes)] = &parts[..] else { return None };
            CatNetwork::new(address(tag, bytes)?, u8::try_from(*bits).ok()?)
        }
        _ => None,
    }
}

/// The address that begins with `bytes`; the others are zero.
fn address(tag: u64, bytes: &[u8]) -> Option<IpAddr> {
    match tag {
        IPV4_TAG => {
            let mut octets = [0; 4];
            octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(Ipv4Addr::from(octets).into())
        }
        IPV6_TAG => {
            let mut octets = [0; 16];
            octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_of_its_prefix() {
        for (network, inside, outside) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.1", "::ffff:192.0.2.1", "::192.0.2.1"),
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.128/25", "192.0.2.128", "192.0.2.127"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "ffff::1", "127.0.0.1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
        ] {
            let network: CatNetwork = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} {outside}");
            let read = networks(&Value::Array(vec![network.to_value()])).unwrap();
            assert_eq!(read, [network], "written and read again");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "192.0.2.1/33",
            "192.0.2.1/24",
            "::1/129",
            "192.0.2/24",
            "1.2.3.4/+8",
            "::1/",
            "/8",
        ] {
            assert!(text.parse::<CatNetwork>().is_err(), "{text}");
        }
        let tagged = |tag, value| Value::Tag(tag, Box::new(value));
        let prefix =
            |bits: u64, bytes: &[u8]| Value::Array(vec![bits.into(), Value::Bytes(bytes.to_vec())]);
        for wrong in [
            tagged(52, Value::Bytes(vec![192, 0, 2])),
            tagged(54, Value::Bytes(vec![0; 17])),
            tagged(52, prefix(8, &[10, 1])),
            tagged(52, prefix(300, &[10])),
            tagged(55, Value::Bytes(vec![10, 0, 0, 1])),
            tagged(52, Value::Array(vec![Value::Bytes(vec![10, 0, 0, 1]), 8.into()])),
            Value::Bytes(vec![10, 0, 0, 1]),
            Value::Null,
        ] {
            let fault = networks(&Value::Array(vec![wrong.clone()])).unwrap_err();
            assert!(matches!(fault, CatFault::Malformed(_)), "{wrong:?}");
        }
        let numbers = Value::Array(vec![64496.into()]);
        assert!(matches!(networks(&numbers), Err(CatFault::Unsupported(_))));
    }
}
