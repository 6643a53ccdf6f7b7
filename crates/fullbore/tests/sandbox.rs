//! The program itself, confined as it is by default: nothing that it does for viewers or for its operator is lost.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// For whatever is waited for: generous, since the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A library, and a folder to keep everything else in.
struct Room {
    folder: TempDir,
    film: Vec<u8>,
}

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Others than its owner are to serve from it, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let film: Vec<u8> = (0..3_000_001u32).map(|n| ((n * 7) >> 3) as u8).collect();
        fs::create_dir(folder.path().join("library")).unwrap();
        fs::write(folder.path().join("library/film.mp4"), &film).unwrap();
        fs::write(folder.path().join("outside"), "outside").unwrap();
        symlink("../outside", folder.path().join("library/link")).unwrap();
        Self { folder, film }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with what every server here is told, and its own state directory.
    fn serve(&self, state: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
        self.tell(&mut command, state);
        command
    }

    fn tell(&self, command: &mut Command, state: &str) {
        command.arg("serve").arg(self.path("library"));
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state"]);
        command.arg(self.path(state));
    }
}

/// A running server; ended when dropped.
struct Server {
    child: Child,
    said: Arc<Mutex<String>>,
    /// Without the last slash.
    url: String,
    admin: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, as told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take().unwrap(), &said);
        collect(child.stderr.take().unwrap(), &said);
        let mut server = Self { child, said, url: String::new(), admin: String::new() };
        server.wait_for("admin  ");
        let said = server.said();
        let word_after = |word: &str| {
            let line = said.lines().find(|line| line.starts_with(word));
            line.and_then(|line| line.split_ascii_whitespace().nth(1)).unwrap_or_default()
        };
        server.url = word_after("ready").trim_end_matches('/').to_owned();
        server.admin = word_after("admin").trim_end_matches('/').to_owned();
        server
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn wait_for(&mut self, words: &str) {
        let said = Arc::clone(&self.said);
        let child = &mut self.child;
        eventually(|| {
            let has_ended = child.try_wait().unwrap().is_some();
            let said = said.lock().unwrap();
            assert!(!has_ended || said.contains(words), "it ended: {said}");
            if said.contains(words) { Ok(()) } else { Err(format!("{words:?} in {said}")) }
        });
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn end(mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }

    /// What each thread's status says after `field`.
    fn of_every_thread(&self, field: &str) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // The kernel's own workers for the ring come and go; one that has gone has no status.
        let statuses = threads
            .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok());
        let values = statuses.map(|status| {
            let line = status.lines().find(|line| line.starts_with(&format!("{field}:")));
            line.expect("the kernel says so").split_ascii_whitespace().nth(1).unwrap().to_owned()
        });
        values.collect()
    }

    /// Whether this kernel let it be confined whole; if not, says so.
    fn is_confined(&self) -> bool {
        let said = self.said();
        let confined = said.contains("files confined") && said.contains("seccomp");
        if !confined {
            eprintln!("SKIPPED in part: this kernel does not confine: {said}");
        }
        confined
    }
}

fn collect(from: impl Read + Send + 'static, into: &Arc<Mutex<String>>) {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            into.lock().unwrap().push_str(&(line + "\n"));
        }
    });
}

fn eventually<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(missing) => assert!(Instant::now() < deadline, "waited in vain for {missing}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A GET over plain HTTP: status line and body.
fn get(url: &str, field: &str) -> (String, Vec<u8>) {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: localhost\r\n{field}Connection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let status = String::from_utf8_lossy(&answer[..head]).lines().next().unwrap().to_owned();
    (status, answer.split_off(head + 4))
}

/// A GET by curl, which fails where the answer is no success.
fn curl(arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new("curl").args(["-sSf", "--max-time", "60"]).args(arguments).output();
    let output = output.map_err(|error| format!("no curl: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED over TLS: there is no curl: apt install curl");
    }
    found
}

fn counter(server: &Server, name: &str) -> u64 {
    let (_, text) = get(&format!("{}/metrics", server.admin), "");
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn every_thread_is_confined_by_default() {
    let room = Room::new();
    let log = room.path("log");
    let server = Server::start(room.serve("state").arg("--access-log").arg(&log));
    if server.is_confined() {
        let threads = server.of_every_thread("NoNewPrivs");
        assert!(threads.len() >= 4, "main, workers, admin, log, signals: {threads:?}");
        assert!(threads.iter().all(|set| set == "1"), "{threads:?}");
        let threads = server.of_every_thread("Seccomp");
        assert!(threads.iter().all(|mode| mode == "2"), "{threads:?}");
        assert!(!server.said().contains("except for"), "{}", server.said());
    }
    // Each ring is told what it is for; a kernel that has Landlock can do that, too.
    assert!(server.said().contains("7 operations allowed"), "{}", server.said());
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn no_sandbox_gives_nothing_up() {
    let room = Room::new();
    let server = Server::start(room.serve("state").arg("--no-sandbox"));
    assert!(server.said().contains("sandbox   off"), "{}", server.said());
    let ours = fs::read_to_string("/proc/self/status").unwrap();
    for field in ["NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapBnd"] {
        let same = |value: &String| ours.contains(&format!("{field}:\t{value}\n"));
        assert!(server.of_every_thread(field).iter().all(same), "{field} as in this process");
    }
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn every_disk_policy_serves_the_same_bytes() {
    let room = Room::new();
    for policy in ["auto", "cached", "once", "direct"] {
        let server = Server::start(room.serve("state").args(["--tls", "off", "--disk", policy]));
        let film = format!("{}/film.mp4", server.url);
        let (status, body) = get(&film, "");
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert!(body == room.film, "{policy}: other bytes");
        let (status, body) = get(&film, "Range: bytes=1000000-2000000\r\n");
        assert!(status.contains(" 206 "), "{status}");
        assert!(body == room.film[1_000_000..=2_000_000], "{policy}: other bytes of a range");
        let (status, _) = get(&format!("{}/link", server.url), "");
        assert!(status.contains(" 404 "), "{status}");
        let (status, _) = get(&format!("{}/healthz", server.admin), "");
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert!(counter(&server, "process_resident_memory_bytes") > 0);
        assert_eq!(server.end().code(), Some(0));
    }
}

#[test]
fn the_kernel_sends_by_itself_on_its_route() {
    let room = Room::new();
    for policy in ["auto", "cached"] {
        let mut command = room.serve("state");
        command.args(["--tls", "off", "--route", "kernel", "--disk", policy]);
        let server = Server::start(&mut command);
        let (_, body) = get(&format!("{}/film.mp4", server.url), "");
        assert!(body == room.film, "{policy}: other bytes");
        if counter(&server, "fullbore_windows_not_held_total") > 0 {
            eprintln!("SKIPPED: no leases here");
            return;
        }
        let sent = counter(&server, "fullbore_sendfile_bytes_total");
        assert_eq!(sent, room.film.len() as u64, "{policy}");
        assert_eq!(server.end().code(), Some(0));
    }
}

/// The second descriptor for direct reads is opened through /proc, which only the sandbox could forbid.
#[test]
fn direct_reads_stay_direct() {
    let room = Room::new();
    let direct_bytes = |extra: &[&str]| {
        let mut command = room.serve("state");
        let server = Server::start(command.args(["--tls", "off", "--disk", "direct"]).args(extra));
        assert!(get(&format!("{}/film.mp4", server.url), "").1 == room.film);
        let read = |way: &str| counter(&server, &format!("fullbore_read_{way}_bytes_total"));
        // Published once a second.
        eventually(|| {
            match ["resident", "cached", "once", "direct"].map(read).iter().sum::<u64>() {
                0 => Err("reads to be counted".into()),
                _ => Ok(()),
            }
        });
        read("direct") > 0
    };
    assert_eq!(direct_bytes(&[]), direct_bytes(&["--no-sandbox"]));
}

#[test]
fn the_self_signed_pair_is_made_anew_and_viewers_get_it() {
    let room = Room::new();
    let log = room.path("log");
    let mut server = Server::start(room.serve("state").arg("--access-log").arg(&log));
    let certificate = room.path("state/self-signed-cert.pem");
    server.signal("HUP");
    server.wait_for("certificates read again on request");
    let before = fs::read(&certificate).unwrap();
    fs::remove_file(&certificate).unwrap();
    server.signal("HUP");
    eventually(|| match fs::read(&certificate) {
        Ok(now) if now != before => Ok(()),
        _ => Err(format!("another certificate: {}", server.said())),
    });
    eventually(|| match server.said().matches("read again on request").count() {
        2 => Ok(()),
        _ => Err(server.said()),
    });
    if has_curl() {
        let film = format!("{}/film.mp4", server.url);
        let trusted = certificate.to_str().unwrap();
        for version in ["1.2", "1.3"] {
            let served = curl(&["--cacert", trusted, "--tls-max", version, &film]).unwrap();
            assert!(served == room.film, "TLS {version}: other bytes");
        }
        eventually(|| match fs::read_to_string(&log).unwrap().lines().count() {
            2 => Ok(()),
            _ => Err("two lines in the access log".into()),
        });
    }
    assert_eq!(server.end().code(), Some(0));
}

/// As certbot keeps them: the paths that the server is given are links, replaced by links to new files.
#[test]
fn given_certificates_are_noticed_when_their_links_are_replaced() {
    let room = Room::new();
    let (live, archive) = (room.path("live"), room.path("archive"));
    fs::create_dir(&live).unwrap();
    fs::create_dir(&archive).unwrap();
    for state in ["1", "2"] {
        assert_eq!(Server::start(&mut room.serve(state)).end().code(), Some(0));
        for kind in ["cert", "key"] {
            let made = room.path(state).join(format!("self-signed-{kind}.pem"));
            fs::rename(made, archive.join(format!("{kind}{state}.pem"))).unwrap();
        }
    }
    let link = |version: &str| {
        for kind in ["key", "cert"] {
            let new = live.join("new");
            symlink(format!("../archive/{kind}{version}.pem"), &new).unwrap();
            fs::rename(new, live.join(format!("{kind}.pem"))).unwrap();
        }
    };
    link("1");
    let (cert, key) = (live.join("cert.pem"), live.join("key.pem"));
    let mut command = room.serve("unused");
    let mut server = Server::start(command.arg("--cert").arg(cert).arg("--key").arg(key));
    link("2");
    server.wait_for("certificates read again since they changed on disk");
    if has_curl() {
        let trusted = archive.join("cert2.pem");
        // Looked at between the two renames, the pair does not fit, and is read again soon after.
        let served = eventually(|| {
            curl(&["--cacert", trusted.to_str().unwrap(), &format!("{}/film.mp4", server.url)])
        });
        assert!(served == room.film, "other bytes");
    }
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn a_second_sigterm_ends_it_at_once() {
    let room = Room::new();
    let mut server = Server::start(room.serve("state").args(["--tls", "off"]));
    // Half a request: a viewer who keeps the server waiting.
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut viewer = TcpStream::connect(address).unwrap();
    viewer.write_all(b"GET /film.mp4 HTTP/1.1\r\n").unwrap();
    eventually(|| match counter(&server, "fullbore_connections") {
        1 => Ok(()),
        _ => Err("the viewer to be counted".into()),
    });
    server.signal("TERM");
    server.wait_for("stopping");
    server.signal("TERM");
    eventually(|| server.child.try_wait().unwrap().ok_or("the server to end".to_owned()));
}

#[test]
fn an_ordinary_user_serves_with_little_locked_memory() {
    let room = Room::new();
    let program = room.path("fullbore");
    fs::copy(env!("CARGO_BIN_EXE_fullbore"), &program).unwrap();
    let mut command = Command::new("prlimit");
    command.arg("--memlock=8388608:8388608");
    if is_root() {
        command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no setpriv: apt install util-linux");
        return;
    }
    fs::create_dir(room.path("state")).unwrap();
    fs::set_permissions(room.path("state"), fs::Permissions::from_mode(0o777)).unwrap();
    command.arg(&program);
    room.tell(&mut command, "state");
    let server = Server::start(command.args(["--tls", "off"]));
    assert!(get(&format!("{}/film.mp4", server.url), "").1 == room.film);
    if server.is_confined() {
        assert!(server.of_every_thread("Seccomp").iter().all(|mode| mode == "2"));
    }
    assert_eq!(server.end().code(), Some(0));
}

/// Sets of capabilities, from linux/capability.h.
const READS_ALL: u64 = 1 << 2;
const FOWNER: u64 = 1 << 3;
const LEASE: u64 = 1 << 28;

#[test]
fn root_keeps_what_serving_takes_and_no_other_capability() {
    if !is_root() {
        return eprintln!("SKIPPED: only root has capabilities to lose: run as root");
    }
    let room = Room::new();
    let log = room.path("log");
    // Leases are for what the kernel sends by itself.
    for (arguments, kept) in [
        (&["--tls", "on"][..], READS_ALL | FOWNER),
        (&["--tls", "off"], READS_ALL | FOWNER | LEASE),
        (&["--tls", "off", "--route", "userspace"], READS_ALL | FOWNER),
    ] {
        let mut command = room.serve("state");
        let server = Server::start(command.args(arguments).arg("--access-log").arg(&log));
        assert!(server.said().contains("capabilities kept: dac_read_search fowner"));
        for set in ["CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"] {
            let kept = if matches!(set, "CapInh" | "CapAmb") { 0 } else { kept };
            for value in server.of_every_thread(set) {
                let value = u64::from_str_radix(&value, 16).unwrap();
                assert_eq!(value & !kept, 0, "{arguments:?}: {set} is {value:x}");
            }
        }
        assert_eq!(server.end().code(), Some(0));
    }
}

#[test]
fn root_serves_films_that_only_another_user_may_read() {
    if !is_root() {
        return eprintln!("SKIPPED: only root may read all files: run as root");
    }
    let room = Room::new();
    let library = room.path("library");
    fs::set_permissions(library.join("film.mp4"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&library, fs::Permissions::from_mode(0o700)).unwrap();
    for path in [library.join("film.mp4"), library] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    for disk in ["auto", "direct"] {
        let server = Server::start(room.serve("state").args(["--tls", "off", "--disk", disk]));
        assert!(get(&format!("{}/film.mp4", server.url), "").1 == room.film, "{disk}");
        let (_, titles) = get(&format!("{}/-/titles.json", server.url), "");
        assert!(String::from_utf8_lossy(&titles).contains("film"), "{disk}: {titles:?}");
        assert_eq!(server.end().code(), Some(0));
    }
}

/// A server of root's library, run by a user of its own with these capabilities. `None` where that cannot be tried.
fn serve_as_service(room: &Room, capabilities: &str, arguments: &[&str]) -> Option<Server> {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("SKIPPED: run as root, with setpriv: apt install util-linux");
        return None;
    }
    let program = room.path("fullbore");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_fullbore"), &program).unwrap();
        fs::create_dir(room.path("state")).unwrap();
        std::os::unix::fs::chown(room.path("state"), Some(65534), Some(65534)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    if !capabilities.is_empty() {
        command.arg(format!("--inh-caps={capabilities}"));
        command.arg(format!("--ambient-caps={capabilities}"));
    }
    command.arg(&program);
    room.tell(&mut command, "state");
    Some(Server::start(command.args(arguments)))
}

/// What `/status.json` says is lacking, by name.
fn lacking(server: &Server) -> Vec<String> {
    let (_, status) = get(&format!("{}/status.json", server.admin), "");
    let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
    let lacks = status["lacking"].as_array().expect("status.json tells what is lacking");
    lacks.iter().map(|lack| lack["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn with_two_capabilities_a_service_is_as_fast_with_the_files_of_others() {
    let room = Room::new();
    let arguments = ["--tls", "off"];
    let Some(server) = serve_as_service(&room, "+lease,+fowner", &arguments) else { return };
    assert!(get(&format!("{}/film.mp4", server.url), "").1 == room.film);
    assert!(server.said().contains("route     kernel: sendfile"), "{}", server.said());
    assert!(server.said().contains("capabilities kept: fowner lease"), "{}", server.said());
    assert!(lacking(&server).iter().all(|what| what == "cachestat"), "{}", server.said());
    assert_eq!(counter(&server, "fullbore_windows_not_held_total"), 0);
    let sent = counter(&server, "fullbore_sendfile_bytes_total");
    assert_eq!(sent, room.film.len() as u64);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn without_them_it_says_what_is_lacking_and_what_that_costs() {
    let room = Room::new();
    for (capabilities, arguments, lacks) in [
        ("", &["--tls", "off"][..], &["read leases", "page cache"][..]),
        ("+lease", &["--tls", "off"], &["page cache"]),
        ("+fowner", &["--tls", "off"], &["read leases"]),
        ("", &["--tls", "off", "--route", "userspace", "--disk", "direct"], &[]),
    ] {
        let Some(server) = serve_as_service(&room, capabilities, arguments) else { return };
        let said = server.said();
        let told = lacking(&server);
        let told: Vec<_> = told.iter().filter(|what| *what != "cachestat").collect();
        assert_eq!(told, lacks, "{capabilities:?}: {said}");
        for what in lacks {
            let line = said.lines().find(|line| line.starts_with(&format!("lacking   {what}: ")));
            let line = line.unwrap_or_else(|| panic!("{what} in {said}"));
            assert!(line.contains("film.mp4") && line.contains("CAP_LEASE"), "{line}");
        }
        assert!(!said.contains("kernel: sendfile"), "{said}");
        assert!(get(&format!("{}/film.mp4", server.url), "").1 == room.film);
        assert_eq!(counter(&server, "fullbore_sendfile_bytes_total"), 0);
        assert_eq!(server.end().code(), Some(0));
    }
}

fn is_root() -> bool {
    fs::metadata(Path::new("/proc/self")).unwrap().uid() == 0
}
