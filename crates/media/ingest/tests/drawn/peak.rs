//! The rates of a rendition, from its playlist: RFC 8216 section 4.1 defines its peak.

use std::path::Path;

use crate::title::media;

/// Duration in seconds and length in bits of each segment, and the target duration.
fn segments(playlist: &Path) -> Result<(Vec<(f64, f64)>, f64), String> {
    let media = media(playlist)?;
    let bits = |segment: &m3u8_rs::MediaSegment| {
        segment.byte_range.as_ref().map_or(0.0, |range| range.length as f64 * 8.0)
    };
    let all = media.segments.iter().map(|one| (f64::from(one.duration), bits(one))).collect();
    Ok((all, media.target_duration as f64))
}

/// The highest rate of any run of segments that lasts 0.5 to 1.5 target durations, in bits per second; if there is none, of all.
pub(crate) fn peak(playlist: &Path) -> Result<f64, String> {
    let (all, target) = segments(playlist)?;
    let mut most: f64 = 0.0;
    for from in 0..all.len() {
        let (mut seconds, mut bits) = (0.0, 0.0);
        for segment in &all[from..] {
            seconds += segment.0;
            bits += segment.1;
            if seconds > 1.5 * target {
                break;
            }
            if seconds >= 0.5 * target {
                most = most.max(bits / seconds);
            }
        }
    }
    if most > 0.0 { Ok(most) } else { mean(playlist) }
}

/// The rate of all segments together, in bits per second.
pub(crate) fn mean(playlist: &Path) -> Result<f64, String> {
    let (all, _) = segments(playlist)?;
    let (seconds, bits) = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if seconds > 0.0 { Ok(bits / seconds) } else { Err("it has no segments".into()) }
}
