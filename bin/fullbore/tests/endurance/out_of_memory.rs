//! A thousand viewers come while memory is nearly used up: some are served and the others refused, earlier viewers notice nothing, and
//! when there is memory again, everyone is served.
//!
//! There are two limits, which end a program in two ways: a control group, whose processes the kernel kills, and the limits on data and
//! address space, where an allocation fails and a Rust program aborts. Both are set while the server runs, based on its use then.

use crate::films;
use crate::group::Group;
use crate::nothing_leaks::{FEW_BUFFERS, settled};
use crate::viewer::{Kind, Knock, Viewers};
use fullbore_tests::{Launch, Server, program};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tempfile::TempDir;

/// Viewers that come at once.
const VIEWERS: u64 = 1_000;

/// Earlier viewers: some wait, some are in the middle of a film.
const IDLE: usize = 50;
const SLOW: usize = 8;

/// The memory left when they come. The unfinished records of three in four of them take more, and an eighth of the whole is kept back.
const LEFT_BYTES: u64 = 20 << 20;

#[test]
fn a_full_control_group_refuses_viewers_and_kills_nobody() {
    let Some(group) = Group::make() else { return };
    let folder = TempDir::new().expect("a temporary folder");
    let program = group.program(folder.path());
    endure(&program, |_, bound| match bound {
        Bound::Leave(bytes) => group.limit(Some(group.used_bytes() + bytes)),
        Bound::Lift => group.limit(None),
    });
    assert_eq!(group.killed(), 0, "the kernel killed for want of memory");
}

#[test]
fn a_limit_on_data_refuses_viewers_and_aborts_nothing() {
    endure(program(), |server, bound| {
        limit_process(server, "data", "VmData:", bound);
    });
}

#[test]
fn a_limit_on_address_space_refuses_viewers_and_aborts_nothing() {
    endure(program(), |server, bound| {
        // The server keeps an eighth of a limit in reserve, up to 128 MiB, and this limit also counts address space that is not in use.
        let kept_bytes = (server.status_bytes("VmSize:") / 7).min(128 << 20);
        let bound = match bound {
            Bound::Leave(bytes) => Bound::Leave(bytes + kept_bytes),
            Bound::Lift => Bound::Lift,
        };
        limit_process(server, "as", "VmSize:", bound);
    });
}

/// A change of the limit.
enum Bound {
    /// From now on this many bytes are left.
    Leave(u64),
    /// There is no limit any more.
    Lift,
}

/// The course of each test. `set` sets or lifts the limit.
fn endure(program: &Path, set: impl Fn(&Server, Bound)) {
    machine::raise_nofile().expect("the limit on files can be raised to the hard one");
    let library = films::make().expect("the library is written");
    // Unfinished handshakes, and viewers who wait, must still be there when all viewers have come.
    let config = format!(
        "{FEW_BUFFERS}[timeouts]\nhandshake_seconds = 3600\nhead_seconds = 3600\nidle_seconds = 3600\n"
    );
    let server = Launch::of(library.path()).program(program).config(&config).start();
    // Files are opened and buffers touched before there is little memory.
    Viewers::new(server.address).slow().expect("a slow viewer is served");
    let mut viewers = Viewers::new(server.address);
    let mut idle: Vec<_> = (0..IDLE).map(|_| viewers.stay().expect("served")).collect();

    set(&server, Bound::Leave(LEFT_BYTES));
    // A server without a limit looks for one once a second, and its numbers are updated once a second, too.
    server.wait_for_news();
    server.wait_for_news();
    let refused_before = server.sum("connections_refused_total");
    let (held, refused) = thread::scope(|scope| {
        let slow: Vec<_> = (0..SLOW)
            .map(|_| {
                let address = server.address;
                // New viewers may be refused like others, but never get a wrong byte.
                scope.spawn(move || Viewers::new(address).slow().or_else(refusal))
            })
            .collect();
        let come = come_at_once(&server);
        for viewer in slow {
            viewer.join().expect("it does not panic").expect("right bytes or none");
        }
        come
    });
    println!("{} of {VIEWERS} viewers were let in, {refused} refused", VIEWERS - refused);
    server.wait_for_news();
    assert!(refused > 0, "the bound was not reached: this shows nothing");
    assert!(!held.is_empty(), "no viewer was let in");
    assert!(server.sum("connections_refused_total") >= refused_before + refused);

    // Accepted viewers are served, and so are the earlier ones.
    for knock in held {
        knock.go_on().expect("an accepted viewer is served");
    }
    for viewer in &mut idle {
        Viewers::again(viewer).expect("an earlier viewer is served");
    }
    set(&server, Bound::Lift);
    // The server notices within a second.
    server.wait_for_news();
    server.wait_for_news();
    for _ in 0..100 {
        viewers.visit(Kind::Full).expect("with memory there again, everyone is served");
    }
    drop(idle);
    let held = settled(&server);
    assert_eq!((held.read_buffers_missing, held.send_buffers_missing), (0, 0));
    assert_eq!(server.sum("tasks_panicked_total"), 0, "{}", server.said());
    server.finish();
}

/// All viewers begin a handshake and stop there, three in four of them in the middle of a long record. Returns those of the others that
/// got an answer, and the number that did not.
fn come_at_once(server: &Server) -> (Vec<Knock>, u64) {
    const AT_ONCE: u64 = 8;
    let next = AtomicU64::new(0);
    let answered = thread::scope(|scope| {
        let crew: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    let mut viewers = Viewers::new(server.address);
                    let (mut honest, mut hostile) = (Vec::new(), Vec::new());
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= VIEWERS {
                            break;
                        }
                        let knocked =
                            if number % 4 == 0 { viewers.knock() } else { viewers.knock_hard() };
                        match knocked {
                            Ok(knock) if number % 4 == 0 => honest.push(knock),
                            Ok(knock) => hostile.push(knock),
                            Err(error) => refusal(error).expect("served or refused"),
                        }
                    }
                    (honest, hostile)
                })
            })
            .collect();
        crew.into_iter().map(|viewer| viewer.join().expect("it does not panic")).collect::<Vec<_>>()
    });
    let refused = VIEWERS - answered.iter().map(|(a, b)| (a.len() + b.len()) as u64).sum::<u64>();
    // The hostile viewers leave here, after all have come.
    (answered.into_iter().flat_map(|(honest, _)| honest).collect(), refused)
}

/// How a refused viewer sees it: the connection is closed without any data.
fn refusal(error: io::Error) -> io::Result<()> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    if [BrokenPipe, ConnectionReset, UnexpectedEof].contains(&error.kind()) {
        Ok(())
    } else {
        Err(error)
    }
}

/// Sets a resource limit of the server, as prlimit(1) does, `left` bytes above what /proc says that it uses.
fn limit_process(server: &Server, limit: &str, field: &str, bound: Bound) {
    let soft = match bound {
        Bound::Leave(bytes) => (server.status_bytes(field) + bytes).to_string(),
        Bound::Lift => "unlimited".into(),
    };
    let mut prlimit = Command::new("prlimit");
    prlimit.arg(format!("--pid={}", server.process_id())).arg(format!("--{limit}={soft}:"));
    let set = prlimit.status().expect("prlimit runs: it is in the package util-linux");
    assert!(set.success(), "{prlimit:?}");
}
