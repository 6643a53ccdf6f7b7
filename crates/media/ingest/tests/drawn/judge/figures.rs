//! Shapes, frame rates, channels and bandwidths are those of the files.

use catalog::AudioRecord;
use fullbore_ingest::ingest::Channels;

use super::{Faults, Kind};
use crate::draw::Film;
use crate::peak::{mean, peak};
use crate::play::channels as channels_of_title;
use crate::source::Source;
use crate::title::{Title, media};

const SHAPE_PART: f64 = 0.04;
const SEGMENT_SECONDS: f32 = 0.1;

pub(super) fn shape(source: &Source, title: &Title, faults: &mut Faults) {
    let Some(picture) = &source.picture else { return };
    for one in &title.record.video {
        let shape = f64::from(one.width) / f64::from(one.height);
        if (shape / picture.shape - 1.0).abs() > SHAPE_PART {
            faults.add(
                Kind::Shape,
                format!("{}x{} instead of {:.3}", one.width, one.height, picture.shape),
            );
        }
        let rate = one.frames_per_second;
        if picture.rate.is_some_and(|wanted| (rate / wanted - 1.0).abs() > 0.01) {
            faults.add(Kind::Rate, format!("{rate} frames a second instead of {:?}", picture.rate));
        }
    }
}

pub(super) fn channels(film: &Film, source: &Source, title: &Title, faults: &mut Faults) {
    let asked = channels_of_title(film);
    for (sound, record) in source.sounds.iter().zip(&title.record.audio) {
        let is_version = |one: &&AudioRecord| {
            one.file == record.file || one.version_of.as_ref() == Some(&record.file)
        };
        let versions = title.record.audio.iter().filter(is_version);
        let has = versions.map(|one| one.channels).max().unwrap_or(0);
        let least = if asked == Channels::Stereo { sound.channels.min(2) } else { sound.channels };
        let is_named = title.notes.iter().any(|note| note.contains("mixed down"));
        if has < least && !is_named {
            let had = sound.channels;
            faults.add(Kind::Channels, format!("{has} channels of {had} ({})", sound.codec));
        }
        if asked != Channels::Source && record.channels > 2 {
            faults.add(Kind::Channels, format!("{} is not in stereo", record.file));
        }
    }
}

/// Both manifests have the channels that the files have.
pub(super) fn declared_channels(title: &Title, faults: &mut Faults) {
    for (protocol, listing) in [("HLS", &title.hls), ("DASH", &title.dash)] {
        for (index, (listed, (has, _))) in
            listing.sounds.iter().zip(&title.sound_headers).enumerate()
        {
            let says = listed.channels.as_deref().unwrap_or_default();
            // CHANNELS may have more after a slash (RFC 8216 section 4.3.4.1).
            let number = says.split('/').next().and_then(|number| number.parse().ok());
            let number = if protocol == "DASH" { number.and_then(channels_of) } else { number };
            if number != Some(*has) {
                faults.add(
                    Kind::Channels,
                    format!("{protocol}: sound {index} says {says:?} and has {has} channels"),
                );
            }
        }
    }
}

/// The channels of an arrangement by its number (ISO/IEC 23091-3 table 1).
fn channels_of(arrangement: u64) -> Option<u64> {
    const ALL: [u64; 20] = [1, 2, 3, 4, 5, 6, 8, 2, 3, 4, 7, 8, 24, 8, 12, 10, 12, 14, 12, 14];
    let index = usize::try_from(arrangement).ok()?.checked_sub(1)?;
    ALL.get(index).copied()
}

/// Players stall at segments without a frame, so none is that short, but that of a whole track.
pub(super) fn segments(title: &Title, faults: &mut Faults) {
    let pictures = title.hls.pictures.iter().map(|one| one.file.clone());
    let sounds = title.record.audio.iter().map(|one| title.folder.join(&one.playlist));
    for file in pictures.chain(sounds) {
        let Ok(playlist) = media(&file) else { continue };
        let all = playlist.segments.iter().map(|one| one.duration);
        let least = all.fold(f32::MAX, f32::min);
        if playlist.segments.len() > 1 && least < SEGMENT_SECONDS {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            faults.add(Kind::Segment, format!("{name} has a segment of {least:.3} s"));
        }
    }
}

/// Rates are at least what the files have (RFC 8216 section 4.3.4.2), and not much more.
pub(super) fn bandwidth(title: &Title, faults: &mut Faults) {
    let rates = |file: &std::path::Path| Some((peak(file).ok()?, mean(file).ok()?));
    let sounds: Vec<_> = title.hls.sounds.iter().filter_map(|one| rates(&one.file)).collect();
    let most = |of: fn(&(f64, f64)) -> f64| sounds.iter().map(of).fold(0.0, f64::max);
    let (sound_peak, sound_mean) = (most(|one| one.0), most(|one| one.1));
    for (index, one) in
        title.hls.pictures.iter().enumerate().filter(|_| !title.record.video.is_empty())
    {
        let Some((own_peak, own_mean)) = rates(&one.file) else { continue };
        let (peak, mean) = (own_peak + sound_peak, own_mean + sound_mean);
        let says = one.bandwidth as f64;
        let says_mean = one.average_bandwidth.unwrap_or(0) as f64;
        // Each rate is rounded up.
        let is_right =
            says + 8.0 >= peak && says <= peak * 1.5 + 8.0 && (says_mean / mean - 1.0).abs() < 0.05;
        if !is_right {
            faults.add(
                Kind::Bandwidth,
                format!(
                    "size {index} says {says} and {says_mean}, and takes {peak:.0} and {mean:.0}"
                ),
            );
        }
        let by_dash = title.dash.pictures.get(index).map_or(0.0, |other| other.bandwidth as f64);
        // With enough buffered (minBufferTime), DASH needs less than the peak (ISO/IEC 23009-1 section 5.3.5.2), but not less than the mean.
        if by_dash + 8.0 < own_mean {
            faults.add(
                Kind::Bandwidth,
                format!("size {index} says {by_dash} by DASH, and takes {own_mean:.0}"),
            );
        }
    }
}
