//! The checksum by which a block of a film is recognized after a restart.
//!
//! New blocks have their BLAKE3 hash. SHA-256, which earlier releases recorded, cost nearly half of all processor time of a cold cache, even with
//! the processor's own instructions for it (docs/bench.md). The text of a BLAKE3 hash has a prefix, so both kinds can be in one record. A release
//! that doesn't know the prefix ignores the line, and fetches the block again.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::io::IoSlice;

/// Comes before the digits of a BLAKE3 hash.
const BLAKE3_PREFIX: &str = "blake3:";

/// A block's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockSum {
    /// Of an earlier release.
    Sha256([u8; 32]),
    /// Of this one.
    Blake3([u8; 32]),
}

impl BlockSum {
    /// The checksum of a new block.
    pub(super) fn of(bytes: &[IoSlice<'_>]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in bytes {
            hasher.update(piece);
        }
        Self::Blake3(*hasher.finalize().as_bytes())
    }

    /// Whether these are the bytes that it was made from.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Sha256(hash) => digest(&SHA256, bytes).as_ref() == hash,
            Self::Blake3(hash) => blake3::hash(bytes).as_bytes() == hash,
        }
    }

    /// Its text in a record.
    pub(super) fn to_text(self) -> String {
        match self {
            Self::Sha256(hash) => HEXLOWER.encode(&hash),
            Self::Blake3(hash) => format!("{BLAKE3_PREFIX}{}", HEXLOWER.encode(&hash)),
        }
    }

    /// The checksum with this text, if it is one.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let hash = |hex: &str| HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?.try_into().ok();
        match text.strip_prefix(BLAKE3_PREFIX) {
            Some(hex) => hash(hex).map(Self::Blake3),
            None => hash(text).map(Self::Sha256),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read_and_recognize_their_block() {
        // From the test vectors of BLAKE3 (0, 1, 2 as input) and of FIPS 180-2 ("abc").
        let new = "blake3:e1be4d7a8ab5560aa4199eea339849ba8e293d55ca0a81006726d184519e647f";
        let old = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (text, bytes) in [(new, &[0, 1, 2][..]), (old, b"abc")] {
            let sum = BlockSum::from_text(text).expect("a checksum");
            assert!(sum.is_of(bytes) && !sum.is_of(b"abd"));
            assert_eq!(sum.to_text(), text);
        }
        let pieces = [&[0, 1][..], &[2]].map(IoSlice::new);
        assert_eq!(BlockSum::of(&pieces).to_text(), new);
        for torn in ["", "blake3:", "blake3:e1be", &old[..62], &format!("{old}00"), "blake2:00"] {
            assert_eq!(BlockSum::from_text(torn), None, "{torn}");
        }
    }
}
