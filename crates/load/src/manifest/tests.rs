//! Manifests as packagers write them, and as an attacker would.

use super::*;
use std::collections::HashMap;

/// A server's documents by URL; whole, or the requested range.
#[derive(Default)]
struct Table(HashMap<String, Vec<u8>>);

impl Source for Table {
    fn bring(&mut self, reference: &Reference) -> Result<Vec<u8>, ManifestError> {
        let url = reference.url.to_string();
        let document =
            self.0.get(&url).ok_or(ManifestError::Fetch(url, "not in the table".into()))?;
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
) -> Result<Vec<String>, ManifestError> {
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
    #EXTINF:2.0,\n../other.ts\n#EXT-X-ENDLIST\n";

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
        "/title/other.ts",
    ];
    assert_eq!(play("m.m3u8", MASTER, None, &others).expect("it plays"), high);
    assert_eq!(play("m.m3u8", MASTER, Some(1), &others).expect("it plays"), ["/title/low/a.ts"]);
    let missing = play("m.m3u8", MASTER, Some(3), &others);
    assert_eq!(missing, Err(ManifestError::NoRung { rung: 3, count: 2 }));
}

#[test]
fn hostile_playlists_end_in_an_error() {
    let leads_on = play("m.m3u8", MASTER, None, &[("high/media.m3u8", MASTER.as_bytes())]);
    assert_eq!(leads_on, Err(ManifestError::TooDeep));
    let elsewhere = MEDIA.replace("../other.ts", "https://elsewhere/other.ts");
    assert!(matches!(play("m.m3u8", &elsewhere, None, &[]), Err(ManifestError::Elsewhere(_))));
    let elsewhere = MASTER.replace("high/", "//elsewhere/high/");
    assert!(matches!(play("m.m3u8", &elsewhere, None, &[]), Err(ManifestError::Elsewhere(_))));
    let file = MEDIA.replace("../other.ts", "file:///etc/passwd");
    assert!(matches!(play("m.m3u8", &file, None, &[]), Err(ManifestError::Malformed(_))));
    let far = MEDIA.replace("1000@800", "1000@18446744073709551615");
    assert_eq!(play("m.m3u8", &far, None, &[]), Err(ManifestError::Range));
    let long = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n{}",
        "#EXTINF:1,\na.ts\n".repeat(SEGMENTS_MAX + 1)
    );
    assert_eq!(play("m.m3u8", &long, None, &[]), Err(ManifestError::TooMany));
    assert!(play("m.m3u8", "#EXTM3U\n", None, &[]).is_err());
    assert_eq!(play("m.m3u8", "<html>", None, &[]).map_err(|_| ()), Err(()));
    assert_eq!(play("m.m3u8", "\0\0\0\x20ftyp", None, &[]), Err(ManifestError::Neither));
}

fn mpd(segments: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" \
         mediaPresentationDuration=\"PT9.5S\"><BaseURL>media/</BaseURL><Period>\
         <AdaptationSet contentType=\"audio\"><Representation id=\"a\" bandwidth=\"9999999\">{segments}</Representation></AdaptationSet>\
         <AdaptationSet contentType=\"video\">\
         <Representation id=\"v2\" bandwidth=\"2000\"><BaseURL>two/</BaseURL>{segments}</Representation>\
         <Representation id=\"v1\" bandwidth=\"1000\"><BaseURL>one/</BaseURL>{segments}</Representation>\
         </AdaptationSet></Period></MPD>"
    )
}

#[test]
fn a_dash_template_with_a_duration_counts_segments_to_the_end_of_the_period() {
    let text = mpd("<SegmentTemplate timescale=\"1000\" duration=\"2000\" startNumber=\"5\" \
         initialization=\"$RepresentationID$-init.mp4\" media=\"$RepresentationID$-$Number%03d$-$Bandwidth$.m4s\"/>");
    let played = play("m.mpd", &text, None, &[]).expect("it plays");
    assert_eq!(played[0], "/title/media/two/v2-init.mp4");
    assert_eq!(played[1], "/title/media/two/v2-005-2000.m4s");
    assert_eq!((played.len(), played[5].as_str()), (6, "/title/media/two/v2-009-2000.m4s"));
    assert!(
        play("m.mpd", &text, Some(1), &[]).expect("it plays")[1].ends_with("one/v1-005-1000.m4s")
    );
}

#[test]
fn a_dash_timeline_gives_each_segments_start() {
    let text = mpd(
        "<SegmentTemplate timescale=\"10\" media=\"$Time$-$Number$.m4s\"><SegmentTimeline>\
         <S t=\"100\" d=\"20\" r=\"1\"/><S d=\"5\"/><S t=\"150\" d=\"10\" r=\"-1\"/><S t=\"175\" d=\"1\"/>\
         </SegmentTimeline></SegmentTemplate>",
    );
    let played = play("m.mpd", &text, None, &[]).expect("it plays");
    let names: Vec<_> = played.iter().filter_map(|path| path.rsplit('/').next()).collect();
    assert_eq!(
        names,
        ["100-1.m4s", "120-2.m4s", "140-3.m4s", "150-4.m4s", "160-5.m4s", "170-6.m4s", "175-7.m4s"]
    );
}

#[test]
fn a_dash_list_names_files_or_ranges() {
    let text =
        mpd("<SegmentList><Initialization range=\"0-799\"/><SegmentURL mediaRange=\"800-999\"/>\
         <SegmentURL media=\"b.m4s\"/></SegmentList>");
    let played = play("m.mpd", &text, None, &[]).expect("it plays");
    assert_eq!(
        played,
        ["/title/media/two/ 0-800", "/title/media/two/ 800-1000", "/title/media/two/b.m4s"]
    );
}

/// A segment index of version 0 with these sizes.
fn sidx(sizes: &[u32]) -> Vec<u8> {
    let mut bytes = (32 + 12 * sizes.len() as u32).to_be_bytes().to_vec();
    bytes.extend(b"sidx");
    bytes.extend([0; 4 + 4 + 4 + 4 + 4 + 2]);
    bytes.extend((sizes.len() as u16).to_be_bytes());
    for size in sizes {
        bytes.extend(size.to_be_bytes());
        bytes.extend([0; 8]);
    }
    bytes
}

#[test]
fn a_dash_index_is_read_out_of_the_file() {
    let base = "<SegmentBase indexRange=\"100-155\"><Initialization range=\"0-99\"/></SegmentBase>";
    let mut file = vec![0; 100];
    file.extend(sidx(&[1000, 500]));
    let played = play("m.mpd", &mpd(base), None, &[("media/two/", &file)]).expect("it plays");
    assert_eq!(
        played,
        ["/title/media/two/ 0-100", "/title/media/two/ 156-1156", "/title/media/two/ 1156-1656"]
    );
}

#[test]
fn hostile_indexes_end_in_an_error() {
    assert!(index::segments(&[], 0).is_err());
    assert!(index::segments(b"\0\0\0\x20ftyp", 0).is_err());
    let whole = sidx(&[1000, 500]);
    for cut in 0..whole.len() {
        assert!(index::segments(&whole[..cut], 0).is_err(), "{cut}");
    }
    assert!(index::segments(&sidx(&[1 << 31]), 0).is_err());
    assert!(index::segments(&sidx(&[0]), 0).is_err());
    assert_eq!(index::segments(&whole, u64::MAX), Err(ManifestError::Range));
    // The index claims more entries than follow.
    let mut lies = whole.clone();
    lies[30..32].copy_from_slice(&u16::MAX.to_be_bytes());
    assert!(index::segments(&lies, 0).is_err());
}

#[test]
fn hostile_dash_manifests_end_in_an_error() {
    let fails = |segments: &str| play("m.mpd", &mpd(segments), None, &[]).expect_err(segments);
    let template = |attributes: &str| format!("<SegmentTemplate media=\"$Number$\" {attributes}/>");
    assert_eq!(fails(&template("duration=\"1\" timescale=\"4000000000\"")), ManifestError::TooMany);
    let timeline = |entry: &str| {
        format!(
            "<SegmentTemplate media=\"$Time$\"><SegmentTimeline>{entry}</SegmentTimeline></SegmentTemplate>"
        )
    };
    assert_eq!(fails(&timeline("<S d=\"1\" r=\"18446744073709551615\"/>")), ManifestError::TooMany);
    assert_eq!(fails(&timeline("<S t=\"18446744073709551615\" d=\"1\"/>")), ManifestError::Range);
    for segments in [
        template(""),
        template("duration=\"x\""),
        template("duration=\"2\" startNumber=\"18446744073709551615\""),
        timeline("<S d=\"0\" r=\"5\"/>"),
        "<SegmentTemplate duration=\"2\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"$Number%099d$\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"$Number\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"$Secret$\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"https://elsewhere/$Number$\"/>".into(),
        "<SegmentList><SegmentURL mediaRange=\"9-1\"/></SegmentList>".into(),
        "<SegmentList><SegmentURL mediaRange=\"0-18446744073709551615\"/></SegmentList>".into(),
        "<SegmentList/>".into(),
        "<SegmentBase indexRange=\"7\"/>".into(),
    ] {
        fails(&segments);
    }
    let live = mpd("").replace("static", "dynamic");
    assert!(matches!(play("m.mpd", &live, None, &[]), Err(ManifestError::Unsupported(_))));
    // Entities that double with each level need a document type, which is refused.
    let bomb = "<!DOCTYPE MPD [<!ENTITY a \"aa\"><!ENTITY b \"&a;&a;\">]><MPD>&b;</MPD>";
    assert!(matches!(play("m.mpd", bomb, None, &[]), Err(ManifestError::Malformed(_))));
    assert!(play("m.mpd", "<MPD/>", None, &[]).is_err());
    assert!(play("m.mpd", "<MPD", None, &[]).is_err());
    let deep = format!("<MPD>{}{}</MPD>", "<a>".repeat(400_000), "</a>".repeat(400_000));
    assert!(play("m.mpd", &deep, None, &[]).is_err());
}

#[test]
fn iso_8601_durations_are_read_in_seconds() {
    assert_eq!(dash::seconds("PT1H2M3.5S"), Some(3723.5));
    assert_eq!(dash::seconds("P1DT1S"), Some(86_401.0));
    assert_eq!(dash::seconds("PT9.5S"), Some(9.5));
    for text in ["", "P", "9S", "PT-1S", "PTinfS", "P1Y", "PT1X", "PT1"] {
        assert!(!dash::seconds(text).is_some_and(|seconds| seconds > 0.0), "{text}");
    }
}
