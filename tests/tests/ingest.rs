//! From a video file to a title that plays from a running server, by the commands that people type; also if
//! the disk is full, the user presses Ctrl-C, or the process is killed.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Plain, Said, Server, Signal, eventually, program};
use rustix::process::{Pid, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::{TempDir, tempdir};

/// Small and fast: two sizes of a short film.
const QUICK: &str = "--speed fastest --segment-seconds 2";
const SECONDS: usize = 6;
const FRAMES: usize = 15 * SECONDS;

fn tools_are_here() -> bool {
    tool::are_here(&[("ffmpeg", "ffmpeg"), ("ffprobe", "ffmpeg")])
}

/// A folder for sources and an empty library next to them.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        fs::create_dir(folder.path().join("library")).unwrap();
        let ladder = "rungs = [{ height = 90, kbps = 150 }, { height = 180, kbps = 400 }]";
        fs::write(folder.path().join("ladder.toml"), ladder).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn library(&self) -> PathBuf {
        self.path("library")
    }

    /// A source with pictures and sound, made by ffmpeg.
    fn film(&self, name: &str, picture: &str, encoder: &str) -> PathBuf {
        let path = self.path(name);
        let mut command = tool::command("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", picture, "-f", "lavfi"]);
        command.args(["-i", &format!("sine=440:duration={SECONDS}"), "-shortest"]);
        let ran = tool::run(command.args(encoder.split(' ')).arg(&path));
        assert!(ran.success, "{}", ran.stderr);
        path
    }

    fn little_film(&self) -> PathBuf {
        let picture = format!("testsrc2=size=320x180:rate=15:duration={SECONDS}");
        self.film("film.mp4", &picture, "-c:v libx264 -preset ultrafast -g 15 -c:a aac")
    }

    /// One whose encoding takes a while.
    fn large_film(&self) -> PathBuf {
        let picture = format!("testsrc2=size=1280x720:rate=30:duration={SECONDS}");
        self.film("film.mp4", &picture, "-c:v libx264 -preset ultrafast -c:a aac")
    }

    fn ingest(&self, file: &Path, words: &str) -> Ran {
        tool::run(fullbore("ingest", words).arg(file).arg("--library").arg(self.library()))
    }

    fn catalog(&self, words: &str) -> Ran {
        tool::run(fullbore("library", words).arg("--library").arg(self.library()))
    }
}

fn fullbore(verb: &str, words: &str) -> Command {
    let mut command = Command::new(program());
    command.arg(verb).args(words.split_whitespace()).stdin(Stdio::null());
    command
}

/// The title's record.
fn record(title: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(title.join("title.json")).unwrap()).unwrap()
}

/// The checksums of one stream's frames.
fn frames(source: impl AsRef<OsStr>, stream: &str) -> Vec<String> {
    let mut command = tool::command("ffmpeg");
    command.args(["-nostdin", "-v", "error"]);
    if source.as_ref().as_encoded_bytes().starts_with(b"https:") {
        command.args(["-tls_verify", "0"]);
    }
    command.arg("-i").arg(source.as_ref());
    let ran = tool::run(command.args([
        "-map",
        stream,
        "-fps_mode",
        "passthrough",
        "-f",
        "framecrc",
        "-",
    ]));
    assert!(ran.success && ran.stderr.is_empty(), "{:?}: {}", source.as_ref(), ran.stderr);
    ran.text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn ffmpeg_plays_every_size_from_a_running_server_by_hls_and_dash() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let ladder = format!("{QUICK} --ladder {}", place.path("ladder.toml").display());
    let ran = place.ingest(&place.little_film(), &ladder);
    assert!(ran.success && ran.text().starts_with("made: "), "{}", ran.stderr);
    let title = place.library().join("film");
    let server = Server::start(&place.library(), "");
    server.stdout.wait_for("title     film");
    for manifest in ["master.m3u8", "manifest.mpd"] {
        let url = server.url_of(&format!("film/{manifest}"));
        for stream in ["0:v:0", "0:v:1", "0:a:0"] {
            let served = frames(&url, stream);
            assert!(stream == "0:a:0" || served.len() == FRAMES, "{stream}: {}", served.len());
            assert_eq!(served, frames(title.join(manifest), stream), "{manifest} {stream}");
        }
    }
    assert_eq!(server.counters().value("requests_refused_total{reason=\"not_found\"}"), 0);
}

/// The text files of a title: path in the title, and bytes.
fn text_files(title: &Path) -> Vec<(String, Vec<u8>)> {
    let record = record(title);
    let paths = record["files"].as_array().unwrap().iter().map(|file| file["path"].as_str());
    let is_text =
        |path: &&str| [".m3u8", ".mpd", ".vtt"].iter().any(|extension| path.ends_with(extension));
    let paths = paths.map(Option::unwrap).filter(is_text);
    paths.map(|path| (path.to_owned(), fs::read(title.join(path)).unwrap())).collect()
}

/// curl is the judge of what is compressed: it decodes by zlib and Google's Brotli.
#[test]
fn curl_gets_playlists_and_manifests_compressed() {
    if !tools_are_here() || !tool::are_here(&[("curl", "curl"), ("gzip", "gzip")]) {
        return;
    }
    let place = Place::new();
    let ran = place.ingest(&place.little_film(), "--copy --segment-seconds 1");
    assert!(ran.success, "{}", ran.stderr);
    // By hand, as people do for nginx.
    let by_hand = place.library().join("list.m3u8");
    fs::write(&by_hand, "#EXTM3U\n".repeat(500)).unwrap();
    assert!(tool::run(tool::command("gzip").arg("--keep").arg(&by_hand)).success);
    let title = place.library().join("film");
    let mut files = text_files(&title);
    files.push(("../list.m3u8".into(), fs::read(&by_hand).unwrap()));
    let server = Server::start(&place.library(), "");
    let mut compressed_count = 0;
    for (path, bytes) in files {
        for (coding, suffix) in [("gzip", ".gz"), ("br", ".br")] {
            let accepted = format!("Accept-Encoding: {coding}");
            let target =
                path.strip_prefix("../").map_or_else(|| format!("film/{path}"), str::to_owned);
            let mut command = tool::command("curl");
            command.args(["--silent", "--insecure", "--compressed", "--header", &accepted]);
            command.args(["--write-out", "%{stderr}%{size_download} %header{content-encoding}"]);
            let ran = tool::run(command.arg(server.url_of(&target)));
            assert!(ran.success && ran.stdout == bytes, "{path} by {coding}: {}", ran.stderr);
            let form = fs::metadata(title.join(format!("{path}{suffix}")));
            let expected = match &form {
                Ok(form) => format!("{} {coding}", form.len()),
                Err(_) => format!("{} ", bytes.len()),
            };
            assert_eq!(ran.stderr, expected, "{path} by {coding}");
            compressed_count += usize::from(form.is_ok());
        }
    }
    // At least both manifests in both codings, and the list.
    assert!(compressed_count >= 5, "{compressed_count}");
}

#[test]
fn names_are_relative_to_where_the_command_is_given() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    place.little_film();
    fs::write(place.path("words.srt"), "1\n00:00:01,000 --> 00:00:02,000\nHello\n").unwrap();
    let words = "film.mp4 --copy --library new --subtitle en=words.srt";
    let ran = tool::run(fullbore("ingest", words).current_dir(place.folder.path()));
    assert!(ran.success && ran.text().starts_with("made: new/film "), "{}", ran.stderr);
    assert_eq!(record(&place.path("new/film"))["subtitles"][0]["language"], "en");
}

#[test]
fn what_is_hidden_in_a_library_is_not_served() {
    let place = Place::new();
    let work = place.library().join(".ingest-film");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("half.mp4"), "half").unwrap();
    fs::write(place.library().join("whole.mp4"), "whole").unwrap();
    let server = Server::start(&place.library(), "--tls off");
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch("/whole.mp4").status, 200);
    assert_eq!(viewer.fetch("/.ingest-film/half.mp4").status, 404);
    assert_eq!(viewer.fetch("/%2Eingest-film/half.mp4").status, 404);
}

#[test]
fn a_title_that_is_replaced_while_it_is_watched_goes_on_to_its_end() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let noise = format!("testsrc2=size=640x360:rate=15:duration={SECONDS},noise=alls=100:allf=t");
    let film = place.film("film.mp4", &noise, "-c:v libx264 -preset ultrafast -qp 4 -c:a aac");
    assert!(place.ingest(&film, "--copy").success);
    let title = place.library().join("film");
    let old = record(&title);
    let file = old["video"][0]["file"].as_str().unwrap().to_owned();
    let whole = fs::read(title.join(&file)).unwrap();
    let server = Server::start(&place.library(), "--tls off");
    let mut viewer = Plain::connect(server.address);
    viewer.ask(&format!("/film/{file}"));
    let (status, _, length) = viewer.head();
    assert_eq!((status, length), (200, whole.len()));
    let mut got = viewer.body(100_000);

    let ran = place.ingest(&film, "--copy --segment-seconds 1");
    assert!(ran.text().starts_with("replaced: "), "{}", ran.stderr);
    assert_ne!(record(&title)["folder"], old["folder"]);
    got.extend(viewer.body(length - got.len()));
    assert!(got == whole, "the viewer under way got other bytes");
    // A viewer who requests the next part of the old version gets it.
    assert_eq!(viewer.fetch(&format!("/film/{file}")).body.len(), length);

    assert!(place.catalog("remove film --replaced").success);
    assert_eq!(viewer.fetch(&format!("/film/{file}")).status, 404);
    assert!(place.catalog("verify").success);
}

#[test]
fn each_wrong_use_has_one_line_and_its_code() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let text = place.path("notes.mp4");
    fs::write(&text, "Buy milk.\n").unwrap();
    let other = place.path("notes.mkv");
    fs::write(&other, "Buy bread.\n").unwrap();
    let ladder = place.path("broken.toml");
    fs::write(&ladder, "rungs = []").unwrap();
    let broken = format!("--ladder {}", ladder.display());
    let same = format!("{}", other.display());
    for (words, code, said) in [
        ("", 1, "notes.mp4: this is not a video that ffmpeg can read"),
        (same.as_str(), 2, "two files would become the title \"notes\""),
        (broken.as_str(), 2, "at least one rung"),
        ("--title .hidden", 2, "names that begin with a dot"),
        ("--segment-seconds 99", 2, "between 0.5 and 20"),
        ("--copy --speed best", 2, "cannot be used with"),
        ("--subtitle english", 2, "LANG=FILE"),
        ("--subtitle ../../x=s.srt", 2, "such as en or pt-BR"),
    ] {
        let ran = place.ingest(&text, words);
        assert_eq!(ran.code, Some(code), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains("--help") || ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
    assert_eq!(fs::read_dir(place.library()).unwrap().count(), 0);
}

#[test]
fn titles_are_listed_verified_and_removed() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let film = place.little_film();
    assert!(place.ingest(&film, "--copy --title one").success);
    assert!(place.ingest(&film, "--copy --title two").success);
    let list = place.catalog("list");
    assert!(list.text().starts_with("one  0:00:06  "), "{}", list.text());
    assert_eq!(list.text().lines().count(), 2);
    let list: serde_json::Value =
        serde_json::from_slice(&place.catalog("list --json").stdout).unwrap();
    assert_eq!((&list["version"], &list["kind"]), (&1.into(), &"library-list".into()));
    assert_eq!(list["titles"][1]["record"]["video"][0]["height"], 180);
    assert_eq!(place.catalog("verify").text(), "ok: one\nok: two\n");

    let title = place.library().join("two");
    let file = title.join(record(&title)["video"][0]["file"].as_str().unwrap());
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let verified = place.catalog("verify");
    assert_eq!(verified.code, Some(1));
    assert!(verified.text().contains("ok: one\nBAD: two: v-"), "{}", verified.text());
    assert!(place.catalog("verify one").success);
    let verified = place.catalog("verify two --json");
    let verified: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    let fault = &verified["titles"][0]["faults"][0];
    assert_eq!((&fault["kind"], &fault["blocks"][0]), (&"content".into(), &0.into()));
    assert_eq!((&fault["block_bytes"], &fault["blocks"][1]), (&(4 << 20).into(), &().into()));

    fs::write(title.join("a\nok: b"), "").unwrap();
    let verified = place.catalog("verify two");
    assert!(verified.text().contains("a\\nok: b is not part of the title\n"));

    made_older(&place.library().join("one"));
    let older = place.catalog("verify one");
    assert!(older.success && older.text() == "ok: one\n", "{}", older.text());
    assert!(older.stderr.contains("fullbore library verify --complete"), "{}", older.stderr);
    let told = place.catalog("verify --json --complete");
    assert_eq!(told.code, Some(1), "two is damaged still");
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let told = told["titles"].as_array().unwrap().iter();
    let told: Vec<_> =
        told.map(|one| (one["is_complete"] == true, one["was_completed"] == true)).collect();
    assert_eq!(told, [(true, true), (true, false)]);
    assert!(place.catalog("verify one").stderr.is_empty());

    assert!(place.catalog("remove two").success);
    assert_eq!(place.catalog("remove two").code, Some(1));
    assert_eq!(fs::read_dir(place.library()).unwrap().count(), 1);
}

/// An ingest in progress, and its output.
struct UnderWay {
    child: Child,
    said: Said,
}

impl UnderWay {
    /// Begins to ingest, and waits until it encodes a picture.
    fn begin(place: &Place, film: &Path) -> Self {
        let mut command = fullbore("ingest", "--speed best");
        command.arg(film).arg("--library").arg(place.library());
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let said = Said::listen(child.stderr.take().unwrap());
        said.wait_for("making video");
        let under_way = Self { child, said };
        eventually("ffmpeg to run", || (!encoders(place).is_empty()).then_some(()));
        under_way
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(&mut self) -> Option<i32> {
        eventually("it to end", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // This fails if it has ended, which it has unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes whose command line names the place: its encoders.
fn encoders(place: &Place) -> Vec<String> {
    let library = place.library();
    let library = library.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let ours = lines.filter(|line| {
        line.starts_with(b"ffmpeg") && line.windows(library.len()).any(|part| part == library)
    });
    ours.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

#[test]
fn ctrl_c_ends_the_encoder_and_keeps_what_is_finished() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let film = place.large_film();
    let mut under_way = UnderWay::begin(&place, &film);
    under_way.signal(Signal::INT);
    assert_eq!(under_way.wait(), Some(1));
    under_way.said.wait_for("interrupted; finished parts are kept");
    assert!(encoders(&place).is_empty());
    let work = place.library().join(".ingest-film");
    let names: Vec<_> =
        fs::read_dir(&work).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(
        !names.is_empty()
            && names.iter().all(|name| Path::new(name).extension() == Some("mp4".as_ref())),
        "{names:?}"
    );
    let mut again = UnderWay::begin(&place, &film);
    again.said.wait_for("audio 1 (und) kept from an earlier run");
    again.signal(Signal::TERM);
    assert_eq!(again.wait(), Some(1));
}

#[test]
fn killed_outright_it_takes_its_encoder_along_and_the_title_can_be_made() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let film = place.large_film();
    let mut under_way = UnderWay::begin(&place, &film);
    under_way.signal(Signal::KILL);
    under_way.wait();
    eventually("no encoder to be left", || encoders(&place).is_empty().then_some(()));
    assert!(!place.library().join("film").exists());
    let ran = place.ingest(&film, "--copy");
    assert!(ran.success, "{}", ran.stderr);
    assert_eq!(fs::read_dir(place.library()).unwrap().count(), 1);
}

#[test]
fn killed_at_any_moment_it_leaves_the_old_title_or_the_new_one_whole() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let film = place.little_film();
    assert!(place.ingest(&film, "--copy --title film").success);
    for round in 0..10_u64 {
        let mut command = fullbore("ingest", "--copy --again --title film --segment-seconds");
        command.arg(if round % 2 == 0 { "1" } else { "2" }).arg(&film);
        command.arg("--library").arg(place.library()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // A whole run takes less than half a second on an idle machine: these are moments throughout it.
        // sleeps: the moment of the kill, another one in each round
        std::thread::sleep(Duration::from_millis(round * 60));
        child.kill().unwrap();
        child.wait().unwrap();
        let verified = place.catalog("verify");
        assert!(verified.success, "round {round}: {}", verified.text());
        assert_eq!(frames(place.library().join("film/master.m3u8"), "0:v:0").len(), FRAMES);
    }
    assert!(place.ingest(&film, "--copy --again").success);
    assert_eq!(fs::read_dir(place.library()).unwrap().count(), 1);
}

#[test]
fn a_watch_that_is_killed_at_any_moment_goes_on_and_makes_every_title() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let incoming = place.path("incoming");
    fs::create_dir(&incoming).unwrap();
    let film = place.little_film();
    fs::write(incoming.join("note.mkv"), "This is no film.").unwrap();
    let watch = |output: Stdio| {
        let mut command = fullbore("ingest", "--copy --settle-seconds 1 --at-once 2 --watch");
        command.arg(&incoming).arg("--library").arg(place.library());
        command.stdout(output).stderr(Stdio::null()).spawn().unwrap()
    };
    let title = |round: u64| place.library().join(round.to_string());
    for round in 0..6 {
        fs::copy(&film, incoming.join(format!("{round}.mp4"))).unwrap();
        let mut child = watch(Stdio::null());
        let work = place.library().join(format!(".ingest-{round}"));
        eventually("the work", || (work.exists() || title(round).exists()).then_some(()));
        // A title takes less than half a second on an idle machine: these are moments throughout it.
        // sleeps: the moment of the kill, another one in each round
        std::thread::sleep(Duration::from_millis(round * 60));
        child.kill().unwrap();
        child.wait().unwrap();
        let verified = place.catalog("verify");
        assert!(verified.success, "round {round}: {}", verified.text());
    }
    let mut child = watch(Stdio::piped());
    let _said = Said::listen(child.stdout.take().unwrap());
    eventually("all titles", || (0..6).all(|round| title(round).exists()).then_some(()));
    let failures = || place.catalog("failures");
    eventually("the failure", || failures().text().contains("note.mkv").then_some(()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(place.catalog("verify").success);
    let failed = failures();
    assert!(!failed.success && failed.text().lines().count() == 1, "{}", failed.text());
    let json = place.catalog("failures --json").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["films"][0]["will_retry"], false);
}

#[test]
fn a_watch_that_is_killed_while_it_encodes_keeps_the_finished_parts() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let incoming = place.path("incoming");
    fs::create_dir(&incoming).unwrap();
    fs::rename(place.little_film(), incoming.join("film.mp4")).unwrap();
    let title = place.library().join("film");
    let watch = || {
        let mut command = fullbore("ingest", &format!("{QUICK} --settle-seconds 1"));
        command.arg("--ladder").arg(place.path("ladder.toml")).arg("--watch").arg(&incoming);
        command.arg("--library").arg(place.library());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Said::listen(child.stderr.take().unwrap());
        (child, said)
    };
    let kill = |mut child: Child| {
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let was_kept = (0..5).any(|_| {
        let (child, said) = watch();
        said.wait_for("(2 of 3)");
        kill(child);
        if title.exists() {
            // This test was held up for longer than the encoding took: once more.
            fs::remove_dir_all(place.library()).unwrap();
            fs::create_dir(place.library()).unwrap();
            return false;
        }
        let (child, said) = watch();
        said.wait_for("kept from an earlier run");
        kill(child);
        true
    });
    assert!(was_kept, "it was never killed while it encoded");
    let (mut child, _said) = watch();
    eventually("the title", || title.exists().then_some(()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(place.catalog("verify").text().contains("ok: film"));
    assert_eq!(frames(title.join("master.m3u8"), "0:v:1").len(), FRAMES);
}

#[test]
fn a_film_that_failed_is_tried_again_with_other_options() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let incoming = place.path("incoming");
    fs::create_dir(&incoming).unwrap();
    fs::copy(place.little_film(), incoming.join("one.mp4")).unwrap();
    fs::write(incoming.join("note.mkv"), "This is no film.").unwrap();
    // Watches until `is_done`, and returns what it reported.
    let watched = |options: &str, is_done: &dyn Fn(&str) -> bool| {
        let mut command = fullbore("ingest", &format!("{QUICK} {options} --settle-seconds 1"));
        command.arg("--ladder").arg(place.path("ladder.toml")).arg("--watch").arg(&incoming);
        command.arg("--library").arg(place.library());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _made = Said::listen(child.stdout.take().unwrap());
        let said = Said::listen(child.stderr.take().unwrap());
        let failures = || place.catalog("failures").text();
        eventually("the results", || is_done(&failures()).then_some(()));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        said.wait_for_rest();
        (
            said.lines().join(
                "
",
            ),
            failures(),
        )
    };
    let has_all = |text: &str, names: &[&str]| names.iter().all(|name| text.contains(name));
    let (said, _) = watched("--burn-in en", &|failed| has_all(failed, &["note.mkv", "one.mp4"]));
    assert!(has_all(&said, &["note.mkv", "nothing fits --burn-in en"]), "{said}");
    // With the same options, only a new film is tried. Films are tried in the order of their names.
    fs::copy(incoming.join("one.mp4"), incoming.join("zebra.mp4")).unwrap();
    let (said, _) = watched("--burn-in en", &|failed| failed.contains("zebra.mp4"));
    assert!(!said.contains("one.mp4") && !said.contains("note.mkv"), "{said}");
    let (said, failed) = watched("", &|failed| !failed.contains(".mp4"));
    assert!(has_all(&failed, &["note.mkv"]) && failed.lines().count() == 1, "{failed}");
    assert!(said.contains("note.mkv") && !said.contains("--burn-in"), "{said}");
    assert!(["one", "zebra"].iter().all(|name| place.library().join(name).exists()));
    assert!(place.catalog("verify").success);
}

/// Removes the checksums of blocks from a title's record, as earlier versions wrote it. Returns the record's text.
fn made_older(title: &Path) -> String {
    let mut record = catalog::Record::read(title).unwrap();
    record.files.iter_mut().for_each(|file| file.blocks_sha256 = None);
    let text = record.seal();
    fs::write(title.join("title.json"), &text).unwrap();
    text
}

#[test]
fn killed_at_any_moment_completing_leaves_the_old_record_or_the_new_one_whole() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    assert!(place.ingest(&place.little_film(), QUICK).success);
    let title = place.library().join("film");
    let complete = fs::read_to_string(title.join("title.json")).unwrap();
    let older = made_older(&title);
    assert_ne!(older, complete);
    // A little later each time, until some runs complete: by then kills have hit every moment before.
    let mut completed = 0;
    for milliseconds in 0.. {
        let library = place.library();
        let words = format!("verify film --complete --library {}", library.display());
        let mut child = fullbore("library", &words).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = fs::read_to_string(title.join("title.json")).unwrap();
        assert!(found == older || found == complete, "after {milliseconds} ms:\n{found}");
        if found == complete {
            completed += 1;
            made_older(&title);
        }
        if completed == 10 {
            break;
        }
    }
    let ran = place.catalog("verify --complete");
    assert!(ran.success, "{}", ran.stderr);
    assert_eq!(ran.text(), "ok: film (record completed)\n");
    assert_eq!(fs::read_to_string(title.join("title.json")).unwrap(), complete);
    assert!(!place.library().join(".ingest-film").exists(), "what was left is cleared away");
}

#[test]
fn the_second_of_two_ingests_of_one_title_ends_with_one_line() {
    if !tools_are_here() {
        return;
    }
    let place = Place::new();
    let film = place.large_film();
    let mut first = UnderWay::begin(&place, &film);
    let second = place.ingest(&film, "--copy");
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("another fullbore is working on the title \"film\""));
    assert_eq!(second.stderr.lines().count(), 1, "{}", second.stderr);
    // The first one continues: none of its files were removed.
    assert!(first.child.try_wait().unwrap().is_none());
    // Between two encoders there is none for a moment.
    eventually("its encoder", || (!encoders(&place).is_empty()).then_some(()));
    first.signal(Signal::INT);
    assert_eq!(first.wait(), Some(1));
}

/// Runs the shell script `script` in a mount namespace of its own, so that it can have a small disk for the library.
/// The script gets the program as `$1`, the library as `$2`, a film as `$3`. `None` if no such namespace can be
/// created.
fn with_own_mounts(script: &str, place: &Place, film: &Path) -> Option<Ran> {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    let ran = tool::run(command.arg(program()).arg(place.library()).arg(film));
    if ran.stderr.contains("unshare") || ran.stderr.contains("mount:") {
        tool::skip("no mount namespace can be made here");
        return None;
    }
    Some(ran)
}

#[test]
fn a_disk_that_fills_up_gives_one_line_and_no_title() {
    if !tools_are_here() || !tool::are_here(&[("unshare", "util-linux")]) {
        return;
    }
    let place = Place::new();
    // It uses all that its rungs allow, twice what most films use and what is estimated.
    let noise = format!("nullsrc=size=320x180:rate=15:duration={SECONDS},noise=alls=100:allf=t+u");
    let film = place.film("film.mp4", &noise, "-c:v libx264 -preset ultrafast -qp 20 -c:a aac");
    let ladder = place.path("ladder.toml");
    fs::write(&ladder, "rungs = [{ height = 180, kbps = 2500 }]").unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1100k none \"$2\" && \
         {{ \"$1\" ingest \"$3\" --library \"$2\" --speed fastest --ladder {}; code=$?; ls -A \"$2\"; exit $code; }}",
        ladder.display()
    );
    let Some(ran) = with_own_mounts(&script, &place, &film) else { return };
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("is full: make room"), "{}", ran.stderr);
    assert_eq!(ran.text(), ".ingest-film\n");
}

#[test]
fn however_little_room_there_is_the_title_is_whole_or_not_there() {
    if !tools_are_here() || !tool::are_here(&[("unshare", "util-linux")]) {
        return;
    }
    let place = Place::new();
    let film = place.little_film();
    let kilobytes = fs::metadata(&film).unwrap().len() / 1000;
    // From no room for the copy, through too little for the poster, the sums and the record, to enough for everything.
    let sizes: Vec<_> =
        (0..10).map(|part| (kilobytes * (80 + part * 8) / 100).to_string()).collect();
    let script = format!(
        "for size in {} 4000; do mount -t tmpfs -o size=${{size}}k none \"$2\" || exit 9; \
         \"$1\" ingest \"$3\" --library \"$2\" --copy >/dev/null 2>\"$3.said\"; code=$?; \
         if [ -e \"$2/film\" ]; then \"$1\" library verify --library \"$2\" >/dev/null && echo \"$code whole\" || echo torn; \
         else echo \"$code $(grep -c 'make room' \"$3.said\") $(grep -vcE ': (making|made) ' \"$3.said\")\"; fi; umount \"$2\"; done",
        sizes.join(" ")
    );
    let Some(ran) = with_own_mounts(&script, &place, &film) else { return };
    let told = ran.text();
    let ends: Vec<_> = told.lines().collect();
    assert_eq!(ends.len(), 11, "{}", ran.stderr);
    assert!(ends.iter().all(|end| ["0 whole", "1 1 1"].contains(end)), "{ends:?}");
    assert_eq!((ends[0], ends[10]), ("1 1 1", "0 whole"));
}
