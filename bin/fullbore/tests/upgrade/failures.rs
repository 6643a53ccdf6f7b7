//! Upgrades that fail: the old server continues, and both sides report why.

use crate::stage::{Stage, Upgrade, script, serves_on};
use fullbore_tests::{Plain, Server, cpus, tool, until};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::{Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

/// A server, and a connection that was made before anything went wrong.
fn server_of(stage: &Stage) -> (Server, Plain) {
    let server = stage.launch().start();
    let mut kept = Plain::connect(server.address);
    assert_eq!(kept.fetch("/note.txt").status, 200);
    (server, kept)
}

#[test]
fn a_wrong_configuration_or_a_missing_library_changes_nothing() {
    let stage = Stage::new("--tls off");
    let (mut server, mut kept) = server_of(&stage);
    stage.configure("no_such_key = 1");
    let said = stage.begin(&[], "").fails();
    assert!(said.contains("no_such_key") && said.contains("continues"), "{said}");
    let heard = server.stderr.wait_for("an upgrade failed");
    assert!(heard.contains("no_such_key") && heard.contains("this server continues"), "{heard}");
    stage.configure("access_log = \"/no/such/folder/log\"");
    let said = stage.begin(&[], "").fails();
    assert!(said.contains("/no/such/folder/log") && said.contains("continues"), "{said}");
    let heard = server.stderr.wait_for("the upgrade by process");
    assert!(heard.contains("/no/such/folder/log"), "{heard}");
    stage.configure_all("no-such-library", 60, "");
    let said = stage.begin(&[], "").fails();
    assert!(said.contains("no-such-library") && said.contains("continues"), "{said}");
    server.stderr.wait_for("no-such-library");
    serves_on(&mut server, &mut kept);
    // And nothing of it stays.
    stage.configure("");
    stage.upgrade("");
}

#[test]
fn a_program_that_ends_at_once_or_hangs_changes_nothing() {
    let stage = Stage::new("--tls off");
    let (mut server, mut kept) = server_of(&stage);
    let program = stage.path("program");
    for (text, ready_seconds, expected) in
        [("exit 3", "60", "exit status: 3"), ("exec sleep 600", "1", "not ready after 1 s")]
    {
        script(&program, text);
        let with = ["--program", program.to_str().unwrap(), "--ready-seconds", ready_seconds];
        let said = stage.begin(&with, "").fails();
        assert!(said.contains(expected) && said.contains("continues"), "{said}");
        server.stderr.wait_for(expected);
        serves_on(&mut server, &mut kept);
    }
}

/// Sends one packet to the server's upgrade socket, as a new server does.
fn at_the_door(stage: &Stage, word: &str) -> OwnedFd {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let line = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
    connect(&line, &SocketAddrUnix::new(stage.socket()).unwrap()).unwrap();
    send(&line, word.as_bytes(), SendFlags::NOSIGNAL).unwrap();
    line
}

/// The next packet, without the descriptor that may come with it; empty at the end.
fn next(line: &OwnedFd) -> String {
    let mut buffer = [0; 1000];
    let (bytes, _) = recv(line, &mut buffer[..], RecvFlags::empty()).unwrap();
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

const ASK: &str = r#"{"Ask":{"protocol":1,"ready_seconds":60}}"#;

#[test]
fn a_second_upgrade_at_the_same_time_is_refused_and_one_that_dies_is_forgotten() {
    let stage = Stage::new("--tls off");
    let (mut server, mut kept) = server_of(&stage);
    let first = at_the_door(&stage, ASK);
    while !next(&first).contains("All") {}
    let said = stage.begin(&[], "").fails();
    assert!(said.contains("another upgrade is under way"), "{said}");
    serves_on(&mut server, &mut kept);
    // It has the listeners, and dies before it is ready.
    drop(first);
    server.stderr.wait_for("ended before it was ready");
    serves_on(&mut server, &mut kept);
    for word in [r#"{"Ask":{"protocol":2,"ready_seconds":60}}"#, r#""nonsense""#, "{"] {
        let line = at_the_door(&stage, word);
        let answer = next(&line);
        assert!(answer.is_empty() || answer.contains("Refused"), "{answer}");
    }
    serves_on(&mut server, &mut kept);
    stage.upgrade("");
}

#[test]
fn a_new_one_that_dies_soon_after_is_replaced_by_the_old_one() {
    let stage = Stage::new("--tls off");
    let (mut server, mut kept) = server_of(&stage);
    take_over_and_die(&stage, &mut server);
    serves_on(&mut server, &mut kept);
    stage.upgrade("");
}

/// A new server that is killed as soon as it accepts.
fn take_over_and_die(stage: &Stage, server: &mut Server) {
    let upgrade = stage.begin(&["--settle-seconds", "60"], "");
    let line = server.stderr.wait_for("starts in place of this server");
    let new = stage.note(&line, "process ");
    server.stderr.wait_for("it accepts now");
    // The old server's workers may accept one more each before they learn of it, and announce that those connections end.
    until("the new one to accept", || {
        let answer = Plain::connect(server.address).fetch("/note.txt");
        assert_eq!(answer.status, 200);
        !answer.head.contains("Connection: close")
    });
    kill_process(new, Signal::KILL).unwrap();
    server.stderr.wait_for("this server accepts again");
    // Some of these come while the kernel still takes the dead one's rings apart.
    for _ in 0..200 {
        assert_eq!(Plain::connect(server.address).fetch("/note.txt").status, 200);
    }
    server.stderr.wait_for("it ended within 60 s; this server continues");
    let said = upgrade.fails();
    assert!(said.contains("signal: 9") && said.contains("continues"), "{said}");
}

/// How many connections each worker has accepted.
fn accepted(server: &Server) -> Vec<u64> {
    server.wait_for_news();
    let (_, status) = server.admin_page("/status.json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let workers = status["workers"].as_array().unwrap();
    let count = |worker: &serde_json::Value| worker["connections_accepted_total"].as_u64();
    workers.iter().map(|worker| count(worker).unwrap()).collect()
}

#[test]
fn a_server_that_comes_back_spreads_its_connections_as_before() {
    if !cpus::are_two_here() {
        return;
    }
    let stage = Stage::new("--tls off --workers 2");
    let (mut server, mut kept) = server_of(&stage);
    // Its workers take what arrives at their own CPU.
    stage.configure(&format!(
        "silo = \"network\"\n[[silos]]\ncpus = \"{}\"\n[[silos]]\ncpus = \"{}\"",
        cpus::cpu(0),
        cpus::cpu(1)
    ));
    take_over_and_die(&stage, &mut server);
    serves_on(&mut server, &mut kept);
    let before = accepted(&server);
    // On one CPU, so that they would all be one worker's; spread at random, they are that once in 10^12 runs.
    let visit = || {
        let mut here = CpuSet::new();
        here.set(cpus::cpu(0));
        sched_setaffinity(None, &here).unwrap();
        for _ in 0..40 {
            assert_eq!(Plain::connect(server.address).fetch("/note.txt").status, 200);
        }
    };
    std::thread::scope(|scope| scope.spawn(visit).join().unwrap());
    let after = accepted(&server);
    let grown: Vec<_> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    assert!(grown.iter().all(|grown| *grown > 0), "{grown:?}");
}

#[test]
fn nobody_else_may_upgrade_a_server() {
    if !rustix::process::geteuid().is_root() || !tool::are_here(&[("setpriv", "util-linux")]) {
        return tool::skip("only root can be two users");
    }
    // One worker, of a user of its own: the kernel bounds the memory of all rings of a user.
    let stage = Stage::new("--tls off --workers 1");
    for folder in ["", "library", "state"] {
        let path = stage.path(folder);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let user = 40_000 + std::process::id() % 20_000;
    let user = format!("setpriv --reuid={user} --regid={user} --clear-groups");
    let mut server = stage.launch().under(&user).start();
    let mut kept = Plain::connect(server.address);
    let mode = fs::metadata(stage.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "other users cannot even ask");
    // Root can, and the answer says who may.
    let said = stage.begin(&[], "").fails();
    assert!(said.contains("only the user who runs it may upgrade it"), "{said}");
    server.stderr.wait_for("of user 0 may not upgrade this server");
    serves_on(&mut server, &mut kept);
}

#[test]
fn a_server_that_ends_or_is_not_there_is_said() {
    let stage = Stage::new("--tls off");
    let says_nobody = |upgrade: Upgrade| {
        let said = upgrade.fails();
        let socket = stage.socket().display().to_string();
        assert!(said.contains(&format!("no server answers at {socket}")), "{said}");
        assert!(!said.contains("continues"), "there is none that could: {said}");
        said
    };
    let said = says_nobody(stage.begin(&[], ""));
    assert!(said.contains("if none runs, start one with fullbore serve"), "{said}");
    stage.configure("no_such_key = 1");
    assert!(says_nobody(stage.begin(&[], "")).contains("no_such_key"));
    stage.configure("");
    let (mut server, _) = server_of(&stage);
    assert_eq!(server.end().code(), Some(0));
    until("no server to answer", || {
        stage.begin(&[], "").fails().contains("if none runs, start one")
    });
}

#[test]
fn the_bypass_route_is_refused_before_anything_changes() {
    let stage = Stage::new("--tls off");
    let (mut server, mut kept) = server_of(&stage);
    stage.configure("route = \"bypass\"\n[bypass]\ndevice = \"tap\"\ninterface = \"tap0\"\naddresses = [\"10.9.8.7\"]");
    let (code, said) = stage.begin(&[], "--listen 10.9.8.7:8443").fails_with();
    assert_eq!(code, Some(3), "what the package restarts for");
    assert!(said.contains("bypass route") && said.contains("restart the server"), "{said}");
    serves_on(&mut server, &mut kept);
}
