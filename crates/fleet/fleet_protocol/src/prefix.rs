//! Prefixes of addresses, as announced in routes.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A network: an address and the number of its significant bits. The other bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// The text is not a [`Prefix`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a prefix is written 192.0.2.0/24 or 2001:db8::/32, with zeros behind the prefix")]
pub struct PrefixError;

/// The address as 128 bits, left-aligned, and the number of bits of its family.
fn wide(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(four) => (u128::from(four.to_bits()) << 96, 32),
        IpAddr::V6(six) => (six.to_bits(), 128),
    }
}

fn mask(bits: u8) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - u32::from(bits)) }
}

impl Prefix {
    /// The prefix of the first `bits` bits of `address`.
    ///
    /// # Errors
    /// If the remaining bits are not zero, or the address has fewer bits.
    pub fn new(address: IpAddr, bits: u8) -> Result<Self, PrefixError> {
        let (value, width) = wide(address);
        if bits <= width && value & !mask(bits) == 0 {
            Ok(Self { address, bits })
        } else {
            Err(PrefixError)
        }
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Number of significant bits.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether it contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((own, width), (other, others)) = (wide(self.address), wide(address));
        width == others && other & mask(self.bits) == own
    }

    /// Whether it contains all of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, bits) = text.split_once('/').ok_or(PrefixError)?;
        Self::new(address.parse().map_err(|_| PrefixError)?, bits.parse().map_err(|_| PrefixError)?)
    }
}

impl TryFrom<String> for Prefix {
    type Error = PrefixError;

    fn try_from(text: String) -> Result<Self, PrefixError> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

impl Display for Prefix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn a_prefix_contains_its_addresses_and_no_others() {
        assert!(prefix("192.0.2.0/24").contains("192.0.2.255".parse().expect("an address")));
        assert!(!prefix("192.0.2.0/24").contains("192.0.3.0".parse().expect("an address")));
        assert!(!prefix("0.0.0.0/0").contains("::1".parse().expect("an address")));
        assert!(prefix("::/0").contains("2001:db8::1".parse().expect("an address")));
        assert!(prefix("10.0.0.0/8").covers(&prefix("10.1.0.0/16")));
        assert!(!prefix("10.1.0.0/16").covers(&prefix("10.0.0.0/8")));
        for bad in ["192.0.2.1/24", "192.0.2.0/33", "192.0.2.0", "::1/64", "x/8", "10.0.0.0/-1"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }
}
