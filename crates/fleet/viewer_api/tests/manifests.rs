//! Manifests with pathways, parsed by our player, by m3u8-rs and by an XML parser.

use fullbore_viewer_api::manifest::{
    DOCUMENT_BYTES_MAX, DocumentError, ManifestKind, ManifestTemplate, NodeAddress,
};
use player::{Answer, Format, PathwayClone, Presentation, Source, TrackKind, Url};

const INGEST_HLS: &str =
    include_str!("../../../measure/player/tests/manifests/samples/ingest-master.m3u8");
const INGEST_DASH: &str =
    include_str!("../../../measure/player/tests/manifests/samples/ingest.mpd");
const BENTO_HLS: &str =
    include_str!("../../../measure/player/tests/manifests/samples/bento4-master.m3u8");
const STEERING: &str = "http://gateway.example:8700/steering/hls?s=1.7.node-1_node-2.00.a%20film";

fn template(kind: ManifestKind, text: &str) -> ManifestTemplate {
    ManifestTemplate::parse(kind, text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn nodes() -> Vec<NodeAddress<'static>> {
    let one = |id: &'static str, host: &str| NodeAddress {
        id,
        folder: format!("https://{host}:8443/t/1.ab.k.1/a%20film/"),
    };
    vec![one("node-1", "one.example"), one("node-2", "[2001:db8::2]"), one("node-3", "192.0.2.3")]
}

fn written(kind: ManifestKind, text: &str) -> String {
    template(kind, text).write(&nodes(), STEERING)
}

fn read(text: &str) -> Presentation {
    let url: Url = "http://gateway.example:8700/play/a%20film/manifest".parse().expect("a URL");
    Presentation::parse(&url, text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn pathways(presentation: &Presentation) -> Vec<&str> {
    presentation.pathways.iter().map(|pathway| pathway.id.as_str()).collect()
}

/// The first URLs of a rendition's sources, by pathway.
fn first_urls(presentation: &Presentation, track: usize, rendition: usize) -> Vec<String> {
    let sources = &presentation.tracks[track].renditions[rendition].sources;
    let url = |source: &Source| source.document().expect("a document").url.to_string();
    sources.iter().map(url).collect()
}

fn check(presentation: &Presentation, file_of: [&str; 2]) {
    assert_eq!(pathways(presentation), ["node-1", "node-2", "node-3"]);
    let steering = presentation.steering.as_ref().expect("a steering server");
    assert_eq!(steering.url.to_string(), STEERING);
    assert_eq!((steering.first.as_deref(), steering.before_start), (Some("node-1"), false));
    let kinds: Vec<_> = presentation.tracks.iter().map(|track| track.kind).collect();
    assert_eq!(kinds, [TrackKind::Pictures, TrackKind::Sound]);
    for (track, file) in file_of.iter().enumerate() {
        let hosts = ["one.example", "[2001:db8::2]", "192.0.2.3"];
        let expected = hosts
            .map(|host| format!("https://{host}:8443/t/1.ab.k.1/a%20film/v-8373df639e6c/{file}"));
        assert_eq!(first_urls(presentation, track, 0), expected);
    }
}

#[test]
fn a_playlist_of_ingest_gets_three_pathways() {
    let presentation = read(&written(ManifestKind::Hls, INGEST_HLS));
    assert_eq!(presentation.format, Format::Hls);
    check(&presentation, ["video-240.m3u8", "audio-1-und.m3u8"]);
    let rungs: Vec<_> = presentation.tracks[0].renditions.iter().map(|one| &one.id).collect();
    assert_eq!(rungs, ["v-8373df639e6c/video-240", "v-8373df639e6c/video-360"]);
}

#[test]
fn a_dash_manifest_of_ingest_gets_three_service_locations() {
    let presentation = read(&written(ManifestKind::Dash, INGEST_DASH));
    assert_eq!(presentation.format, Format::Dash);
    check(&presentation, ["video-240.mp4", "audio-1-und.mp4"]);
}

#[test]
fn one_node_is_enough() {
    for (kind, text) in [(ManifestKind::Hls, INGEST_HLS), (ManifestKind::Dash, INGEST_DASH)] {
        let presentation = read(&template(kind, text).write(&nodes()[..1], STEERING));
        assert_eq!(pathways(&presentation), ["node-1"]);
        assert!(presentation.steering.is_some());
    }
}

#[test]
fn session_data_appears_once_and_comes_from_the_first_node() {
    let text = "#EXTM3U\n#EXT-X-SESSION-DATA:DATA-ID=\"com.apple.hls.chapters\",URI=\"v-1/chapters.json\"\n\
        #EXT-X-SESSION-DATA:DATA-ID=\"title\",VALUE=\"a, film\"\n#EXT-X-STREAM-INF:BANDWIDTH=1\na.m3u8\n";
    let text = written(ManifestKind::Hls, text);
    let playlist = m3u8_rs::parse_master_playlist_res(text.as_bytes()).expect("a playlist");
    let [chapters, title] = &playlist.session_data[..] else { panic!("each once: {text}") };
    let uri = "https://one.example:8443/t/1.ab.k.1/a%20film/v-1/chapters.json".to_owned();
    assert_eq!(chapters.field, m3u8_rs::SessionDataField::Uri(uri));
    assert_eq!(title.field, m3u8_rs::SessionDataField::Value("a, film".to_owned()));
    assert_eq!(playlist.variants.len(), 3);
}

#[test]
fn every_pathway_has_rendition_groups_of_its_own() {
    let text = written(ManifestKind::Hls, BENTO_HLS);
    let playlist = m3u8_rs::parse_master_playlist_res(text.as_bytes()).expect("a playlist");
    assert_eq!(playlist.variants.len(), 15);
    let other = |name: &str, other: &Option<std::collections::HashMap<String, _>>| {
        let value: Option<&m3u8_rs::QuotedOrUnquoted> =
            other.as_ref().and_then(|map| map.get(name));
        value.and_then(|value| value.as_quoted()).map(str::to_owned)
    };
    for variant in &playlist.variants {
        let pathway = other("PATHWAY-ID", &variant.other_attributes).expect("a pathway");
        assert!(other("STABLE-VARIANT-ID", &variant.other_attributes).is_some());
        if let Some(group) = &variant.audio {
            assert!(group.ends_with(&format!("/{pathway}")), "{group} {pathway}");
            let sounds = playlist.alternatives.iter().filter(|one| one.group_id == *group);
            let [sound] = sounds.collect::<Vec<_>>()[..] else { panic!("one sound in {group}") };
            let host = |uri: &str| uri.split('/').nth(2).map(str::to_owned);
            assert_eq!(host(sound.uri.as_deref().expect("a URI")), host(&variant.uri));
            assert!(other("STABLE-RENDITION-ID", &sound.other_attributes).is_some());
        }
    }
    assert_eq!(playlist.alternatives.len(), 6);
    let rest = &playlist.unknown_tags;
    let steering: Vec<_> = rest.iter().filter(|tag| tag.tag == "X-CONTENT-STEERING").collect();
    let [steering] = &steering[..] else { panic!("one steering server: {rest:?}") };
    let said = format!("SERVER-URI=\"{STEERING}\",PATHWAY-ID=\"node-1\"");
    assert_eq!(steering.rest.as_deref(), Some(said.as_str()));
}

#[test]
fn variants_of_one_file_keep_ids_apart_and_the_same_on_each_pathway() {
    let text = written(ManifestKind::Hls, BENTO_HLS);
    let ids: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once("STABLE-VARIANT-ID=\"")?.1.split('"').next())
        .collect();
    let (first, rest) = ids.split_at(5);
    assert_eq!(
        first,
        [
            "video/avc1/1/media",
            "video/avc1/2/media",
            "video/avc1/1/media=2",
            "video/avc1/2/media=2",
            "video/avc1/1/iframes"
        ]
    );
    assert_eq!(rest, [first, first].concat());
}

#[test]
fn the_rest_of_a_dash_manifest_stays_as_it_is() {
    let text = written(ManifestKind::Dash, INGEST_DASH);
    let document = roxmltree::Document::parse(&text).expect("XML");
    let root = document.root_element();
    let namespace = "urn:mpeg:dash:schema:mpd:2011";
    let names: Vec<_> = root.children().filter(|node| node.is_element()).collect();
    assert!(names.iter().all(|node| node.tag_name().namespace() == Some(namespace)));
    let names: Vec<_> = names.iter().map(|node| node.tag_name().name()).collect();
    assert_eq!(names, ["BaseURL", "BaseURL", "BaseURL", "ContentSteering", "Period"]);
    let own: Vec<_> = text
        .lines()
        .filter(|line| !line.contains("serviceLocation") && !line.contains("ContentSteering"))
        .collect();
    assert_eq!(own, INGEST_DASH.lines().collect::<Vec<_>>());
}

#[test]
fn base_urls_stand_behind_the_program_information() {
    let text = "<MPD><ProgramInformation><Title>&lt;x&gt;</Title></ProgramInformation>\
        <Period><AdaptationSet contentType=\"video\"><Representation id=\"a\" bandwidth=\"1\"><BaseURL>a.mp4</BaseURL>\
        <SegmentBase indexRange=\"1-2\"/></Representation></AdaptationSet></Period></MPD>";
    let written = written(ManifestKind::Dash, text);
    assert!(written.contains("</ProgramInformation><BaseURL serviceLocation=\"node-1\">"));
    assert_eq!(pathways(&read(&written)).len(), 3);
}

/// A steering server's answer for a node that is not in the manifest.
fn clone_of(host: &str) -> PathwayClone {
    let text = format!(
        r#"{{"VERSION":1,"TTL":30,"PATHWAY-PRIORITY":["node-9"],"PATHWAY-CLONES":
        [{{"BASE-ID":"node-1","ID":"node-9","URI-REPLACEMENT":{{"HOST":"{host}"}}}}]}}"#
    );
    let asked = STEERING.parse().expect("a URL");
    let answer = Answer::parse(&asked, text.as_bytes()).expect("an answer");
    answer.clones.into_iter().next().expect("a clone")
}

#[test]
fn a_node_that_is_not_in_the_manifest_can_be_cloned_from_one_that_is() {
    for (kind, text, host, file) in [
        (ManifestKind::Hls, INGEST_HLS, "nine.example", "video-240.m3u8"),
        (ManifestKind::Dash, INGEST_DASH, "nine.example", "video-240.mp4"),
        // dash.js uses the host with its port.
        (ManifestKind::Dash, INGEST_DASH, "nine.example:8443", "video-240.mp4"),
    ] {
        let mut presentation = read(&written(kind, text));
        presentation.clone_pathway(&clone_of(host)).expect("a clone");
        assert_eq!(pathways(&presentation), ["node-1", "node-2", "node-3", "node-9"]);
        let cloned = first_urls(&presentation, 0, 0).pop().expect("a URL");
        let folder = "https://nine.example:8443/t/1.ab.k.1/a%20film/v-8373df639e6c";
        assert_eq!(cloned, format!("{folder}/{file}"));
    }
}

fn refused(kind: ManifestKind, text: &str) -> DocumentError {
    match ManifestTemplate::parse(kind, text.as_bytes()) {
        Err(error) => error,
        Ok(_) => panic!("it was taken: {text}"),
    }
}

#[test]
fn a_playlist_that_leads_out_of_the_fleet_is_refused() {
    let variant = |uri: &str| format!("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{uri}\n");
    for uri in ["https://elsewhere.example/a", "//elsewhere.example/a", "/a", "../a", "a\\b"] {
        let error = refused(ManifestKind::Hls, &variant(uri));
        assert!(matches!(error, DocumentError::Outside(_)), "{uri}: {error}");
        let media = format!("#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",URI=\"{uri}\"\n");
        let error = refused(ManifestKind::Hls, &media);
        assert!(matches!(error, DocumentError::Outside(_)), "{uri}: {error}");
        let data = format!("#EXTM3U\n#EXT-X-SESSION-DATA:DATA-ID=\"a\",URI=\"{uri}\"\n");
        let error = refused(ManifestKind::Hls, &data);
        assert!(matches!(error, DocumentError::Outside(_)), "{uri}: {error}");
        let other = media.replace("URI=", "X-LOGO-URI=");
        let error = refused(ManifestKind::Hls, &other);
        assert!(matches!(error, DocumentError::Outside(_)), "{uri}: {error}");
    }
    for tag in [
        "#EXT-X-CONTENT-STEERING:SERVER-URI=\"https://elsewhere.example\"",
        "#EXT-X-DEFINE:NAME=\"a\",VALUE=\"b\"",
        "#EXT-X-SESSION-KEY:METHOD=AES-128,URI=\"key\"",
        "#EXT-X-NEW:DATA-ID=\"a\",URI=\"data.json\"",
        "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,PATHWAY-ID=\"x\",URI=\"a\"",
        "#EXT-X-NEW,URI=\"https://elsewhere.example\"",
        "#EXTINF:4,",
    ] {
        let text = format!("#EXTM3U\n{tag}\n#EXT-X-STREAM-INF:BANDWIDTH=1\na.m3u8\n");
        assert!(
            matches!(refused(ManifestKind::Hls, &text), DocumentError::Unsupported(_)),
            "{tag}"
        );
    }
}

#[test]
fn a_broken_playlist_is_refused() {
    for text in [
        "",
        "x",
        "#EXTM3U8\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n#EXT-X-STREAM-INF:BANDWIDTH=2\na\n",
        "#EXTM3U\na.m3u8\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:RESOLUTION=1x1\na\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO=\"a\na\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,X=\"a\rb\"\na\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO=a\na\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,STABLE-VARIANT-ID=a\na\n",
        "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",URI=https://elsewhere.example/\n",
        "#EXTM3U\n#EXT-X-SESSION-DATA:DATA-ID=\"a\",URI=https://elsewhere.example/\n",
    ] {
        let error = refused(ManifestKind::Hls, text);
        assert!(matches!(error, DocumentError::Malformed(_)), "{text:?}: {error}");
    }
    assert_eq!(refused(ManifestKind::Hls, "#EXTM3U\n#EXT-X-VERSION:7\n"), DocumentError::Empty);
    let long = format!("#EXTM3U\n{}", "#\n".repeat(DOCUMENT_BYTES_MAX / 2));
    assert_eq!(refused(ManifestKind::Hls, &long), DocumentError::Long);
    let bytes = ManifestTemplate::parse(ManifestKind::Hls, b"#EXTM3U\n#\xff\n");
    assert_eq!(bytes, Err(DocumentError::NotText));
}

#[test]
fn a_dash_manifest_that_leads_out_of_the_fleet_is_refused() {
    let period = |inner: &str| {
        format!(
            "<MPD>{}</MPD>",
            inner.replace("REST", "<Period><Representation>INNER</Representation></Period>")
        )
    };
    let within = |inner: &str| period("REST").replace("INNER", inner);
    for text in [
        within("<BaseURL>https://elsewhere.example/a</BaseURL>"),
        within("<BaseURL>&#x2e;&#x2e;/a</BaseURL>"),
        within("<BaseURL>a<!-- -->/../../b</BaseURL>"),
        within("<BaseURL serviceLocation=\"x\">a</BaseURL>"),
        within("<BaseURL>a</BaseURL><BaseURL>b</BaseURL>"),
        within("<SegmentTemplate media=\"//elsewhere.example/$Number$\"/>"),
        within("<SegmentList><SegmentURL media=\"../a\"/></SegmentList>"),
        within("<SegmentBase><Initialization sourceURL=\"/a\"/></SegmentBase>"),
        within("<x:y xmlns:x=\"z\" x:href=\"https://elsewhere.example/\"/>"),
        period("<BaseURL>a/</BaseURL>REST"),
        period("<Location>https://elsewhere.example/</Location>REST"),
        period("<ContentSteering>https://elsewhere.example/</ContentSteering>REST"),
    ] {
        refused(ManifestKind::Dash, &text);
    }
    let good = within("<BaseURL>a.mp4</BaseURL>");
    assert!(ManifestTemplate::parse(ManifestKind::Dash, good.as_bytes()).is_ok(), "{good}");
}

#[test]
fn a_broken_dash_manifest_is_refused() {
    let many = |count: usize| (0..count).map(|n| format!(" a{n}=\"\"")).collect::<String>();
    for text in [
        String::new(),
        "<".into(),
        "<MPD>".into(),
        "<MPD/>".into(),
        "<mpd:MPD xmlns:mpd=\"urn:mpeg:dash:schema:mpd:2011\"><mpd:Period/></mpd:MPD>".into(),
        "<SmoothStreamingMedia/>".into(),
        "<MPD><Period/></MPD>".into(),
        "<!DOCTYPE MPD [<!ENTITY a \"b\">]><MPD><Period><Representation/></Period></MPD>".into(),
        format!("<MPD{}><Period><Representation/></Period></MPD>", many(200)),
        format!("<MPD>{}</MPD>", "<a>".repeat(40_000)),
    ] {
        let error = refused(ManifestKind::Dash, &text);
        let is_right = matches!(error, DocumentError::Malformed(_) | DocumentError::Empty);
        assert!(is_right, "{error}: {}", &text[..text.len().min(90)]);
    }
}
