//! Flashes and beeps are where they belong: for each sound, in each size.

use super::{Faults, Kind};
use crate::measure::{Heard, Seen};
use crate::source::{PAIR_SECONDS, Source, SourceSound};
use crate::title::{Decoded, Title};

/// How much further apart than in the source a flash and a beep may be: what viewers notice (ITU-R BT.1359) is more.
const SYNC_SECONDS: f64 = 0.04;
const DURATION_SECONDS: f64 = 0.15;
const HERTZ_PART: f64 = 0.12;

/// The title's sounds that beep like this one.
pub(super) fn found(sound: &SourceSound, decoded: &Decoded) -> Vec<usize> {
    let wanted = sound.heard.hertz;
    let is_same = |heard: &Heard| (heard.hertz / wanted - 1.0).abs() < HERTZ_PART;
    (0..decoded.heard.len()).filter(|at| is_same(&decoded.heard[*at])).collect()
}

/// Every size flashes as often as the source, with the same distances.
pub(super) fn pictures(source: &Source, protocol: &str, decoded: &Decoded, faults: &mut Faults) {
    let Some(picture) = &source.picture else { return };
    for (index, seen) in decoded.seen.iter().enumerate() {
        let frame = picture.frame_seconds / 2.0;
        let what = format!("{protocol}: size {index}: flashes");
        distances(source, &what, (&picture.seen.flashes, &seen.flashes), frame, faults);
    }
}

/// Compares the distances between events in the source and in the title.
fn distances(
    source: &Source,
    what: &str,
    (wanted, got): (&[f64], &[f64]),
    frame: f64,
    faults: &mut Faults,
) {
    if wanted.len() != got.len() {
        faults.add(Kind::Time, format!("{what} at {got:.3?}, in the source at {wanted:.3?}"));
        return;
    }
    let steps = |times: &[f64]| times.windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>();
    let wrong: Vec<_> = steps(wanted)
        .into_iter()
        .zip(steps(got))
        .map(|(wanted, got)| got - wanted)
        .filter(|more| more.abs() > SYNC_SECONDS + frame)
        .collect();
    // One distance crosses the jump: players may wait for as long as the clock jumps, or go on at once.
    if wrong.len() > usize::from(source.is_joined) {
        faults.add(Kind::Time, format!("{what} at {got:.3?}, in the source at {wanted:.3?}"));
    }
}

/// The sound is as far from the picture as in the source, at each event; a film without picture is compared with its first sound.
pub(super) fn sync(
    source: &Source,
    sound: &SourceSound,
    (protocol, index): (&str, usize),
    decoded: &Decoded,
    heard: &Heard,
    faults: &mut Faults,
) {
    let what = format!("{protocol}: beeps of sound {index}");
    distances(source, &what, (&sound.heard.beeps, &heard.beeps), 0.0, faults);
    let anchors: Vec<(&[f64], &[f64])> = match &source.picture {
        Some(picture) => {
            decoded.seen.iter().map(|seen| (&picture.seen.flashes[..], &seen.flashes[..])).collect()
        }
        None => {
            let first = found(&source.sounds[0], decoded);
            first
                .iter()
                .map(|at| (&source.sounds[0].heard.beeps[..], &decoded.heard[*at].beeps[..]))
                .collect()
        }
    };
    for (size, (wanted, got)) in anchors.into_iter().enumerate() {
        if wanted.len() != got.len() || sound.heard.beeps.len() != heard.beeps.len() {
            continue; // reported as a fault of time
        }
        let mut moved: Vec<f64> = Vec::new();
        for (flash, now) in wanted.iter().zip(got) {
            let pairs = sound.heard.beeps.iter().zip(&heard.beeps);
            for (beep, beeps_now) in pairs.filter(|(beep, _)| (**beep - flash).abs() < PAIR_SECONDS)
            {
                moved.push((beeps_now - now) - (beep - flash));
            }
        }
        moved.sort_by(f64::total_cmp);
        let Some(median) = moved.get(moved.len() / 2) else {
            faults.add(Kind::Sync, format!("{protocol}: sound {index} was not compared"));
            continue;
        };
        let frame = source.picture.as_ref().map_or(0.0, |picture| picture.frame_seconds / 2.0);
        let most =
            moved.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        if median.abs() > SYNC_SECONDS || most.abs() > SYNC_SECONDS + frame {
            faults.add(Kind::Sync, format!("{protocol}: sound {index} is {median:+.3} s from where it belongs (at most {most:+.3} s), size {size}"));
        }
    }
}

pub(super) fn duration(
    source: &Source,
    title: &Title,
    protocol: &str,
    decoded: &Decoded,
    faults: &mut Faults,
) {
    let extent = |seen: &mut dyn Iterator<Item = &Seen>,
                  heard: &mut dyn Iterator<Item = &Heard>| {
        let all: Vec<_> =
            seen.map(|one| (one.from, one.to)).chain(heard.map(|one| (one.from, one.to))).collect();
        let from = all.iter().map(|one| one.0).fold(f64::MAX, f64::min);
        let to = all.iter().map(|one| one.1).fold(f64::MIN, f64::max);
        (to - from, to)
    };
    let seen = source.picture.iter().map(|one| &one.seen);
    let (wanted, wanted_end) =
        extent(&mut seen.clone(), &mut source.sounds.iter().map(|one| &one.heard));
    let (got, end) = extent(&mut decoded.seen.iter(), &mut decoded.heard.iter());
    let most =
        DURATION_SECONDS + source.picture.as_ref().map_or(0.0, |picture| picture.frame_seconds);
    let says = title.record.duration_seconds;
    // A container may begin before its first frame that can be decoded: with the rest of a group of pictures, or with an empty stream.
    let longest = wanted.max(wanted_end - source.begins);
    let is_whole = source.is_joined || (wanted - most..=longest + most).contains(&got);
    if !is_whole || (says - end).abs() > most {
        faults.add(
            Kind::Duration,
            format!(
                "{protocol}: plays {got:.3} s of {wanted:.3} s to {end:.3} s, and says {says:.3} s"
            ),
        );
    }
}
