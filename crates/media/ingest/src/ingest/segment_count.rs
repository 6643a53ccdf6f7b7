//! Refuses films with more segments than an index can list, before hours go into encoding.

use super::error::IngestError;
use super::options::Options;
use crate::frame_rate::FrameRate;
use crate::mp4::ENTRIES_MAX;
use crate::source::Source;

/// The longest segment that can be asked for, and the steps in which a longer one is proposed.
const SEGMENT_SECONDS_MAX: f64 = 20.0;
const STEP_SECONDS: f64 = 0.1;

/// The frames of a segment of an encoded picture.
pub(super) fn frames(segment_seconds: f64, frame_rate: FrameRate) -> u32 {
    (segment_seconds * frame_rate.per_second()).round().max(1.0) as u32
}

/// Checks the playing time of `source`, if it is known, against the segment length in `options`.
pub(super) fn check(source: &Source, options: &Options) -> Result<(), IngestError> {
    let Some(seconds) = source.seconds else { return Ok(()) };
    let wanted = options.segment_seconds;
    let segments = count(source, options, seconds, wanted);
    if segments <= u64::from(ENTRIES_MAX) {
        return Ok(());
    }
    // Whole steps, so that the number reads well.
    let first = (wanted / STEP_SECONDS).floor() as u32 + 1;
    let longer = (first..).map(|steps| f64::from(steps) * STEP_SECONDS);
    let enough = longer
        .take_while(|&length| length <= SEGMENT_SECONDS_MAX + STEP_SECONDS / 2.0)
        .find(|&length| count(source, options, seconds, length) <= u64::from(ENTRIES_MAX));
    Err(IngestError::TooManySegments { segments, wanted, enough })
}

/// The number of segments of the track that has most. A copied picture is not counted: its segments begin at its key frames, which may be
/// any distance apart.
fn count(source: &Source, options: &Options, seconds: f64, length: f64) -> u64 {
    let sound = (!source.audio.is_empty()).then_some(length);
    let picture =
        source.video.as_ref().filter(|_| !options.copy).map(|video| {
            f64::from(frames(length, video.frame_rate)) / video.frame_rate.per_second()
        });
    let shortest = sound.into_iter().chain(picture).reduce(f64::min);
    shortest.map_or(0, |shortest| (seconds / shortest).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Audio, Video};

    const HOUR: f64 = 3600.0;

    fn source(hours: f64, frames: Option<u32>, has_sound: bool) -> Source {
        let rate = |frames| FrameRate { frames, seconds: 1 };
        Source {
            seconds: Some(hours * HOUR),
            video: frames
                .map(|frames| Video { frame_rate: rate(frames), ..Video::example(320, 180) }),
            audio: if has_sound { vec![Audio::default()] } else { Vec::new() },
            ..Source::default()
        }
    }

    fn refused(source: &Source, copy: bool, segment_seconds: f64) -> Option<(u64, Option<f64>)> {
        let options = Options { copy, segment_seconds, ..Options::default() };
        match check(source, &options) {
            Ok(()) => None,
            Err(IngestError::TooManySegments { segments, enough, .. }) => Some((segments, enough)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_length_that_does_is_proposed() {
        for (hours, frames, wanted) in
            [(9.2, 24, 0.5), (20.0, 25, 1.0), (40.0, 3, 0.5), (300.0, 30, 4.0)]
        {
            let film = source(hours, Some(frames), true);
            let (segments, enough) = refused(&film, false, wanted).unwrap();
            assert!(segments > 65_535, "{hours}");
            let enough = enough.unwrap();
            assert_eq!(refused(&film, false, enough), None, "{hours} at {enough}");
            assert!(refused(&film, false, enough - 0.11).is_some(), "{hours} at {enough}");
        }
        assert_eq!(refused(&source(9.0, Some(24), true), false, 0.5), None);
        assert_eq!(refused(&source(400.0, None, true), false, 20.0), Some((72_000, None)));
    }

    #[test]
    fn only_segments_of_a_known_length_are_counted() {
        assert!(refused(&source(10.0, Some(25), true), true, 0.5).is_some(), "its sound");
        assert_eq!(
            refused(&source(10.0, Some(25), false), true, 0.5),
            None,
            "its key frames decide"
        );
        assert_eq!(
            refused(&source(9.2, Some(25), false), false, 0.5),
            None,
            "13 frames are 0.52 s"
        );
        let unknown = Source { seconds: None, ..source(0.0, Some(25), true) };
        assert_eq!(refused(&unknown, false, 0.5), None);
    }
}
