//! Third-party clients and checkers, with each byte compared: aria2, axel, wget, curl's unusual options, and
//! redbot, which checks a server's answers against the RFCs. docs/notes/clients.md has the results of each.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Server, file};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use tempfile::{TempDir, tempdir};

/// The length of a film for clients that open many connections: a mebibyte for each of sixteen.
const LONG: usize = 20_000_003;

/// The length of a film for clients that open one connection: some windows, and not a whole number of records.
const LENGTH: usize = 3_000_001;

/// A library with one file, `film.mp4`, of that length, an hour old: a date does not identify a version before its
/// second is over (RFC 9110 section 8.8.2.2).
fn library(length: usize) -> (TempDir, Vec<u8>) {
    let folder = tempdir().unwrap();
    let bytes = file(folder.path(), "film.mp4", length);
    make_old(&folder.path().join("film.mp4"));
    (folder, bytes)
}

fn make_old(path: &Path) {
    let date = SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(path).unwrap().set_modified(date).unwrap();
}

/// Runs a client, a program of a Debian package, against servers of a film of that length: one with TLS and one
/// without, because different code sends. If the program is missing, only reports that.
fn meet(client: (&str, &str), length: usize, meeting: impl Fn(&Server, &[u8])) {
    if !tool::are_here(&[client]) {
        return;
    }
    let (library, film) = library(length);
    for protocol in ["", "--tls off"] {
        meeting(&Server::start(library.path(), protocol), &film);
    }
}

#[track_caller]
fn assert_got(path: &Path, expected: &[u8], ran: &Ran) {
    assert!(ran.success, "{}\n{}", ran.text(), ran.stderr);
    let got = fs::read(path).unwrap();
    assert_eq!(got.len(), expected.len(), "{}", ran.stderr);
    assert!(got == expected, "other bytes");
}

fn aria2(server: &Server, folder: &Path, words: &str) -> Ran {
    let mut command = tool::command("aria2c");
    command.args(["--no-conf=true", "--quiet=true", "--check-certificate=false"]);
    command.args(["--file-allocation=none", "--dir"]).arg(folder).args(words.split_whitespace());
    tool::run(command.arg(server.url_of("film.mp4")))
}

#[test]
fn aria2_takes_a_film_over_sixteen_connections_and_resumes_one() {
    meet(("aria2c", "aria2"), LONG, |server, film| {
        let out = tempdir().unwrap();
        let split = "--split=16 --max-connection-per-server=16 --min-split-size=1M --out=whole";
        let ran = aria2(server, out.path(), split);
        assert_got(&out.path().join("whole"), film, &ran);
        let parts = server.counters().value("responses_total{status=\"206\"}");
        assert!(parts >= 8, "{}: {parts} parts: it did not split", server.url);
        fs::write(out.path().join("part"), &film[..7_000_001]).unwrap();
        let ran = aria2(server, out.path(), "--continue=true --split=1 --out=part");
        assert_got(&out.path().join("part"), film, &ran);
    });
}

#[test]
fn axel_takes_a_film_over_eight_connections() {
    meet(("axel", "axel"), LONG, |server, film| {
        let folder = tempdir().unwrap();
        let out = folder.path().join("film.mp4");
        let mut command = tool::command("axel");
        command.args(["--num-connections=8", "--quiet", "--insecure", "--output"]).arg(&out);
        let ran = tool::run(command.arg(server.url_of("film.mp4")));
        assert_got(&out, film, &ran);
        let parts = server.counters().value("responses_total{status=\"206\"}");
        assert!(parts >= 8, "{}: {parts} parts: it did not split", server.url);
    });
}

fn wget(server: &Server, words: &str, out: &Path) -> Ran {
    let mut command = tool::command("wget");
    command.args(["--no-config", "--no-verbose", "--no-check-certificate", "--tries=1"]);
    command.args(words.split_whitespace()).arg("--output-document").arg(out);
    tool::run(command.arg(server.url_of("film.mp4")))
}

#[test]
fn wget_takes_a_film_whole_in_part_and_the_rest() {
    meet(("wget", "wget"), LENGTH, |server, film| {
        let folder = tempdir().unwrap();
        let out = folder.path().join("film.mp4");
        assert_got(&out, film, &wget(server, "", &out));
        fs::write(&out, &film[..1_234_567]).unwrap();
        assert_got(&out, film, &wget(server, "--continue", &out));
        // It requests bytes after the end and gets 416, from which wget concludes that it has everything.
        assert_got(&out, film, &wget(server, "--continue", &out));
        fs::remove_file(&out).unwrap();
        let rest = wget(server, "--start-pos=2900000", &out);
        assert_got(&out, &film[2_900_000..], &rest);
        assert_got(&out, film, &wget(server, "--compression=auto --no-http-keep-alive", &out));
        let counters = server.counters();
        assert_eq!(counters.value("responses_total{status=\"206\"}"), 2, "{}", server.url);
        assert_eq!(counters.value("responses_total{status=\"416\"}"), 1, "{}", server.url);
    });
}

#[test]
fn wget_does_not_take_what_it_has_again() {
    if !tool::are_here(&[("wget", "wget")]) {
        return;
    }
    let (library, film) = library(LENGTH);
    let server = Server::start(library.path(), "");
    let folder = tempdir().unwrap();
    let fetch = || {
        let mut command = tool::command("wget");
        command.args(["--no-config", "--no-verbose", "--no-check-certificate", "--timestamping"]);
        tool::run(command.current_dir(folder.path()).arg(server.url_of("film.mp4")))
    };
    for _ in 0..2 {
        assert_got(&folder.path().join("film.mp4"), &film, &fetch());
    }
    let counters = server.counters();
    assert_eq!(counters.value("responses_total{status=\"200\"}"), 1);
    assert_eq!(counters.value("responses_total{status=\"304\"}"), 1);
}

/// curl's last status and the body, for `film.mp4` and the arguments in `words`; quoted ones are in `more`.
fn curl(server: &Server, words: &str, more: &[&str]) -> (Ran, String) {
    let mut command = tool::command("curl");
    command.args(["--silent", "--insecure", "--write-out", "%{stderr}%{http_code}"]);
    command.args(words.split_whitespace()).args(more);
    let ran = tool::run(command.arg(server.url_of("film.mp4")));
    let status = ran.stderr.clone();
    (ran, status)
}

#[test]
fn curls_odd_options_get_the_bytes_that_they_mean() {
    meet(("curl", "curl"), LENGTH, |server, film| {
        for (words, status, body) in [
            ("--http1.0", "200", 0..LENGTH),
            ("--http1.0 --range 5-104", "206", 5..105),
            ("--http0.9", "200", 0..LENGTH),
            ("--range 0-0", "206", 0..1),
            ("--range -1", "206", LENGTH - 1..LENGTH),
            ("--range 2999999-99999999999", "206", 2_999_999..LENGTH),
            ("--range 5-9,10-14,20-24", "206", 5..25),
            ("--range 9-5", "200", 0..LENGTH),
            ("--continue-at 2900000", "206", 2_900_000..LENGTH),
            ("--limit-rate 12M", "200", 0..LENGTH),
            ("--compressed", "200", 0..LENGTH),
            ("--tr-encoding", "200", 0..LENGTH),
            ("--raw", "200", 0..LENGTH),
            ("--ignore-content-length --http1.0", "200", 0..LENGTH),
            ("--no-keepalive --tcp-nodelay --no-buffer", "200", 0..LENGTH),
            ("--max-filesize 30000000", "200", 0..LENGTH),
            ("--request-target /film.mp4?x=1#y", "400", 0..0),
            ("--request-target http://elsewhere/film.mp4", "200", 0..LENGTH),
            ("--path-as-is --get --data a=b", "200", 0..LENGTH),
            ("--referer http://a/b --user-agent x --cookie c=d", "200", 0..LENGTH),
            ("--time-cond 20010101", "200", 0..LENGTH),
            ("--time-cond -20010101", "412", 0..0),
            ("--expect100-timeout 1 --header Expect:100-continue --data x=y", "405", 0..0),
            ("--request DELETE", "405", 0..0),
            ("--request OPTIONS", "204", 0..0),
            ("--upload-file /dev/null", "405", 0..0),
        ] {
            let (ran, said) = curl(server, words, &[]);
            assert_eq!(said, status, "{} {words}", server.url);
            if status.starts_with('2') {
                assert!(ran.success && ran.stdout == film[body], "{} {words}", server.url);
            }
        }
        let (ran, said) = curl(server, "--head", &[]);
        assert!(said == "200" && ran.text().contains(&format!("Content-Length: {LENGTH}\r\n")));
    });
}

#[test]
fn curls_validators_are_those_that_the_server_gave() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let (library, film) = library(LENGTH);
    let server = Server::start(library.path(), "");
    let (head, _) = curl(&server, "--head", &[]);
    let head = head.text();
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.expect("the field is there").trim().to_owned()
    };
    let (etag, date) = (field("ETag"), field("Last-Modified"));
    for (words, lines, status, body) in [
        ("--range 5-9", format!("If-Range: {etag}"), "206", 5..10),
        // The film's date was set back, so it does not show which version the parts are from.
        ("--range 5-9", format!("If-Range: {date}"), "200", 0..LENGTH),
        ("--range 5-9", "If-Range: \"other\"".into(), "200", 0..LENGTH),
        ("--range 5-9", format!("If-Range: W/{etag}"), "200", 0..LENGTH),
        ("--range 5-9", format!("If-None-Match: {etag}"), "304", 0..0),
        ("--range 5-9", format!("If-Match: {etag}"), "206", 5..10),
        ("", format!("If-Unmodified-Since: {date}"), "200", 0..LENGTH),
        ("", format!("If-Modified-Since: {date}"), "304", 0..0),
    ] {
        let (ran, said) = curl(&server, words, &["--header", &lines]);
        assert_eq!(said, status, "{words} {lines}");
        assert!(ran.stdout == film[body], "{words} {lines}");
    }
    let folder = tempdir().unwrap();
    let kept = folder.path().join("etag").display().to_string();
    let (first, _) = curl(&server, "--etag-save", &[&kept]);
    assert!(first.stdout == film);
    let (again, said) = curl(&server, "--etag-compare", &[&kept]);
    assert_eq!((said.as_str(), again.stdout.len()), ("304", 0));
    let old = folder.path().join("old");
    fs::write(&old, "").unwrap();
    let (newer, said) = curl(&server, "--time-cond", &[&old.display().to_string()]);
    assert_eq!((said.as_str(), newer.stdout.len()), ("304", 0), "the film is older than the file");
}

#[test]
fn curl_takes_many_at_once() {
    meet(("curl", "curl"), 700_001, |server, film| {
        let out = tempdir().unwrap();
        let mut command = tool::command("curl");
        command.args(["--silent", "--insecure", "--parallel", "--parallel-immediate"]);
        command.args(["--parallel-max", "16", "--output"]).arg(out.path().join("#1"));
        let ran = tool::run(command.arg(server.url_of("film.mp4?[1-64]")));
        assert!(ran.success, "{}", ran.stderr);
        for number in 1..=64 {
            let got = fs::read(out.path().join(number.to_string())).unwrap();
            assert!(got == film, "{}: number {number} has other bytes", server.url);
        }
        assert!(server.counters().value("connections_accepted_total") >= 16, "{}", server.url);
    });
}

#[test]
fn compressed_assets_are_the_assets() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let (library, _) = library(LENGTH);
    let server = Server::start(library.path(), "");
    let fetch = |words: &str, path: &str| {
        let mut command = tool::command("curl");
        command.args(["--silent", "--insecure"]).args(words.split_whitespace());
        tool::run(command.arg(server.url_of(path))).stdout
    };
    let page = String::from_utf8(fetch("", "-/")).unwrap();
    let assets: Vec<_> =
        page.split('"').filter_map(|text| text.strip_prefix("./assets/")).collect();
    if assets.is_empty() {
        tool::skip("this build has no pages; run ./run build");
        return;
    }
    for asset in assets {
        let path = format!("-/assets/{asset}");
        let whole = fetch("", &path);
        assert!(!whole.is_empty(), "{path}");
        assert!(fetch("--compressed", &path) == whole, "{path} as curl likes it best");
        // curl asks for gzip and decodes the answer.
        let gzip = ["--compressed", "--header", "Accept-Encoding:gzip"].join(" ");
        assert!(fetch(&gzip, &path) == whole, "{path} by gzip");
    }
}

/// redbot's notes about an address: (note, level).
fn redbot(url: &str) -> Vec<(String, String)> {
    let ran = tool::run(tool::command("redbot").args(["--output-format", "har", url]));
    assert!(ran.success, "{}", ran.stderr);
    let har: Value = serde_json::from_slice(&ran.stdout).expect("an HTTP archive");
    let notes = har["log"]["entries"][0]["_red_messages"].as_array().expect("its notes").clone();
    let text = |note: &Value, name: &str| note[name].as_str().expect("text").to_owned();
    notes.iter().map(|note| (text(note, "note_id"), text(note, "level"))).collect()
}

/// Whether a note counts against the server. One doesn't: redbot 2.7.1 mistakes every declared film for something
/// else, because its library (sniffpy 1.0) finds no type for what is declared as audio or video.
fn is_wrong((id, level): &(String, String)) -> bool {
    (level == "BAD" || level == "WARN") && id != "CONTENT_TYPE_MISMATCH"
}

fn redbot_is_here() -> bool {
    let is_here =
        Command::new("redbot").arg("--help").output().is_ok_and(|ran| ran.status.success());
    if !is_here {
        tool::skip("there is no redbot on this machine: ./run test installs it from PyPI");
    }
    is_here
}

#[test]
fn redbot_finds_nothing_wrong() {
    if !redbot_is_here() {
        return;
    }
    let library = tempdir().unwrap();
    file(library.path(), "film.mp4", 300_000);
    let playlist = format!("#EXTM3U\n#EXT-X-VERSION:7\n{}", "#EXTINF:4,\nfilm.mp4\n".repeat(99));
    fs::write(library.path().join("film.m3u8"), playlist).unwrap();
    for name in ["film.mp4", "film.m3u8"] {
        make_old(&library.path().join(name));
    }
    let server = Server::start(library.path(), "--tls off");
    let plain = || fullbore_tests::Plain::connect(server.address);
    fullbore_tests::eventually("the list of titles", || {
        let list = plain().fetch("/-/titles.json");
        String::from_utf8_lossy(&list.body).contains("\"is_complete\":true").then_some(())
    });
    let page = String::from_utf8(plain().fetch("/-/watch/film").body).unwrap();
    let script =
        page.split('"').find(|text| text.starts_with("./assets/") && text.ends_with(".js"));
    let script = script.map(|path| format!("-/{}", path.trim_start_matches("./")));
    if script.is_none() {
        tool::skip("in part: this build has no pages; run ./run build");
    }
    let validated: &[&str] = &["INM_304", "CL_CORRECT", "DATE_CORRECT"];
    let of_files = ["IMS_304", "RANGE_CORRECT"];
    std::thread::scope(|scope| {
        for (path, shown) in [
            (Some("film.mp4".to_owned()), [validated, &of_files].concat()),
            (Some("film.m3u8".into()), [validated, &of_files].concat()),
            (Some("-/titles.json".into()), validated.to_vec()),
            (Some("-/watch/film".into()), validated.to_vec()),
            (script, [validated, &["CONNEG_GZIP_GOOD"]].concat()),
            (Some("nothing".into()), vec!["CL_CORRECT", "STORE_NO_STORE"]),
        ] {
            let Some(path) = path else { continue };
            let server = &server;
            scope.spawn(move || {
                let notes = redbot(&server.url_of(&path));
                for note in shown {
                    assert!(
                        notes.iter().any(|(id, _)| id == note),
                        "{path} lacks {note}: {notes:?}"
                    );
                }
                let wrong: Vec<_> = notes.iter().filter(|note| is_wrong(note)).collect();
                assert!(wrong.is_empty(), "{path}: {wrong:?}");
            });
        }
    });
}
