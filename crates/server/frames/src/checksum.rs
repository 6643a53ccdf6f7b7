//! The Internet checksum (RFC 1071), over bytes in several places, and the pseudo-headers that TCP and ICMPv6 add to
//! their sums (RFC 9293 section 3.1, RFC 8200 section 8.1).
//!
//! Words are added in native byte order: the sum does not depend on byte order as long as its two bytes are swapped together (RFC 1071 section 2 B).
//! So no word is converted.

use std::net::IpAddr;

/// A sum in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    total: u64,
    /// Set if an odd number of bytes was added: the next byte is then the second one of its word.
    is_odd: bool,
}

impl Sum {
    /// The sum of a pseudo-header: `protocol` with `bytes` of header and payload, from `source` to `destination`. A
    /// packet whose checksum is completed elsewhere has this in its checksum field.
    ///
    /// Addresses of different families have no pseudo-header. Both are added then, and the checksum will be wrong.
    pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, bytes: usize) -> Self {
        let mut sum = Self::default();
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => sum.add(&address.octets()),
                IpAddr::V6(address) => sum.add(&address.octets()),
            }
        }
        // IPv4 has the length in 16 bits and IPv6 in 32. For lengths that fit into 16 bits the sum is the same.
        sum.add(&u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes());
        sum.add(&[0, protocol]);
        sum
    }

    /// Adds the following bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let part = fold(words(bytes));
        self.total += u64::from(if self.is_odd { part.swap_bytes() } else { part });
        self.is_odd ^= bytes.len() % 2 == 1;
    }

    /// The folded sum in packet form, not complemented.
    pub fn partial(self) -> [u8; 2] {
        fold(self.total).to_ne_bytes()
    }

    /// The checksum in packet form.
    pub fn checksum(self) -> [u8; 2] {
        (!fold(self.total)).to_ne_bytes()
    }

    /// Returns true if the checksum among the added bytes is right.
    pub fn is_whole(self) -> bool {
        fold(self.total) == u16::MAX
    }
}

/// The sum of 32-bit words, written so that compilers vectorise it. It cannot overflow below 16 GiB.
fn words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let whole: u64 =
        words.map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))).sum();
    whole + u64::from(u32::from_ne_bytes(last))
}

/// Adds the carries until 16 bits are left.
fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: 16-bit big-endian words, one by one.
    fn reference(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0u32;
        for word in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (sum as u16).to_be_bytes()
    }

    #[test]
    fn the_example_of_rfc_1071_comes_out() {
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.partial(), [0xdd, 0xf2]);
        assert_eq!(sum.checksum(), [0x22, 0x0d]);
    }

    proptest! {
        #[test]
        fn bytes_in_several_places_sum_as_if_they_lay_together(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6)
        ) {
            let mut sum = Sum::default();
            parts.iter().for_each(|part| sum.add(part));
            prop_assert_eq!(sum.partial(), reference(&parts.concat()));
        }

        #[test]
        fn a_packet_with_its_checksum_is_whole(bytes in proptest::collection::vec(any::<u8>(), 2..200)) {
            let mut bytes = bytes;
            bytes[..2].fill(0);
            let mut sum = Sum::default();
            sum.add(&bytes);
            bytes[..2].copy_from_slice(&sum.checksum());
            let mut sum = Sum::default();
            sum.add(&bytes);
            prop_assert!(sum.is_whole());
        }
    }
}
