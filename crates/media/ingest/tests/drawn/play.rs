//! Makes a film, ingests it, and judges the title.

use std::path::{Path, PathBuf};
use std::process::Command;

use catalog::TitleName;
use fullbore_ingest::ingest::{
    AudioCodec, Channels, HdrCodec, IngestError, Ingested, Options, Speed, Stop, VideoCodec, ingest,
};
use fullbore_ingest::{Ladder, Rung};

use crate::draw::Film;
use crate::judge::{Fault, Kind, judge};
use crate::make::make;
use crate::measure::with_bt709_primaries;
use crate::source::{Source, examine};
use crate::title::{Title, read};

pub(crate) enum Outcome {
    Right,
    Wrong(Vec<Fault>),
    /// The film could not be drawn as described: a fault of this test.
    NotMade(String),
}

/// A title with the film that it was made from.
pub(crate) struct Played {
    pub(crate) source: Source,
    pub(crate) title: Title,
}

/// Small sizes, encoded quickly, in short segments.
fn options(film: &Film) -> Options {
    let rungs = vec![Rung { height: 72, kbps: 200 }, Rung { height: 144, kbps: 500 }];
    Options {
        ladder: Ladder::new(rungs).expect("a ladder"),
        speed: Speed::Fastest,
        segment_seconds: 2.0,
        copy: film.options.copy,
        hdr: film.options.hdr.then_some(HdrCodec::Hevc),
        channels: channels(film),
        audio_codec: if film.options.opus { AudioCodec::Opus } else { AudioCodec::Aac },
        video_codec: if film.options.hevc { VideoCodec::Hevc } else { VideoCodec::H264 },
        ..Options::default()
    }
}

/// Surround is kept next to stereo in every other film.
pub(crate) fn channels(film: &Film) -> Channels {
    match film.options.keeps_channels {
        true => Channels::Source,
        false if film.seed % 2 == 0 => Channels::Both,
        false => Channels::Stereo,
    }
}

/// Plays `film` from beginning to end.
pub(crate) fn play(film: &Film) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let outcome = match made(film, folder.path()) {
        Ok(played) => {
            if let Some(library) = std::env::var_os("FULLBORE_DRAW_LIBRARY") {
                keep(&played, &PathBuf::from(library));
            }
            match judge(film, &played.source, &played.title) {
                faults if faults.is_empty() => Outcome::Right,
                faults => Outcome::Wrong(faults),
            }
        }
        Err(outcome) => outcome,
    };
    if let (Some(keep), false) =
        (std::env::var_os("FULLBORE_DRAW_KEEP"), matches!(outcome, Outcome::Right))
    {
        let place = PathBuf::from(keep).join(film.seed.to_string());
        let from = folder.keep();
        let _ = Command::new("mv").arg("-T").arg(from).arg(place).status();
    }
    outcome
}

/// Copies the title into `library`, and writes next to it when it flashes and beeps and the colour of its patch, for web/tests/drawn.mjs.
fn keep(played: &Played, library: &Path) {
    let Played { source, title } = played;
    let name = &title.record.title;
    let place = library.join(name);
    let copied = Command::new("cp").arg("-rT").arg(&title.folder).arg(&place).status();
    assert!(copied.expect("cp").success(), "the title can be copied to {}", place.display());
    let sound = title.record.audio.iter().position(|one| one.is_default);
    // Sounds of a title are in the order of the source.
    let sound = sound.and_then(|index| source.sounds.get(index));
    let picture = source.picture.as_ref();
    let patch = picture.filter(|one| one.wide.is_none());
    let patch = patch.map(|one| with_bt709_primaries(one.patch.map(f64::from), &one.primaries));
    let expected = serde_json::json!({
        "flashes": picture.map(|one| &one.seen.flashes),
        "patch": patch,
        "beeps": sound.map(|one| &one.heard.beeps),
    });
    let file = library.with_extension("expected").join(format!("{name}.json"));
    let folder = file.parent().expect("it was joined");
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::write(file, expected.to_string()).expect("written");
}

/// Makes the film and its title in `folder`.
pub(crate) fn made(film: &Film, folder: &Path) -> Result<Played, Outcome> {
    let file = make(film, folder).map_err(Outcome::NotMade)?;
    let source = examine(film, &file).map_err(Outcome::NotMade)?;
    made_of(film, source, &file, folder)
}

/// Makes the title of `film` from `file`, which has `source`.
pub(crate) fn made_of(
    film: &Film,
    source: Source,
    file: &Path,
    folder: &Path,
) -> Result<Played, Outcome> {
    let refused = |what: String| Outcome::Wrong(vec![Fault { kind: Kind::Refused, what }]);
    let ingested = ingested(film, file, &folder.join("library"))
        .map_err(|error| refused(error.to_string()))?;
    let title = read(&ingested.folder, &ingested.record, &ingested.notes).map_err(refused)?;
    Ok(Played { source, title })
}

fn ingested(film: &Film, file: &Path, library: &Path) -> Result<Ingested, IngestError> {
    let name = TitleName::new(&format!("drawn-{}", film.seed)).expect("a name");
    let ask = |options: &Options| ingest(file, library, &name, options, &Stop::default(), |_| {});
    let options = options(film);
    match ask(&options) {
        // Not every picture can be copied; it must become a title without that option.
        Err(error) if options.copy && error.to_string().contains("leave --copy out") => {
            ask(&Options { copy: false, ..options })
        }
        result => result,
    }
}
