//! Each kind of fault that ingest once had shows in a film of the first hundred draws: the judge finds it in the title of that film.

use std::collections::BTreeMap;
use std::fs;

use fullbore_ingest::ingest::Channels;
use tempfile::TempDir;

use crate::draw::{Cue, Cut, Decoy, Film, Sound};
use crate::judge::{Kind, judge};
use crate::make::make;
use crate::play::{Outcome, Played, channels, made, made_of};
use crate::source::examine;
use crate::title::Title;

/// What ingest once did wrong; the films in which it would show; and the fault, planted in such a film's title, with its kind. For a film that is
/// refused, the film itself is spoilt.
type Fault = (&'static str, fn(&Film) -> bool, Kind, fn(&mut Title));

const FAULTS: [Fault; 26] = [
    ("sync: streams that begin late", begins_late, Kind::Sync, beeps_late),
    (
        "sync: recordings without their beginning",
        |film| matches!(film.cut, Cut::Headless(_)),
        Kind::Sync,
        beeps_late,
    ),
    (
        "sync: a clock that jumps",
        |film| matches!(film.cut, Cut::Joined(..)),
        Kind::Sync,
        beeps_late,
    ),
    (
        "refused: timestamps that don't begin at 0",
        |film| film.start_seconds > 1.0,
        Kind::Refused,
        |_| {},
    ),
    ("refused: a line that outlasts the film", has_late_line, Kind::Refused, |_| {}),
    (
        "pause: copies of late pictures and of trimmed films",
        |film| {
            let is_late = film.picture.as_ref().is_some_and(|one| one.late_seconds > 0.0);
            film.options.copy && (is_late || matches!(film.cut, Cut::Trimmed(_)))
        },
        Kind::Pause,
        |title| title.paused.push(("video-72.mp4".into(), 0.34)),
    ),
    (
        "text: subtitles of each form",
        |film| !film.texts.is_empty(),
        Kind::Text,
        |title| title.words[0] = title.words[0].replace("-->", "--> -->"),
    ),
    (
        "text: drawings and lines of no length",
        |film| film.texts.iter().any(|one| one.codec == "ass"),
        Kind::Text,
        |title| title.words[0].push_str("\n\n00:01.000 --> 00:01.000\nm 0 0 l 9 9\n"),
    ),
    (
        "colour: untagged pictures",
        |film| film.picture.as_ref().is_some_and(|one| one.colour.is_none()),
        Kind::Colour,
        |title| title.by_hls.seen[0].patch[1] += 40.0,
    ),
    (
        "colour: RGB",
        |film| film.picture.as_ref().is_some_and(|one| one.codec == "h264rgb"),
        Kind::Colour,
        |title| title.by_hls.seen[0].patch[1] += 40.0,
    ),
    (
        "colour: a high dynamic range",
        |film| film.picture.as_ref().is_some_and(|one| one.wide.is_some()),
        Kind::Colour,
        |title| title.hls.pictures[0].range = Some("none".into()),
    ),
    (
        "missing: a high dynamic range next to the standard one",
        |film| film.options.hdr && !film.options.copy,
        Kind::Missing,
        |title| title.colours.truncate(1),
    ),
    (
        "missing: a still in front",
        |film| film.decoy == Decoy::Still,
        Kind::Time,
        |title| title.by_hls.seen[0].flashes.clear(),
    ),
    (
        "missing: sound that begins late in a recording",
        |film| film.sounds.iter().any(|one| one.late_seconds > 5.0),
        Kind::Missing,
        |title| title.by_hls.heard.clear(),
    ),
    (
        "role",
        |film| film.container.has_roles && film.sounds.iter().any(|one| one.role.is_some()),
        Kind::Role,
        |title| {
            let sounds = title.hls.sounds.iter_mut().chain(&mut title.dash.sounds);
            sounds.for_each(|one| one.marks.clear());
        },
    ),
    (
        "role: by DASH alone",
        // DASH has no role for an original.
        |film| {
            let is_marked = |sound: &Sound| sound.role.is_some_and(|role| role != "original");
            film.container.has_roles && film.sounds.iter().any(is_marked)
        },
        Kind::Role,
        |title| title.dash.sounds.iter_mut().for_each(|one| one.marks.clear()),
    ),
    (
        "role: forced captions",
        |film| {
            let is_forced = |role| role == Some("forced");
            film.container.has_roles && film.texts.iter().any(|one| is_forced(one.role))
        },
        Kind::Role,
        |title| title.hls.texts.iter_mut().for_each(|one| one.marks.clear()),
    ),
    (
        "role: equal names",
        |film| film.sounds.len() > 1,
        Kind::Role,
        |title| title.hls.sounds[1].name = title.hls.sounds[0].name.clone(),
    ),
    (
        "language: two letters",
        |film| film.sounds.iter().any(|one| one.language == Some("tam")),
        Kind::Language,
        |title| title.hls.sounds.iter_mut().for_each(|one| one.language = Some("tam".into())),
    ),
    (
        "language: by DASH alone",
        |film| film.sounds.iter().any(|one| one.language == Some("tam")),
        Kind::Language,
        |title| title.dash.sounds.iter_mut().for_each(|one| one.language = Some("tam".into())),
    ),
    (
        "channels: surround next to stereo",
        |film| channels(film) == Channels::Both && film.sounds.iter().any(is_surround),
        Kind::Channels,
        |title| title.record.audio.retain(|one| one.version_of.is_none()),
    ),
    (
        "channels: arrangements that a codec lacks",
        |film| {
            let is_odd = |layout: &str| ["2.1", "quad", "quad(side)", "4.0"].contains(&layout);
            film.options.keeps_channels && film.sounds.iter().any(|one| is_odd(one.layout))
        },
        Kind::Channels,
        |title| title.hls.sounds[0].channels = Some("9".into()),
    ),
    (
        "shape and rate",
        |film| film.picture.as_ref().is_some_and(|one| one.rotation > 0 || one.pixel != "1/1"),
        Kind::Shape,
        |title| title.record.video[0].width *= 2,
    ),
    (
        "bandwidth",
        |_| true,
        Kind::Bandwidth,
        |title| title.hls.pictures[0].bandwidth = title.hls.pictures[0].bandwidth * 8 / 10,
    ),
    (
        "chapter",
        // In a film that begins late, ffmpeg leaves chapters where they were: before its beginning. Of one that is cut, none are made.
        |film| {
            let has_list = ["mkv", "webm", "mp4", "mov"].contains(&film.container.extension);
            let is_plain = matches!(film.cut, Cut::Whole) && film.start_seconds < 1.0;
            film.has_chapters && has_list && is_plain
        },
        Kind::Chapter,
        |title| title.chapters.clear(),
    ),
    // The last one, because it changes a file.
    (
        "segments of a frame",
        |film| film.seconds > 5.0,
        Kind::Segment,
        |title| {
            let file = &title.hls.pictures[0].file;
            let text = fs::read_to_string(file).expect("a playlist");
            let (before, after) = text.split_once("#EXTINF:").expect("a segment");
            let rest = after.split_once(',').expect("a time").1;
            fs::write(file, format!("{before}#EXTINF:0.040000,{rest}")).expect("room");
        },
    ),
];

fn is_surround(sound: &Sound) -> bool {
    ["5.1", "5.1(side)", "7.1"].contains(&sound.layout)
}

fn begins_late(film: &Film) -> bool {
    film.picture.as_ref().is_some_and(|one| one.late_seconds > 0.0)
        || film.sounds.iter().any(|one| one.late_seconds > 0.0)
}

fn has_late_line(film: &Film) -> bool {
    let lasts = |cue: &Cue| cue.start + cue.seconds > film.seconds + 1.5;
    film.texts.iter().any(|one| one.cues.iter().any(lasts))
}

fn beeps_late(title: &mut Title) {
    let beeps = title.by_hls.heard.iter_mut().flat_map(|one| &mut one.beeps);
    beeps.for_each(|beep| *beep += 0.1);
}

/// The films of the first hundred draws in which a fault would show. Each has a picture and a sound, with which most faults are found.
fn films(shows: fn(&Film) -> bool) -> impl Iterator<Item = Film> {
    let has_both = |film: &Film| film.picture.is_some() && !film.sounds.is_empty();
    (1..=100).map(Film::draw).filter(move |film| has_both(film) && shows(film))
}

/// The faults of a title, as text, with their kinds.
fn faults(film: &Film, played: &Played, title: &Title) -> Vec<(Kind, String)> {
    let all = judge(film, &played.source, title);
    all.into_iter().map(|fault| (fault.kind, fault.what)).collect()
}

/// Whether a film of which only the beginning is left is refused.
fn is_refused(film: &Film) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = make(film, folder.path()).expect("a drawn film");
    let source = examine(film, &file).expect("a drawn film");
    let bytes = fs::read(&file).expect("a film");
    fs::write(&file, &bytes[..300]).expect("written");
    let Err(Outcome::Wrong(found)) = made_of(film, source, &file, folder.path()) else {
        return false;
    };
    found[0].kind == Kind::Refused
}

#[test]
fn a_hundred_draws_have_films_in_which_each_kind_of_fault_shows() {
    for (what, shows, ..) in FAULTS {
        let seeds: Vec<_> = films(shows).map(|film| film.seed).collect();
        assert!(!seeds.is_empty(), "{what}: no film of the first hundred");
        println!("{what}: {} films, seeds {:?}", seeds.len(), &seeds[..seeds.len().min(8)]);
    }
}

#[test]
#[ignore = "makes some fifteen titles; ./run nightly does"]
fn each_kind_of_fault_is_found_in_the_first_film_in_which_it_shows() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let mut titles: BTreeMap<u64, (TempDir, Played)> = BTreeMap::new();
    for (what, shows, kind, plant) in FAULTS {
        let film = films(shows).next().expect("a film");
        if kind == Kind::Refused {
            assert!(is_refused(&film), "{what}: {film}");
            continue;
        }
        let (_, played) = titles.entry(film.seed).or_insert_with(|| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let played =
                made(&film, folder.path()).unwrap_or_else(|_| panic!("no title of {film}"));
            (folder, played)
        });
        assert_eq!(faults(&film, played, &played.title), [], "{film}");
        let mut title = played.title.clone();
        plant(&mut title);
        let found = faults(&film, played, &title);
        assert!(
            found.iter().any(|fault| fault.0 == kind),
            "{what}: {kind:?} not in {found:?}: {film}"
        );
        println!("{what}: found in seed {}", film.seed);
    }
}
