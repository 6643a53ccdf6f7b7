//! Minutes of everything at once, with every disk policy in turn. `./run soak` runs it against a server that was built
//! with AddressSanitizer, which ends with a report and a failure at the first bad access, and at its end if memory leaked.

use crate::films;
use crate::nothing_leaks::{FEW_BUFFERS, Held, settled};
use crate::server::{Server, Start, eventually};
use crate::viewer::{Kind, Viewers};
use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Disk policies, in turn.
const POLICIES: [&str; 4] = ["auto", "cached", "once", "direct"];

/// A server runs no longer than this before the next policy has its turn.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Viewers at once of the mix, and of the slow kind: together they want more buffers than there are.
const AT_ONCE: u64 = 8;
const SLOW: usize = 12;

#[test]
#[ignore = "takes minutes, and is worth most with a server built for it: ./run soak [MINUTES]"]
fn mixed_load_finds_nothing_to_complain_of() {
    machine::raise_nofile().expect("the limit on files can be raised to the hard one");
    let minutes: f64 = env::var("FULLBORE_SOAK_MINUTES")
        .map_or(1.0, |minutes| minutes.parse().expect("FULLBORE_SOAK_MINUTES is a number"));
    let duration = Duration::from_secs_f64(minutes * 60.0);
    let turn = TURN_MAX.min(duration / POLICIES.len() as u32);
    let library = films::make().expect("the library is written");
    let began = Instant::now();
    for (turns, policy) in (1..).zip(POLICIES.iter().cycle()) {
        let connections = take_turn(policy, library.path(), turn);
        let seconds = began.elapsed().as_secs();
        eprintln!(
            "soak: {seconds} s of {}: {policy}, {connections} connections",
            duration.as_secs()
        );
        if turns >= POLICIES.len() && began.elapsed() >= duration {
            return;
        }
    }
}

/// One server's life with one policy. Returns how many connections it had.
fn take_turn(policy: &str, library: &Path, turn: Duration) -> u64 {
    let mut start = Start::new(library);
    start.flags = vec!["--disk".into(), policy.into()];
    if let Some(program) = env::var_os("FULLBORE_SOAK_PROGRAM") {
        start.program = program.into();
        // The leak checker looks at the process from outside it, which the sandbox is there to prevent.
        start.flags.push("--no-sandbox".into());
    }
    start.config = FEW_BUFFERS.into();
    let server = Server::start(&start);
    // The first round opens what stays open.
    load(&server, library, Duration::ZERO);
    let before = settled(&server);
    load(&server, library, turn);
    // A file that was in memory the first time opens a second descriptor when it is first read past the page cache.
    let descriptors_max = before.descriptors + before.files as usize;
    eventually(&format!("everything is back at {before:?}"), || {
        let after = settled(&server);
        after.descriptors <= descriptors_max
            && Held { descriptors: before.descriptors, ..after } == before
    });
    assert_eq!(server.number("tasks_panicked_total"), 0, "{}", server.said());
    assert!(server.number("records_made_again_total") > 0, "no buffer was taken back");
    let connections = server.number("connections_accepted_total");
    let said = server.finish();
    assert!(!said.contains("Sanitizer") && !said.contains("panicked"), "{said}");
    connections
}

/// Viewers of every kind until `turn` is over, but each kind at least once; meanwhile the disk is asked anew and the
/// certificates are read again.
fn load(server: &Server, library: &Path, turn: Duration) {
    let deadline = Instant::now() + turn;
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let mut viewers = Viewers::new(server.address);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let kind = Kind::of(number);
                    let visit = viewers.visit(kind);
                    assert!(visit.is_ok(), "{kind:?}: {visit:?}; the server: {}", server.said());
                    if number >= 100 && Instant::now() >= deadline {
                        return;
                    }
                }
            });
        }
        for _ in 0..SLOW {
            scope.spawn(|| {
                let mut viewers = Viewers::new(server.address);
                loop {
                    let visit = viewers.slow();
                    assert!(visit.is_ok(), "slow: {visit:?}; the server: {}", server.said());
                    if Instant::now() >= deadline {
                        return;
                    }
                }
            });
        }
        scope.spawn(|| {
            loop {
                films::chill(library).expect("the kernel takes advice");
                server.signal("HUP");
                if Instant::now() >= deadline {
                    return;
                }
                thread::sleep(Duration::from_millis(500));
            }
        });
    });
}
