//! The beginning of a fragment, from its 'moof' (ISO/IEC 14496-12 sections 8.8.7 and 8.8.8).

use super::boxes::{child, children};

/// Flags of 'tfhd', and those of its fields in order. Offsets count from the fragment's first byte unless it has its own base.
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
const SHIFTS: u32 = 0x800;

/// In a frame's flags: it is not a key frame.
const IS_NO_KEY_FRAME: u32 = 0x1_0000;

/// No run of frames is longer: that would be hours without a key frame.
const FRAMES_MAX: u32 = 1_000_000;

/// A fragment that begins with a key frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Where the key frame ends, from the first byte of the fragment.
    pub(super) key_frame_end: u64,
    /// Whether frames follow that are shown before it. They may need the fragment before: its group of pictures is open.
    pub(super) has_leading_frames: bool,
}

/// Parses `moof`, the content of a fragment's head. `None` if the fragment does not begin with a key frame, or does not say.
pub(super) fn start(moof: &[u8]) -> Option<Start> {
    let (mut first, mut has_leading_frames) = (None, false);
    each_frame(child(moof, b"traf")?, |offset, shown, frame| match &first {
        None => first = Some((offset, frame)),
        Some((_, first)) => has_leading_frames |= shown < first.shift,
    })?;
    let (offset, frame) = first?;
    let offset = offset?;
    // A data offset is signed, and one before the fragment would point into another fragment.
    let begin = u64::try_from(signed(offset)).ok()?;
    let is_key_frame = frame.size > 0 && frame.flags & IS_NO_KEY_FRAME == 0;
    let key_frame_end = begin + u64::from(frame.size);
    is_key_frame.then_some(Start { key_frame_end, has_leading_frames })
}

/// When the first of its frames or samples is played, in ticks of the track's media. That is not the time at which the first one is decoded,
/// which is what ffmpeg writes into the index. `None` if `moof` does not say.
pub(super) fn played_from(moof: &[u8]) -> Option<i64> {
    let track = child(moof, b"traf")?;
    // Version and flags, then a time of 32 bits, or, with version 1, of 64 (section 8.8.12).
    let time = child(track, b"tfdt")?;
    let decoded = match time.first()? {
        0 => u32::from_be_bytes(*time.get(4..)?.first_chunk()?).into(),
        _ => i64::try_from(u64::from_be_bytes(*time.get(4..)?.first_chunk()?)).ok()?,
    };
    let mut earliest = None;
    each_frame(track, |_, shown, _| {
        earliest = Some(earliest.map_or(shown, |e: i64| e.min(shown)))
    })?;
    Some(decoded.saturating_add(earliest?))
}

/// Calls `with` for each frame of a fragment's 'traf': with the offset of its run, and when it is shown after the fragment's first decoding time.
/// `None` if the fragment does not say.
fn each_frame(track: &[u8], mut with: impl FnMut(Option<u32>, i64, Frame)) -> Option<()> {
    let defaults = Defaults::read(child(track, b"tfhd")?)?;
    let mut decoded = 0_i64;
    for run in children(track, b"trun") {
        let mut run = Run::read(run, &defaults)?;
        for _ in 0..run.frames {
            let frame = run.next()?;
            with(run.offset, decoded.saturating_add(frame.shift), frame);
            decoded = decoded.saturating_add(frame.ticks.into());
        }
    }
    Some(())
}

/// Interprets a field as signed.
fn signed(field: u32) -> i32 {
    i32::from_be_bytes(field.to_be_bytes())
}

/// The values of frames that have none of their own.
struct Defaults {
    ticks: Option<u32>,
    size: Option<u32>,
    flags: Option<u32>,
}

impl Defaults {
    fn read(header: &[u8]) -> Option<Self> {
        let mut header = Fields(header);
        let has = header.next()? & 0xff_ffff;
        if has & OWN_BASE != 0 {
            return None;
        }
        let _track = header.next()?;
        header.next_if(has & DESCRIPTION)?;
        let ticks = header.next_if(has & DEFAULT_DURATION)?;
        let size = header.next_if(has & DEFAULT_SIZE)?;
        Some(Self { ticks, size, flags: header.next_if(has & DEFAULT_FLAGS)? })
    }
}

/// A frame.
#[derive(Clone, Copy)]
struct Frame {
    ticks: u32,
    size: u32,
    flags: u32,
    /// The time from decoding it to showing it.
    shift: i64,
}

/// Adjacent frames.
struct Run<'a> {
    has: u32,
    /// Shifts are signed.
    is_signed: bool,
    frames: u32,
    /// The offset of the first one.
    offset: Option<u32>,
    /// Overriding flags of the next one.
    first_flags: Option<u32>,
    fields: Fields<'a>,
    defaults: &'a Defaults,
}

impl<'a> Run<'a> {
    fn read(run: &'a [u8], defaults: &'a Defaults) -> Option<Self> {
        let mut fields = Fields(run);
        let (version_and_flags, frames) = (fields.next()?, fields.next()?);
        let (has, is_signed) = (version_and_flags & 0xff_ffff, version_and_flags >> 24 > 0);
        let offset = fields.next_if(has & DATA_OFFSET)?;
        let first_flags = fields.next_if(has & FIRST_FLAGS)?;
        if frames > FRAMES_MAX {
            return None;
        }
        Some(Self { has, is_signed, frames, offset, first_flags, fields, defaults })
    }

    fn next(&mut self) -> Option<Frame> {
        let Self { has, defaults, fields, .. } = self;
        let ticks = fields.next_if(*has & DURATIONS)?.or(defaults.ticks)?;
        let size = fields.next_if(*has & SIZES)?.or(defaults.size)?;
        let flags = fields.next_if(*has & FLAGS)?;
        let shift = fields.next_if(*has & SHIFTS)?.unwrap_or(0);
        let flags = self.first_flags.take().or(flags).or(self.defaults.flags)?;
        let shift = if self.is_signed { signed(shift).into() } else { shift.into() };
        Some(Frame { ticks, size, flags, shift })
    }
}

/// A sequence of four-byte numbers.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    /// The next number if `flag` is set: `Some(None)` if it is not set, `None` if it is set and there is no number.
    #[allow(clippy::option_option, reason = "the outer one is for the question mark")]
    fn next_if(&mut self, flag: u32) -> Option<Option<u32>> {
        if flag == 0 { Some(None) } else { self.next().map(Some) }
    }
}
