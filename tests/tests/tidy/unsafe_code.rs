//! Where `unsafe` may be. Other code calls a safe wrapper, most often one of these modules, rustix or socket2.

use crate::rust;
use crate::tree::File;

/// Files or folders, and why they need it.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/library/src/confined/mod.rs", "what a child does between fork and exec"),
    ("crates/machine/src/disk_health.rs", "an ioctl of NVMe disks"),
    ("crates/machine/src/ethtool/counters.rs", "an ioctl of network cards"),
    ("crates/machine/src/socket_links.rs", "an ioctl of AMD's processors"),
    ("crates/middlebox/src/port.rs", "packet sockets"),
    ("crates/node/src/holding/block_file.rs", "asking for large pages (madvise(2))"),
    ("crates/node/src/holding/run_last.rs", "sched_setscheduler(2)"),
    ("crates/stack/src/kernel/", "bpf(2), ethtool, AF_XDP rings, TUN/TAP"),
    ("crates/net/src/listener.rs", "taking over a descriptor"),
    ("crates/net/src/socket.rs", "socket options that no crate names"),
    ("crates/net/src/tls.rs", "kernel TLS: setsockopt and control messages"),
    ("crates/reactor/src/blocks.rs", "memory that threads share, and pages for it"),
    ("crates/reactor/src/mapping.rs", "memory for buffers and blocks, from the kernel"),
    ("crates/reactor/src/disk_ring.rs", "a ring that reads into memory of its own"),
    ("crates/reactor/src/executor.rs", "wakers and the ring's registration"),
    ("crates/reactor/src/lease.rs", "fcntl(F_SETLEASE)"),
    ("crates/reactor/src/memory.rs", "parts of a mapping, each with an owner"),
    ("crates/reactor/src/node.rs", "set_mempolicy, mbind"),
    ("crates/reactor/src/op.rs", "ring operations, which point into buffers that they own"),
    ("crates/reactor/src/pool.rs", "buffers, each of which is held once"),
    ("crates/reactor/src/pool/", "pages for buffers"),
    ("crates/reactor/src/residency.rs", "cachestat, mincore"),
    ("crates/reactor/src/ring.rs", "submitting to the ring"),
    ("crates/reactor/src/streaming.rs", "non-temporal stores"),
    ("crates/reactor/src/timer.rs", "submitting to the ring"),
    // Tests: hostile or unlucky conditions, and networks of their own.
    ("crates/appliance/tests/sandbox.rs", "system calls that must be refused"),
    ("crates/appliance/tests/serving/support/mapped_writer.rs", "a file mapped for writing"),
    ("crates/fullbore/tests/bypass/support/", "raw sockets"),
    ("crates/stack/benches/frames.rs", "an allocator that counts"),
    ("crates/stack/tests/frames/", "bpf(2), capset(2)"),
    ("crates/tcp/tests/flood.rs", "an allocator that counts"),
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
        File::planted("crates/http/src/a.rs", "// unsafe\nfn a() {\n    unsafe { b() }\n}\n"),
        File::planted("crates/http/src/b.rs", "#![deny(unsafe_op_in_unsafe_fn)] // unsafe\n"),
        File::planted("crates/reactor/src/c.rs", "unsafe fn c() {}\n"),
    ];
    let allowed = [("crates/reactor/src/", "rings"), ("crates/gone/", "nothing")];
    crate::found(&breaches(&files, &allowed), &["crates/http/src/a.rs:3", "crates/gone/"]);
}
