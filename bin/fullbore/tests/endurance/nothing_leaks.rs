//! After many connections of every kind, everything is back where it was.

use crate::films;
use crate::viewer::{Kind, Viewers};
use fullbore_tests::{Launch, Server, eventually, until};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Connections before the first look: they open the files, touch the buffers and let the tables grow.
const WARM_UP: u64 = 20_000;

/// Connections between the two looks.
const CONNECTIONS: u64 = 200_000;

/// Viewers at once.
const AT_ONCE: usize = 8;

/// Viewers besides them who make the server take buffers back.
const SLOW: u64 = 2;

/// Tolerated growth of memory: pages that an allocator keeps for its own reasons. A leak of 16 bytes per connection would be more. (The growth is no
/// leak, because it stops: 0.8 to 1.8 MB after 100,000 connections, 0.9 MB after 300,000.)
const GROWTH_BYTES_MAX: u64 = 16 * CONNECTIONS;

/// Few buffers, so that the warm-up touches all of them: growth is then a leak and not a buffer's first use.
pub(crate) const FEW_BUFFERS: &str = "[limits]\nbuffer_bytes_max = 4194304\n";

/// The numbers that must return to their earlier values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) connections: u64,
    pub(crate) descriptors: usize,
    pub(crate) files: u64,
    pub(crate) read_buffers_missing: u64,
    pub(crate) send_buffers_missing: u64,
    pub(crate) leases: usize,
}

impl Held {
    /// Whether no more is held than `before`. It may be less: files that are not in use are closed after 5 s, and a look may count the connection
    /// over which the last one was taken, or not. Each file may be open `more` times: a file whose pages the kernel has reclaimed is opened once
    /// more for its first load in order, and once more for its first direct read. What leaks with connections would leak thousands of times.
    pub(crate) fn is_back_at(&self, before: &Self, more: usize) -> bool {
        let most = before.descriptors + 1 + more * before.files as usize;
        self.descriptors <= most
            && self.files <= before.files
            && self.leases <= before.leases
            && self.connections == before.connections
            && self.read_buffers_missing == before.read_buffers_missing
            && self.send_buffers_missing == before.send_buffers_missing
    }
}

#[test]
fn two_hundred_thousand_connections_leave_nothing_behind() {
    machine::raise_nofile().expect("the limit on files can be raised to the hard one");
    let library = films::make().expect("the library is written");
    // Only through the page cache: a file's first direct read would open it once more.
    let launch = Launch::of(library.path()).arguments("--disk cached").config(FEW_BUFFERS);
    let server = launch.start();
    visit_all(&server, 0..WARM_UP);
    let before = settled(&server);
    let memory_before = server.own_memory_bytes();

    visit_all(&server, WARM_UP..WARM_UP + CONNECTIONS);
    let mut after = settled(&server);
    println!("after all connections {after:?}");
    until(&format!("no more is held than {before:?}"), || {
        let now = settled(&server);
        if now != std::mem::replace(&mut after, now) {
            println!("now {now:?}");
        }
        after.is_back_at(&before, 1)
    });
    let growth = server.own_memory_bytes().saturating_sub(memory_before);
    println!("{CONNECTIONS} connections: {after:?} as before, memory grew by {growth} bytes");
    // Those who reset at once may be gone before they can be let in.
    let come = ["connections_accepted_total", "connections_refused_total"];
    let come: u64 = come.iter().map(|name| server.sum(name)).sum();
    assert_eq!(come, WARM_UP + CONNECTIONS + 2 * SLOW);
    assert!(server.sum("records_made_again_total") > 0, "no buffer was taken back");
    assert_eq!(server.sum("tasks_panicked_total"), 0, "{}", server.said());
    assert!(growth <= GROWTH_BYTES_MAX, "memory grew by {growth} bytes");
    server.finish();
}

/// Connections with these numbers, several at a time; fails at the first that does not go as it should.
fn visit_all(server: &Server, numbers: Range<u64>) {
    let next = AtomicU64::new(numbers.start);
    thread::scope(|scope| {
        for _ in 0..SLOW {
            scope.spawn(|| Viewers::new(server.address).slow().expect("a slow viewer is served"));
        }
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let mut viewers = Viewers::new(server.address);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    let kind = Kind::of(number);
                    let visit = viewers.visit(kind);
                    assert!(visit.is_ok(), "{kind:?}, connection {number}: {visit:?}");
                }
            });
        }
    });
}

/// The server's resources once every viewer is gone.
pub(crate) fn settled(server: &Server) -> Held {
    until("every connection has ended", || {
        server.wait_for_news();
        server.sum("connections") == 0
    });
    // The connection over which the last number came may still be open when descriptors are counted.
    let mut last = held(server);
    eventually("two looks in a row to agree", || {
        let now = held(server);
        (std::mem::replace(&mut last, now) == now).then_some(now)
    })
}

fn held(server: &Server) -> Held {
    Held {
        connections: server.sum("connections"),
        files: server.sum("open_files"),
        read_buffers_missing: server.sum("read_buffers") - server.sum("read_buffers_free"),
        send_buffers_missing: server.sum("send_buffers") - server.sum("send_buffers_free"),
        descriptors: server.descriptors(),
        leases: server.leases(),
    }
}
