//! Titles as a player of the load generator plays them. The tests for reading manifests are in `player`.

use super::*;
use std::collections::HashMap;

/// A server's documents by URL; whole, or the requested range.
#[derive(Default)]
struct Table(HashMap<String, Vec<u8>>);

impl Library for Table {
    fn bring(&mut self, reference: &Reference) -> Result<Vec<u8>, TitleError> {
        let url = reference.url.to_string();
        let document = self.0.get(&url).ok_or(TitleError::Fetch(url, "not in the table".into()))?;
        Ok(match &reference.range {
            Some(range) => document[range.start as usize..range.end as usize].to_vec(),
            None => document.clone(),
        })
    }
}

/// The requests for the manifest `text` at `path`, among `others`.
fn play(
    path: &str,
    text: &str,
    rung: Option<usize>,
    others: &[(&str, &[u8])],
) -> Result<Vec<String>, TitleError> {
    let url: Url = format!("https://h:1/title/{path}").parse().expect("a URL");
    let mut table = Table::default();
    table.0.insert(url.to_string(), text.as_bytes().to_vec());
    for (path, document) in others {
        table.0.insert(format!("https://h:1/title/{path}"), document.to_vec());
    }
    let show = |ask: Ask| match ask.range {
        Some(range) => format!("{} {}-{}", ask.path, range.start, range.end),
        None => ask.path,
    };
    Ok(segments(&mut table, &url, rung)?.into_iter().map(show).collect())
}

const MASTER: &str = "#EXTM3U\n\
    #EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=640x360\nlow/media.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=3600000,RESOLUTION=1280x720\nhigh/media.m3u8\n";

const MEDIA: &str = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:2\n\
    #EXT-X-MAP:URI=\"film.mp4\",BYTERANGE=\"800@0\"\n\
    #EXTINF:2.0,\n#EXT-X-BYTERANGE:1000@800\nfilm.mp4\n\
    #EXTINF:2.0,\n#EXT-X-BYTERANGE:500\nfilm.mp4\n\
    #EXT-X-MAP:URI=\"other.mp4\"\n#EXTINF:2.0,\n../other.ts\n#EXT-X-ENDLIST\n";

#[test]
fn an_hls_title_is_its_highest_variant_or_the_one_asked_for() {
    let others: [(&str, &[u8]); 2] = [
        ("high/media.m3u8", MEDIA.as_bytes()),
        ("low/media.m3u8", b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\na.ts\n#EXT-X-ENDLIST\n"),
    ];
    let high = [
        "/title/high/film.mp4 0-800",
        "/title/high/film.mp4 800-1800",
        "/title/high/film.mp4 1800-2300",
        "/title/high/other.mp4",
        "/title/other.ts",
    ];
    assert_eq!(play("m.m3u8", MASTER, None, &others).expect("it plays"), high);
    assert_eq!(play("m.m3u8", MASTER, Some(1), &others).expect("it plays"), ["/title/low/a.ts"]);
    let missing = play("m.m3u8", MASTER, Some(3), &others);
    assert_eq!(missing, Err(TitleError::NoRung { rung: 3, count: 2 }));
}

#[test]
fn references_to_other_servers_are_refused() {
    let elsewhere = MEDIA.replace("../other.ts", "https://elsewhere/other.ts");
    assert!(matches!(play("m.m3u8", &elsewhere, None, &[]), Err(TitleError::Elsewhere(_))));
    let elsewhere = MASTER.replace("high/", "//elsewhere/high/");
    assert!(matches!(play("m.m3u8", &elsewhere, None, &[]), Err(TitleError::Elsewhere(_))));
    let file = MEDIA.replace("../other.ts", "file:///etc/passwd");
    assert!(matches!(
        play("m.m3u8", &file, None, &[]),
        Err(TitleError::Manifest(ManifestError::Malformed(_)))
    ));
}

#[test]
fn of_several_pathways_the_manifests_own_server_is_played() {
    let master = "#EXTM3U\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,PATHWAY-ID=\"a\"\nhttps://elsewhere/v.m3u8\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,PATHWAY-ID=\"b\"\nv.m3u8\n";
    let media = b"#EXTM3U\n#EXTINF:2,\na.ts\n#EXT-X-ENDLIST\n";
    let played = play("m.m3u8", master, None, &[("v.m3u8", media)]);
    assert_eq!(played.expect("it plays"), ["/title/a.ts"]);
}

#[test]
fn what_is_no_manifest_or_leads_on_ends_in_an_error() {
    let leads_on = play("m.m3u8", MASTER, None, &[("high/media.m3u8", MASTER.as_bytes())]);
    assert_eq!(leads_on, Err(ManifestError::TooDeep.into()));
    let neither = play("m.m3u8", "\0\0\0\x20ftyp", None, &[]).expect_err("no manifest");
    assert!(neither.to_string().contains("; for plain files use another --pattern"), "{neither}");
    assert_eq!(play("m.m3u8", "#EXTM3U\n", None, &[]), Err(ManifestError::Empty.into()));
    assert!(matches!(play("m.m3u8", MASTER, None, &[]), Err(TitleError::Fetch(..))));
}

fn mpd(segments: &str) -> String {
    format!(
        "<MPD type=\"static\" mediaPresentationDuration=\"PT9.5S\"><Period>\
         <AdaptationSet contentType=\"audio\"><Representation id=\"a\" bandwidth=\"9999999\">{segments}</Representation></AdaptationSet>\
         <AdaptationSet contentType=\"video\">\
         <Representation id=\"v2\" bandwidth=\"2000\"><BaseURL>two/</BaseURL>{segments}</Representation>\
         <Representation id=\"v1\" bandwidth=\"1000\"><BaseURL>one/</BaseURL>{segments}</Representation>\
         </AdaptationSet></Period></MPD>"
    )
}

#[test]
fn a_dash_title_is_its_highest_pictures_or_those_asked_for() {
    let text = mpd("<SegmentTemplate duration=\"5\" initialization=\"i.mp4\" media=\"$Number$\"/>");
    let high = ["/title/two/i.mp4", "/title/two/1", "/title/two/2"];
    assert_eq!(play("m.mpd", &text, None, &[]).expect("it plays"), high);
    assert_eq!(play("m.mpd", &text, Some(1), &[]).expect("it plays")[1], "/title/one/1");
    let elsewhere = text.replace("two/", "//elsewhere/two/");
    assert!(matches!(play("m.mpd", &elsewhere, None, &[]), Err(TitleError::Elsewhere(_))));
}

#[test]
fn a_live_dash_stream_is_refused() {
    let live = "<MPD type=\"dynamic\" minimumUpdatePeriod=\"PT2S\"><Period><AdaptationSet contentType=\"video\">\
        <Representation id=\"v\" bandwidth=\"1\"><SegmentTemplate media=\"$Time$\"><SegmentTimeline>\
        <S d=\"5\"/></SegmentTimeline></SegmentTemplate></Representation></AdaptationSet></Period></MPD>";
    let refused = play("m.mpd", live, None, &[]).expect_err("it is live");
    assert!(refused.to_string().starts_with("a live stream"), "{refused}");
    assert!(play("m.mpd", &live.replace("dynamic", "static"), None, &[]).is_ok());
}

#[test]
fn a_dash_index_is_fetched_out_of_the_file() {
    let text =
        mpd("<SegmentBase indexRange=\"100-143\"><Initialization range=\"0-99\"/></SegmentBase>");
    let mut file = vec![0; 100];
    // One segment of 1,000 bytes: size, name, version, id, timescale, earliest, offset, count; then the segment.
    for word in [44, u32::from_be_bytes(*b"sidx"), 0, 0, 1, 0, 0, 1, 1000, 5, 0] {
        file.extend(word.to_be_bytes());
    }
    let played = play("m.mpd", &text, None, &[("two/", &file)]).expect("it plays");
    assert_eq!(played, ["/title/two/ 0-100", "/title/two/ 144-1144"]);
}
