//! Upgrades that succeed.

use crate::stage::{REPLACED_WITHIN, Stage, servers};
use crate::viewers::{Crowd, Visited};
use fullbore_tests::{
    PATIENCE, Plain, Said, Signal, eventually, may_open, program, tool, until, within,
};
use rustix::process::{kill_process, test_kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One upgrade after the other under a crowd; `words` are the arguments of all servers, `changes` those of each new one. It prints how long viewers
/// waited, and the memory of all servers together relative to the most of one alone, without asserting either: busy servers need more buffers.
fn upgrades_under(words: &str, is_tls: bool, changes: &[&str], crowd: [usize; 2], pause: Duration) {
    let stage = Stage::new(words);
    let mut server = stage.launch().start();
    let enough = 100.max(5 * crowd.iter().sum::<usize>() as u64);
    let crowd = Crowd::gather(server.address, is_tls, &stage.film, crowd, pause);
    until("every viewer to be served", || crowd.answers() > enough);
    let (folder, is_over) = (stage.folder.path(), AtomicBool::new(false));
    let (took, own, [alone, most]) = std::thread::scope(|scope| {
        // Looking disturbs viewers a little, so it is done all the time.
        let looking = scope.spawn(|| {
            let mut most = [0, 0];
            while !is_over.load(Ordering::Relaxed) {
                let (count, kib) = servers(folder);
                let most = &mut most[usize::from(count > 1)];
                *most = kib.max(*most);
                std::thread::sleep(Duration::from_millis(50));
            }
            most
        });
        // All of them came at once.
        crowd.forgets_its_waits();
        let own = OwnTime::now();
        until("undisturbed answers", || crowd.answers() > 3 * enough);
        let undisturbed = own.share();
        crowd.is_disturbed_from_now_on();
        let (begun, own) = (Instant::now(), OwnTime::now());
        let mut old = None;
        for more in changes {
            let before = crowd.answers();
            let new = stage.upgrade(more);
            until("the new one to serve", || crowd.answers() > before + 100);
            assert!(test_kill_process(new).is_ok(), "the new one is there");
            // Both are there for some seconds, and no more than these.
            within(REPLACED_WITHIN, "the old one to be gone", || {
                let is_gone = match old {
                    Some(old) => test_kill_process(old).is_err(),
                    None => !server.is_running(),
                };
                is_gone.then_some(())
            });
            old = Some(new);
        }
        is_over.store(true, Ordering::Relaxed);
        (begun.elapsed(), [undisturbed, own.share()], looking.join().unwrap())
    });
    let Visited { answers, connections, newcomers_per_second, p99_us } = crowd.disperse();
    let count = changes.len();
    let first_byte = f64::from(p99_us[1]) / f64::from(p99_us[0]);
    let memory = most as f64 / alone as f64;
    eprintln!(
        "{words}: {count} upgrades in {took:.1?}: {answers} answers over {connections} connections, {newcomers_per_second:.0} new ones a second, \
         all right; first byte p99 {} us undisturbed, {} us disturbed ({first_byte:.2} times); \
         memory {alone} KiB alone, {most} KiB together ({memory:.2} times); \
         the viewers themselves took {:.2} and {:.2} processors",
        p99_us[0], p99_us[1], own[0], own[1],
    );
}

/// The share of the machine that this process has used since some moment.
struct OwnTime {
    since: Instant,
    used: Duration,
}

impl OwnTime {
    fn used() -> Duration {
        clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
    }

    fn now() -> Self {
        Self { since: Instant::now(), used: Self::used() }
    }

    /// Processor time divided by the clock's.
    fn share(&self) -> f64 {
        (Self::used() - self.used).as_secs_f64() / self.since.elapsed().as_secs_f64()
    }
}

/// More workers than listeners, and fewer.
const CHANGES: [&str; 3] = ["--workers 3", "--workers 1", "--workers 2"];

#[test]
fn viewers_over_tls_notice_nothing_of_three_upgrades() {
    let pause = Duration::from_millis(20);
    upgrades_under("", true, &CHANGES, [12, 4], pause);
}

#[test]
fn viewers_without_tls_notice_nothing_of_three_upgrades() {
    let pause = Duration::from_millis(20);
    upgrades_under("--tls off", false, &CHANGES, [12, 12], pause);
}

/// A thousand who keep their connections, and 200 new connections a second.
#[test]
#[ignore = "a thousand viewers and a hundred upgrades take minutes on a machine of its own: ./run nightly"]
fn a_thousand_viewers_notice_nothing_of_a_hundred_upgrades() {
    if !may_open(4000) {
        return;
    }
    let count = std::env::var("FULLBORE_UPGRADES").map_or(100, |count| count.parse().unwrap());
    // As many workers each, so that the memory of one tells how much both may have.
    let changes = vec![""; count];
    let mut routes = vec![
        ("--route userspace", true),
        ("--route userspace --tls off", false),
        ("--route kernel --tls off", false),
    ];
    if std::path::Path::new("/proc/net/tls_stat").exists() {
        routes.push(("--route kernel", true));
    } else {
        tool::skip("the kernel route with TLS: this kernel has no TLS");
    }
    // One of them, where a machine is there for some minutes only.
    if let Ok(only) = std::env::var("FULLBORE_ARGUMENTS") {
        routes.retain(|(words, _)| *words == only);
    }
    for (words, is_tls) in routes {
        upgrades_under(words, is_tls, &changes, [1000, 200], Duration::from_secs(1));
    }
}

/// The next datagram for a service manager.
fn hear(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 100];
    let bytes = manager.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

#[test]
fn a_response_under_way_is_finished_by_the_old_one_which_then_ends_and_systemd_hears_of_it() {
    let stage = Stage::new("--tls off");
    let long = fullbore_tests::file(&stage.path("library"), "long.mp4", 40_000_000);
    let path = stage.path("notify");
    // No viewer times out, however long the upgrade takes.
    stage.configure_all("library", 600, UNHURRIED);
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut old = stage.launch().variable("NOTIFY_SOCKET", &path).start();
    assert_eq!(hear(&manager), "READY=1");
    let mut slow = Plain::connect(old.address);
    slow.ask("/long.mp4");
    let (_, head, length) = slow.head();
    assert!(!head.contains("Connection: close"), "{head}");
    let begun = slow.body(100_000);
    let mut idle = Plain::connect(old.address);
    assert_eq!(idle.fetch("/note.txt").status, 200);
    let new = stage.upgrade("");
    assert_eq!(hear(&manager), format!("MAINPID={new}"));
    // The old server answers viewers who are connected, with an announcement that the connection ends.
    until("its worker to hear of it", || {
        let last = idle.fetch("/note.txt");
        assert_eq!(last.status, 200);
        last.head.contains("Connection: close")
    });
    idle.wait_for_close();
    let mut fresh = eventually("the new one to accept", || {
        let mut fresh = Plain::connect(old.address);
        let is_kept = !fresh.fetch("/note.txt").head.contains("Connection: close");
        is_kept.then_some(fresh)
    });
    assert!([begun, slow.body(length - 100_000)].concat() == long, "other bytes");
    drop(slow);
    assert_eq!(old.wait().code(), Some(0));
    old.stderr.wait_for("has taken over from this server");
    assert_eq!(fresh.fetch("/note.txt").status, 200, "its end is nothing to the new one's viewers");
    assert_eq!(old.admin_page("/healthz"), (200, "ok\n".into()), "at the same address");
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0; 100]).is_err(), "the service does not stop with the old process");
}

#[test]
fn a_slow_viewer_has_as_long_as_drain_seconds_and_no_longer() {
    let stage = Stage::new("--tls off");
    let long = fullbore_tests::file(&stage.path("library"), "long.mp4", 40_000_000);
    let drain = Duration::from_secs(4);
    stage.configure_all("library", 4, "");
    let mut old = stage.launch().start();
    let mut slow = TcpStream::connect(old.address).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"GET /long.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    slow.read_exact(&mut [0; 1000]).unwrap();
    let begun = Instant::now();
    stage.upgrade("");
    // It keeps taking some bytes, so the server cannot conclude that it has gone.
    let mut got = 1000;
    while old.is_running() {
        let bytes = slow.read(&mut [0; 1000]).unwrap_or(0);
        got += bytes;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() >= drain, "it ended before its time");
    assert_eq!(old.wait().code(), Some(1), "not all could finish");
    old.stderr.wait_for("after 4 s");
    // Only the bytes left in buffers still arrive.
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(got + rest.len() < long.len(), "it was not slow");
    assert_eq!(Plain::connect(old.address).fetch("/note.txt").status, 200);
}

/// For servers whose viewers wait for as long as an upgrade takes.
const UNHURRIED: &str = "[timeouts]\nhead_seconds = 600\nidle_seconds = 600\nsend_seconds = 600\n";

/// Memory that a process uses besides files: the hot set is shared memory, so that the kernel can send from it.
fn own_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let kib = ["RssAnon:", "RssShmem:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    });
    kib.iter().sum::<u64>() << 10
}

#[test]
fn the_old_one_gives_its_hot_set_back() {
    const FILM_BYTES: usize = 16 << 20;
    let stage = Stage::new("--tls off --route userspace --workers 1");
    stage.configure_all("library", 600, &format!("{UNHURRIED}[memory]\nhot_bytes = 40_000_000"));
    fullbore_tests::file(&stage.path("library"), "popular.mp4", FILM_BYTES);
    let old = stage.launch().start();
    let mut viewer = Plain::connect(old.address);
    // A file is admitted once it has been left alone for some seconds, and is asked for again.
    until("most of it to be hot", || {
        assert_eq!(viewer.fetch("/popular.mp4").body.len(), FILM_BYTES);
        old.counter("hot_filled_bytes_total") >= FILM_BYTES as u64 * 3 / 4
    });
    let (process, before) = (old.process_id(), own_bytes(old.process_id()));
    assert!(before > FILM_BYTES as u64 * 3 / 4, "{before}");
    // An idle viewer keeps the old one for minutes.
    let new = stage.upgrade("");
    until("the old one to give it back", || own_bytes(process) < before - FILM_BYTES as u64 / 2);
    assert!(test_kill_process(new).is_ok());
    drop(viewer);
}

/// Memory that rings hold in place, as the kernel counts it.
fn pinned(process: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().find(|line| line.starts_with("VmPin:")).unwrap().to_owned()
}

#[test]
fn the_old_one_gives_its_registered_buffers_back_and_the_new_one_has_its_own() {
    let stage = Stage::new("--tls off --route userspace --workers 1");
    // Few, so that an ordinary user may lock those of both at the same time.
    let few = "[net]\nwindow_bytes_max = 65536\n[limits]\nbuffer_bytes_max = 1_000_000";
    stage.configure_all("library", 600, &format!("{UNHURRIED}{few}"));
    let old = stage.launch().start();
    let with_buffers = pinned(old.process_id());
    // An idle viewer keeps the old one for minutes.
    let viewer = Plain::connect(old.address);
    let new = stage.upgrade("").as_raw_nonzero().get().try_into().unwrap();
    until("the old one to give them back", || pinned(old.process_id()).ends_with("\t       0 kB"));
    until("the new one to have as many", || pinned(new) == with_buffers);
    drop(viewer);
}

#[test]
fn the_arguments_of_the_server_that_runs_will_do() {
    let stage = Stage::new("--tls off --workers 1");
    let old = stage.launch().start();
    let upgrade = |process: u32| {
        let mut command = tool::command(program().to_str().unwrap());
        command.args(["upgrade", "--settle-seconds", "0.3", "--arguments-of"]);
        // To a file, because the new server keeps what it was started with.
        let said = stage.path("said");
        let file = std::fs::File::create(&said).unwrap();
        command.stdout(Stdio::null()).stderr(file);
        let status = command.arg(process.to_string()).status().unwrap();
        (status.success(), std::fs::read_to_string(said).unwrap())
    };
    let mut process = old.process_id();
    // The second time, the arguments are those of a server that took another one's place.
    for _ in 0..2 {
        let (is_done, said) = upgrade(process);
        assert!(is_done, "{said}");
        let line = said.lines().find(|line| line.contains("serves now")).unwrap();
        process = u32::try_from(stage.note(line, "process ").as_raw_nonzero().get()).unwrap();
        until("the new one to accept", || {
            let answer = Plain::connect(old.address).fetch("/note.txt");
            !answer.head.contains("Connection: close")
        });
    }
    for nobody in [std::process::id(), u32::MAX] {
        let (is_done, said) = upgrade(nobody);
        assert!(!is_done && said.contains("cannot take the arguments"), "{said}");
    }
}

/// A shell with `x=$(fullbore upgrade ...)` reads until no process has the command's standard output open.
#[test]
fn the_new_one_does_not_keep_the_standard_output_of_the_command_that_started_it() {
    let stage = Stage::new("--tls off --workers 1");
    let old = stage.launch().start();
    // A file for each, because the server goes on writing there.
    let begin = |said: &str, more: &str| {
        let mut command = tool::command(program().to_str().unwrap());
        command.args(["upgrade", "--settle-seconds", "0.3"]).args(stage.arguments(more));
        command.stdout(Stdio::piped()).stderr(fs::File::create(stage.path(said)).unwrap());
        command.spawn().unwrap()
    };
    let wait = |mut upgrade: Child, said: &str| {
        let status = eventually("the upgrade to end", || upgrade.try_wait().unwrap());
        let said = fs::read_to_string(stage.path(said)).unwrap();
        assert!(status.success(), "{said}");
        stage.note(said.lines().find(|line| line.contains("serves now")).unwrap(), "process ");
        said
    };
    let mut upgrade = begin("first", "");
    let mut output = upgrade.stdout.take().unwrap();
    let reading = std::thread::spawn(move || output.read_to_end(&mut Vec::new()).unwrap());
    let said = wait(upgrade, "first");
    until("the end of standard output", || reading.is_finished());
    assert_eq!(reading.join().unwrap(), 0, "what the server says is on standard error");
    assert!(said.contains("ready http://"), "{said}");
    // A log there is the exception.
    let mut upgrade = begin("second", "--access-log -");
    let log = Said::listen(upgrade.stdout.take().unwrap());
    wait(upgrade, "second");
    until("the new one to accept", || {
        Plain::connect(old.address).fetch("/note.txt").status == 200
            && log.lines().iter().any(|line| line.contains("/note.txt"))
    });
}

/// What `ss` prints about the sockets at a port, with these flags.
fn sockets(flags: &str, port: u16) -> String {
    let mut ss = tool::command("ss");
    let ran = tool::run(ss.args([flags, &format!("sport = :{port}")]));
    assert!(ran.success, "{}", ran.stderr);
    ran.text()
}

/// The listeners are inherited from the old server, and started with its options.
#[test]
fn settings_of_listeners_change_with_an_upgrade() {
    if !tool::are_here(&[("ss", "iproute2")]) {
        return;
    }
    let stage = Stage::new("--tls off --workers 1");
    stage.configure("[net]\nbacklog = 41\ncongestion_control = \"cubic\"");
    let old = stage.launch().start();
    let port = old.address.port();
    let backlog = || {
        let line = sockets("-Hltn", port);
        line.split_whitespace().nth(2).and_then(|backlog| backlog.parse::<u32>().ok())
    };
    assert_eq!(backlog(), Some(41));
    stage.configure("[net]\nbacklog = 42\ncongestion_control = \"reno\"");
    stage.upgrade("");
    assert_eq!(backlog(), Some(42));
    let viewer = eventually("the new one to accept", || {
        let mut viewer = Plain::connect(old.address);
        (!viewer.fetch("/note.txt").head.contains("Connection: close")).then_some(viewer)
    });
    // The old one may not have closed its last connections yet.
    until("all connections to be with reno", || {
        let connections = sockets("-Htni", port);
        connections.contains(" reno ") && !connections.contains(" cubic ")
    });
    drop(viewer);
}

#[test]
fn rules_about_headers_change_with_an_upgrade() {
    let stage = Stage::new("--tls off");
    let rule = |value: &str| {
        stage
            .configure(&format!("[[http.headers]]\npath = \"*.txt\"\ncache_control = \"{value}\""));
    };
    rule("max-age=1");
    let old = stage.launch().start();
    let has = |line: &str| Plain::connect(old.address).fetch("/note.txt").head.contains(line);
    assert!(has("Cache-Control: max-age=1\r\n"));
    rule("max-age=2");
    stage.upgrade("");
    until("the new one to accept", || has("Cache-Control: max-age=2\r\n"));
}

#[test]
fn a_host_gets_a_library_of_its_own_by_an_upgrade_and_keeps_none_after_another() {
    let stage = Stage::new("--tls off");
    let folder = stage.path("site");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("own.txt"), "of the site").unwrap();
    let old = stage.launch().start();
    // The host that every request of this test names.
    let found = |path: &str| Plain::connect(old.address).fetch(path).status;
    assert_eq!((found("/note.txt"), found("/own.txt")), (200, 404));
    stage.configure(&format!("[[sites]]\nhosts = [\"localhost\"]\nlibrary = {folder:?}"));
    stage.upgrade("");
    until("the new one to accept", || (found("/note.txt"), found("/own.txt")) == (404, 200));
    stage.configure("");
    stage.upgrade("");
    until("the next one to accept", || (found("/note.txt"), found("/own.txt")) == (200, 404));
}

#[test]
fn a_new_one_goes_on_when_the_old_one_is_killed() {
    let stage = Stage::new("--tls off");
    let old = stage.launch().start();
    let (address, process) = (old.address, old.process_id());
    // Still there when it is killed, because a viewer is.
    let mut viewer = Plain::connect(address);
    assert_eq!(viewer.fetch("/note.txt").status, 200);
    let second = stage.upgrade("");
    assert!(std::path::Path::new(&format!("/proc/{process}")).exists());
    old.kill();
    assert_eq!(Plain::connect(address).fetch("/note.txt").status, 200);
    kill_process(second, Signal::TERM).unwrap();
    until("no server to listen any more", || TcpStream::connect(address).is_err());
}

#[test]
fn another_address_is_served_by_the_new_one_and_the_former_by_nobody() {
    let stage = Stage::new("--tls off");
    let mut old = stage.launch().start();
    let host = format!("127.2.{}.{}", std::process::id() >> 8 & 255, std::process::id() & 255);
    let other: SocketAddr = format!("{host}:20100").parse().unwrap();
    let socket = stage.socket();
    let options = ["--settle-seconds", "0.3", "--socket", socket.to_str().unwrap()];
    let mut upgrade = stage.begin(&options, &format!("--listen {other}"));
    let status = upgrade.wait();
    assert!(status.success(), "{:?}", upgrade.said.lines());
    stage.note(&upgrade.said.wait_for("serves now"), "process ");
    assert_eq!(Plain::connect(other).fetch("/note.txt").status, 200);
    assert_eq!(old.wait().code(), Some(0));
    assert!(TcpStream::connect(old.address).is_err(), "no server listens there");
}
