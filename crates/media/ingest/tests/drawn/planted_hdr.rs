//! The judge finds planted faults in a title of two dynamic ranges.

use std::fs;

use crate::draw::Film;
use crate::judge::{Kind, judge};
use crate::planted::film;
use crate::play::made;
use crate::title::{Title, listed};

fn hdr_film() -> Film {
    let mut film = film();
    film.options.hdr = true;
    film.texts.clear();
    film.sounds.truncate(1);
    if let Some(picture) = &mut film.picture {
        (picture.codec, picture.wide) = ("hevc", Some("smpte2084"));
    }
    film
}

#[test]
fn wrong_ranges_and_colours_of_a_high_dynamic_range_are_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let film = hdr_film();
    let played = made(&film, folder.path()).unwrap_or_else(|_| panic!("it becomes a title"));
    let faults = |title: &Title| {
        let all = judge(&film, &played.source, title);
        all.into_iter().map(|fault| (fault.kind, fault.what)).collect::<Vec<_>>()
    };
    let found = faults(&played.title);
    assert!(found.is_empty(), "{found:?}");
    let finds = |kind: Kind, title: &Title| {
        let found = faults(title);
        assert!(found.iter().any(|fault| fault.0 == kind), "no {kind:?} in {found:?}");
    };
    type Edit = fn(&mut Title);
    let edits: [(Kind, Edit); 4] = [
        (Kind::Colour, |title| title.notes.clear()),
        (Kind::Colour, |title| title.by_hls.seen[2].patch[1] += 20.0),
        (Kind::Missing, |title| title.colours.truncate(3)),
        (Kind::Colour, |title| title.colours[3].transfer = "arib-std-b67".into()),
    ];
    for (kind, edit) in edits {
        let mut title = played.title.clone();
        edit(&mut title);
        finds(kind, &title);
    }
    for (file, old, new) in [
        ("master.m3u8", "VIDEO-RANGE=PQ", "VIDEO-RANGE=SDR"),
        ("master.m3u8", "VIDEO-RANGE=SDR", "VIDEO-RANGE=PQ"),
        (
            "manifest.mpd",
            "TransferCharacteristics\" value=\"16\"",
            "TransferCharacteristics\" value=\"1\"",
        ),
        ("manifest.mpd", "<EssentialProperty", "<SupplementalProperty"),
    ] {
        let path = played.title.folder.join(file);
        let text = fs::read_to_string(&path).expect("a manifest");
        assert!(text.contains(old), "{text}");
        fs::write(&path, text.replacen(old, new, 1)).expect("room");
        let mut other = listed(&played.title.folder, &played.title.record, &played.title.notes)
            .expect("a title that can be read");
        (other.by_hls, other.by_dash) = (played.title.by_hls.clone(), played.title.by_dash.clone());
        fs::write(&path, text).expect("room");
        finds(Kind::Colour, &other);
    }
}
