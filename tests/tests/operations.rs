//! Features that an operator relies on: shutdown, health, metrics, logs, systemd, ordinary users, and running out of descriptors.

use fullbore_tests::tool;
use fullbore_tests::{
    Counters, Launch, Plain, Server, Signal, certificate, eventually, file, program,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use tempfile::{TempDir, tempdir};

/// More than the kernel's buffers on both sides hold: a slow reader makes the server wait.
const LONG: usize = 40_000_000;

/// A library with a short file and a long one, and the long one's bytes.
fn library() -> (TempDir, Vec<u8>) {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("note.txt"), "this is the note").unwrap();
    let film = file(folder.path(), "film.mp4", LONG);
    (folder, film)
}

/// A viewer who has requested the film and read a little of it.
fn viewer_under_way(server: &Server) -> (Plain, Vec<u8>) {
    let mut viewer = Plain::connect(server.address);
    viewer.ask("/film.mp4");
    let (status, _, length) = viewer.head();
    assert_eq!((status, length), (200, LONG));
    let begun = viewer.body(100_000);
    (viewer, begun)
}

#[test]
fn sigterm_lets_viewers_finish_and_takes_no_new_ones() {
    let (folder, film) = library();
    let mut server = Server::start(folder.path(), "--tls off");
    let mut idle = Plain::connect(server.address);
    assert_eq!(idle.fetch("/note.txt").status, 200);
    let (mut viewer, mut got) = viewer_under_way(&server);
    assert_eq!(server.admin_page("/healthz"), (200, "ok\n".into()));
    assert_eq!(health(&server), (Some(0), "ok\n".into()));
    server.signal(Signal::TERM);
    server.stderr.wait_for("stopping");
    idle.wait_for_close();
    eventually("new connections to be refused", || TcpStream::connect(server.address).err());
    assert_eq!(server.admin_page("/healthz").0, 503);
    assert_eq!(health(&server).0, Some(1));
    got.extend(viewer.body(LONG - got.len()));
    assert!(got == film, "the viewer under way got other bytes");
    viewer.wait_for_close();
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(health(&server), (Some(1), String::new()));
}

/// The exit code of `fullbore health`, and what it prints.
fn health(server: &Server) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    let ran = command.arg("health").arg(format!("http://{}", server.admin)).output().unwrap();
    (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn a_health_check_finds_the_listener_by_the_configuration_and_refuses_what_is_none() {
    let (folder, _) = library();
    let server = Server::start(folder.path(), "--tls off");
    let config = folder.path().join("fullbore.toml");
    fs::write(&config, format!("admin = \"{}\"\n", server.admin)).unwrap();
    let run = |words: &[&str]| {
        let ran = Command::new(program()).arg("health").args(words).output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let config = config.to_str().unwrap();
    assert_eq!(run(&["--config", config]).0, Some(0));
    fs::write(config, "admin = 1\n").unwrap();
    for words in [&["--config", config][..], &["127.0.0.1:9443"], &["--config", "/none"]] {
        let (code, said) = run(words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.starts_with("fullbore: "), "{words:?}: {said}");
    }
}

#[test]
fn sigterm_lets_curl_finish_over_tls() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let (folder, film) = library();
    let mut server = Server::start(folder.path(), "");
    let out = folder.path().join("out");
    let mut command = tool::command("curl");
    command.args(["--silent", "--show-error", "--insecure", "--limit-rate", "20M", "--output"]);
    let mut curl = command.arg(&out).arg(server.url_of("film.mp4")).spawn().unwrap();
    server.wait_for_counter("windows_total", 1);
    server.signal(Signal::TERM);
    assert!(eventually("curl to end", || curl.try_wait().unwrap()).success());
    assert!(fs::read(&out).unwrap() == film, "curl got other bytes");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_sigterm_ends_it_at_once() {
    let (folder, _) = library();
    let mut server = Server::start(folder.path(), "--tls off");
    let _viewer = viewer_under_way(&server);
    server.signal(Signal::TERM);
    server.stderr.wait_for("stopping");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(1));
    server.stderr.wait_for("ended at once");
}

#[test]
fn a_viewer_who_takes_too_long_is_cut_off_and_that_is_told() {
    let (folder, _) = library();
    let beside = tempdir().unwrap();
    let config = beside.path().join("fullbore.toml");
    fs::write(&config, "drain_seconds = 1\n").unwrap();
    let launch = Launch::of(folder.path()).arguments("--tls off --config").argument(&config);
    let mut server = launch.start();
    let _viewer = viewer_under_way(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(1));
    server.stderr.wait_for("drain_seconds");
}

#[test]
fn sighup_without_tls_changes_nothing() {
    let (folder, _) = library();
    let mut server = Server::start(folder.path(), "--tls off");
    server.signal(Signal::HUP);
    server.stderr.wait_for("TLS is off");
    assert_eq!(Plain::connect(server.address).fetch("/note.txt").status, 200);
    assert!(server.is_running());
}

/// Replaces a file by a pipe without a writer.
fn replace_by_pipe(path: &Path) {
    let pipe = path.with_extension("pipe");
    assert!(tool::run(tool::command("mkfifo").arg(&pipe)).success);
    fs::rename(&pipe, path).unwrap();
}

#[test]
fn keys_that_became_pipes_keep_nobody_from_stopping_it() {
    if !tool::are_here(&[("openssl", "openssl"), ("mkfifo", "coreutils"), ("curl", "curl")]) {
        return;
    }
    let (folder, _) = library();
    let keys = tempdir().unwrap();
    let pair = certificate(keys.path(), "one.example", "ec");
    let url_key = keys.path().join("url.key");
    let mut sign = tool::command(program().to_str().unwrap());
    assert!(tool::run(sign.args(["sign", "--new-key"]).arg(&url_key)).success);
    let config = keys.path().join("fullbore.toml");
    let signing = format!("[signing]\nkeys = [{url_key:?}]\nrequired = [\"film.mp4\"]\n");
    fs::write(&config, signing).unwrap();
    let launch = Launch::of(folder.path()).arguments("--config").argument(&config);
    let launch = launch.arguments("--cert").argument(&pair.cert);
    let mut server = launch.arguments("--key").argument(&pair.key).start();
    // The certificate last, because it is read before its key.
    for path in [&url_key, &pair.key, &pair.cert] {
        replace_by_pipe(path);
        server.signal(Signal::HUP);
        let said = server.stderr.wait_for(path.to_str().unwrap());
        assert!(said.contains("not a regular file") && said.contains("already loaded"), "{said}");
    }
    let mut curl = tool::command("curl");
    let ran = tool::run(curl.args(["--silent", "--insecure", &server.url_of("note.txt")]));
    assert!(ran.success && ran.text() == "this is the note", "{}", ran.stderr);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn an_access_log_that_is_a_pipe_is_written_to_its_reader_or_refused() {
    if !tool::are_here(&[("mkfifo", "coreutils")]) {
        return;
    }
    let (folder, _) = library();
    let logs = tempdir().unwrap();
    let pipe = logs.path().join("access.log");
    assert!(tool::run(tool::command("mkfifo").arg(&pipe)).success);
    let launch = Launch::of(folder.path()).arguments("--tls off --access-log").argument(&pipe);
    let ran = launch.clone().run();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("this pipe or socket has no reader"), "{}", ran.stderr);

    let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let server = launch.start();
    assert_eq!(Plain::connect(server.address).fetch("/note.txt").status, 200);
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["target"], "/note.txt");
}

#[test]
fn a_library_that_is_not_where_it_was_is_not_well_until_it_is_back() {
    let place = tempdir().unwrap();
    let (library, aside) = (place.path().join("library"), place.path().join("aside"));
    fs::create_dir(&library).unwrap();
    fs::write(library.join("note.txt"), "this is the note").unwrap();
    let server = Server::start(&library, "--tls off");
    let health = |status| {
        eventually(&format!("health to be {status}"), || {
            let (now, text) = server.admin_page("/healthz");
            (now == status).then_some(text)
        })
    };
    let lost = || server.counters().value("library_lost");
    assert_eq!((health(200).as_str(), lost()), ("ok\n", 0));

    fs::rename(&library, &aside).unwrap();
    let said = health(503);
    assert!(said.contains(library.to_str().unwrap()) && said.contains("No such file"), "{said}");
    assert_eq!(lost(), 1);
    let (_, status) = server.admin_page("/status.json");
    assert!(status.contains("cannot be reached"), "{status}");
    server.stderr.wait_for("cannot be reached");

    fs::create_dir(&library).unwrap();
    eventually("the other folder to be noticed", || {
        server.admin_page("/healthz").1.contains("another folder").then_some(())
    });
    // Existing files are served throughout.
    assert_eq!(Plain::connect(server.address).fetch("/note.txt").status, 200);

    fs::remove_dir(&library).unwrap();
    fs::rename(&aside, &library).unwrap();
    assert_eq!((health(200).as_str(), lost()), ("ok\n", 0));
    server.stderr.wait_for("is back");
    let told = |part| server.stderr.lines().iter().filter(|line| line.contains(part)).count();
    assert_eq!((told("cannot be reached") <= 2, told("another folder")), (true, 1), "once each");
}

#[test]
fn metrics_are_text_that_prometheus_reads() {
    let (folder, _) = library();
    let server = Server::start(folder.path(), "--tls off");
    Plain::connect(server.address).fetch("/note.txt");
    Plain::connect(server.address).fetch("/nothing");
    Plain::connect(server.address).fetch("/note.txt?CMCD=sid%3D%22x%22,ot%3Dv,msd%3D5");
    server.wait_for_counter("qoe_play_delay_seconds_count", 1);
    let (status, text) = server.admin_page("/metrics");
    assert_eq!(status, 200);
    let (mut typed, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
            assert!(typed.insert(name.to_owned()), "{name} is described twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
            let name = series.split('{').next().unwrap();
            let of_many =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let known = typed.contains(name) || of_many.is_some_and(|name| typed.contains(name));
            assert!(known, "{line} comes before its TYPE");
            assert!(has_sound_labels(series), "{line}");
            assert!(seen.insert(series.to_owned()), "{series} is reported twice");
        }
    }
    assert!(text.ends_with('\n'));
    let counters = server.counters();
    assert_eq!(counters.value("requests_total"), 3);
    assert_eq!(counters.value("responses_total{status=\"404\"}"), 1);
}

/// Whether `series` is `name` or `name{label="value",...}`, with characters that need no escape.
fn has_sound_labels(series: &str) -> bool {
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let Some((name, labels)) = series.split_once('{') else { return word(series) };
    let Some(labels) = labels.strip_suffix("\"}") else { return false };
    let value = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
    };
    let spaced = |text: &str| value(&text.replace(' ', "_"));
    let label =
        |text: &str| text.split_once("=\"").is_some_and(|(name, text)| word(name) && spaced(text));
    word(name) && labels.split("\",").all(label)
}

#[test]
fn status_is_json_with_a_version() {
    let (folder, _) = library();
    let server = Server::start(folder.path(), "--tls off --off heat");
    Plain::connect(server.address).fetch("/note.txt");
    let (_, text) = server.admin_page("/status.json");
    let status: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["version"], 1);
    assert_eq!(status["draining"], false);
    assert_eq!(status["off"][0], "heat");
    assert_eq!(status["total"]["requests_total"], 1);
    assert_eq!(server.admin_page("/nothing").0, 404);
}

#[test]
fn the_admin_listener_is_on_loopback_by_default() {
    let help = tool::run(tool::command(program().to_str().unwrap()).args(["serve", "--help"]));
    assert!(help.text().contains("[default: 127.0.0.1:9443]"), "{}", help.text());
    let (folder, _) = library();
    // The viewers' listener does not serve it.
    let server = Server::start(folder.path(), "--tls off");
    for path in ["/metrics", "/status.json", "/healthz", "/-/metrics", "/-/status.json"] {
        assert_eq!(Plain::connect(server.address).fetch(path).status, 404, "{path}");
    }
}

#[test]
fn the_access_log_has_a_line_of_json_per_response() {
    let (folder, _) = library();
    let beside = tempdir().unwrap();
    let log = beside.path().join("access.log");
    let launch = Launch::of(folder.path()).arguments("--tls off --access-log").argument(&log);
    let server = launch.start();
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch("/note.txt").status, 200);
    assert_eq!(viewer.fetch("/a%22quote").status, 404);
    let lines = eventually("two lines", || {
        let text = fs::read_to_string(&log).ok()?;
        (text.lines().count() == 2 && text.ends_with('\n')).then_some(text)
    });
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for (line, (target, status)) in lines.iter().zip([("/note.txt", 200), ("/a%22quote", 404)]) {
        assert_eq!(line["target"], target);
        assert_eq!(line["status"], status);
        assert_eq!(line["method"], "GET");
        assert_eq!(line["peer"], "127.0.0.1");
        assert!(line["unix_seconds"].as_f64().is_some_and(|seconds| seconds > 1.7e9), "{line}");
        assert!(line["response_bytes"].as_u64().is_some_and(|bytes| bytes > 16), "{line}");
        assert!(line["seconds"].is_f64(), "{line}");
        assert!(line["end"].is_null() && line["tls"].is_null(), "{line}");
    }
}

/// The messages that the service manager receives from a server's start to its stop.
fn told_to_systemd(manager: &UnixDatagram, name: &str) {
    let (folder, _) = library();
    manager.set_read_timeout(Some(fullbore_tests::PATIENCE)).unwrap();
    let hear = || {
        let mut message = [0; 256];
        let bytes = manager.recv(&mut message).expect("the server says something");
        String::from_utf8_lossy(&message[..bytes]).into_owned()
    };
    let mut server =
        Launch::of(folder.path()).arguments("--tls off").variable("NOTIFY_SOCKET", name).start();
    assert_eq!(hear(), "READY=1");
    server.signal(Signal::TERM);
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn systemd_hears_of_start_and_stop_at_a_path() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("notify");
    told_to_systemd(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
}

#[test]
fn systemd_hears_of_start_and_stop_at_an_abstract_name() {
    let name = format!("fullbore-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    told_to_systemd(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

#[test]
fn an_ordinary_user_with_little_lockable_memory_can_serve() {
    if !tool::are_here(&[("setpriv", "util-linux"), ("prlimit", "util-linux"), ("curl", "curl")]) {
        return;
    }
    let (folder, film) = library();
    let beside = tempdir().unwrap();
    for open in [folder.path(), beside.path()] {
        make_readable(open);
    }
    let state = beside.path().join("state");
    fs::create_dir(&state).unwrap();
    // The program may be in a folder that only this user can reach.
    let copy = beside.path().join("fullbore");
    // By another process: a descriptor with which this one writes to it could be in a process that another test is starting, and then
    // the kernel would not run it.
    assert!(tool::run(tool::command("cp").arg(program()).arg(&copy)).success);
    let mut launch = Launch::of(folder.path()).program(&copy).state(&state);
    launch = launch.under("prlimit --memlock=8388608:8388608");
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        std::os::unix::fs::chown(&state, Some(65534), Some(65534)).unwrap();
        launch = launch.under("setpriv --reuid=65534 --regid=65534 --clear-groups");
    }
    let server = launch.start();
    let said = server.stdout.wait_for("workers ");
    assert!(
        said.contains("buffers registered") || said.contains("no registered buffers"),
        "{said}"
    );
    let mut command = tool::command("curl");
    let ran = tool::run(command.args(["--silent", "--insecure", &server.url_of("film.mp4")]));
    assert!(ran.success && ran.stdout == film, "{}", ran.stderr);
}

fn make_readable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn without_descriptors_it_waits_serves_whom_it_has_and_recovers() {
    if !tool::are_here(&[("prlimit", "util-linux")]) {
        return;
    }
    let (folder, film) = library();
    let launch = Launch::of(folder.path()).arguments("--tls off --workers 1");
    let server = launch.under("prlimit --nofile=64:64").start();
    // Opened now, because it needs a descriptor too.
    let mut admin = Plain::connect(server.admin);
    let mut pauses = || Counters::read_over(&mut admin).value("accept_pauses_total");
    assert_eq!(pauses(), 0);
    let (mut viewer, mut got) = viewer_under_way(&server);
    let crowd: Vec<_> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    eventually("accepting to pause", || (pauses() > 0).then_some(()));
    got.extend(viewer.body(LONG - got.len()));
    assert!(got == film, "the viewer under way got other bytes");
    assert_eq!(viewer.fetch("/film.mp4").body.len(), LONG);
    drop(crowd);
    assert_eq!(Plain::connect(server.address).fetch("/note.txt").status, 200);
}

/// Names of files and requests come from other people: printed raw, they could control the operator's terminal.
#[test]
fn what_others_name_steers_nobody_s_terminal() {
    // CSI 2J in one character (ISO 6429), and a right-to-left override.
    const NAME: &str = "film\u{9b}2J\u{202e}4pm.mp4";
    let folder = tempdir().unwrap();
    file(folder.path(), NAME, LONG);
    // With DEL, which no request may contain.
    file(folder.path(), &NAME.replace(".mp4", "\u{7f}.mp4"), 10);
    let beside = tempdir().unwrap();
    let log = beside.path().join("access.log");
    let launch = Launch::of(folder.path()).arguments("--tls off --route userspace --access-log");
    let server = launch.argument(&log).start();
    let title = server.stdout.wait_for("title ");
    assert_eq!(title, "title     film\\u{9b}2J\\u{202e}4pm.mp4");
    // The request contains the rest as it is.
    let mut viewer = Plain::connect(server.address);
    viewer.ask(&format!("/{}", NAME.replace(".mp4", "%7F.mp4")));
    assert_eq!(viewer.head().0, 404, "a name with DEL in it is not served");
    let mut viewer = TcpStream::connect(server.address).unwrap();
    write!(viewer, "GET /{NAME} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut begun = [0; 12];
    viewer.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    // It is truncated while it is sent, which the log reports.
    fs::File::options().write(true).open(folder.path().join(NAME)).unwrap().set_len(1000).unwrap();
    // To the end, orderly or not.
    let _ = viewer.read_to_end(&mut Vec::new());
    let told = server.stderr.wait_for("the viewer's connection was closed");
    assert!(told.contains("/film\\u{9b}2J\\u{202e}4pm.mp4: "), "{told}");
    let lines = eventually("two lines in the access log", || {
        let lines = fs::read_to_string(&log).ok()?;
        (lines.lines().count() >= 2 && lines.ends_with('\n')).then_some(lines)
    });
    assert!(lines.contains("film\\u009b2J\\u202e4pm"), "{lines}");
    let said = [server.stdout.lines(), server.stderr.lines()].concat();
    let titles = said.iter().filter(|line| line.starts_with("title "));
    assert_eq!(titles.count(), 1, "a file that cannot be requested is not listed");
    for line in said.iter().map(String::as_str).chain(lines.lines()) {
        let steers = |letter: char| letter.is_control() || letter == '\u{202e}';
        assert!(!line.contains(steers), "{line:?}");
    }
}

#[test]
fn a_line_break_in_a_name_begins_no_line_of_its_own() {
    const NAME: &str = "films\nready https:\tevil.example";
    const SHOWN: &str = "films\\nready https:\\tevil.example";
    let folder = tempdir().unwrap();
    let library = folder.path().join(NAME);
    fs::create_dir(&library).unwrap();
    // The library is a title itself, and has its folder's name.
    fs::write(library.join("master.m3u8"), "#EXTM3U\n").unwrap();
    let server = Server::start(&library, "--tls off");
    assert_eq!(server.stdout.wait_for("title "), format!("title     {SHOWN}"));
    let lines = server.stdout.lines();
    let told = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((told("ready "), told("library ")), (1, 1), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("library ") && line.ends_with(SHOWN)));
    assert!(!lines.iter().any(|line| line.contains(char::is_control)), "{lines:?}");
    // The message on standard error is one line, too.
    let source = folder.path().join("none\nfullbore: made.mp4");
    let mut ingest = std::process::Command::new(program());
    ingest.args(["ingest", "--title", "film", "--library"]).arg(folder.path()).arg(source);
    let ran = tool::run(&mut ingest);
    assert!(!ran.success && ran.stderr.contains("none\\nfullbore: made.mp4: "), "{}", ran.stderr);
}
