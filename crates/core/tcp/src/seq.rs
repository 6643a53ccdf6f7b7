//! Sequence numbers: 32 bits that wrap (RFC 9293 section 3.4). They exist only on the wire; inside a connection,
//! positions are 64-bit offsets of its streams.

/// A sequence number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Seq(pub(crate) u32);

impl Seq {
    /// The number that is `bytes` further; stream offsets wrap around.
    pub(crate) fn plus(self, bytes: u64) -> Seq {
        Seq(self.0.wrapping_add(bytes as u32))
    }

    pub(crate) fn minus(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_sub(bytes))
    }

    /// How far this is ahead of `other`, the short way round.
    pub(crate) fn ahead_of(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The stream offset of this number, given a nearby offset and its number. Negative: before the stream began.
    pub(crate) fn offset_near(self, offset: u64, at: Seq) -> i64 {
        offset as i64 + i64::from(self.ahead_of(at))
    }
}

/// Returns true if timestamp `a` is older than `b` (RFC 7323 section 5.2: the same arithmetic).
pub(crate) fn timestamp_older(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_survive_the_wrap_of_sequence_numbers() {
        let at = Seq(0xffff_fff0);
        assert_eq!(Seq(0x10).offset_near(1 << 40, at), (1 << 40) + 0x20);
        assert_eq!(Seq(0xffff_ffe0).offset_near(5, at), -11);
        assert_eq!(at.plus(0x20), Seq(0x10));
    }

    #[test]
    fn timestamps_compare_the_short_way_round() {
        assert!(timestamp_older(0xffff_ffff, 0));
        assert!(!timestamp_older(0, 0xffff_ffff));
        assert!(!timestamp_older(7, 7));
    }
}
