//! The manifests of a film with six bit rates and one sound track, in the form that ingest writes.

use std::fmt::Write;

/// Heights and kilobits per second of a typical ladder.
const RUNGS: [(u32, u32); 6] =
    [(240, 600), (360, 1200), (480, 2200), (720, 4000), (1080, 7500), (2160, 16_000)];

fn width(height: u32) -> u32 {
    height * 16 / 9
}

/// The HLS multivariant playlist.
pub(super) fn hls() -> String {
    let mut text = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n\n\
         #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"audio\",NAME=\"Audio\",DEFAULT=YES,AUTOSELECT=YES,CHANNELS=\"2\",\
         URI=\"v-8373df639e6c/audio-1-und.m3u8\"\n\n"
        .to_owned();
    for (height, kilobits) in RUNGS {
        let width = width(height);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "#EXT-X-STREAM-INF:BANDWIDTH={kilobits}789,AVERAGE-BANDWIDTH={kilobits}000,CODECS=\"avc1.42c015,mp4a.40.2\",\
             RESOLUTION={width}x{height},FRAME-RATE=25.000,AUDIO=\"audio\"\nv-8373df639e6c/video-{height}.m3u8\n"
        );
    }
    text
}

/// The DASH manifest.
pub(super) fn dash() -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" profiles=\"urn:mpeg:dash:profile:isoff-on-demand:2011\" type=\"static\" \
         mediaPresentationDuration=\"PT5400.000S\" minBufferTime=\"PT4.000S\">\n<Period id=\"0\">\n\
         <AdaptationSet id=\"0\" contentType=\"video\" mimeType=\"video/mp4\" subsegmentAlignment=\"true\" \
         subsegmentStartsWithSAP=\"1\">\n"
        .to_owned();
    for (number, (height, kilobits)) in RUNGS.into_iter().enumerate() {
        let attributes = format!("width=\"{}\" height=\"{height}\"", width(height));
        let kind = format!("id=\"video-{number}\" codecs=\"avc1.42c015\" {attributes} sar=\"1:1\"");
        let file = format!("video-{height}.mp4");
        representation(&mut text, &kind, kilobits, &file, 12800);
    }
    text += "</AdaptationSet>\n\
         <AdaptationSet id=\"1\" contentType=\"audio\" mimeType=\"audio/mp4\" subsegmentAlignment=\"true\" subsegmentStartsWithSAP=\"1\">\n\
         <Label>Audio</Label>\n<Role schemeIdUri=\"urn:mpeg:dash:role:2011\" value=\"main\"/>\n";
    let sound = "id=\"audio-1\" codecs=\"mp4a.40.2\"";
    representation(&mut text, sound, 134, "audio-1-und.mp4", 48000);
    text + "</AdaptationSet>\n</Period>\n</MPD>\n"
}

fn representation(text: &mut String, kind: &str, kilobits: u32, file: &str, timescale: u32) {
    let _ = write!(
        text,
        "<Representation {kind} bandwidth=\"{kilobits}000\">\n<BaseURL>v-8373df639e6c/{file}</BaseURL>\n\
         <SegmentBase timescale=\"{timescale}\" indexRange=\"831-894\" indexRangeExact=\"true\">\n\
         <Initialization range=\"0-830\"/>\n</SegmentBase>\n</Representation>\n"
    );
}
