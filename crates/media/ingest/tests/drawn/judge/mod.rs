//! Compares a title with the film it was made from, and returns everything that is wrong with it.
//!
//! Sounds are found by the pitch of their beeps, so that a language on the wrong sound is noticed.

mod chapters;
mod colours;
mod figures;
mod labels;
mod subtitles;
mod times;

use crate::draw::Film;
use crate::source::Source;
use crate::title::Title;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Ingest refused a whole film, or the title cannot be read.
    Refused,
    /// Something of the source is neither there nor named.
    Missing,
    /// Flashes and beeps are not as far apart as in the source.
    Sync,
    /// Flashes or beeps are missing, or at other times.
    Time,
    /// Browsers leave out a pause in an edit list.
    Pause,
    Duration,
    Language,
    Role,
    Text,
    Colour,
    Shape,
    Rate,
    Channels,
    Bandwidth,
    Segment,
    Chapter,
}

/// Something wrong with a title.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

/// Shorter pauses go unnoticed.
const PAUSE_SECONDS: f64 = 0.04;

/// The faults found so far.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, kind: Kind, what: String) {
        self.0.push(Fault { kind, what });
    }
}

/// Everything that is wrong with `title`.
pub(crate) fn judge(film: &Film, source: &Source, title: &Title) -> Vec<Fault> {
    let mut faults = Faults::default();
    let has_others = source.sounds.iter().any(|one| !one.roles.contains(&"comment"));
    for (protocol, listing, decoded) in
        [("HLS", &title.hls, &title.by_hls), ("DASH", &title.dash, &title.by_dash)]
    {
        labels::counts(source, title, protocol, listing, &mut faults);
        times::pictures(source, protocol, decoded, &mut faults);
        for (index, sound) in source.sounds.iter().enumerate() {
            let found = times::found(sound, decoded);
            if found.is_empty() {
                let pitches: Vec<_> = decoded.heard.iter().map(|one| one.hertz.round()).collect();
                faults.add(
                    Kind::Missing,
                    format!("{protocol}: sound {index} is not among {pitches:?}"),
                );
            }
            for at in found {
                times::sync(
                    source,
                    sound,
                    (protocol, index),
                    decoded,
                    &decoded.heard[at],
                    &mut faults,
                );
                labels::header(sound, title, (index, at), &mut faults);
                if let Some(listed) = listing.sounds.get(at) {
                    labels::of(
                        protocol,
                        &format!("sound {index}"),
                        (&sound.language, &sound.roles, has_others),
                        listed,
                        &mut faults,
                    );
                }
            }
        }
        for (index, (text, listed)) in source.texts.iter().zip(&listing.texts).enumerate() {
            labels::of(
                protocol,
                &format!("text {index}"),
                (&text.language, &text.roles, true),
                listed,
                &mut faults,
            );
        }
        labels::names(protocol, listing, &mut faults);
        times::duration(source, title, protocol, decoded, &mut faults);
    }
    for (index, (text, words)) in source.texts.iter().zip(&title.words).enumerate() {
        subtitles::of(source, title, index, text, words, &mut faults);
    }
    for (file, seconds) in title.paused.iter().filter(|(_, seconds)| *seconds > PAUSE_SECONDS) {
        faults.add(Kind::Pause, format!("{file} begins with an empty edit of {seconds:.3} s"));
    }
    labels::left_out(source, title, &mut faults);
    colours::of(film, source, title, &mut faults);
    figures::shape(source, title, &mut faults);
    figures::channels(film, source, title, &mut faults);
    figures::declared_channels(title, &mut faults);
    figures::bandwidth(title, &mut faults);
    figures::segments(title, &mut faults);
    chapters::of(source, title, &mut faults);
    faults.0
}
