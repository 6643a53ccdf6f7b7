//! Manifests as packagers write them: ffmpeg, Shaka Packager, Bento4, AWS's services and `fullbore ingest`, and two with content steering.
//! The samples have the form of those programs' output with invented contents. For HLS, the results are also compared with `m3u8-rs`.

mod judge;

use fullbore_player::{
    Presentation, Reference, Rendition, Segments, Source, Track, TrackKind, Url,
};
use std::time::Duration;

fn url() -> Url {
    "https://films.example/a/b/manifest".parse().expect("a URL")
}

fn read(text: &str) -> Presentation {
    Presentation::parse(&url(), text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn segments(text: &str) -> Segments {
    let source = Source::Document(Reference { url: url(), range: None });
    Segments::parse(&source, &url(), text.as_bytes())
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A track in one line: its content, and for each bit rate the first thing to fetch.
fn summary(track: &Track) -> String {
    let kind = if track.kind == TrackKind::Pictures { "pictures" } else { "sound" };
    let one = |rendition: &Rendition| {
        let sources: Vec<_> = rendition.sources.iter().map(first).collect();
        format!("{} {}", rendition.bits_per_second, sources.join(" | "))
    };
    let renditions: Vec<_> = track.renditions.iter().map(one).collect();
    format!("{kind}: {}", renditions.join(", "))
}

fn first(source: &Source) -> String {
    match source {
        Source::Listed(segments) => show(&segments.list[0].reference),
        source => source.document().map_or("absent".into(), show),
    }
}

/// A reference without the manifest's folder.
fn show(reference: &Reference) -> String {
    let url = reference.url.to_string();
    let url = url.strip_prefix("https://films.example/a/b/").unwrap_or(&url);
    match &reference.range {
        Some(range) => format!("{url} {}-{}", range.start, range.end),
        None => url.to_owned(),
    }
}

fn summaries(presentation: &Presentation) -> Vec<String> {
    presentation.tracks.iter().map(summary).collect()
}

fn listed(presentation: &Presentation, track: usize) -> &Segments {
    match &presentation.tracks[track].renditions[0].sources[0] {
        Source::Listed(segments) => segments,
        source => panic!("not listed: {source:?}"),
    }
}

fn milliseconds(segments: &Segments) -> Vec<u128> {
    segments.list.iter().map(|segment| segment.duration.as_millis()).collect()
}

#[test]
fn ffmpeg() {
    assert_eq!(
        summaries(&read(include_str!("samples/ffmpeg-master.m3u8"))),
        ["pictures: 1040432 media_1.m3u8, 3060288 media_0.m3u8", "sound: 128000 media_2.m3u8"]
    );
    let live = segments(include_str!("samples/ffmpeg-ts.m3u8"));
    assert_eq!((live.first_number, live.reload_after), (41, Some(Duration::from_secs(7))));
    assert_eq!(milliseconds(&live), [6006, 6006, 3336]);
    let dash = read(include_str!("samples/ffmpeg.mpd"));
    assert_eq!(
        summaries(&dash),
        [
            "pictures: 800000 chunk-stream1-00001.m4s, 2200000 chunk-stream0-00001.m4s",
            "sound: 128000 chunk-stream2-00001.m4s"
        ]
    );
    assert_eq!(dash.duration, Some(Duration::from_secs(10)));
    assert_eq!(milliseconds(listed(&dash, 0)), [4000, 4000, 2000]);
    assert_eq!(milliseconds(listed(&dash, 1)), [3989, 4010, 2000]);
    let start = listed(&dash, 0).start.as_ref().map(show);
    assert_eq!(start.as_deref(), Some("init-stream1.m4s"));
}

#[test]
fn shaka_packager() {
    assert_eq!(
        summaries(&read(include_str!("samples/shaka-master.m3u8"))),
        [
            "pictures: 1273475 h264_480p.m3u8, 5512033 h264_1080p.m3u8",
            "sound: 128000 audio_de.m3u8"
        ]
    );
    let media = segments(include_str!("samples/shaka-media.m3u8"));
    let ranges: Vec<_> = media.list.iter().map(|segment| show(&segment.reference)).collect();
    assert_eq!(
        ranges,
        [
            "h264_480p.mp4 1148-1304360",
            "h264_480p.mp4 1304360-2568461",
            "h264_480p.mp4 2568461-3066478"
        ]
    );
    assert_eq!(media.duration(), Duration::from_millis(24_483));
    let dash = read(include_str!("samples/shaka.mpd"));
    assert_eq!(
        summaries(&dash),
        ["pictures: 1068523 h264_480p.mp4 872-1148", "sound: 129452 audio_en.mp4 804-884"]
    );
}

#[test]
fn bento4() {
    assert_eq!(
        summaries(&read(include_str!("samples/bento4-master.m3u8"))),
        [
            "pictures: 1235412 video/avc1/1/media.m3u8, 3301821 video/avc1/2/media.m3u8",
            "sound: 128000 audio/en/mp4a.40.2/media.m3u8"
        ]
    );
    let dash = read(include_str!("samples/bento4.mpd"));
    assert_eq!(
        summaries(&dash),
        [
            "pictures: 995712 video/avc1/1/seg-1.m4s, 2481920 video/avc1/2/seg-1.m4s",
            "sound: 132120 audio/en/mp4a.40.2/seg-1.m4s"
        ]
    );
    assert_eq!(milliseconds(listed(&dash, 1)), [4000, 4000, 3000]);
    let list = read(include_str!("samples/bento4-list.mpd"));
    let list = listed(&list, 0);
    assert_eq!(list.start.as_ref().map(show).as_deref(), Some("film-video.mp4 0-728"));
    assert_eq!(show(&list.list[2].reference), "film-video.mp4 598778-731015");
}

#[test]
fn aws() {
    // The sound-only variant is for those who cannot watch; a player with pictures does not choose it.
    assert_eq!(
        summaries(&read(include_str!("samples/aws-vod-master.m3u8"))),
        ["pictures: 1404480 film_360p.m3u8, 3640210 film_720p.m3u8"]
    );
    let live = segments(include_str!("samples/aws-live.m3u8"));
    assert_eq!(live.first_number, 4_120_331);
    assert_eq!(
        show(&live.list[2].reference),
        "https://films.example/0a1b2c3d/channel_1_4120333.ts?m=1771234567"
    );
    let dash = read(include_str!("samples/aws-live.mpd"));
    assert_eq!((dash.duration, dash.reload_after), (None, Some(Duration::from_secs(2))));
    let list = listed(&dash, 0);
    assert_eq!((list.first_number, list.list.len()), (120, 6));
    assert_eq!(milliseconds(list), [2000, 2000, 1500, 2000, 2000, 2000]);
    // The second period follows without a gap, and needs no other initialisation section.
    assert_eq!(list.list[3].begin, Duration::from_millis(785_692_600));
    assert_eq!(list.list[2].begin + list.list[2].duration, list.list[3].begin);
    assert_eq!(list.list[3].start, None);
    assert_eq!(show(&list.list[3].reference), "index_video_1_0_123.mp4?m=1771234567");
}

#[test]
fn fullbore_ingest() {
    assert_eq!(
        summaries(&read(include_str!("samples/ingest-master.m3u8"))),
        [
            "pictures: 695789 v-8373df639e6c/video-240.m3u8, 1258665 v-8373df639e6c/video-360.m3u8",
            "sound: 128000 v-8373df639e6c/audio-1-und.m3u8"
        ]
    );
    let media = segments(include_str!("samples/ingest-media.m3u8"));
    assert_eq!(milliseconds(&media), [4000, 1280]);
    assert_eq!(media.start.as_ref().map(show).as_deref(), Some("video-240.mp4 0-831"));
    assert_eq!(show(&media.list[1].reference), "video-240.mp4 281720-344557");
    assert_eq!(
        summaries(&read(include_str!("samples/ingest.mpd"))),
        [
            "pictures: 561650 v-8373df639e6c/video-240.mp4 831-895",
            "sound: 134139 v-8373df639e6c/audio-1-und.mp4 769-833"
        ]
    );
}

#[test]
fn content_steering() {
    let hls = read(include_str!("samples/steered-master.m3u8"));
    let dash = read(include_str!("samples/steered.mpd"));
    let ids = |presentation: &Presentation| {
        let ids = presentation.pathways.iter().map(|pathway| pathway.id.clone());
        ids.collect::<Vec<_>>().join(" ")
    };
    assert_eq!((ids(&hls), ids(&dash)), ("east west".into(), "alpha beta".into()));
    assert_eq!(
        summaries(&hls),
        [
            "pictures: 900000 https://east.example/film/360.m3u8 | https://west.example/film/360.m3u8, \
             3200000 https://east.example/film/720.m3u8 | https://west.example/film/720.m3u8",
            "sound: 128000 https://east.example/film/en.m3u8 | https://west.example/film/en.m3u8"
        ]
    );
    assert_eq!(
        summaries(&dash),
        [
            "pictures: 300000 https://alpha.example/film/V300/0.m4s | https://beta.example/pool/film/V300/0.m4s"
        ]
    );
    let server = |presentation: Presentation| {
        let server = presentation.steering.expect("a steering server");
        (server.url.to_string(), server.first.expect("a first pathway"), server.before_start)
    };
    assert_eq!(
        server(hls),
        ("https://steering.example/hls?session=81c4".into(), "east".into(), false)
    );
    assert_eq!(
        server(dash),
        ("https://steering.example/dash?session=81c4".into(), "beta".into(), true)
    );
}
