//! Sets of addresses, written as prefixes. Looking an address up among a million prefixes takes a binary search.
//!
//! A set keeps sorted ranges with gaps between them: 8 bytes for an IPv4 range, 32 for an IPv6 range. Prefixes that overlap or touch become one
//! range. An IPv6 prefix of IPv4-mapped addresses (`::ffff:0:0/96`) counts as IPv4, as such viewers do. No other IPv6 prefix covers IPv4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses by prefix. An empty set, which is the default, contains none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// First and last address of each range; sorted, and not touching one another.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

/// The addresses of one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBlock {
    /// First and last address.
    V4(u32, u32),
    /// First and last address.
    V6(u128, u128),
}

/// Why a text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixFault {
    /// It is neither an address nor a prefix.
    #[error("write an address or a prefix, such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32")]
    Malformed,
    /// Its address has bits after the prefix; the address that may have been meant.
    #[error("its address has bits after the prefix: write {0}/{1}")]
    BitsBehind(IpAddr, u8),
}

impl FromStr for AddressBlock {
    type Err = PrefixFault;

    fn from_str(text: &str) -> Result<Self, PrefixFault> {
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(number(bits).ok_or(PrefixFault::Malformed)?)),
        };
        match address.parse().map_err(|_| PrefixFault::Malformed)? {
            IpAddr::V4(address) => Self::v4(address, bits.unwrap_or(32)),
            IpAddr::V6(address) => {
                let bits = bits.unwrap_or(128);
                match address.to_ipv4_mapped() {
                    Some(v4) if (96..=128).contains(&bits) => Self::v4(v4, bits - 96),
                    _ => Self::v6(address, bits),
                }
            }
        }
    }
}

/// A number with digits only: `parse` would also take a sign.
fn number(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl AddressBlock {
    fn v4(address: Ipv4Addr, bits: u8) -> Result<Self, PrefixFault> {
        if bits > 32 {
            return Err(PrefixFault::Malformed);
        }
        let first = address.to_bits();
        let behind = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
        match first & behind {
            0 => Ok(Self::V4(first, first | behind)),
            _ => {
                let meant = Ipv4Addr::from_bits(first & !behind);
                Err(PrefixFault::BitsBehind(meant.into(), bits))
            }
        }
    }

    fn v6(address: Ipv6Addr, bits: u8) -> Result<Self, PrefixFault> {
        if bits > 128 {
            return Err(PrefixFault::Malformed);
        }
        let first = address.to_bits();
        let behind = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
        match first & behind {
            0 => Ok(Self::V6(first, first | behind)),
            _ => {
                let meant = Ipv6Addr::from_bits(first & !behind);
                Err(PrefixFault::BitsBehind(meant.into(), bits))
            }
        }
    }
}

impl FromIterator<AddressBlock> for Prefixes {
    fn from_iter<I: IntoIterator<Item = AddressBlock>>(blocks: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for block in blocks {
            match block {
                AddressBlock::V4(first, last) => v4.push((first, last)),
                AddressBlock::V6(first, last) => v6.push((first, last)),
            }
        }
        merge(&mut v4, |last| last.checked_add(1));
        merge(&mut v6, |last| last.checked_add(1));
        Self { v4, v6 }
    }
}

/// Sorts ranges, and merges those that overlap or touch. `next` returns the address after another, if there is one.
fn merge<A: Copy + Ord>(ranges: &mut Vec<(A, A)>, next: fn(A) -> Option<A>) {
    ranges.sort_unstable();
    ranges.dedup_by(|range, kept| {
        // No address follows the last one, so every later range is inside.
        let is_apart = next(kept.1).is_some_and(|behind| behind < range.0);
        if !is_apart {
            kept.1 = kept.1.max(range.1);
        }
        !is_apart
    });
    ranges.shrink_to_fit();
}

impl Prefixes {
    /// Returns true if `address` is in the set.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => is_in(&self.v4, address.to_bits()),
            IpAddr::V6(address) => is_in(&self.v6, address.to_bits()),
        }
    }

    /// Returns true if the set contains no address.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// The number of ranges, at most the number of prefixes.
    pub fn ranges(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

fn is_in<A: Copy + Ord>(ranges: &[(A, A)], address: A) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind > 0 && address <= ranges[behind - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn set(texts: &[&str]) -> Prefixes {
        texts.iter().map(|text| text.parse::<AddressBlock>().unwrap()).collect()
    }

    fn contains(set: &Prefixes, address: &str) -> bool {
        set.contains(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_in_its_prefix_and_its_neighbours_are_not() {
        let set = set(&["192.0.2.0/24", "10.1.2.3", "2001:db8::/32", "fd00::7"]);
        for inside in ["192.0.2.0", "192.0.2.255", "10.1.2.3", "2001:db8::", "fd00::7"] {
            assert!(contains(&set, inside), "{inside}");
        }
        assert!(contains(&set, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"));
        for outside in ["192.0.1.255", "192.0.3.0", "10.1.2.2", "10.1.2.4", "::", "fd00::6"] {
            assert!(!contains(&set, outside), "{outside}");
        }
        assert!(!contains(&set, "2001:db9::") && !contains(&set, "::192.0.2.1"));
        assert!(!contains(&Prefixes::default(), "192.0.2.1") && Prefixes::default().is_empty());
    }

    #[test]
    fn everything_of_one_family_is_nothing_of_the_other() {
        assert!(contains(&set(&["0.0.0.0/0"]), "255.255.255.255"));
        assert!(!contains(&set(&["0.0.0.0/0"]), "::1"));
        assert!(contains(&set(&["::/0"]), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
        assert!(!contains(&set(&["::/0"]), "192.0.2.1"));
        assert_eq!(set(&["::ffff:192.0.2.0/120"]), set(&["192.0.2.0/24"]));
        assert_eq!(set(&["::ffff:0:0/96"]), set(&["0.0.0.0/0"]));
    }

    #[test]
    fn prefixes_that_overlap_or_touch_become_one_range() {
        let halves = ["10.128.0.0/9", "10.0.0.0/9", "10.7.0.0/16", "10.0.0.0/9"];
        assert_eq!(set(&halves), set(&["10.0.0.0/8"]));
        assert_eq!(set(&["0.0.0.0/1", "128.0.0.0/1", "255.255.255.255"]).ranges(), 1);
        assert_eq!(set(&["10.0.0.0/9", "10.128.0.1", "::/1", "8000::/1"]).ranges(), 3);
    }

    #[test]
    fn what_is_no_prefix_is_refused_and_one_that_goes_on_is_corrected() {
        for bad in [
            "",
            "/",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0/8",
            "10.0.0.0/+8",
            "10.0.0.0/8 ",
            " 10.0.0.1",
            "::/129",
            "::1/x",
            "fe80::1%lo",
            "10.0.0.0/8/8",
            "10.0.0.0/999",
            "x",
            "010.0.0.0/8",
        ] {
            assert_eq!(bad.parse::<AddressBlock>(), Err(PrefixFault::Malformed), "{bad:?}");
        }
        for (bad, good) in [
            ("10.0.0.1/8", "10.0.0.0/8"),
            ("192.0.2.7/0", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::1/0", "::/0"),
        ] {
            let said = bad.parse::<AddressBlock>().unwrap_err().to_string();
            assert!(said.ends_with(&format!("write {good}")), "{said}");
            good.parse::<AddressBlock>().unwrap();
        }
    }

    proptest! {
        /// Compares with a check of each prefix by itself, in a corner of the address space where they collide.
        #[test]
        fn a_set_contains_what_one_of_its_prefixes_does(
            blocks in vec((0u32..64, 24u8..=32), 0..12),
            v6_too in any::<bool>(),
        ) {
            let masked = |(address, bits): (u32, u8)| {
                let address = (address << 2) & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                let v4 = Ipv4Addr::from_bits(address);
                match v6_too {
                    false => format!("{v4}/{bits}"),
                    true => format!("{}/{}", Ipv6Addr::from_bits(address.into()), 96 + bits),
                }
            };
            let blocks: Vec<AddressBlock> = blocks.into_iter().map(|block| masked(block).parse().unwrap()).collect();
            let set: Prefixes = blocks.iter().copied().collect();
            for last in 0..512u32 {
                let expected = blocks.iter().any(|block| match *block {
                    AddressBlock::V4(first, end) => (first..=end).contains(&last),
                    AddressBlock::V6(first, end) => (first..=end).contains(&last.into()),
                });
                let address: IpAddr = match v6_too {
                    false => Ipv4Addr::from_bits(last).into(),
                    true => Ipv6Addr::from_bits(last.into()).into(),
                };
                prop_assert_eq!(set.contains(address), expected, "{}", address);
            }
        }
    }
}
