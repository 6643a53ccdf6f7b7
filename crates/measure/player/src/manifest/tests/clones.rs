//! Tests of pathways derived from others.

use super::dash::mpd;
use super::*;
use crate::steering::PathwayClone;
use std::collections::BTreeMap;

fn clone(base_id: &str, id: &str) -> PathwayClone {
    PathwayClone {
        base_id: base_id.into(),
        id: id.into(),
        host: Some("c.example".into()),
        params: vec![("token".into(), "1,2".into())],
        variants: BTreeMap::new(),
        renditions: BTreeMap::new(),
    }
}

const MASTER: &str = "#EXTM3U\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"s\",NAME=\"x\",STABLE-RENDITION-ID=\"en\",URI=\"en.m3u8\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=1,STABLE-VARIANT-ID=\"v1\",PATHWAY-ID=\"a\",AUDIO=\"s\"\nv1.m3u8?token=0\n\
    #EXT-X-STREAM-INF:BANDWIDTH=2,STABLE-VARIANT-ID=\"v2\",PATHWAY-ID=\"a\",AUDIO=\"s\"\nv2.m3u8\n";

#[test]
fn a_clone_of_playlists_has_another_host_and_parameters() {
    let mut title = read("m.m3u8", MASTER).expect("a title");
    title.clone_pathway(&clone("a", "c")).expect("a clone");
    assert_eq!(ids(&title), ["a", "c"]);
    let renditions = &title.tracks[0].renditions;
    assert_eq!(
        sources(&renditions[0]),
        ["v1.m3u8?token=0", "https://c.example:1/title/v1.m3u8?token=1%2C2"]
    );
    // Adding the same one again changes nothing, and a clone may be cloned.
    let before = title.clone();
    title.clone_pathway(&clone("a", "c")).expect("known");
    assert_eq!(title, before);
    title.clone_pathway(&clone("c", "d")).expect("a clone");
    assert_eq!(title.tracks[1].renditions[0].sources.len(), 3);
}

#[test]
fn playlists_may_have_uris_of_their_own() {
    let mut title = read("m.m3u8", MASTER).expect("a title");
    let mut own = clone("a", "c");
    own.variants.insert("v2".into(), "https://x.example/2.m3u8".into());
    own.renditions.insert("en".into(), "https://x.example/en.m3u8".into());
    title.clone_pathway(&own).expect("a clone");
    let last = |track: usize, rendition: usize| {
        sources(&title.tracks[track].renditions[rendition]).pop().expect("a source")
    };
    assert_eq!(last(0, 1), "https://x.example/2.m3u8?token=1%2C2");
    assert_eq!(last(0, 0), "https://c.example:1/title/v1.m3u8?token=1%2C2");
    assert_eq!(last(1, 0), "https://x.example/en.m3u8?token=1%2C2");
}

#[test]
fn a_clone_of_listed_segments_has_them_all_elsewhere() {
    let list = "<SegmentTemplate duration=\"5\" initialization=\"i\" media=\"$Number$\"/>";
    let mut title = read("m.mpd", &mpd(list)).expect("a title");
    title.clone_pathway(&PathwayClone { params: Vec::new(), ..clone(".", "c") }).expect("a clone");
    let there = sources(&title.tracks[0].renditions[0]).pop();
    let base = "https://c.example:1/title/media/one";
    assert_eq!(there, Some(format!("{base}/i {base}/1 {base}/2")));
    let index =
        "<SegmentBase indexRange=\"100-155\"><Initialization range=\"0-99\"/></SegmentBase>";
    let mut title = read("m.mpd", &mpd(index)).expect("a title");
    title.clone_pathway(&clone(".", "c")).expect("a clone");
    let Source::Index(index) = &title.tracks[0].renditions[0].sources[1] else { panic!("index") };
    assert_eq!(show(&index.reference), format!("{base}/?token=1%2C2 100-156"));
    assert_eq!(index.start.as_ref().map(show), Some(format!("{base}/?token=1%2C2 0-100")));
}

#[test]
fn a_clone_of_a_dash_pathway_may_be_on_another_port() {
    let index = "<SegmentBase indexRange=\"100-155\"/>";
    for (host, there) in [("c.example:8443", "c.example:8443"), ("[::1]:80", "[::1]:80")] {
        let mut title = read("m.mpd", &mpd(index)).expect("a title");
        let elsewhere = PathwayClone { host: Some(host.into()), ..clone(".", "c") };
        title.clone_pathway(&elsewhere).expect("a clone");
        let sources = sources(&title.tracks[0].renditions[0]);
        assert!(sources[1].starts_with(&format!("https://{there}/title/media/one")), "{sources:?}");
    }
    let mut title = read("m.mpd", &mpd(index)).expect("a title");
    for host in ["c.example:", "c.example:x", "c.example:99999", "a:b:1"] {
        let elsewhere = PathwayClone { host: Some(host.into()), ..clone(".", "c") };
        assert!(title.clone_pathway(&elsewhere).is_err(), "{host}");
    }
}

#[test]
fn a_clone_that_cannot_be_made_changes_nothing() {
    let mut title = read("m.m3u8", MASTER).expect("a title");
    let before = title.clone();
    let port = PathwayClone { host: Some("c.example:8443".into()), ..clone("a", "c") };
    let long = PathwayClone { params: vec![("t".into(), "x".repeat(9000))], ..clone("a", "c") };
    for bad in [clone("b", "c"), port, long] {
        assert!(matches!(title.clone_pathway(&bad), Err(ManifestError::Malformed(_))));
        assert_eq!(title, before);
    }
    for index in 0..PATHWAYS_MAX - 1 {
        title.clone_pathway(&clone("a", &format!("c{index}"))).expect("a clone");
    }
    assert_eq!(title.clone_pathway(&clone("a", "x")), Err(ManifestError::Bound("pathways")));
}
