//! The edit list of a track, 'elst' (ISO/IEC 14496-12 section 8.6.6): which time of its media is played at 0.

use super::boxes::child;

/// When the media time `ticks` of the track with this `head` (the content of 'moov') is played. 0 for an encoder's priming, which comes before that.
pub(super) fn played_at(head: &[u8], ticks: i64) -> u64 {
    let path = [b"trak", b"edts", b"elst"];
    let edits = path.iter().try_fold(head, |boxes, kind| child(boxes, kind));
    let zero = edits.and_then(first_media_time).unwrap_or(0);
    u64::try_from(ticks.saturating_sub(zero)).unwrap_or(0)
}

/// The media time of the first edit. `None` if that is a pause.
fn first_media_time(edits: &[u8]) -> Option<i64> {
    // Version and flags, number of edits; then a duration, and a media time of as many bits, which is -1 for a pause.
    let time = match edits.first()? {
        0 => i32::from_be_bytes(*edits.get(12..)?.first_chunk()?).into(),
        _ => i64::from_be_bytes(*edits.get(16..)?.first_chunk()?),
    };
    (time >= 0).then_some(time)
}
