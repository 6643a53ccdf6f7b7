//! Makes a film with a fault simpler, feature by feature, as long as it still has a fault of the same kind.

use crate::draw::{Cut, Decoy, Film};
use crate::judge::Kind;
use crate::play::{Outcome, play};

type Step = fn(&mut Film);

const STEPS: [(&str, Step); 20] = [
    ("no copy", |film| film.options.copy = false),
    ("AAC", |film| film.options.opus = false),
    ("H.264", |film| film.options.hevc = false),
    ("no HDR", |film| film.options.hdr = false),
    ("stereo", |film| film.options.keeps_channels = false),
    ("no odd tags", |film| film.has_odd_tags = false),
    ("no chapters", |film| film.has_chapters = false),
    ("no texts", |film| film.texts.clear()),
    ("one text", |film| film.texts.truncate(1)),
    ("no sounds", |film| film.sounds.clear()),
    ("one sound", |film| film.sounds.truncate(1)),
    ("no decoy", |film| film.decoy = Decoy::None),
    ("from 0", |film| film.start_seconds = 0.0),
    ("whole", |film| film.cut = Cut::Whole),
    ("no lateness", |film| {
        film.sounds
            .iter_mut()
            .for_each(|sound| (sound.late_seconds, sound.early_seconds) = (0.0, 0.0));
        film.picture
            .iter_mut()
            .for_each(|picture| (picture.late_seconds, picture.early_seconds) = (0.0, 0.0));
    }),
    ("constant rate", |film| {
        film.picture.iter_mut().for_each(|picture| picture.is_variable = false)
    }),
    ("no B frames", |film| {
        film.picture
            .iter_mut()
            .for_each(|picture| (picture.b_frames, picture.is_open) = (0, false));
    }),
    ("plain picture", |film| {
        film.picture.iter_mut().for_each(|picture| {
            (picture.rotation, picture.pixel, picture.is_interlaced, picture.colour) =
                (0, "1/1", false, None);
        });
    }),
    ("25 frames a second", |film| film.picture.iter_mut().for_each(|picture| picture.rate = "25")),
    ("plain sounds", |film| {
        film.sounds.iter_mut().for_each(|sound| {
            (sound.layout, sound.language, sound.role, sound.title) = ("stereo", None, None, None);
        });
    }),
];

/// The simplest film found that has a fault of this kind.
pub(crate) fn shrink(film: &Film, kind: Kind) -> Film {
    let mut smallest = film.clone();
    for (_, step) in STEPS {
        let mut simpler = smallest.clone();
        step(&mut simpler);
        if format!("{simpler:?}") == format!("{smallest:?}") {
            continue;
        }
        if simpler.picture.is_none() && simpler.sounds.is_empty() {
            continue;
        }
        if matches!(play(&simpler), Outcome::Wrong(faults) if faults.iter().any(|fault| fault.kind == kind))
        {
            smallest = simpler;
        }
    }
    smallest
}
