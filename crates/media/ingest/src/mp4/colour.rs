//! The colours of a picture, from the 'colr' box of its sample description (ISO/IEC 14496-12 section 12.1.5).

use super::boxes::child;
use super::codec::{VISUAL_ENTRY_BYTES, entry};

/// Code points of ITU-T H.273 (CICP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cicp {
    pub(crate) primaries: u16,
    pub(crate) transfer: u16,
    pub(crate) matrix: u16,
}

/// The dynamic range of a picture, in the terms of HLS (draft-pantos-hls-rfc8216bis, VIDEO-RANGE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VideoRange {
    Sdr,
    Hlg,
    Pq,
}

impl VideoRange {
    /// The word in a title's record. None for standard range.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Sdr => None,
            Self::Hlg => Some("hlg"),
            Self::Pq => Some("pq"),
        }
    }
}

impl Cicp {
    /// Those that players assume if nothing is stated.
    pub(crate) const BT709: Self = Self { primaries: 1, transfer: 1, matrix: 1 };

    pub(crate) fn range(self) -> VideoRange {
        match self.transfer {
            16 => VideoRange::Pq,
            18 => VideoRange::Hlg,
            _ => VideoRange::Sdr,
        }
    }
}

/// The colours of the first track in `head`, the content of a 'moov', if it is a picture that states them.
pub(super) fn of(head: &[u8]) -> Option<Cicp> {
    let (kind, entry) = entry(head)?;
    // A sound's entry has other fields, among which a box could only be found by chance.
    if !matches!(kind, b"avc1" | b"avc3" | b"hvc1" | b"hev1" | b"av01" | b"vp09") {
        return None;
    }
    let colours = child(entry.get(VISUAL_ENTRY_BYTES..)?, b"colr")?;
    let [b'n', b'c', b'l', b'x', p0, p1, t0, t1, m0, m1, ..] = *colours else { return None };
    let code = |high, low| u16::from_be_bytes([high, low]);
    Some(Cicp { primaries: code(p0, p1), transfer: code(t0, t1), matrix: code(m0, m1) })
}
