//! Expensive input: each case ends in an error, at once.

use super::dash::mpd;
use super::*;

fn malformed(error: ManifestError) -> bool {
    matches!(error, ManifestError::Malformed(_))
}

#[test]
fn hostile_playlists_end_in_an_error() {
    let media = |line: &str| format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{line}\n#EXT-X-ENDLIST\n");
    for (line, error) in [
        ("#EXTINF:1,\n#EXT-X-BYTERANGE:1@18446744073709551615\na", ManifestError::Range),
        ("#EXTINF:1,\n#EXT-X-BYTERANGE:0@5\na", ManifestError::Range),
        ("#EXTINF:1,\n#EXT-X-BYTERANGE:-1\na", ManifestError::Range),
        ("#EXTINF:4294967296,\na\n#EXTINF:1,\na\n#EXTINF:1,\na", ManifestError::Bound("hours")),
        ("#EXT-X-STREAM-INF:BANDWIDTH=1\na", ManifestError::TooDeep),
        ("", ManifestError::Empty),
    ] {
        assert_eq!(refusal("m.m3u8", &media(line)), error, "{line}");
    }
    for line in [
        "a",
        "#EXTINF:x,\na",
        "#EXTINF:-1,\na",
        "#EXTINF:inf,\na",
        "#EXTINF:1e300,\na",
        "#EXT-X-MAP:BYTERANGE=\"1@0\"",
        "#EXT-X-MEDIA-SEQUENCE:-1",
        "#EXTINF:1,\nfile:///etc/passwd",
    ] {
        assert!(malformed(refusal("m.m3u8", &media(line))), "{line}");
    }
    let long = media(&"#EXTINF:1,\na.ts\n".repeat(SEGMENTS_MAX + 1));
    assert_eq!(refusal("m.m3u8", &long), ManifestError::TooMany);
    assert_eq!(refusal("m.m3u8", "#EXTM3U\n"), ManifestError::Empty);
    assert_eq!(refusal("m.m3u8", "\0\0\0\x20ftyp"), ManifestError::Neither);
    assert_eq!(refusal("m.m3u8", &" ".repeat(DOCUMENT_BYTES_MAX + 1)), ManifestError::TooLong);
    assert_eq!(Presentation::parse(&url("m"), b"\xff\xfe"), Err(ManifestError::NotText));
}

#[test]
fn a_playlist_takes_bounded_memory_however_long_its_urls() {
    let base = url(&"a".repeat(8000)).resolve("?q").expect("a URL");
    let media = format!("#EXTM3U\n{}#EXT-X-ENDLIST\n", "#EXTINF:1,\n?q\n".repeat(SEGMENTS_MAX));
    let refused = Presentation::parse(&base, media.as_bytes());
    assert_eq!(refused, Err(ManifestError::Bound("bytes in its list of segments")));
}

#[test]
fn hostile_multivariant_playlists_end_in_an_error() {
    let variants = |count: u32, line: fn(u32) -> String| {
        "#EXTM3U\n".to_owned() + &(0..count).map(line).collect::<String>()
    };
    let rates = |n| format!("#EXT-X-STREAM-INF:BANDWIDTH={}\n{n}.m3u8\n", n + 1);
    assert!(read("m.m3u8", &variants(100, rates)).is_ok());
    assert_eq!(refusal("m.m3u8", &variants(101, rates)), ManifestError::Bound("renditions"));
    let pathways =
        |n| format!("#EXT-X-STREAM-INF:BANDWIDTH=1,PATHWAY-ID=\"{n}\"\nhttps://{n}.example/\n");
    assert!(read("m.m3u8", &variants(16, pathways)).is_ok());
    assert_eq!(refusal("m.m3u8", &variants(17, pathways)), ManifestError::Bound("pathways"));
    let redundant = |n| format!("#EXT-X-STREAM-INF:BANDWIDTH=1\n{n}.m3u8\n");
    assert_eq!(refusal("m.m3u8", &variants(17, redundant)), ManifestError::Bound("pathways"));
    assert_eq!(refusal("m.m3u8", &variants(5000, rates)), ManifestError::Bound("variants"));
    for line in ["#EXT-X-STREAM-INF:\na", "#EXT-X-STREAM-INF:BANDWIDTH=x\na"] {
        assert!(malformed(refusal("m.m3u8", &format!("#EXTM3U\n{line}\n"))), "{line}");
    }
    // A variant without a URI after it does not count, nor does a URI without a variant before it.
    let lone = "#EXTM3U\na\n#EXT-X-STREAM-INF:BANDWIDTH=1\n";
    assert_eq!(refusal("m.m3u8", lone), ManifestError::Empty);
    let variable =
        "#EXTM3U\n#EXT-X-DEFINE:NAME=\"a\",VALUE=\"b\"\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{$a}\n";
    assert!(matches!(refusal("m.m3u8", variable), ManifestError::Unsupported(_)));
}

#[test]
fn lines_without_values_take_linear_time() {
    for line in [
        "#EXT-X-STREAM-INF:x\n",
        "#EXT-X-MEDIA:TYPE\n",
        "#EXTINF\n",
        "#\n",
        "\"\n",
        "#EXT-X-MAP:=\n",
    ] {
        let text = "#EXTM3U\n".to_owned() + &line.repeat(DOCUMENT_BYTES_MAX / line.len() - 1);
        assert!(read("m.m3u8", &text).is_err(), "{line}");
    }
}

#[test]
fn hostile_dash_manifests_end_in_an_error() {
    let fails = |segments: &str| refusal("m.mpd", &mpd(segments));
    let template = |attributes: &str| format!("<SegmentTemplate media=\"$Number$\" {attributes}/>");
    assert_eq!(fails(&template("duration=\"1\" timescale=\"4000000000\"")), ManifestError::TooMany);
    let timeline = |entry: &str| {
        format!(
            "<SegmentTemplate media=\"$Time$\"><SegmentTimeline>{entry}</SegmentTimeline></SegmentTemplate>"
        )
    };
    assert_eq!(fails(&timeline("<S d=\"1\" r=\"18446744073709551615\"/>")), ManifestError::TooMany);
    assert_eq!(fails(&timeline("<S t=\"18446744073709551615\" d=\"1\"/>")), ManifestError::Range);
    assert_eq!(fails(&timeline("<S t=\"99999999999\" d=\"1\"/>")), ManifestError::Bound("hours"));
    for segments in [
        template(""),
        template("duration=\"x\""),
        template("duration=\"2\" startNumber=\"18446744073709551615\""),
        template("duration=\"2\" presentationTimeOffset=\"18446744073709551615\""),
        timeline("<S d=\"0\" r=\"5\"/>"),
        timeline("<S d=\"1\" r=\"x\"/>"),
        "<SegmentTemplate duration=\"2\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"$Number%099d$\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"$Number\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"$Secret$\"/>".into(),
        "<SegmentTemplate duration=\"2\" media=\"ftp://elsewhere/$Number$\"/>".into(),
        "<SegmentList><SegmentURL mediaRange=\"9-1\"/></SegmentList>".into(),
        "<SegmentList><SegmentURL mediaRange=\"0-18446744073709551615\"/></SegmentList>".into(),
        "<SegmentList/>".into(),
        "<SegmentBase indexRange=\"7\"/>".into(),
    ] {
        fails(&segments);
    }
    // Entities that double with each level need a document type, which is refused.
    let bomb = "<!DOCTYPE MPD [<!ENTITY a \"aa\"><!ENTITY b \"&a;&a;\">]><MPD>&b;</MPD>";
    assert!(malformed(refusal("m.mpd", bomb)));
    assert!(malformed(refusal("m.mpd", "<MPD")));
    assert_eq!(refusal("m.mpd", "<MPD/>"), ManifestError::Empty);
    assert_eq!(refusal("m.mpd", "<html/>"), ManifestError::Neither);
    let deep = format!("<MPD>{}{}</MPD>", "<a>".repeat(400_000), "</a>".repeat(400_000));
    assert!(read("m.mpd", &deep).is_err());
}

#[test]
fn what_the_xml_parser_is_slow_at_is_refused_before_it_is_asked() {
    let attributes: String = (0..300).map(|n| format!(" a{n}=\"\"")).collect();
    assert_eq!(
        refusal("m.mpd", &format!("<MPD{attributes}/>")),
        ManifestError::Bound("attributes")
    );
    // A character that would end a tag elsewhere does not end one inside a value.
    let quoted = format!("<MPD x=\">\"{attributes}/>");
    assert_eq!(refusal("m.mpd", &quoted), ManifestError::Bound("attributes"));
    let comment = format!("<!--{}-->", "=".repeat(300));
    assert_eq!(refusal("m.mpd", &format!("{comment}<MPD/>")), ManifestError::Empty);
    let nested: String = (0..3000).map(|n| format!("<a xmlns:n{n}=\"u{n}\">")).collect();
    assert_eq!(refusal("m.mpd", &format!("<MPD>{nested}")), ManifestError::Bound("namespaces"));
}

/// A manifest of a few kilobytes that names a hundred million segments.
#[test]
fn a_small_manifest_cannot_list_without_end() {
    let bases: String = (0..16)
        .map(|n| format!("<BaseURL serviceLocation=\"{n}\">https://{n}.example/</BaseURL>"))
        .collect();
    let representations: String =
        (0..100).map(|n| format!("<Representation id=\"{n}\" bandwidth=\"{n}\"/>")).collect();
    let manifest = |media: &str, duration: &str| {
        format!(
            "<MPD mediaPresentationDuration=\"PT86400S\">{bases}<Period><AdaptationSet contentType=\"video\">\
             <SegmentTemplate media=\"{media}\" duration=\"{duration}\"/>{representations}</AdaptationSet></Period></MPD>"
        )
    };
    assert!(read("m.mpd", &manifest("$Number$", "6000")).is_ok());
    let bound = ManifestError::Bound("bytes in its list of segments");
    assert_eq!(refusal("m.mpd", &manifest("$Number$", "1")), bound);
    assert_eq!(refusal("m.mpd", &manifest(&format!("{}$Number$", "x".repeat(8000)), "60")), bound);
}

#[test]
fn counts_of_elements_are_bounded() {
    let set = |inner: &str| format!("<AdaptationSet contentType=\"video\">{inner}</AdaptationSet>");
    let manifest =
        |periods: &str| format!("<MPD mediaPresentationDuration=\"PT9S\">{periods}</MPD>");
    let many = |element: &str, count: usize| element.repeat(count);
    let renditions = many("<Representation bandwidth=\"1\"/>", 101);
    let text = manifest(&format!("<Period>{}</Period>", set(&renditions)));
    assert_eq!(refusal("m.mpd", &text), ManifestError::Bound("renditions"));
    let periods = many("<Period duration=\"PT1S\"/>", 2001);
    assert_eq!(refusal("m.mpd", &manifest(&periods)), ManifestError::Bound("periods"));
    let bases: String = (0..17).map(|n| format!("<BaseURL>{n}/</BaseURL>")).collect();
    let text = manifest(&format!("{bases}<Period>{}</Period>", set("<Representation/>")));
    assert_eq!(refusal("m.mpd", &text), ManifestError::Bound("pathways"));
    // Periods in which nothing plays have a cost too.
    let representations: String =
        (0..100).map(|n| format!("<Representation id=\"{n}\"/>")).collect();
    let idle = format!("<Period>{}</Period>", set(&format!("<SegmentList/>{representations}")));
    let bases: String = (0..16).map(|n| format!("<BaseURL>{n}/</BaseURL>")).collect();
    let file = idle.replace("<SegmentList/>", "").replace("<Period>", "<Period duration=\"PT1S\">");
    let text = format!("<MPD>{bases}{file}{}</MPD>", many(&idle, 1999));
    assert_eq!(refusal("m.mpd", &text), ManifestError::Bound("bytes in its list of segments"));
}
