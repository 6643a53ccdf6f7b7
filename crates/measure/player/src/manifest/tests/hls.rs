//! HLS playlists.

use super::*;
use crate::presentation::{StartPoint, TrackKind};
use std::time::Duration;

const MEDIA: &str = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:2\n\
    #EXT-X-MAP:URI=\"film.mp4\",BYTERANGE=\"800@0\"\n\
    #EXTINF:2.0,\n#EXT-X-BYTERANGE:1000@800\nfilm.mp4\n\
    #EXTINF:1.5,a title\n#EXT-X-BYTERANGE:500\nfilm.mp4\n\
    #EXT-X-MAP:URI=\"next.mp4\"\n#EXTINF:2,\n../other.ts\n#EXT-X-ENDLIST\n";

fn media(text: &str) -> Result<Segments, ManifestError> {
    let reference = Reference { url: url("m.m3u8"), range: None };
    Segments::parse(&Source::Document(reference), &url("m.m3u8"), text.as_bytes())
}

#[test]
fn a_media_playlist_lists_ranges_and_initialisation_sections() {
    let segments = media(MEDIA).expect("a playlist");
    assert_eq!(
        played(&segments),
        [
            "film.mp4 0-800",
            "film.mp4 800-1800",
            "film.mp4 1800-2300",
            "next.mp4",
            "https://h:1/other.ts"
        ]
    );
    assert_eq!(times(&segments), [(0, 2000), (2000, 1500), (3500, 2000)]);
    assert_eq!(segments.reload_after, None);
    let start_of = |index| segments.start_of(index).map(show);
    assert_eq!(start_of(1).as_deref(), Some("film.mp4 0-800"));
    assert_eq!(start_of(2).as_deref(), Some("next.mp4"));
}

#[test]
fn a_media_playlist_by_itself_is_a_title() {
    let title = read("m.m3u8", MEDIA).expect("a title");
    assert_eq!(title.duration, Some(Duration::from_millis(5500)));
    assert_eq!(played(listed(&title.tracks[0].renditions[0])).len(), 5);
    let ranges = MEDIA.replace("#EXTINF:2,\n../other.ts\n", "");
    let title = read("m.m3u8", &ranges).expect("a title");
    assert_eq!(title.tracks[0].renditions[0].bits_per_second, 1500 * 8 * 10 / 35);
}

#[test]
fn a_live_playlist_is_read_again_and_keeps_its_numbers() {
    let text = "#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n#EXT-X-MEDIA-SEQUENCE:731\r\n\
        #EXT-X-PROGRAM-DATE-TIME:2026-01-01T00:00:00Z\r\n#EXTINF:4.004,\r\na.ts\r\n#EXT-X-DISCONTINUITY\r\n\
        #EXTINF:3.003,\r\nb.ts\r\n";
    let segments = media(text).expect("a playlist");
    assert_eq!((segments.first_number, segments.list.len()), (731, 2));
    assert_eq!(segments.reload_after, Some(Duration::from_secs(4)));
    assert_eq!(times(&segments), [(0, 4004), (4004, 3003)]);
    let title = read("m.m3u8", text).expect("a title");
    assert_eq!(
        (title.duration, sources(&title.tracks[0].renditions[0])),
        (None, vec!["m.m3u8".into()])
    );
    // No segment is listed yet.
    assert_eq!(
        media("#EXTM3U\n#EXT-X-TARGETDURATION:0\n").map(|list| list.reload_after),
        Ok(Some(Duration::from_secs(1)))
    );
}

#[test]
fn a_live_playlist_says_where_viewers_begin_and_when_its_media_was_made() {
    let live = |tags: &str| {
        media(&format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n{tags}\n#EXTINF:4,\na.ts\n"))
            .expect("a playlist")
    };
    let before_end = |seconds: f64| Some(StartPoint::BeforeEnd(Duration::from_secs_f64(seconds)));
    assert_eq!(live("").entry, before_end(12.0));
    let control = "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,HOLD-BACK=13.5,PART-HOLD-BACK=1.0";
    assert_eq!(live(control).entry, before_end(13.5));
    assert_eq!(live(&format!("{control}\n#EXT-X-START:TIME-OFFSET=-20")).entry, before_end(20.0));
    let after = Some(StartPoint::AfterBegin(Duration::from_secs(5)));
    assert_eq!(live("#EXT-X-START:TIME-OFFSET=5,PRECISE=YES").entry, after);
    assert_eq!(live("#EXT-X-ENDLIST").entry, None);
    assert_eq!(live("#EXT-X-START:TIME-OFFSET=5\n#EXT-X-ENDLIST").entry, after);
    assert_eq!(
        live("#EXT-X-START:TIME-OFFSET=soon\n#EXT-X-SERVER-CONTROL:HOLD-BACK=x").entry,
        before_end(12.0)
    );
    let date = "#EXT-X-PROGRAM-DATE-TIME:1970-01-02T00:00:01.5Z";
    let clock = live(&format!("#EXTINF:4,\n0.ts\n{date}")).clock.expect("a date");
    assert_eq!((clock.at.as_secs(), clock.since_1970.as_millis()), (4, 86_401_500));
    let unreadable = "#EXTINF:4,\n1.ts\n#EXT-X-PROGRAM-DATE-TIME:soon";
    let still = live(&format!("#EXTINF:4,\n0.ts\n{date}\n{unreadable}"));
    assert_eq!((still.clock, live("").clock), (Some(clock), None));
}

#[test]
fn gaps_at_the_beginning_of_a_playlist_are_left_out() {
    let gap = "#EXT-X-GAP\n#EXTINF:2,\ngap.mp4\n";
    let text = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:3\n{gap}{gap}#EXTINF:2,\na.mp4\n"
    );
    let segments = media(&text).expect("a playlist");
    assert_eq!((segments.first_number, played(&segments)), (5, vec!["a.mp4".to_owned()]));
}

const MASTER: &str = "#EXTM3U\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"lo\",NAME=\"Deutsch\",URI=\"de.m3u8\"\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"lo\",NAME=\"English, main\",DEFAULT=YES,AUTOSELECT=YES,URI=\"en.m3u8\"\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"hi\",NAME=\"English\",URI=\"en-hi.m3u8\"\n\
    #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"s\",NAME=\"English\",URI=\"s.m3u8\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=3600000,CODECS=\"avc1.4d401f,mp4a.40.2\",RESOLUTION=1280x720,AUDIO=\"hi\"\nhigh.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=3500000,CODECS=\"avc1.4d401f,mp4a.40.2\",RESOLUTION=1280x720,AUDIO=\"lo\"\nhigh.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS=\"mp4a.40.2\",AUDIO=\"lo\"\nen.m3u8\n\
    #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=9000,URI=\"iframes.m3u8\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=900000,CODECS=\"avc1.4d401e,mp4a.40.2\",RESOLUTION=640x360,AUDIO=\"lo\"\n# a comment\nlow.m3u8\n";

#[test]
fn variants_become_a_ladder_and_each_group_of_sound_a_rendition() {
    let title = read("m.m3u8", MASTER).expect("a title");
    let [pictures, sound] = &title.tracks[..] else { panic!("{title:?}") };
    assert_eq!((pictures.kind, sound.kind), (TrackKind::Pictures, TrackKind::Sound));
    let rates: Vec<_> = pictures.renditions.iter().map(|one| one.bits_per_second).collect();
    assert_eq!(rates, [900_000, 3_500_000]);
    assert_eq!(sources(&pictures.renditions[1]), ["high.m3u8"]);
    let names: Vec<_> = sound.renditions.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(names, ["English, main", "English"]);
    assert_eq!(sources(&sound.renditions[0]), ["en.m3u8"]);
    assert_eq!(ids(&title), ["."]);
}

#[test]
fn one_kind_of_sound_is_played_of_several() {
    let media = |group: &str, channels: u32| {
        format!(
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{group}\",NAME=\"English\",DEFAULT=YES,CHANNELS=\"{channels}\",URI=\"{group}.m3u8\"\n"
        )
    };
    let variant = |rate: u32, codecs: &str, group: &str, file: &str| {
        format!(
            "#EXT-X-STREAM-INF:BANDWIDTH={rate},CODECS=\"{codecs}\",AUDIO=\"{group}\"\n{file}.m3u8\n"
        )
    };
    let same = media("same", 2).replace("same.m3u8", "aac.m3u8");
    let head = ["#EXTM3U\n", &media("aac", 2), &media("ac3", 6), &media("more", 6), &same].concat();
    let of = |lines: &[String]| read("m.m3u8", &(head.clone() + &lines.concat())).expect("a title");
    let title = of(&[
        variant(1000, "avc1.4d401e,mp4a.40.2", "aac", "low"),
        variant(2000, "avc1.4d401e,mp4a.40.2", "aac", "high"),
        variant(1500, "avc1.4d401e,ac-3", "ac3", "low"),
        variant(2500, "avc1.4d401e,ac-3", "ac3", "high"),
        variant(1400, "avc1.4d401e,mp4a.40.2", "more", "low"),
        variant(1450, "avc1.4d401e,mp4a.40.2", "same", "low"),
    ]);
    let [pictures, sound] = &title.tracks[..] else { panic!("{title:?}") };
    let files = |renditions: &[Rendition]| renditions.iter().flat_map(sources).collect::<Vec<_>>();
    assert_eq!(files(&pictures.renditions), ["low.m3u8", "high.m3u8"]);
    assert_eq!(files(&sound.renditions), ["aac.m3u8"]);
    let title = of(&[
        variant(1000, "mp4a.40.2", "aac", "aac"),
        variant(1500, "ac-3", "ac3", "ac3"),
        variant(1400, "mp4a.40.2", "more", "more"),
    ]);
    let [sound] = &title.tracks[..] else { panic!("{title:?}") };
    assert_eq!(files(&sound.renditions), ["aac.m3u8"]);
}

#[test]
fn sound_alone_is_a_title_too() {
    let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"a\",URI=\"a.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS=\"mp4a.40.2\",AUDIO=\"a\"\na.m3u8\n";
    let title = read("m.m3u8", text).expect("a title");
    let [sound] = &title.tracks[..] else { panic!("{title:?}") };
    assert_eq!(
        (sound.kind, sources(&sound.renditions[0])),
        (TrackKind::Sound, vec!["a.m3u8".into()])
    );
}

#[test]
fn variants_are_the_same_rendition_on_several_pathways() {
    let variant = |pathway: &str, stable: &str, rate: u32| {
        format!(
            "#EXT-X-STREAM-INF:BANDWIDTH={rate},STABLE-VARIANT-ID=\"{stable}\",PATHWAY-ID=\"{pathway}\",AUDIO=\"{pathway}-sound\"\n\
             https://{pathway}.example/{stable}.m3u8\n"
        )
    };
    let sound = |pathway: &str| {
        format!(
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{pathway}-sound\",NAME=\"x\",STABLE-RENDITION-ID=\"en\",URI=\"https://{pathway}.example/en.m3u8\"\n"
        )
    };
    let text = format!(
        "#EXTM3U\n#EXT-X-CONTENT-STEERING:SERVER-URI=\"/steer?s=1\",PATHWAY-ID=\"b\"\n{}{}{}{}{}",
        sound("a"),
        sound("b"),
        variant("b", "v1", 1000),
        variant("a", "v2", 2000),
        variant("a", "v1", 1001)
    );
    let title = read("m.m3u8", &text).expect("a title");
    assert_eq!(ids(&title), ["b", "a"]);
    let [pictures, sounds] = &title.tracks[..] else { panic!("{title:?}") };
    let [low, high] = &pictures.renditions[..] else { panic!("{title:?}") };
    assert_eq!((low.id.as_str(), high.id.as_str()), ("v1", "v2"));
    assert_eq!(sources(low), ["https://b.example/v1.m3u8", "https://a.example/v1.m3u8"]);
    assert_eq!(sources(high), ["absent", "https://a.example/v2.m3u8"]);
    assert_eq!(
        sources(&sounds.renditions[0]),
        ["https://b.example/en.m3u8", "https://a.example/en.m3u8"]
    );
    let steering = title.steering.expect("a steering server");
    assert_eq!(steering.url.to_string(), "https://h:1/steer?s=1");
    assert_eq!((steering.first.as_deref(), steering.before_start), (Some("b"), false));
}

#[test]
fn redundant_streams_are_pathways() {
    let text = "#EXTM3U\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1000,RESOLUTION=2x2\na/1.m3u8\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1000,RESOLUTION=2x2\nb/1.m3u8\n\
        #EXT-X-STREAM-INF:BANDWIDTH=2000,RESOLUTION=2x2\na/2.m3u8\n\
        #EXT-X-STREAM-INF:BANDWIDTH=2000,RESOLUTION=2x2\nb/2.m3u8\n";
    let title = read("m.m3u8", text).expect("a title");
    assert_eq!(ids(&title), [".", ".."]);
    let renditions = &title.tracks[0].renditions;
    assert_eq!(sources(&renditions[0]), ["a/1.m3u8", "b/1.m3u8"]);
    assert_eq!(sources(&renditions[1]), ["a/2.m3u8", "b/2.m3u8"]);
}

#[test]
fn a_steering_server_that_cannot_be_asked_is_left_out() {
    for server in ["", "SERVER-URI=\"ftp://x/\"", "SERVER-URI=\"data:application/json,{}\""] {
        let text = format!(
            "#EXTM3U\n#EXT-X-CONTENT-STEERING:{server}\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n"
        );
        assert_eq!(read("m.m3u8", &text).map(|title| title.steering), Ok(None), "{server}");
    }
}

#[test]
fn a_ladder_has_one_codec_and_one_range_the_first_ones() {
    let variant = |rate: u64, said: &str, uri: &str| {
        format!("#EXT-X-STREAM-INF:BANDWIDTH={rate},{said}\n{uri}\n")
    };
    let text = [
        "#EXTM3U\n".to_owned(),
        variant(2000, "CODECS=\"avc1.64001f,mp4a.40.2\"", "2.m3u8"),
        variant(1500, "CODECS=\"hvc1.2.4.L123,mp4a.40.2\"", "hevc.m3u8"),
        variant(1000, "CODECS=\"mp4a.40.2,avc3.42c01e\",VIDEO-RANGE=SDR", "1.m3u8"),
        variant(4000, "CODECS=\"avc1.64001f\",VIDEO-RANGE=PQ", "hdr.m3u8"),
        variant(3000, "RESOLUTION=1280x720", "3.m3u8"),
    ]
    .concat();
    let title = read("m.m3u8", &text).expect("a title");
    let rates: Vec<_> = title.tracks[0].renditions.iter().map(|one| one.bits_per_second).collect();
    assert_eq!(rates, [1000, 2000, 3000]);
}
