//! The first frame of a fragment, from its 'moof' (ISO/IEC 14496-12 sections 8.8.7 and 8.8.8).

use super::boxes::child;

/// Flags of 'tfhd', and those of its fields in their order. Offsets count from the fragment's first byte unless it has a base of its own.
const OWN_BASE: u32 = 0x1;
const DESCRIPTION: u32 = 0x2;
const DEFAULT_DURATION: u32 = 0x8;
const DEFAULT_SIZE: u32 = 0x10;
const DEFAULT_FLAGS: u32 = 0x20;

/// Flags of 'trun'.
const DATA_OFFSET: u32 = 0x1;
const FIRST_FLAGS: u32 = 0x4;
const DURATIONS: u32 = 0x100;
const SIZES: u32 = 0x200;
const FLAGS: u32 = 0x400;

/// Of a frame's flags: it is no key frame.
const IS_NO_KEY_FRAME: u32 = 0x1_0000;

/// How far the first frame reaches, from the first byte of its fragment. `None` if it is no key frame, or if `moof`, the content of the
/// fragment's head, does not say.
pub(super) fn key_frame_end(moof: &[u8]) -> Option<u64> {
    let track = child(moof, b"traf")?;
    let (size, flags) = defaults(child(track, b"tfhd")?)?;
    let mut run = Fields(child(track, b"trun")?);
    let has = run.next()? & 0xff_ffff;
    let frames = run.next()?;
    let data_offset = run.next_if(has & DATA_OFFSET)??;
    let first_flags = run.next_if(has & FIRST_FLAGS)?;
    run.next_if(has & DURATIONS)?;
    let size = run.next_if(has & SIZES)?.or(size)?;
    let own_flags = run.next_if(has & FLAGS)?;
    let flags = first_flags.or(own_flags).or(flags)?;
    // A data offset is signed, and one before the fragment would be another fragment's.
    let begin = u64::try_from(data_offset.cast_signed()).ok()?;
    let is_key_frame = frames > 0 && size > 0 && flags & IS_NO_KEY_FRAME == 0;
    is_key_frame.then_some(begin + u64::from(size))
}

/// Size and flags of frames that have none of their own.
fn defaults(header: &[u8]) -> Option<(Option<u32>, Option<u32>)> {
    let mut header = Fields(header);
    let has = header.next()? & 0xff_ffff;
    if has & OWN_BASE != 0 {
        return None;
    }
    let _track = header.next()?;
    header.next_if(has & DESCRIPTION)?;
    header.next_if(has & DEFAULT_DURATION)?;
    let size = header.next_if(has & DEFAULT_SIZE)?;
    Some((size, header.next_if(has & DEFAULT_FLAGS)?))
}

/// Numbers of four bytes, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    /// The next number if `flag` is set: `Some(None)` if it is not, `None` if it is and there is no number.
    #[allow(clippy::option_option, reason = "the outer one is for the question mark")]
    fn next_if(&mut self, flag: u32) -> Option<Option<u32>> {
        if flag == 0 { Some(None) } else { self.next().map(Some) }
    }
}
