//! DASH manifests.

use super::*;
use crate::manifest::dash::duration;
use crate::presentation::TrackKind;
use std::time::Duration;

pub(super) fn mpd(segments: &str) -> String {
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

/// The rendition with the highest rate.
fn top(text: &str) -> Rendition {
    let title = read("m.mpd", text).unwrap_or_else(|error| panic!("{error}: {text}"));
    title.tracks[0].renditions.last().expect("a rendition").clone()
}

#[test]
fn a_template_with_a_duration_counts_segments_to_the_end_of_the_period() {
    let text = mpd("<SegmentTemplate timescale=\"1000\" duration=\"2000\" startNumber=\"5\" \
         initialization=\"$RepresentationID$-init.mp4\" media=\"$RepresentationID$-$Number%03d$-$Bandwidth$.m4s\"/>");
    let title = read("m.mpd", &text).expect("a title");
    assert_eq!(title.duration, Some(Duration::from_millis(9500)));
    assert_eq!(ids(&title), ["."]);
    let [pictures, sound] = &title.tracks[..] else { panic!("{title:?}") };
    assert_eq!((pictures.kind, sound.kind), (TrackKind::Pictures, TrackKind::Sound));
    let segments = listed(&pictures.renditions[1]);
    let files = played(segments);
    assert_eq!(files[0], "media/two/v2-init.mp4");
    assert_eq!(files[1], "media/two/v2-005-2000.m4s");
    assert_eq!((files.len(), files[5].as_str()), (6, "media/two/v2-009-2000.m4s"));
    assert_eq!(segments.first_number, 5);
    assert_eq!(times(segments)[3..], [(6000, 2000), (8000, 1500)]);
    assert!(played(listed(&pictures.renditions[0]))[1].ends_with("one/v1-005-1000.m4s"));
    assert_eq!(played(listed(&sound.renditions[0]))[1], "media/a-005-9999999.m4s");
}

#[test]
fn a_timeline_gives_each_segments_start() {
    let text = mpd(
        "<SegmentTemplate timescale=\"10\" presentationTimeOffset=\"100\" media=\"$Time$-$Number$.m4s\"><SegmentTimeline>\
         <S t=\"100\" d=\"20\" r=\"1\"/><S d=\"5\"/><S t=\"150\" d=\"10\" r=\"-1\"/><S t=\"175\" d=\"1\"/>\
         </SegmentTimeline></SegmentTemplate>",
    );
    let rendition = top(&text);
    let files = played(listed(&rendition));
    let names: Vec<_> = files.iter().filter_map(|path| path.rsplit('/').next()).collect();
    assert_eq!(
        names,
        ["100-1.m4s", "120-2.m4s", "140-3.m4s", "150-4.m4s", "160-5.m4s", "170-6.m4s", "175-7.m4s"]
    );
    assert_eq!(times(listed(&rendition))[..3], [(0, 2000), (2000, 2000), (4000, 500)]);
}

#[test]
fn segments_follow_without_gaps_in_any_timescale() {
    for (timescale, duration) in [(48_000, 192_512), (44_100, 176_128), (30_000, 1001 * 120)] {
        let text = mpd(&format!(
            "<SegmentTemplate timescale=\"{timescale}\" media=\"$Time$\"><SegmentTimeline>\
             <S t=\"0\" d=\"{duration}\" r=\"29\"/></SegmentTimeline></SegmentTemplate>"
        ));
        let rendition = top(&text);
        let list = &listed(&rendition).list;
        assert_eq!(list.len(), 30);
        assert!(list.windows(2).all(|two| two[0].begin + two[0].duration == two[1].begin));
    }
}

#[test]
fn an_open_timeline_ends_with_its_period() {
    let text = mpd(
        "<SegmentTemplate timescale=\"10\" presentationTimeOffset=\"7\" media=\"$Time$\"><SegmentTimeline>\
         <S t=\"7\" d=\"50\" r=\"-1\"/></SegmentTimeline></SegmentTemplate>",
    );
    assert_eq!(times(listed(&top(&text))), [(0, 5000), (5000, 5000)]);
}

#[test]
fn a_list_names_files_or_ranges() {
    let text = mpd(
        "<SegmentList duration=\"5\"><Initialization range=\"0-799\"/><SegmentURL mediaRange=\"800-999\"/>\
         <SegmentURL media=\"b.m4s\"/></SegmentList>",
    );
    let rendition = top(&text);
    assert_eq!(
        played(listed(&rendition)),
        ["media/two/ 0-800", "media/two/ 800-1000", "media/two/b.m4s"]
    );
    assert_eq!(times(listed(&rendition)), [(0, 5000), (5000, 5000)]);
    // Without durations, the segments share the period evenly.
    let text = mpd(
        "<SegmentList timescale=\"1000\"><SegmentURL media=\"a\"/><SegmentURL media=\"b\"/></SegmentList>",
    );
    assert_eq!(times(listed(&top(&text))), [(0, 4750), (4750, 4750)]);
}

#[test]
fn a_file_without_an_index_is_one_segment() {
    for segments in ["", "<SegmentBase/>"] {
        let rendition = top(&mpd(segments));
        assert_eq!(played(listed(&rendition)), ["media/two/"]);
        assert_eq!(times(listed(&rendition)), [(0, 9500)]);
    }
}

#[test]
fn an_index_is_fetched_with_the_initialisation_section_known() {
    let text =
        mpd("<SegmentBase indexRange=\"100-155\"><Initialization range=\"0-99\"/></SegmentBase>");
    let Source::Index(index) = &top(&text).sources[0] else { panic!("no index") };
    assert_eq!(show(&index.reference), "media/two/ 100-156");
    assert_eq!(index.start.as_ref().map(show).as_deref(), Some("media/two/ 0-100"));
    assert_eq!(index.duration, Some(Duration::from_millis(9500)));
}

const PERIODS: &str = "<MPD mediaPresentationDuration=\"PT10S\">\
    <Period id=\"1\" duration=\"PT4S\"><AdaptationSet mimeType=\"video/mp4\"><SegmentTemplate duration=\"2\" startNumber=\"1\" \
      initialization=\"1/$RepresentationID$.mp4\" media=\"1/$RepresentationID$-$Number$\"/>\
      <Representation id=\"l\" bandwidth=\"1\"/><Representation id=\"h\" bandwidth=\"2\"/></AdaptationSet></Period>\
    <Period id=\"ad\"><AdaptationSet mimeType=\"video/mp4\"><Representation id=\"x\" bandwidth=\"3\">\
      <SegmentTemplate duration=\"3\" initialization=\"ad.mp4\" media=\"ad-$Number$\"/></Representation></AdaptationSet></Period>\
    <Period id=\"2\" start=\"PT7S\"><AdaptationSet mimeType=\"video/mp4\"><SegmentTemplate duration=\"2\" startNumber=\"3\" \
      initialization=\"1/$RepresentationID$.mp4\" media=\"1/$RepresentationID$-$Number$\"/>\
      <Representation id=\"h\" bandwidth=\"2\"/><Representation id=\"l\" bandwidth=\"5\"/></AdaptationSet></Period></MPD>";

#[test]
fn periods_follow_one_another_with_their_own_initialisation_sections() {
    let title = read("m.mpd", PERIODS).expect("a title");
    assert_eq!(title.duration, Some(Duration::from_secs(10)));
    let [low, high] = &title.tracks[0].renditions[..] else { panic!("{title:?}") };
    assert_eq!(
        played(listed(low)),
        ["1/l.mp4", "1/l-1", "1/l-2", "ad.mp4", "ad-1", "1/l.mp4", "1/l-3", "1/l-4"]
    );
    assert_eq!(played(listed(high))[..2], ["1/h.mp4", "1/h-1"]);
    assert_eq!(
        times(listed(low)),
        [(0, 2000), (2000, 2000), (4000, 3000), (7000, 2000), (9000, 1000)]
    );
    // Each period's index would have to be fetched.
    let indexed = PERIODS.replace("<Representation id=\"x\" bandwidth=\"3\">", "<Representation id=\"x\"><SegmentBase indexRange=\"0-1\"/></Representation><Representation>");
    assert!(matches!(refusal("m.mpd", &indexed), ManifestError::Unsupported(_)));
}

#[test]
fn service_locations_are_pathways_at_each_level() {
    let text = "<MPD mediaPresentationDuration=\"PT2S\">\
        <ContentSteering defaultServiceLocation=\"beta alpha\" queryBeforeStart=\"true\">https://steer.example/d</ContentSteering>\
        <BaseURL serviceLocation=\"alpha\">https://a.example/x/</BaseURL><BaseURL serviceLocation=\"beta\">https://b.example/</BaseURL>\
        <Period><BaseURL>p/</BaseURL>\
        <AdaptationSet contentType=\"video\"><Representation id=\"v\"><BaseURL>v.mp4</BaseURL></Representation></AdaptationSet>\
        <AdaptationSet contentType=\"audio\"><BaseURL serviceLocation=\"beta\">bb/</BaseURL><BaseURL serviceLocation=\"gamma\">https://c.example/</BaseURL>\
        <Representation id=\"a\"><BaseURL>a.mp4</BaseURL></Representation></AdaptationSet></Period></MPD>";
    let title = read("m.mpd", text).expect("a title");
    assert_eq!(ids(&title), ["alpha", "beta", "gamma"]);
    assert_eq!(
        sources(&title.tracks[0].renditions[0]),
        ["https://a.example/x/p/v.mp4", "https://b.example/p/v.mp4", "absent"]
    );
    assert_eq!(
        sources(&title.tracks[1].renditions[0]),
        [
            "https://a.example/x/p/bb/a.mp4",
            "https://b.example/p/bb/a.mp4",
            "https://c.example/a.mp4"
        ]
    );
    let steering = title.steering.expect("a steering server");
    assert_eq!((steering.first.as_deref(), steering.before_start), (Some("beta"), true));
}

#[test]
fn base_urls_without_names_are_pathways_by_their_text() {
    let text = "<MPD mediaPresentationDuration=\"PT2S\"><BaseURL>https://a.example/</BaseURL>\
        <BaseURL> https://b.example/ </BaseURL><Period><AdaptationSet contentType=\"video\"><Representation id=\"v\"/>\
        </AdaptationSet></Period></MPD>";
    let title = read("m.mpd", text).expect("a title");
    assert_eq!(ids(&title), ["https://a.example/", "https://b.example/"]);
    assert_eq!(
        sources(&title.tracks[0].renditions[0]),
        ["https://a.example/", "https://b.example/"]
    );
}

#[test]
fn a_live_manifest_is_fetched_again() {
    let text = "<MPD type=\"dynamic\" minimumUpdatePeriod=\"PT0S\"><Period start=\"PT100S\"><AdaptationSet mimeType=\"video/mp4\">\
        <SegmentTemplate timescale=\"1000\" presentationTimeOffset=\"500000\" startNumber=\"17\" media=\"$Number$\"><SegmentTimeline>\
        <S t=\"534000\" d=\"2000\" r=\"2\"/></SegmentTimeline></SegmentTemplate><Representation id=\"v\" bandwidth=\"1\"/>\
        </AdaptationSet></Period></MPD>";
    let title = read("m.mpd", text).expect("a title");
    assert_eq!((title.duration, title.reload_after), (None, Some(Duration::from_secs(1))));
    let segments = listed(&title.tracks[0].renditions[0]);
    assert_eq!((segments.first_number, segments.reload_after), (17, title.reload_after));
    assert_eq!(times(segments)[0], (134_000, 2000));
    assert_eq!(segments.clock, None);
    let dated = text.replace("<MPD ", "<MPD availabilityStartTime=\"1970-01-02T00:00:00Z\" ");
    let dated = top(&dated);
    let zero = listed(&dated).clock.map(|clock| (clock.at, clock.since_1970.as_secs()));
    assert_eq!(zero, Some((Duration::ZERO, 86_400)));
    let numbered = text
        .replace("<S t=\"534000\" d=\"2000\" r=\"2\"/>", "")
        .replace("<SegmentTimeline>", "")
        .replace("</SegmentTimeline>", "");
    assert!(matches!(refusal("m.mpd", &numbered), ManifestError::Unsupported(_)));
}

#[test]
fn what_is_not_pictures_or_sound_is_left_out() {
    let set = |attributes: &str, inner: &str, id: &str| {
        format!("<AdaptationSet {attributes}>{inner}<Representation id=\"{id}\"/></AdaptationSet>")
    };
    let trick =
        "<EssentialProperty schemeIdUri=\"http://dashif.org/guidelines/trickmode\" value=\"1\"/>";
    let transfer = |code: u8| {
        let scheme = "urn:mpeg:mpegB:cicp:TransferCharacteristics";
        format!("<EssentialProperty schemeIdUri=\"{scheme}\" value=\"{code}\"/>")
    };
    let text = format!(
        "<MPD mediaPresentationDuration=\"PT2S\"><Period>{}{}{}{}{}{}{}{}</Period></MPD>",
        set("contentType=\"text\"", "", "s"),
        set("contentType=\"image\"", "", "i"),
        set("contentType=\"audio\" lang=\"de\"", "<Role value=\"dub\"/>", "de"),
        set("contentType=\"audio\" lang=\"en\"", "<Role value=\"main\"/>", "en"),
        set("mimeType=\"video/mp4\"", trick, "t"),
        set("mimeType=\"video/mp4\"", &transfer(16), "pq"),
        set("mimeType=\"video/mp4\"", "", "v"),
        set("mimeType=\"video/mp4\"", &transfer(1), "w"),
    );
    let title = read("m.mpd", &text).expect("a title");
    let ids = |track: &crate::Track| {
        let ids = track.renditions.iter().map(|one| one.id.clone());
        ids.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(title.tracks.iter().map(ids).collect::<Vec<_>>(), ["v w", "en"]);
}

#[test]
fn iso_8601_durations_are_read() {
    let milliseconds = |text| duration(text).map(|duration| duration.as_millis());
    assert_eq!(milliseconds("PT1H2M3.5S"), Some(3_723_500));
    assert_eq!(milliseconds("P1DT1S"), Some(86_401_000));
    assert_eq!(milliseconds("PT9.5S"), Some(9500));
    assert_eq!(milliseconds("P0Y0M0DT0H9M56.46S"), Some(596_460));
    for text in [
        "9S",
        "P1M",
        "PT-1S",
        "PTinfS",
        "PTNaNS",
        "P1Y",
        "PT1X",
        "PT1",
        "PT1e300S",
        "PT9999999999S",
    ] {
        assert_eq!(duration(text), None, "{text}");
    }
}

#[test]
fn a_ladder_has_one_codec_the_first_ones() {
    let set = |codecs: &str, rates: &[u64]| {
        let one = |rate: &u64| {
            format!(
                "<Representation id=\"{codecs}{rate}\" bandwidth=\"{rate}\"><BaseURL>{rate}.mp4</BaseURL></Representation>"
            )
        };
        let all: String = rates.iter().map(one).collect();
        format!("<AdaptationSet mimeType=\"video/mp4\" codecs=\"{codecs}\">{all}</AdaptationSet>")
    };
    let text = format!(
        "<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" mediaPresentationDuration=\"PT8S\"><Period>{}{}{}</Period></MPD>",
        set("avc1.64001f", &[3000, 1000]),
        set("hvc1.2.4.L123", &[2000]),
        set("avc1.42c01e", &[500])
    );
    let title = read("m.mpd", &text).expect("a title");
    let rates: Vec<_> = title.tracks[0].renditions.iter().map(|one| one.bits_per_second).collect();
    assert_eq!(rates, [500, 1000, 3000]);
}
