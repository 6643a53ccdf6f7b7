//! Upgrades that succeed.

use crate::stage::Stage;
use crate::viewers::Crowd;
use fullbore_tests::{PATIENCE, Plain, Signal, eventually, may_open, tool, until};
use rustix::process::{kill_process, test_kill_process};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// One upgrade after the other under a crowd; `words` are the arguments of all servers, `changes` those of each new one.
fn upgrades_under(words: &str, is_tls: bool, changes: &[&str], crowd: [usize; 2], pause: Duration) {
    let stage = Stage::new(words);
    let server = stage.launch().start();
    let crowd = Crowd::gather(server.address, is_tls, &stage.film, crowd, pause);
    until("every viewer to be served", || crowd.answers() > 100);
    let begun = Instant::now();
    for more in changes {
        let before = crowd.answers();
        let new = stage.upgrade(more);
        until("the new one to serve", || crowd.answers() > before + 100);
        assert!(test_kill_process(new).is_ok(), "the new one is there");
    }
    let took = begun.elapsed();
    let (answers, connections) = crowd.disperse();
    let count = changes.len();
    eprintln!(
        "{words}: {count} upgrades in {took:.1?}: {answers} answers over {connections} connections, all right"
    );
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
    let changes: Vec<_> = CHANGES.iter().copied().cycle().take(count).collect();
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
    // The old one answers whoever is connected, and says that it is the last time.
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
    old.stderr.wait_for("has taken the place of this server");
    assert_eq!(fresh.fetch("/note.txt").status, 200, "its end is nothing to the new one's viewers");
    assert_eq!(old.admin_page("/healthz"), (200, "ok\n".into()), "at the same address");
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0; 100]).is_err(), "the service does not stop with the old process");
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
    until("nobody to listen any more", || TcpStream::connect(address).is_err());
}

#[test]
fn another_address_is_served_by_the_new_one_and_the_former_by_nobody() {
    let stage = Stage::new("--tls off");
    let mut old = stage.launch().start();
    let host = format!("127.2.{}.{}", std::process::id() >> 8 & 255, std::process::id() & 255);
    let other: SocketAddr = format!("{host}:20100").parse().unwrap();
    let door = stage.door();
    let options = ["--settle-seconds", "0.3", "--socket", door.to_str().unwrap()];
    let mut upgrade = stage.begin(&options, &format!("--listen {other}"));
    let status = upgrade.wait();
    assert!(status.success(), "{:?}", upgrade.said.lines());
    stage.note(&upgrade.said.wait_for("serves now"), "process ");
    assert_eq!(Plain::connect(other).fetch("/note.txt").status, 200);
    assert_eq!(old.wait().code(), Some(0));
    assert!(TcpStream::connect(old.address).is_err(), "nobody listens there");
}
