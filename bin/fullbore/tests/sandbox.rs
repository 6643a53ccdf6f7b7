//! The program itself, confined as by default: everything that it does for viewers and for its operator still works.

use fullbore_tests::{Launch, Plain, Server, Signal, eventually, program, tool, until};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A library, and a folder to keep everything else in.
struct Room {
    folder: TempDir,
    film: Vec<u8>,
}

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Servers of other users serve from it, too.
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

    /// A server of the library, with its own state directory.
    fn serve(&self, state: &str) -> Launch {
        Launch::of(&self.path("library")).state(&self.path(state))
    }
}

/// Whether this kernel confines the server fully; if not, reports a skip.
fn is_confined(server: &Server) -> bool {
    let said = server.said();
    let confined = said.contains("files confined") && said.contains("seccomp");
    if !confined {
        tool::skip(&format!("in part, since this kernel does not confine: {said}"));
    }
    confined
}

/// The response of a plain server for this name.
fn get(server: &Server, name: &str) -> Vec<u8> {
    Plain::connect(server.address).fetch(&format!("/{name}")).body
}

/// A GET by curl, which fails unless the response is a success.
fn curl(arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new("curl").args(["-sSf", "--max-time", "60"]).args(arguments).output();
    let output = output.map_err(|error| format!("no curl: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Copies the program. Not in this process: others that it starts meanwhile would have the copy open for writing for a moment, and the kernel
/// executes no such file.
fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(program()).arg(to).status().unwrap().success());
}

fn has_curl() -> bool {
    tool::are_here(&[("curl", "curl")])
}

#[test]
fn every_thread_is_confined_by_default() {
    let room = Room::new();
    let log = room.path("log");
    let mut server = room.serve("state").argument("--access-log").argument(&log).start();
    if is_confined(&server) {
        let threads = server.of_every_thread("NoNewPrivs");
        assert!(threads.len() >= 4, "main, workers, admin, log, signals: {threads:?}");
        assert!(threads.iter().all(|set| set == "1"), "{threads:?}");
        let threads = server.of_every_thread("Seccomp");
        assert!(threads.iter().all(|mode| mode == "2"), "{threads:?}");
        assert!(!server.said().contains("except for"), "{}", server.said());
    }
    // Each ring is restricted to its purpose; kernels with Landlock can do that, too.
    assert!(server.said().contains("8 operations allowed"), "{}", server.said());
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn no_sandbox_gives_nothing_up() {
    let room = Room::new();
    let mut server = room.serve("state").argument("--no-sandbox").start();
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
        let mut server =
            room.serve("state").arguments(&format!("--tls off --disk {policy}")).start();
        let mut viewer = Plain::connect(server.address);
        let whole = viewer.fetch("/film.mp4");
        assert!(whole.status == 200 && whole.body == room.film, "{policy}: {}", whole.head);
        let part = viewer.fetch_with("/film.mp4", "Range: bytes=1000000-2000000\r\n");
        let wanted = &room.film[1_000_000..=2_000_000];
        assert!(part.status == 206 && part.body == wanted, "{policy}: {}", part.head);
        assert_eq!(viewer.fetch("/link").status, 404);
        drop(viewer);
        assert_eq!(server.admin_page("/healthz").0, 200);
        let metrics = server.admin_page("/metrics").1;
        let resident =
            metrics.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(resident.is_some_and(|bytes| bytes != "0"), "{metrics}");
        assert_eq!(server.end().code(), Some(0));
    }
}

#[test]
fn the_kernel_sends_by_itself_on_its_route() {
    let room = Room::new();
    for policy in ["auto", "cached"] {
        let words = format!("--tls off --route kernel --disk {policy}");
        let mut server = room.serve("state").arguments(&words).start();
        assert!(get(&server, "film.mp4") == room.film, "{policy}: other bytes");
        if server.sum("windows_not_held_total") > 0 {
            tool::skip("no leases here");
            return;
        }
        all_was_sent_from_files(&server, &room);
        assert_eq!(server.end().code(), Some(0));
    }
}

/// The kernel has sent the film by itself, once. The server counts what it has sent a moment after the viewer may have it.
fn all_was_sent_from_files(server: &Server, room: &Room) {
    let film_bytes = room.film.len() as u64;
    until("the film to be counted", || server.sum("sendfile_bytes_total") >= film_bytes);
    assert_eq!(server.sum("sendfile_bytes_total"), film_bytes);
}

/// The second descriptor for direct reads is opened through /proc, which the sandbox could forbid.
#[test]
fn direct_reads_stay_direct() {
    let room = Room::new();
    let direct_bytes = |extra: &str| {
        let words = format!("--tls off --disk direct {extra}");
        let server = room.serve("state").arguments(&words).start();
        assert!(get(&server, "film.mp4") == room.film);
        let read = |way: &str| server.sum(&format!("read_{way}_bytes_total"));
        // Published once a second.
        until("reads to be counted", || {
            ["resident", "cached", "once", "direct"].map(read).iter().sum::<u64>() > 0
        });
        read("direct") > 0
    };
    assert_eq!(direct_bytes(""), direct_bytes("--no-sandbox"));
}

#[test]
fn the_self_signed_pair_is_made_anew_and_viewers_get_it() {
    let room = Room::new();
    let log = room.path("log");
    let mut server = room.serve("state").argument("--access-log").argument(&log).start();
    let certificate = room.path("state/self-signed-cert.pem");
    server.signal(Signal::HUP);
    server.stderr.wait_for("certificates reloaded on request");
    let before = fs::read(&certificate).unwrap();
    fs::remove_file(&certificate).unwrap();
    server.signal(Signal::HUP);
    until("another certificate", || fs::read(&certificate).is_ok_and(|now| now != before));
    until("both to be said", || server.said().matches("reloaded on request").count() == 2);
    if has_curl() {
        let film = format!("{}/film.mp4", server.url);
        let trusted = certificate.to_str().unwrap();
        for version in ["1.2", "1.3"] {
            let served = curl(&["--cacert", trusted, "--tls-max", version, &film]).unwrap();
            assert!(served == room.film, "TLS {version}: other bytes");
        }
        until("two lines in the access log", || {
            fs::read_to_string(&log).unwrap().lines().count() == 2
        });
    }
    assert_eq!(server.end().code(), Some(0));
}

/// Certificates as certbot keeps them: the configured paths are links, which are replaced by links to new files.
#[test]
fn given_certificates_are_noticed_when_their_links_are_replaced() {
    let room = Room::new();
    let (live, archive) = (room.path("live"), room.path("archive"));
    fs::create_dir(&live).unwrap();
    fs::create_dir(&archive).unwrap();
    for state in ["1", "2"] {
        assert_eq!(room.serve(state).start().end().code(), Some(0));
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
    let launch = room.serve("unused").argument("--cert").argument(cert);
    let mut server = launch.argument("--key").argument(key).start();
    link("2");
    server.stderr.wait_for("certificates reloaded because they changed on disk");
    if has_curl() {
        let trusted = archive.join("cert2.pem");
        // If the server looks between the two renames, the pair does not match, and it is reloaded soon after.
        let served = eventually("the new certificate", || {
            curl(&["--cacert", trusted.to_str().unwrap(), &format!("{}/film.mp4", server.url)]).ok()
        });
        assert!(served == room.film, "other bytes");
    }
    assert_eq!(server.end().code(), Some(0));
}

/// Asks for the film with a query of its own, until `log` has that line.
fn is_logged_in(server: &Server, log: &Path, query: &str) -> bool {
    assert_eq!(Plain::connect(server.address).fetch(&format!("/film.mp4?{query}")).status, 200);
    fs::read_to_string(log).is_ok_and(|text| text.contains(query))
}

#[test]
fn the_access_log_is_reopened_on_request_whoever_makes_the_new_file() {
    let room = Room::new();
    let (logs, log) = (room.path("logs"), room.path("logs/access.log"));
    fs::create_dir(&logs).unwrap();
    let launch = room.serve("state").arguments("--tls off --access-log").argument(&log);
    let mut server = launch.start();
    until("the first line", || is_logged_in(&server, &log, "first"));
    // As logrotate does without `create`: the server makes the new file.
    fs::rename(&log, logs.join("access.log.1")).unwrap();
    server.signal(Signal::HUP);
    until("a line in a new file", || is_logged_in(&server, &log, "second"));
    // As it does with `create`.
    fs::rename(&log, logs.join("access.log.2")).unwrap();
    fs::write(&log, "").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o640)).unwrap();
    server.signal(Signal::HUP);
    until("a line in the file that was made for it", || is_logged_in(&server, &log, "third"));
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(server.end().code(), Some(0));
    for (name, other) in [("access.log.1", "third"), ("access.log", "first")] {
        let text = fs::read_to_string(logs.join(name)).unwrap();
        assert!(!text.contains(other), "{name}: {text}");
        let is_whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(text.lines().all(is_whole) && text.ends_with('\n'), "{name}: {text}");
    }
}

#[test]
fn an_access_log_beside_the_library_stays_open_and_nothing_can_be_made_there() {
    let room = Room::new();
    let (log, old) = (room.path("access.log"), room.path("access.log.1"));
    let launch = room.serve("state").arguments("--tls off --access-log").argument(&log);
    let mut server = launch.start();
    fs::rename(&log, &old).unwrap();
    if is_confined(&server) {
        server.signal(Signal::HUP);
        let said = server.stderr.wait_for("cannot reopen the access log");
        assert!(said.contains("a folder of its own"), "{said}");
        assert!(!log.exists(), "it was made");
        until("a line in the old file", || is_logged_in(&server, &old, "still-there"));
    }
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn a_second_sigterm_ends_it_at_once() {
    let room = Room::new();
    let mut server = room.serve("state").arguments("--tls off").start();
    // Half a request: a viewer that keeps the server waiting.
    let mut viewer = TcpStream::connect(server.address).unwrap();
    viewer.write_all(b"GET /film.mp4 HTTP/1.1\r\n").unwrap();
    until("the viewer to be counted", || server.sum("connections") == 1);
    server.signal(Signal::TERM);
    server.stderr.wait_for("stopping");
    server.signal(Signal::TERM);
    server.wait();
}

#[test]
fn an_ordinary_user_serves_with_little_locked_memory() {
    let room = Room::new();
    if !tool::are_here(&[("setpriv", "util-linux"), ("prlimit", "util-linux")]) {
        return;
    }
    let copy = room.path("fullbore");
    copy_program(&copy);
    let mut launch = room.serve("state").program(&copy).arguments("--tls off");
    launch = launch.under("prlimit --memlock=8388608:8388608");
    if is_root() {
        launch = launch.under("setpriv --reuid=65534 --regid=65534 --clear-groups");
    }
    fs::create_dir(room.path("state")).unwrap();
    fs::set_permissions(room.path("state"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut server = launch.start();
    assert!(get(&server, "film.mp4") == room.film);
    if is_confined(&server) {
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
        return tool::skip("only root has capabilities to lose: run as root");
    }
    let room = Room::new();
    let log = room.path("log");
    // Leases are for what the kernel sends by itself.
    for (arguments, kept) in [
        ("--tls on", READS_ALL | FOWNER),
        ("--tls off", READS_ALL | FOWNER | LEASE),
        ("--tls off --route userspace", READS_ALL | FOWNER),
    ] {
        let launch = room.serve("state").arguments(arguments);
        let mut server = launch.argument("--access-log").argument(&log).start();
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
        return tool::skip("only root may read all files: run as root");
    }
    let room = Room::new();
    let library = room.path("library");
    fs::set_permissions(library.join("film.mp4"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&library, fs::Permissions::from_mode(0o700)).unwrap();
    for path in [library.join("film.mp4"), library] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    for disk in ["auto", "direct"] {
        let mut server = room.serve("state").arguments(&format!("--tls off --disk {disk}")).start();
        assert!(get(&server, "film.mp4") == room.film, "{disk}");
        let titles = get(&server, "-/titles.json");
        assert!(String::from_utf8_lossy(&titles).contains("film"), "{disk}: {titles:?}");
        assert_eq!(server.end().code(), Some(0));
    }
}

/// A server of root's library, run by another user with these capabilities. `None` if this cannot be tried here.
fn serve_as_service(room: &Room, capabilities: &str, arguments: &str) -> Option<Server> {
    service(room, capabilities, arguments).map(Launch::start)
}

/// As [`serve_as_service`], before its start.
fn service(room: &Room, capabilities: &str, arguments: &str) -> Option<Launch> {
    if !is_root() {
        tool::skip("only root can start it as another user: run as root");
        return None;
    }
    if !tool::are_here(&[("setpriv", "util-linux")]) {
        return None;
    }
    let copy = room.path("fullbore");
    if !copy.exists() {
        copy_program(&copy);
        fs::create_dir(room.path("state")).unwrap();
        std::os::unix::fs::chown(room.path("state"), Some(65534), Some(65534)).unwrap();
    }
    let mut launch = room.serve("state").program(&copy).arguments(arguments);
    launch = launch.under("setpriv --reuid=65534 --regid=65534 --clear-groups");
    if !capabilities.is_empty() {
        launch = launch.under(&format!("--inh-caps={capabilities} --ambient-caps={capabilities}"));
    }
    Some(launch)
}

/// The kernel reports whether a process that ended left a core dump, be it in a file or to a program.
#[test]
fn a_crash_leaves_no_core_dump_unless_the_operator_wants_one() {
    if !tool::are_here(&[("prlimit", "util-linux")]) {
        return;
    }
    let own = fs::read_to_string("/proc/self/limits").unwrap();
    let own = own.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    if own.split_whitespace().nth(5) != Some("unlimited") {
        return tool::skip("the hard limit on core dumps: raise it (ulimit -Hc unlimited)");
    }
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let is_file_here = !pattern.contains(['/', '|', '@']) && !pattern.trim().is_empty();
    for is_wanted in [false, true] {
        let room = Room::new();
        // The kernel writes the file with the server's own rights, and the sandbox lets it make none.
        let arguments = if is_wanted { "--tls off --no-sandbox" } else { "--tls off" };
        let Some(launch) = service(&room, "", arguments) else { return };
        let launch = match is_wanted {
            true => launch.variable("FULLBORE_CORE_DUMPS", "1"),
            false => launch,
        };
        let launch = launch.under(&format!("env -C {}", room.path("state").display()));
        let mut server = launch.under("prlimit --core=unlimited:unlimited").start();
        let read =
            |name| fs::read_to_string(format!("/proc/{}/{name}", server.process_id())).unwrap();
        let limits = read("limits");
        let limit = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        let soft = limit.split_whitespace().nth(4).unwrap();
        assert_eq!(soft, if is_wanted { "unlimited" } else { "1" });
        let filter = read("coredump_filter");
        assert_eq!(filter.trim(), if is_wanted { "00000033" } else { "00000000" });
        assert_eq!(server.said().contains("private keys"), is_wanted, "{}", server.said());
        let process = server.process_id().to_string();
        assert!(Command::new("kill").args(["-ABRT", &process]).status().unwrap().success());
        let ended = server.wait();
        assert_eq!(ended.signal(), Some(6), "{ended}");
        if is_file_here || !is_wanted {
            assert_eq!(ended.core_dumped(), is_wanted, "{ended}");
        }
        let names = fs::read_dir(room.path("state")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let cores = names.filter(|name| name.starts_with("core")).count();
        assert_eq!(cores, usize::from(is_wanted && is_file_here));
    }
}

/// Root owns the `/proc` entry of a process that is not dumpable. Where systemd hides processes, as in our units (`ProtectProc=invisible`), the
/// server's own user then can't see it, and `systemctl reload` failed.
#[test]
fn a_server_is_upgraded_by_its_user_where_processes_are_hidden() {
    let room = Room::new();
    let Some(mut server) = serve_as_service(&room, "", "--tls off --workers 1") else { return };
    if !tool::are_here(&[("unshare", "util-linux"), ("mount", "mount")]) {
        return;
    }
    let (upgrade, said) = (room.path("upgrade.sh"), room.path("said"));
    // As the user, the processes of root are hidden.
    let words = format!(
        "! ls -d /proc/{} 2>/dev/null && exec {} upgrade --settle-seconds 0.1 --arguments-of {}",
        std::process::id(),
        room.path("fullbore").display(),
        server.process_id()
    );
    fs::write(&upgrade, words).unwrap();
    let as_its_user = "setpriv --reuid=65534 --regid=65534 --clear-groups sh";
    let words = format!(
        "mount -t proc -o hidepid=invisible proc /proc && exec {as_its_user} {}",
        upgrade.display()
    );
    // The new server keeps standard error.
    let stderr = fs::File::create(&said).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &words]).stdin(Stdio::null()).stderr(stderr);
    let status = command.status().unwrap();
    let said = fs::read_to_string(&said).unwrap();
    assert!(status.success() && said.contains("serves now"), "{status}: {said}");
    let (_, new) = said.split("serves now").next().unwrap().rsplit_once("process ").unwrap();
    let new = new.trim().parse::<i32>().unwrap();
    assert_eq!(server.wait().code(), Some(0));
    assert!(get(&server, "film.mp4") == room.film, "the new server answers at the same address");
    assert!(Command::new("kill").arg(new.to_string()).status().unwrap().success());
}

/// The entries of `/status.json` under `lacking`, by name.
fn lacking(server: &Server) -> Vec<String> {
    let (_, status) = server.admin_page("/status.json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let lacks = status["lacking"].as_array().expect("status.json tells what is lacking");
    lacks.iter().map(|lack| lack["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn with_two_capabilities_a_service_is_as_fast_with_the_files_of_others() {
    let room = Room::new();
    let Some(mut server) = serve_as_service(&room, "+lease,+fowner", "--tls off") else { return };
    assert!(get(&server, "film.mp4") == room.film);
    assert!(server.said().contains("route     kernel: sendfile"), "{}", server.said());
    assert!(server.said().contains("capabilities kept: fowner lease"), "{}", server.said());
    assert!(lacking(&server).iter().all(|what| what == "cachestat"), "{}", server.said());
    assert_eq!(server.sum("windows_not_held_total"), 0);
    all_was_sent_from_files(&server, &room);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn without_them_it_says_what_is_lacking_and_what_that_costs() {
    let room = Room::new();
    for (capabilities, arguments, lacks) in [
        ("", "--tls off", &["read leases", "page cache"][..]),
        ("+lease", "--tls off", &["page cache"]),
        ("+fowner", "--tls off", &["read leases"]),
        ("", "--tls off --route userspace --disk direct", &[]),
    ] {
        let Some(mut server) = serve_as_service(&room, capabilities, arguments) else { return };
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
        assert!(get(&server, "film.mp4") == room.film);
        assert_eq!(server.sum("sendfile_bytes_total"), 0);
        assert_eq!(server.end().code(), Some(0));
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
