//! Signed URLs, as sellers and viewers of films use them.

mod cat;

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Launch, Plain, Server, Signal, file, program};
use ingest::sample::{Recipe, TITLE, ensure_recipe};
use ingest::{Ladder, Rung};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

const LENGTH: usize = 100_000;

/// Long enough for the test, and short to read.
const EXPIRES: &str = "1h";

/// A library with `films/a/b.mp4`, `films/ab/c.mp4` and `open.txt`; a key; and a configuration that uses it.
struct Cinema {
    folder: TempDir,
    film: Vec<u8>,
}

impl Cinema {
    fn new(signing: &str) -> Self {
        let folder = tempdir().unwrap();
        for name in ["library/films/a", "library/films/ab"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let film = file(&folder.path().join("library/films/a"), "b.mp4", LENGTH);
        fs::write(folder.path().join("library/films/ab/c.mp4"), "another").unwrap();
        fs::write(folder.path().join("library/open.txt"), "open").unwrap();
        let cinema = Self { folder, film };
        cinema.make_key("url.key");
        let config = format!("[signing]\nkeys = [{:?}]\n{signing}\n", cinema.path("url.key"));
        fs::write(cinema.path("fullbore.toml"), config).unwrap();
        cinema
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn make_key(&self, name: &str) {
        let ran = fullbore(&["sign", "--new-key", self.path(name).to_str().unwrap()]);
        assert!(ran.success, "{}", ran.stderr);
    }

    fn launch(&self, arguments: &str) -> Launch {
        let launch = Launch::of(&self.path("library")).arguments(arguments);
        launch.arguments("--config").argument(self.path("fullbore.toml"))
    }

    /// The output of `fullbore sign` for `words`, with the key `key`.
    fn sign(&self, key: &str, words: &str) -> String {
        let key = self.path(key);
        let fixed = ["sign", "--key", key.to_str().unwrap(), "--expires", EXPIRES];
        let ran = fullbore(&[&fixed[..], &words.split(' ').collect::<Vec<_>>()].concat());
        assert!(ran.success, "{}", ran.stderr);
        ran.text().trim_end().to_owned()
    }
}

fn fullbore(arguments: &[&str]) -> Ran {
    tool::run(Command::new(program()).args(arguments))
}

fn refused(server: &Server, reason: &str) -> u64 {
    server.counters().value(&format!("requests_refused_total{{reason=\"{reason}\"}}"))
}

/// The status of `path`. A refusal must not be cached or end the connection.
fn status(viewer: &mut Plain, path: &str) -> u16 {
    let response = viewer.fetch(path);
    if response.status == 403 {
        assert!(response.head.contains("Cache-Control: no-store\r\n"), "{}", response.head);
        assert!(!response.head.contains("Connection: close"), "{}", response.head);
    }
    response.status
}

#[test]
fn curl_gets_what_is_signed_for_in_either_form_over_tls() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let cinema = Cinema::new("");
    let server = cinema.launch("--workers 1").start();
    let curl = |url: &str| {
        let words = ["--silent", "--show-error", "--insecure", "--include", url];
        String::from_utf8_lossy(&tool::run(tool::command("curl").args(words)).stdout).into_owned()
    };
    let base = server.url.clone();
    let mut tags = Vec::new();
    for form in ["", "--query "] {
        let url = cinema.sign("url.key", &format!("films/a/b.mp4 {form}--base {base}"));
        assert!(url.starts_with(&base), "{url}");
        let answer = curl(&url);
        assert!(answer.starts_with("HTTP/1.1 200"), "{url}: {answer}");
        assert!(answer.contains(&format!("Content-Length: {LENGTH}\r\n")), "{answer}");
        tags.extend(answer.lines().find(|line| line.starts_with("ETag: ")).map(str::to_owned));
    }
    assert!(tags.len() == 2 && tags[0] == tags[1], "one file, one ETag: {tags:?}");
    server.wait_for_counter("open_files", 1);
    assert_eq!(server.counters().value("open_files"), 1, "one file, opened once");
    assert!(curl(&server.url_of("films/a/b.mp4")).starts_with("HTTP/1.1 403"));
}

#[test]
fn every_way_to_be_refused_is_counted_by_its_reason() {
    let cinema = Cinema::new("");
    let server = cinema.launch("--tls off --workers 1").start();
    let mut viewer = Plain::connect(server.address);
    let signed = cinema.sign("url.key", "films/a --scope films/a");
    let token = signed.split('/').nth(2).unwrap().to_owned();
    let [expiry, signature, key, depth] = token.split('.').collect::<Vec<_>>()[..] else {
        panic!("{token}")
    };

    assert_eq!(viewer.fetch(&format!("/t/{token}/films/a/b.mp4")).body, cinema.film);
    for (reason, path, times) in [
        ("token_missing", "/films/a/b.mp4".to_owned(), 1),
        ("token_missing", "/films/a/nothing.mp4".to_owned(), 2),
        ("token_malformed", format!("/t/{expiry}.{signature}.{key}/films/a/b.mp4"), 1),
        ("token_malformed", "/films/a/b.mp4?token=secret".to_owned(), 2),
        ("token_unknown_key", format!("/t/{expiry}.{signature}.other.{depth}/films/a/b.mp4"), 1),
        ("token_wrong", format!("/t/{token}/films/ab/c.mp4"), 1),
        ("token_wrong", format!("/t/{token}/open.txt"), 2),
        ("token_wrong", format!("/t/{expiry}.{}.{key}.{depth}/films/a/b.mp4", "0".repeat(64)), 3),
        ("token_wrong", format!("/t/{expiry}.{signature}.{key}.1/films/a/b.mp4"), 4),
    ] {
        assert_eq!(status(&mut viewer, &path), 403, "{path}");
        assert_eq!(refused(&server, reason), times, "{reason}: {path}");
    }
    // Several slashes are one, for the token's prefix as well.
    assert_eq!(viewer.fetch(&format!("/t/{token}//films/a//b.mp4")).body, cinema.film);
    assert_eq!(status(&mut viewer, &format!("/t/{token}/films//ab/c.mp4")), 403);
    for escape in ["films/a/../ab/c.mp4", "films/a/%2e%2e/ab/c.mp4", "films%2fa/b.mp4"] {
        assert_eq!(status(&mut viewer, &format!("/t/{token}/{escape}")), 404, "{escape}");
    }
    assert_eq!(server.counters().value("responses_total{status=\"403\"}"), 10);
}

#[test]
fn a_genuine_token_ends_at_its_moment() {
    if !tool::are_here(&[("openssl", "openssl")]) {
        return;
    }
    let cinema = Cinema::new("");
    let server = cinema.launch("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    // Made as docs/signed-urls.md describes, without our programs: ours do not sign links that have expired.
    for (expiry, expected) in [(1_700_000_000_u64, 403), (4_000_000_000, 200)] {
        let token = signed_by_openssl(&cinema, expiry, "films/a");
        assert_eq!(status(&mut viewer, &format!("/t/{token}/films/a/b.mp4")), expected, "{token}");
    }
    assert_eq!(refused(&server, "token_expired"), 1);
}

fn signed_by_openssl(cinema: &Cinema, expiry: u64, prefix: &str) -> String {
    let key = fs::read_to_string(cinema.path("url.key")).unwrap();
    let (id, secret) = key.trim_end().split_once(':').unwrap();
    let message = cinema.path("message");
    fs::write(&message, format!("fullbore-url-1\n{expiry}\n\n{prefix}")).unwrap();
    let mut command = tool::command("openssl");
    let words = ["dgst", "-sha256", "-r", "-mac", "HMAC", "-macopt", &format!("hexkey:{secret}")];
    let signature = tool::run(command.args(words).arg(&message)).text();
    let signature = signature.split_whitespace().next().expect("a digest");
    format!("{expiry}.{signature}.{id}.{}", prefix.split('/').count())
}

#[test]
fn a_token_for_one_address_is_good_from_there_only() {
    let cinema = Cinema::new("");
    let bound = |client: &str| cinema.sign("url.key", &format!("films/a/b.mp4 --client {client}"));
    let server = cinema.launch("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    assert_eq!(status(&mut viewer, &bound("127.0.0.1")), 200);
    assert_eq!(status(&mut viewer, &bound("127.0.0.2")), 403);
    assert_eq!(status(&mut viewer, &bound("::1")), 403);
    assert_eq!(refused(&server, "token_wrong"), 2);
}

#[test]
fn an_ipv4_viewer_of_a_listener_for_both_versions_is_an_ipv4_viewer() {
    let cinema = Cinema::new("");
    let bound = cinema.sign("url.key", "films/a/b.mp4 --client 127.0.0.1");
    let server = match std::net::TcpListener::bind("[::]:0") {
        Ok(_) => cinema.launch("--tls off").listen("[::]:0").start(),
        Err(error) => return tool::skip(&format!("no IPv6 here: {error}")),
    };
    let port = server.address.port();
    let mut viewer = Plain::connect(([127, 0, 0, 1], port).into());
    assert_eq!(status(&mut viewer, &bound), 200);
    let mut other = Plain::connect((std::net::Ipv6Addr::LOCALHOST, port).into());
    assert_eq!(status(&mut other, &bound), 403);
}

#[test]
fn what_is_not_required_needs_no_token() {
    let cinema = Cinema::new("required = [\"/films/a\"]");
    let server = cinema.launch("--tls off").start();
    server.stdout.wait_for("required for /films/a");
    let mut viewer = Plain::connect(server.address);
    assert_eq!(status(&mut viewer, "/open.txt"), 200);
    assert_eq!(status(&mut viewer, "/films/ab/c.mp4"), 200);
    assert_eq!(status(&mut viewer, "/films/a/b.mp4"), 403);
    assert_eq!(status(&mut viewer, "/films/%61/b.mp4"), 403, "an encoded letter is that letter");
}

#[test]
fn the_shelf_names_what_the_token_allows() {
    let cinema = Cinema::new("");
    let server = cinema.launch("--tls off --workers 1").start();
    let mut viewer = Plain::connect(server.address);
    let token = |words: &str| {
        let signed = cinema.sign("url.key", words);
        format!("/t/{}", signed.split('/').nth(2).unwrap())
    };
    let page = cinema.sign("url.key", "films/a/b.mp4 --page");
    assert!(page.ends_with("/-/watch/films/a/b.mp4"), "{page}");
    assert_eq!(status(&mut viewer, &page), 200);
    for (prefix, expected) in [
        (token("films/a/b.mp4"), vec!["films/a/b.mp4"]),
        (token("films"), vec!["films/a/b.mp4", "films/ab/c.mp4"]),
        (String::new(), vec![]),
    ] {
        assert_eq!(status(&mut viewer, &format!("{prefix}/")), 200, "the shelf itself is open");
        let named = fullbore_tests::eventually("a whole list", || {
            let list = viewer.fetch(&format!("{prefix}/-/titles.json")).body;
            let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
            let titles = list["titles"].as_array().unwrap().iter();
            let paths = titles.map(|title| title["path"].as_str().unwrap().to_owned());
            (list["is_complete"] == true).then(|| paths.collect::<Vec<_>>())
        });
        assert_eq!(named, expected, "{prefix}");
    }
    fs::write(cinema.path("library/index.html"), "mine").unwrap();
    assert_eq!(viewer.fetch(&format!("{}/", token("/"))).body, b"mine");
    assert_ne!(viewer.fetch("/").body, b"mine");
}

#[test]
fn keys_are_changed_on_sighup_without_a_gap() {
    let cinema = Cinema::new("");
    let mut server = cinema.launch("--tls off").start();
    let mut viewer = Plain::connect(server.address);
    let old = cinema.sign("url.key", "films/a/b.mp4");
    cinema.make_key("new.key");
    let new = cinema.sign("new.key", "films/a/b.mp4");
    let mut both = || [status(&mut viewer, &old), status(&mut viewer, &new)];
    assert_eq!(both(), [200, 403]);

    let (old_line, new_line) = (read(&cinema.path("url.key")), read(&cinema.path("new.key")));
    let mut reload = |keys: &str, expected: [u16; 2]| {
        fs::write(cinema.path("url.key"), keys).unwrap();
        server.signal(Signal::HUP);
        fullbore_tests::eventually("the new keys", || (both() == expected).then_some(()));
    };
    reload(&format!("{new_line}{old_line}"), [200, 200]);
    assert!(cinema.sign("url.key", "films").contains(new_line.split(':').next().unwrap()));
    reload(&new_line, [403, 200]);
    fs::write(cinema.path("url.key"), "not a key").unwrap();
    server.signal(Signal::HUP);
    server.stderr.wait_for("the keys already loaded stay in use");
    assert_eq!(both(), [403, 200], "the keys that were good stay");
    assert!(server.is_running());
}

/// Replaces `file` by this text of keys as an agent does: whole, by renaming.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, file).unwrap();
}

#[test]
fn public_keys_are_enough_for_a_server_and_are_rolled_without_a_signal_or_a_refused_viewer() {
    let cinema = Cinema::new("");
    let make = |private: &str, public: &str| {
        let (private, public) = (cinema.path(private), cinema.path(public));
        let (private, public) = (private.to_str().unwrap(), public.to_str().unwrap());
        let ran = fullbore(&["sign", "--new-key", private, "--public", public]);
        assert!(ran.success, "{}", ran.stderr);
    };
    make("old.key", "old.pub");
    make("new.key", "new.pub");
    let (old, new) = (cinema.path("old.pub"), cinema.path("new.pub"));
    let config = format!("[signing]\nkeys = [{:?}]\n", cinema.path("checking.pub"));
    fs::write(cinema.path("fullbore.toml"), config).unwrap();
    replace(&cinema.path("checking.pub"), &read(&old));
    // A stolen node's files can't sign anything.
    let path = old.to_str().unwrap();
    let ran = fullbore(&["sign", "films/a", "--expires", "1h", "--key", path]);
    assert!(!ran.success && ran.stderr.contains("public keys"), "{}", ran.stderr);

    let server = cinema.launch("--tls off --workers 1").start();
    server.stdout.wait_for("checked with public keys only");
    let by_old = cinema.sign("old.key", "films/a/b.mp4");
    let by_new = cinema.sign("new.key", "films/a/b.mp4");
    let mut viewer = Plain::connect(server.address);
    assert_eq!(status(&mut viewer, &by_old), 200);
    assert_eq!(status(&mut viewer, &by_new), 403);

    // The new key arrives, tokens of the old one still play; then it signs; then the old one is removed.
    replace(&cinema.path("checking.pub"), &format!("{}{}", read(&old), read(&new)));
    fullbore_tests::eventually("the new key", || {
        assert_eq!(status(&mut viewer, &by_old), 200, "a viewer was refused during the roll");
        (status(&mut Plain::connect(server.address), &by_new) == 200).then_some(())
    });
    replace(&cinema.path("checking.pub"), &read(&new));
    fullbore_tests::eventually("the old key to go", || {
        assert_eq!(status(&mut Plain::connect(server.address), &by_new), 200);
        (status(&mut viewer, &by_old) == 403).then_some(())
    });
    // With half a file or none, the current keys stay in use.
    replace(&cinema.path("checking.pub"), &read(&new)[..60]);
    server.stderr.wait_for("the keys already loaded stay in use");
    assert_eq!(status(&mut viewer, &by_new), 200);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn ffmpeg_plays_signed_hls_and_dash_to_the_end() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg")]) {
        return;
    }
    let cinema = Cinema::new("");
    let ladder = Ladder::new(vec![Rung { height: 90, kbps: 200 }]).unwrap();
    ensure_recipe(&cinema.path("library"), &Recipe { seconds: 4, ladder }, |_| ()).unwrap();
    let server = cinema.launch("").start();
    let frames = |url: &str| {
        let mut command = tool::command("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-tls_verify", "0"]);
        if url.ends_with(".mpd") {
            // For DASH, ffmpeg accepts no file called .vtt, which is what captions are called.
            command.args(["-allowed_extensions", "ALL"]);
        }
        command.args(["-i", url]);
        command.args(["-map", "0:v:0", "-fps_mode", "passthrough", "-f", "framecrc", "-"]);
        let ran = tool::run(&mut command);
        assert!(ran.stderr.is_empty() == ran.success, "{}", ran.stderr);
        ran.text().lines().filter(|line| !line.starts_with('#')).count()
    };
    for manifest in ["master.m3u8", "manifest.mpd"] {
        let path = format!("{TITLE}/{manifest}");
        let url = cinema.sign("url.key", &format!("{path} --base {}", server.url));
        assert_eq!(frames(&url), 120, "{url}");
    }
    let before = server.counters();
    assert_eq!(before.value("responses_total{status=\"403\"}"), 0);
    // If the token is in the query, the files that the playlist names do not inherit it.
    let path = format!("{TITLE}/master.m3u8 --query --base {}", server.url);
    assert_eq!(frames(&cinema.sign("url.key", &path)), 0);
    assert!(refused(&server, "token_missing") > 0);
}

/// Runs the command in `line` as a shell does, if `fullbore` is this program, and returns the URL that it prints.
fn pasted(line: &str) -> String {
    let command = line.split("$(").nth(1).and_then(|rest| rest.split(")\"").next());
    let command = command.unwrap_or_else(|| panic!("no command in {line:?}"));
    let script = format!("fullbore() {{ \"$PROGRAM\" \"$@\"; }}; {command}");
    let ran = tool::run(tool::command("sh").args(["-c", &script]).env("PROGRAM", program()));
    assert!(ran.success, "{line}: {}", ran.stderr);
    ran.text().trim_end().to_owned()
}

#[test]
fn the_lines_at_the_start_sign_what_they_play() {
    let cinema = Cinema::new("");
    file(&cinema.path("library"), "-o'clock 1.mp4", LENGTH);
    let server = cinema.launch("--tls off").start();
    for start in ["play      ffplay \"$(", "fetch     curl -O \"$("] {
        let url = pasted(&server.stdout.wait_for(start));
        let path = url.strip_prefix(&server.url).unwrap_or_else(|| panic!("{url}"));
        let answer = Plain::connect(server.address).fetch(path);
        assert_eq!((answer.status, answer.body.len()), (200, LENGTH), "{url}");
    }
    drop(server);
    // Open titles are as before.
    let open = Cinema::new("required = [\"films\"]");
    file(&open.path("library"), "a.mp4", LENGTH);
    let server = open.launch("--tls off").start();
    let line = server.stdout.wait_for("play      ffplay ");
    assert!(line.ends_with(&server.url_of("a.mp4")), "{line}");
}

#[test]
fn a_server_that_only_checks_says_that_the_key_is_elsewhere() {
    let cinema = Cinema::new("");
    let (sign, check) = (cinema.path("sign.key"), cinema.path("check.pub"));
    let made = ["sign", "--new-key", sign.to_str().unwrap(), "--public", check.to_str().unwrap()];
    assert!(fullbore(&made).success);
    fs::write(cinema.path("fullbore.toml"), format!("[signing]\nkeys = [{check:?}]\n")).unwrap();
    let server = cinema.launch("--tls off").start();
    let line = server.stdout.wait_for("play      by a signed URL");
    assert!(line.contains("only checks") && line.contains("--key FILE"), "{line}");
}

#[test]
fn the_access_log_holds_no_signature_and_no_session() {
    let cinema = Cinema::new("");
    let log = cinema.path("access.log");
    let launch = cinema.launch("--tls off").argument("--access-log").argument(&log);
    let server = launch.start();
    let mut viewer = Plain::connect(server.address);
    let signed = cinema.sign("url.key", "films/a/b.mp4");
    let in_query = cinema.sign("url.key", "films/a/b.mp4 --query");
    let signature = signed.split('.').nth(1).unwrap();
    assert_eq!(status(&mut viewer, &format!("{signed}?CMCD=sid%3D%22somebody%22")), 200);
    assert_eq!(status(&mut viewer, &in_query), 200);
    // A page of the operator's plays the title in its address, and every request of its player has that address as the referrer.
    let page = format!("/player.html?src={}", signed.replace('/', "%2F"));
    assert_eq!(status(&mut viewer, &page), 403);
    let lines = format!("Referer: http://h{page}\r\nUser-Agent: player ({page})\r\n");
    assert_eq!(viewer.fetch_with(&signed, &lines).status, 200);
    let text = fullbore_tests::eventually("four lines", || {
        fs::read_to_string(&log).ok().filter(|text| text.lines().count() == 4)
    });
    assert!(!text.contains(signature) && !text.contains("somebody"), "{text}");
    assert!(text.contains("/films/a/b.mp4?CMCD=-") && text.contains("?token=-"), "{text}");
}

#[test]
fn a_viewer_with_a_token_is_one_of_the_film_and_not_of_the_token() {
    let cinema = Cinema::new("");
    let server = cinema.launch("--tls off").start();
    let signed = cinema.sign("url.key", "films/a/b.mp4");
    let watched = format!("{signed}?CMCD=ot%3Dv%2Csid%3D%22somebody%22");
    assert_eq!(status(&mut Plain::connect(server.address), &watched), 200);
    // A refused request reports nothing.
    let refused = "/films/ab/c.mp4?CMCD=ot%3Dv%2Csid%3D%22another%22";
    assert_eq!(status(&mut Plain::connect(server.address), refused), 403);
    server.wait_for_counter("qoe_sessions_total", 1);
    let (_, text) = server.admin_page("/metrics");
    let told = "fullbore_qoe_title_sessions_total{title=\"films/a/b.mp4\"} 1\n";
    assert!(text.contains(told) && !text.contains("somebody"), "{text}");
    assert!(text.contains("fullbore_cmcd_reports_total 1\n"), "{text}");
}

#[test]
fn a_key_that_others_may_read_stops_the_start() {
    let cinema = Cinema::new("");
    let key = cinema.path("url.key");
    let chmod = tool::run(Command::new("chmod").arg("644").arg(&key));
    assert!(chmod.success);
    let config = cinema.path("fullbore.toml");
    let ran = fullbore(&["serve", "--check", "--config", config.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("chmod 600"), "{}", ran.stderr);
    let ran = fullbore(&["sign", "a", "--expires", "1h", "--key", key.to_str().unwrap()]);
    assert!(ran.code == Some(1) && ran.stderr.contains("chmod 600"), "{}", ran.stderr);
}

#[test]
fn a_client_that_is_no_address_is_refused_with_what_to_write() {
    let cinema = Cinema::new("");
    let key = cinema.path("url.key");
    let fixed = ["sign", "a", "--expires", "1h", "--key", key.to_str().unwrap(), "--client"];
    for wrong in ["foo", "192.0.2.7:443", "192.0.2.0/24"] {
        let ran = fullbore(&[&fixed[..], &[wrong]].concat());
        let says = ran.stderr.contains("such as 192.0.2.7 or 2001:db8::7");
        assert!(ran.code == Some(2) && says, "{wrong}: {}", ran.stderr);
    }
}

#[test]
fn a_website_signs_for_itself_as_the_manual_says() {
    if !tool::are_here(&[("python3", "python3")]) {
        return;
    }
    let cinema = Cinema::new("");
    let server = cinema.launch("--tls off").start();
    let mut python = tool::command("python3");
    let code = manual("Python");
    let ran = tool::run(python.args(["-c", &code]).current_dir(cinema.folder.path()));
    assert!(ran.success, "{}", ran.stderr);
    let signed = ran.text().trim_end().replace("master.m3u8", "b.mp4");
    assert_eq!(status(&mut Plain::connect(server.address), &signed), 200, "{signed}");
}

/// The code in the manual below the remark `language`, up to an empty line.
fn manual(language: &str) -> String {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/signed-urls.md");
    let manual = read(&manual);
    let (_, code) = manual.split_once(&format!("    # {language}\n")).expect("an example");
    let code = code.lines().take_while(|line| !line.is_empty()).map(str::trim_start);
    code.collect::<Vec<_>>().join("\n")
}

#[test]
fn openssl_makes_keys_and_signs_with_them_as_the_manual_says() {
    if !tool::are_here(&[("openssl", "openssl")]) {
        return;
    }
    let cinema = Cinema::new("");
    let shell = |code: &str| {
        let mut command = tool::command("bash");
        tool::run(command.args(["-euc", code]).current_dir(cinema.folder.path()))
    };
    let ran = shell(&manual("Keys by OpenSSL"));
    assert!(ran.success, "{}", ran.stderr);
    let config = format!("[signing]\nkeys = [{:?}]\n", cinema.path("check.pub"));
    fs::write(cinema.path("fullbore.toml"), config).unwrap();
    let server = cinema.launch("--tls off").start();
    // OpenSSL 1.1 signs no plain text with Ed25519.
    let ran = shell(&manual("Shell, with a key of two halves"));
    if !ran.success {
        return tool::skip(&format!("this OpenSSL does not sign: {}", ran.stderr));
    }
    let signed = ran.text().trim_end().replace("master.m3u8", "b.mp4");
    assert_eq!(status(&mut Plain::connect(server.address), &signed), 200, "{signed}");
    let ours = cinema.sign("sign.key", "films/a/b.mp4");
    assert_eq!(status(&mut Plain::connect(server.address), &ours), 200, "{ours}");
}
