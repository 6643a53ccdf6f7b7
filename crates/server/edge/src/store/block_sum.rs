//! The checksum by which a block of a film is recognized after a restart.
//!
//! New blocks have their XXH3 checksum of 128 bits. It finds what a power cut or a failing disk leaves behind; it needs no strength against forgers,
//! because a program that can change a block can also change its record. A cryptographic hash costs a cold cache much more: SHA-256, which earlier
//! releases recorded, took nearly half of all processor time, and BLAKE3 a seventh (docs/bench.md). The text of an XXH3 checksum has a prefix, so
//! both kinds can be in one record. A release that does not know the prefix ignores the line, and fetches the block again.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::io::IoSlice;
use twox_hash::xxhash3_128::Hasher;

/// Comes before the digits of an XXH3 checksum.
const XXH3_PREFIX: &str = "xxh3:";

/// A block's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockSum {
    /// Of an earlier release.
    Sha256([u8; 32]),
    /// Of this one, in the order of its digits.
    Xxh3([u8; 16]),
}

impl BlockSum {
    /// The checksum of a new block.
    pub(super) fn of(bytes: &[IoSlice<'_>]) -> Self {
        let mut hasher = Hasher::new();
        for piece in bytes {
            hasher.write(piece);
        }
        Self::Xxh3(hasher.finish_128().to_be_bytes())
    }

    /// Whether these are the bytes that it was made from.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Sha256(hash) => digest(&SHA256, bytes).as_ref() == hash,
            Self::Xxh3(_) => *self == Self::of(&[IoSlice::new(bytes)]),
        }
    }

    /// Its text in a record.
    pub(super) fn to_text(self) -> String {
        match self {
            Self::Sha256(hash) => HEXLOWER.encode(&hash),
            Self::Xxh3(sum) => format!("{XXH3_PREFIX}{}", HEXLOWER.encode(&sum)),
        }
    }

    /// The checksum with this text, if it is one.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let bytes = |hex: &str| HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok();
        match text.strip_prefix(XXH3_PREFIX) {
            Some(hex) => bytes(hex)?.try_into().ok().map(Self::Xxh3),
            None => bytes(text)?.try_into().ok().map(Self::Sha256),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read_and_recognize_their_block() {
        // From the reference implementation, xxHash 0.8.4 (0, 1, 2 as input), and from FIPS 180-2 ("abc").
        let new = "xxh3:e3b55f57945a17cf5f4299fc161c9cbb";
        let old = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (text, bytes) in [(new, &[0, 1, 2][..]), (old, b"abc")] {
            let sum = BlockSum::from_text(text).expect("a checksum");
            assert!(sum.is_of(bytes) && !sum.is_of(b"abd"));
            assert_eq!(sum.to_text(), text);
        }
        let pieces = [&[0, 1][..], &[2]].map(IoSlice::new);
        assert_eq!(BlockSum::of(&pieces).to_text(), new);
        for torn in ["", "xxh3:", "xxh3:e3b5", &old[..62], &format!("{old}00"), "xxh2:00"] {
            assert_eq!(BlockSum::from_text(torn), None, "{torn}");
        }
    }
}
