//! Every track is there or named, with its language, its role and a name of its own.

use std::collections::BTreeSet;

use super::{Faults, Kind};
use crate::source::{Source, SourceSound};
use crate::title::{Listed, Listing, Title};

pub(super) fn counts(
    source: &Source,
    title: &Title,
    protocol: &str,
    listing: &Listing,
    faults: &mut Faults,
) {
    let missing = source.texts.len().saturating_sub(listing.texts.len());
    let named = title.notes.iter().filter(|note| note.contains("subtitle stream")).count();
    if missing > named {
        faults.add(Kind::Missing, format!("{protocol}: {missing} texts of {}", source.texts.len()));
    }
    let missing = source.sounds.len().saturating_sub(listing.sounds.len());
    if missing > 0 {
        faults
            .add(Kind::Missing, format!("{protocol}: {missing} sounds of {}", source.sounds.len()));
    }
    if source.picture.is_some() && (listing.pictures.is_empty() || title.record.video.is_empty()) {
        faults.add(Kind::Missing, format!("{protocol}: no picture"));
    }
    let defaults = listing.sounds.iter().filter(|one| one.is_default).count();
    // DASH has all versions of the default sound.
    let all = &title.record.audio;
    let default = all.iter().find(|one| one.is_default).map(|one| &one.file);
    let others = all.iter().filter(|one| default.is_some() && one.version_of.as_ref() == default);
    let others = if protocol == "DASH" { others.count() } else { 0 };
    if defaults != listing.sounds.len().min(1) + others {
        faults.add(Kind::Role, format!("{protocol}: {defaults} sounds are the default"));
    }
}

pub(super) fn of(
    protocol: &str,
    what: &str,
    (language, roles, has_others): (&Option<String>, &[&'static str], bool),
    listed: &Listed,
    faults: &mut Faults,
) {
    if *language != listed.language {
        faults.add(
            Kind::Language,
            format!("{protocol}: {what} is {:?} instead of {language:?}", listed.language),
        );
    }
    let has = |marks: &[&str]| {
        listed.marks.iter().any(|mark| marks.iter().any(|wanted| mark.contains(wanted)))
    };
    let is_dash = protocol == "DASH";
    for role in roles {
        let is_right = match *role {
            "comment" if is_dash => has(&["commentary"]),
            // It is never the default, unless there is nothing else.
            "comment" if !has_others => has(&["public.auxiliary-content"]),
            "comment" => {
                has(&["public.auxiliary-content"]) && !listed.is_autoselected && !listed.is_default
            }
            "visual_impaired" if is_dash => has(&["description"]),
            "visual_impaired" => has(&["public.accessibility.describes-video"]),
            "hearing_impaired" if is_dash => has(&["caption"]),
            "hearing_impaired" => has(&["public.accessibility.transcribes-spoken-dialog"]),
            "forced" if is_dash => has(&["forced-subtitle", "forced_subtitle"]),
            "forced" => has(&["FORCED"]),
            "dub" => !is_dash || has(&["dub"]),
            "original" => is_dash || has(&["public.original-content"]),
            other => panic!("{other} is not judged"),
        };
        if !is_right {
            let marks = &listed.marks;
            faults
                .add(Kind::Role, format!("{protocol}: {what} is {role}, but marked as {marks:?}"));
        }
    }
}

/// The file of a sound has the same language as the manifests, for readers of the file alone. `at` counts the title's sounds.
pub(super) fn header(
    sound: &SourceSound,
    title: &Title,
    (index, at): (usize, usize),
    faults: &mut Faults,
) {
    let Some((_, says)) = title.sound_headers.get(at) else { return };
    if *says != sound.three_letters {
        let wanted = &sound.three_letters;
        faults.add(
            Kind::Language,
            format!("the file of sound {index} says {says} instead of {wanted}"),
        );
    }
}

/// Names tell tracks of a kind apart.
pub(super) fn names(protocol: &str, listing: &Listing, faults: &mut Faults) {
    for all in [&listing.sounds, &listing.texts] {
        let different: BTreeSet<_> = all.iter().map(|one| one.name.as_str()).collect();
        if different.len() != all.len() || different.contains("") {
            faults.add(Kind::Role, format!("{protocol}: names do not differ: {different:?}"));
        }
    }
}

pub(super) fn left_out(source: &Source, title: &Title, faults: &mut Faults) {
    for index in &source.left_out {
        if !title.notes.iter().any(|note| note.contains(&format!("stream {index}"))) {
            faults.add(
                Kind::Missing,
                format!("stream {index} is left out and not named in {:?}", title.notes),
            );
        }
    }
}
