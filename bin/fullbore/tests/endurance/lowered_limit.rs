//! The memory limit of a control group is lowered under a server whose hot set is full: the set gives memory back, every byte stays right, and
//! nothing is killed.

use crate::films::{self, LARGE, LARGE_BYTES};
use crate::group::Group;
use fullbore_tests::{Launch, Plain, Server, settle, until};
use tempfile::TempDir;

/// Parts of 2 MiB.
const PART_BYTES: u64 = 2 << 20;

/// Less than the server keeps in reserve (4 MiB at least), so each new limit is one under which the set has to give memory back; and more than
/// half of that, below which viewers wait.
const LEFT_BYTES: u64 = 3 << 20;

/// How often the limit is lowered.
const TIMES: usize = 4;

fn assert_served(viewer: &mut Plain) {
    let response = viewer.fetch(&format!("/{LARGE}"));
    assert_eq!((response.status, response.body.len() as u64), (200, LARGE_BYTES));
    assert!(films::is_part(0, &response.body), "wrong bytes");
}

fn hot_bytes(server: &Server) -> u64 {
    server.counters().value("hot_bytes")
}

#[test]
fn a_full_hot_set_gives_memory_back_when_the_groups_limit_is_lowered() {
    let Some(group) = Group::make() else { return };
    let folder = TempDir::new().expect("a temporary folder");
    let library = films::make().expect("the library is written");
    films::chill(library.path()).expect("the disk is asked again");
    settle(library.path());
    let launch = Launch::of(library.path()).program(&group.program(folder.path()));
    // Without TLS, so that much is sent within a second; not by the kernel, which sends from the page cache.
    let launch = launch.arguments("--tls off --route userspace --workers 1");
    let server = launch.config("[memory]\nhot_bytes = 67108864\n").start();
    // New viewers are refused while memory is short; this one is there already.
    let mut viewer = Plain::connect(server.address);
    let full = LARGE_BYTES / PART_BYTES * PART_BYTES;
    until("the hot set to have the film", || {
        assert_served(&mut viewer);
        hot_bytes(&server) >= full
    });

    for _ in 0..TIMES {
        let before = hot_bytes(&server);
        group.limit(Some(group.used_bytes() + LEFT_BYTES));
        until("the hot set to give memory back", || {
            assert_served(&mut viewer);
            hot_bytes(&server) < before
        });
    }
    assert!(server.counters().value("hot_evicted_bytes_total") >= TIMES as u64 * PART_BYTES);
    assert_eq!(group.killed(), 0, "the kernel killed for want of memory");
    assert_eq!(server.sum("tasks_panicked_total"), 0, "{}", server.said());
    group.limit(None);
    assert_served(&mut viewer);
    server.finish();
}
