//! Live streams that ffmpeg makes, played through an edge while they are being made. The origin is `fullbore serve` in front of ffmpeg's folder.
//!
//! A stream ends by itself: ffmpeg that is ended in the middle of a segment may leave a list that no player reads. Players begin at its
//! beginning, so no result depends on how fast this machine is.

use crate::launch_at;
use fullbore_tests::tool;
use fullbore_tests::{Plain, Server, eventually, until};
use std::path::Path;
use std::process::Child;
use tempfile::{TempDir, tempdir};

/// The segments, of a second each, that are seen while the stream is being made.
const SEGMENTS: usize = 5;

/// How long a stream lasts, in seconds.
const LASTS: &str = "8";

struct Stream {
    folder: TempDir,
    _cache: TempDir,
    _origin: Server,
    edge: Server,
    making: Child,
}

impl Stream {
    /// A stream of this name that ffmpeg makes in real time; none if there is no ffmpeg.
    fn begin(words: &str, name: &str) -> Option<Self> {
        if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("ffprobe", "ffmpeg")]) {
            return None;
        }
        let (folder, cache) = (tempdir().unwrap(), tempdir().unwrap());
        let origin = Server::start(folder.path(), "--tls off");
        let edge = launch_at(&origin.url, cache.path()).arguments("--tls off").start();
        let mut command = tool::command("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-re", "-f", "lavfi"]);
        command.args(["-i", "testsrc2=size=160x90:rate=25", "-t", LASTS, "-c:v", "libx264"]);
        command.args(["-preset", "ultrafast", "-g", "25"]).args(words.split_whitespace());
        let making = command.arg(folder.path().join(name)).spawn().unwrap();
        Some(Self { folder, _cache: cache, _origin: origin, edge, making })
    }

    /// Waits until ffmpeg has ended the stream.
    fn end(&mut self) {
        assert!(self.making.wait().unwrap().success());
    }

    fn viewer(&self) -> Plain {
        Plain::connect(self.edge.address)
    }

    /// How many segments there are whose names begin like this.
    fn made(&self, prefix: &str) -> usize {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(prefix) && name.ends_with(".m4s")).count()
    }

    /// The pictures of the whole stream as it is on disk.
    fn pictures(&self, name: &str) -> usize {
        pictures(&self.folder.path().join(name).display().to_string())
    }
}

/// Plays a stream from its beginning to its end, and counts its pictures.
fn pictures(url: &str) -> usize {
    let mut command = tool::command("ffprobe");
    command.args(["-v", "error", "-count_packets", "-select_streams", "v"]);
    command.args(["-show_entries", "stream=nb_read_packets", "-of", "csv=p=0"]);
    if Path::new(url).extension().is_some_and(|ending| ending == "m3u8") {
        // Not with the last segments that there are.
        command.args(["-live_start_index", "0"]);
    }
    let ran = tool::run(command.arg(url));
    let count = ran.text().split_whitespace().next().and_then(|text| text.parse().ok());
    count.unwrap_or_else(|| panic!("{url}: {}{}", ran.text(), ran.stderr))
}

#[test]
fn hls_that_ffmpeg_makes_is_played_live_without_a_gap() {
    let words = "-f hls -hls_time 1 -hls_list_size 0 -hls_segment_type fmp4 -hls_flags temp_file";
    let Some(mut stream) = Stream::begin(words, "live.m3u8") else { return };
    // A viewer who comes too early gets a 404, which does not count for long.
    until("the stream to begin", || stream.viewer().fetch("/live.m3u8").status == 200);
    let before = stream.edge.counter("requests_total");
    let url = stream.edge.url_of("live.m3u8");
    let players = [url.clone(), url].map(|url| std::thread::spawn(move || pictures(&url)));
    stream.edge.wait_for_counter("requests_total", before + 4 * SEGMENTS as u64);
    until("some segments", || stream.made("live") >= SEGMENTS);
    stream.end();
    let expected = stream.pictures("live.m3u8");
    assert!(expected >= SEGMENTS * 25, "{expected}");
    for player in players {
        assert_eq!(player.join().unwrap(), expected);
    }
}

#[test]
fn dash_that_ffmpeg_makes_reaches_viewers_who_ask_for_each_segment_before_it_is_made() {
    let Some(mut stream) = Stream::begin("-f dash -seg_duration 1 -window_size 0", "live.mpd")
    else {
        return;
    };
    let mut viewer = stream.viewer();
    for number in 1..=SEGMENTS {
        let segment = format!("chunk-stream0-{number:05}.m4s");
        let got = eventually(&segment, || {
            let answer = viewer.fetch(&format!("/{segment}"));
            (answer.status == 200).then_some(answer.body)
        });
        assert!(got == std::fs::read(stream.folder.path().join(&segment)).unwrap(), "{segment}");
        let manifest = eventually("a manifest that has it", || {
            let answer = viewer.fetch("/live.mpd");
            let text = String::from_utf8(answer.body).unwrap();
            (answer.status == 200 && segments(&text) >= number).then_some(text)
        });
        assert!(manifest.contains("type=\"dynamic\""), "{manifest}");
    }
    stream.end();
    until("the end of the stream", || {
        let manifest = viewer.fetch("/live.mpd").body;
        String::from_utf8(manifest).unwrap().contains("type=\"static\"")
    });
    let expected = stream.pictures("live.mpd");
    assert!(expected >= SEGMENTS * 25, "{expected}");
    assert_eq!(pictures(&stream.edge.url_of("live.mpd")), expected);
}

/// How many segments a manifest lists: an entry is for one, and for as many as its `r` says.
fn segments(manifest: &str) -> usize {
    let entries = manifest.split("<S ").skip(1).filter_map(|rest| rest.split("/>").next());
    let repeated = |entry: &str| entry.split_once("r=\"")?.1.split('"').next()?.parse().ok();
    entries.map(|entry| 1 + repeated(entry).unwrap_or(0)).sum()
}
