//! Live streams: what ffmpeg makes while viewers play it, from its own server and through an edge.

use crate::program::swarm;
use fullbore_tests::{Launch, Plain, Ran, Server, eventually, tool};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use tempfile::{TempDir, tempdir};

/// How long a stream lasts, in seconds. Its segments have a second each.
const LASTS: &str = "14";

/// The segments that a playlist lists.
const LISTED: &str = "8";

/// How many segments there are when viewers come.
const SEGMENTS_BEFORE: usize = 4;

const VIEWERS: usize = 20;

/// How often a stream is played if viewers stall or miss something: on a busy machine, ffmpeg or the viewers may be late by themselves. A faulty
/// edge makes them do so each time.
const TRIES: usize = 3;

/// A stream that ffmpeg makes in real time, with two servers for its folder: one for viewers, and one for an edge.
struct Stream {
    folder: TempDir,
    direct: Server,
    _origin: Server,
    edge: Server,
    making: Child,
}

impl Stream {
    fn begin() -> Self {
        let folder = tempdir().unwrap();
        let media = folder.path().join("media");
        std::fs::create_dir(&media).unwrap();
        let direct = Server::start(&media, "--tls off --workers 1");
        let origin = Launch::of(&media).arguments("--tls off --workers 1 --access-log");
        let origin = origin.argument(folder.path().join("log")).start();
        let edge = Launch::bare().arguments("--tls off --workers 1 --origin");
        let edge = edge.argument(&origin.url).arguments("--cache");
        let edge = edge.argument(folder.path().join("cache")).start();
        let making = make(&media);
        let stream = Self { folder, direct, _origin: origin, edge, making };
        let mut viewer = Plain::connect(stream.direct.address);
        eventually("the stream to begin", || {
            let list = viewer.fetch("/live.m3u8");
            let list = String::from_utf8(list.body).unwrap();
            (list.matches("#EXTINF").count() >= SEGMENTS_BEFORE).then_some(())
        });
        stream
    }

    /// The requests that got media or a playlist from the edge's origin, by path.
    fn fetched(&self) -> BTreeMap<String, usize> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let mut counts = BTreeMap::new();
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if matches!(line["status"].as_u64(), Some(200 | 206)) {
                let target = line["target"].as_str().unwrap().to_owned();
                *counts.entry(target).or_default() += 1;
            }
        }
        counts
    }
}

/// Starts ffmpeg: the same pictures as HLS and as DASH.
fn make(media: &Path) -> Child {
    let coded = "-map 0 -c:v libx264 -preset ultrafast -g 25 -pix_fmt yuv420p";
    let mut command = tool::command("ffmpeg");
    let mut add = |words: &str, name: &str| {
        command.args(words.split_whitespace()).arg(media.join(name));
    };
    add(
        &format!(
            "-nostdin -v error -re -f lavfi -i testsrc2=size=160x90:rate=25 -t {LASTS} {coded} -f hls -hls_time 1 \
             -hls_list_size {LISTED} -hls_segment_type fmp4 -hls_flags temp_file+delete_segments+program_date_time"
        ),
        "live.m3u8",
    );
    add(
        &format!(
            "-t {LASTS} {coded} -f dash -seg_duration 1 -window_size {LISTED} -extra_window_size 5"
        ),
        "live.mpd",
    );
    command.spawn().unwrap()
}

/// Viewers who play it to its end.
fn play(url: &str, viewers: usize) -> Ran {
    let words = format!("--viewers {viewers} --duration 1h --arrivals together --watch 1h");
    let ran = swarm(&words, &[url]);
    let count = |place: &str| assert_eq!(ran.number(place), viewers as f64, "{place}: {url}");
    ["sessions/started", "sessions/finished", "live/sessions"].into_iter().for_each(count);
    ["latency_seconds/count", "live/latency_by_date"].into_iter().for_each(count);
    assert!(ran.number("live/reloads") >= 2.0 * viewers as f64, "{}", ran.figures);
    assert_eq!(ran.number("live/went_back"), 0.0, "{url}: {}", ran.figures);
    // Three segments, less what ffmpeg's clock and its pictures differ by.
    assert!(ran.number("latency_seconds/p1") >= 2.0, "{url}: {}", ran.figures["latency_seconds"]);
    ran
}

/// What viewers should not have seen, and more fetches than a second has for a playlist.
fn faults(ran: &[Ran; 3], fetched: &BTreeMap<String, usize>) -> Vec<String> {
    let mut faults = Vec::new();
    for ran in ran {
        for place in ["stalls/count", "live/jumps", "skips"] {
            let count = ran.number(place);
            if count > 0.0 {
                faults.push(format!("{place}: {count}"));
            }
        }
        if ran.code != Some(0) || ran.figures["clean"] != true || !ran.stderr.is_empty() {
            faults.push(format!("{:?}: {}{}", ran.code, ran.stdout, ran.stderr));
        }
    }
    let seconds = ran[1].number("wall_seconds").max(ran[2].number("wall_seconds"));
    for list in ["/live.m3u8", "/live.mpd"] {
        if fetched[list] as f64 > seconds + 2.0 {
            faults.push(format!("{list}: {} fetches in {seconds} s", fetched[list]));
        }
    }
    faults
}

#[test]
fn twenty_viewers_play_what_ffmpeg_makes_from_its_server_and_from_one_fetch_through_an_edge() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg")]) {
        return;
    }
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        let mut stream = Stream::begin();
        let urls = [
            (stream.direct.url_of("live.m3u8"), VIEWERS),
            (stream.edge.url_of("live.m3u8"), VIEWERS),
            (stream.edge.url_of("live.mpd"), VIEWERS / 4),
        ];
        let playing = urls.map(|(url, viewers)| std::thread::spawn(move || play(&url, viewers)));
        let ran = playing.map(|playing| playing.join().unwrap());
        assert!(stream.making.wait().unwrap().success());
        let fetched = stream.fetched();
        let media: Vec<_> = fetched.iter().filter(|(path, _)| path.ends_with(".m4s")).collect();
        assert!(media.len() >= 2 * SEGMENTS_BEFORE, "{fetched:?}");
        assert!(media.iter().all(|(_, count)| **count == 1), "{fetched:?}");
        let faults = faults(&ran, &fetched);
        if faults.is_empty() {
            return;
        }
        tries.push(faults);
    }
    panic!("viewers saw faults each time: {tries:?}");
}

/// A playlist of six segments that stands still.
fn standing_still() -> TempDir {
    let folder = tempdir().unwrap();
    let mut text = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n".to_owned();
    for number in 0..6 {
        text += &format!("#EXTINF:1.0,\n{number}.ts\n");
        std::fs::write(folder.path().join(format!("{number}.ts")), [0; 10_000]).unwrap();
    }
    std::fs::write(folder.path().join("live.m3u8"), text).unwrap();
    folder
}

#[test]
fn a_playlist_that_stands_still_is_counted_and_makes_viewers_stall_for_that_reason() {
    let folder = standing_still();
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("live.m3u8");
    let words = "--viewers 2 --duration 1h --arrivals together --watch 1h --give-up 2s";
    let ran = swarm(words, &[&url]).clean();
    assert_eq!(ran.number("gave_up/stall"), 2.0, "{}", ran.figures);
    assert_eq!(ran.number("stalls/by_reason/manifest"), 2.0, "{}", ran.figures);
    assert_eq!(ran.number("live/stood_still"), 2.0, "{}", ran.figures);
    // It has no dates, so the end of the playlist counts.
    assert_eq!(ran.number("live/latency_by_date"), 0.0);
    let latency = ran.figures["latency_seconds"]["p99"].as_f64();
    assert!(latency.is_none_or(|seconds| seconds <= 3.0), "{}", ran.figures);
    assert!(ran.stdout.contains("2 stood still"), "{}", ran.stdout);
}

#[test]
fn viewers_of_a_live_stream_do_not_seek() {
    let folder = standing_still();
    let server = Server::start(folder.path(), "--workers 1 --tls off");
    let url = server.url_of("live.m3u8");
    for (words, flags) in [
        ("--seeks-per-hour 4", "leave out --seeks-per-hour"),
        ("--seeks-per-hour 4 --title-length 1h", "leave out --seeks-per-hour and --title-length"),
    ] {
        let ran = swarm(&format!("--viewers 2 --arrivals together --duration 1h {words}"), &[&url]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let why = format!("{url} is a live stream: {flags}");
        assert!(ran.stderr.contains(&why), "{}", ran.stderr);
    }
}
