//! Where `unsafe` may be. Other code calls a safe wrapper, most often one of these modules, rustix or socket2.

use crate::rust;
use crate::tree::File;

/// Files or folders, and why they need it.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/media/ingest/src/confined/mod.rs", "what a child does between fork and exec"),
    ("crates/core/machine/src/disk_health.rs", "an ioctl of NVMe disks"),
    ("crates/core/machine/src/ethtool/counters.rs", "an ioctl of network cards"),
    ("crates/core/machine/src/socket_links.rs", "an ioctl of AMD's processors"),
    ("crates/measure/middlebox/src/port.rs", "packet sockets"),
    ("crates/fleet/node/src/holding/block_file.rs", "asking for large pages (madvise(2))"),
    ("crates/fleet/node/src/holding/run_last.rs", "sched_setscheduler(2)"),
    ("crates/server/frames/src/kernel/", "bpf(2), ethtool, AF_XDP rings, TUN/TAP"),
    ("crates/server/net/src/listener.rs", "taking over a descriptor"),
    ("crates/server/net/src/socket.rs", "socket options that no crate names"),
    ("crates/server/net/src/tls.rs", "kernel TLS: setsockopt and control messages"),
    ("crates/core/reactor/src/blocks.rs", "memory that threads share, and pages for it"),
    ("crates/core/reactor/src/mapping.rs", "memory for buffers and blocks, from the kernel"),
    ("crates/core/reactor/src/disk_ring.rs", "a ring that reads into memory of its own"),
    ("crates/core/reactor/src/executor.rs", "wakers and the ring's registration"),
    ("crates/core/reactor/src/lease.rs", "fcntl(F_SETLEASE)"),
    ("crates/core/reactor/src/memory.rs", "parts of a mapping, each with an owner"),
    ("crates/core/reactor/src/node.rs", "set_mempolicy, mbind"),
    ("crates/core/reactor/src/op.rs", "ring operations, which point into buffers that they own"),
    ("crates/core/reactor/src/pool.rs", "buffers, each of which is held once"),
    ("crates/core/reactor/src/pool/", "pages for buffers"),
    ("crates/core/reactor/src/residency.rs", "cachestat, mincore"),
    ("crates/core/reactor/src/ring.rs", "submitting to the ring"),
    ("crates/core/reactor/src/streaming.rs", "non-temporal stores"),
    ("crates/core/reactor/src/timer.rs", "submitting to the ring"),
    // Tests: hostile or unlucky conditions, and networks of their own.
    ("crates/server/server/tests/sandbox.rs", "system calls that must be refused"),
    ("crates/server/server/tests/serving/support/mapped_writer.rs", "a file mapped for writing"),
    ("bin/fullbore/tests/bypass/support/", "raw sockets"),
    ("crates/server/frames/benches/frames.rs", "an allocator that counts"),
    ("crates/server/frames/tests/frames/", "bpf(2), capset(2)"),
    ("crates/core/tcp/tests/flood.rs", "an allocator that counts"),
    ("tests/src/failing_disk.rs", "an ioctl of ext4"),
    ("tests/src/namespace.rs", "network namespaces"),
];

fn breaches(files: &[File], allowed: &[(&str, &str)]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut used = vec![false; allowed.len()];
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = rust::code(&file.text);
        let Some(line) = code.lines().position(|line| rust::words(line).any(|w| w == "unsafe"))
        else {
            continue;
        };
        match allowed.iter().position(|(prefix, _)| file.path.starts_with(prefix)) {
            Some(row) => used[row] = true,
            None => breaches.push(format!(
                "{}: unsafe: use a safe wrapper, or add a row with the reason to ALLOWED in {}",
                file.at(line),
                file!()
            )),
        }
    }
    let idle = allowed.iter().zip(used).filter(|(_, is_used)| !is_used);
    breaches.extend(idle.map(|((prefix, _), _)| {
        format!("{prefix}: no unsafe there: take the row out of ALLOWED in {}", file!())
    }));
    breaches
}

#[test]
fn unsafe_is_only_where_it_may_be() {
    crate::none(breaches(&crate::tree::files(), ALLOWED));
}

#[test]
fn planted_unsafe_is_found_and_an_idle_row_too() {
    let files = [
        File::planted("crates/core/http/src/a.rs", "// unsafe\nfn a() {\n    unsafe { b() }\n}\n"),
        File::planted("crates/core/http/src/b.rs", "#![deny(unsafe_op_in_unsafe_fn)] // unsafe\n"),
        File::planted("crates/core/reactor/src/c.rs", "unsafe fn c() {}\n"),
    ];
    let allowed = [("crates/core/reactor/src/", "rings"), ("crates/core/gone/", "nothing")];
    crate::found(
        &breaches(&files, &allowed),
        &["crates/core/http/src/a.rs:3", "crates/core/gone/"],
    );
}
