//! The same playlists, read by `m3u8-rs`.

use crate::{read, segments, url};
use fullbore_player::{Source, TrackKind};
use m3u8_rs::Playlist;
use std::collections::BTreeSet;

const MEDIA: [&str; 4] = [
    include_str!("samples/ffmpeg-ts.m3u8"),
    include_str!("samples/shaka-media.m3u8"),
    include_str!("samples/aws-live.m3u8"),
    include_str!("samples/ingest-media.m3u8"),
];

const MASTERS: [&str; 5] = [
    include_str!("samples/ffmpeg-master.m3u8"),
    include_str!("samples/shaka-master.m3u8"),
    include_str!("samples/bento4-master.m3u8"),
    include_str!("samples/ingest-master.m3u8"),
    include_str!("samples/steered-master.m3u8"),
];

fn by_m3u8_rs(text: &str) -> Playlist {
    m3u8_rs::parse_playlist_res(text.as_bytes()).expect("a playlist")
}

#[test]
fn media_playlists_have_the_same_segments() {
    for text in MEDIA {
        let Playlist::MediaPlaylist(theirs) = by_m3u8_rs(text) else { panic!("{text}") };
        let ours = segments(text);
        assert_eq!(ours.list.len(), theirs.segments.len());
        assert_eq!(ours.first_number, theirs.media_sequence);
        assert_eq!(ours.reload_after.is_none(), theirs.end_list);
        for (one, other) in ours.list.iter().zip(&theirs.segments) {
            assert_eq!(one.reference.url, url().resolve(&other.uri).expect("a URL"));
            let length = one.reference.range.as_ref().map(|range| range.end - range.start);
            assert_eq!(length, other.byte_range.as_ref().map(|range| range.length));
            assert!((one.duration.as_secs_f32() - other.duration).abs() < 1e-4);
        }
        let map = theirs.segments[0].map.as_ref().map(|map| url().resolve(&map.uri));
        assert_eq!(ours.start.map(|start| Ok(start.url)), map);
    }
}

#[test]
fn multivariant_playlists_have_the_same_variants() {
    for text in MASTERS {
        let Playlist::MasterPlaylist(theirs) = by_m3u8_rs(text) else { panic!("{text}") };
        let variants = theirs.variants.iter().filter(|variant| !variant.is_i_frame);
        let theirs: BTreeSet<_> =
            variants.map(|one| url().resolve(&one.uri).expect("a URL").to_string()).collect();
        let ours = read(text);
        let pictures = ours.tracks.iter().filter(|track| track.kind == TrackKind::Pictures);
        let sources = pictures.flat_map(|track| &track.renditions).flat_map(|one| &one.sources);
        let ours: BTreeSet<_> =
            sources.filter_map(Source::document).map(|one| one.url.to_string()).collect();
        assert_eq!(ours, theirs);
    }
}
