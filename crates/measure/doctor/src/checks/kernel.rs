//! The kernel: its version, io_uring, TLS, TCP buffers, and leases.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use machine::KernelVersion;

/// The server's minimum.
const OLDEST: KernelVersion = KernelVersion { major: 6, minor: 1 };

/// `net.backlog` of the server.
const BACKLOG: u64 = 4096;

/// The kernel's default, and enough for 160 Mb/s to a viewer at 100 ms.
const SEND_BUFFER_BYTES: u64 = 4 << 20;

/// The kernel gives TCP some 9% of memory by default.
const TCP_PART_OF_MEMORY: u64 = 32;

/// A writer waits at least this long for the server to release a file.
const BREAK_SECONDS: u64 = 10;

pub(crate) fn check(visit: &mut Visit<'_>) {
    version(visit);
    ring(visit);
    tls(visit);
    backlog(visit);
    send_buffer(visit);
    tcp_memory(visit);
    leases(visit);
}

fn version(visit: &mut Visit<'_>) {
    const PATH: &str = "proc/sys/kernel/osrelease";
    if visit.needed("the kernel's version", PATH).is_none() {
        return;
    }
    let kernel = visit.machine.kernel.filter(|kernel| (2..1000).contains(&kernel.major));
    let Some(kernel) = visit.understood("the kernel's version", PATH, kernel) else { return };
    if kernel >= OLDEST {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Kernel,
        "version",
        [format!("Linux {kernel}"), format!("Linux {OLDEST} or newer")],
        Cost::percent(100.0, "the server does not start", source::NEEDED),
        ["boot a newer kernel; Debian 12 has 6.1", "uname -r"],
    ));
}

fn ring(visit: &mut Visit<'_>) {
    const MEND: [&str; 2] = [
        "sysctl kernel.io_uring_disabled=0; in a container, allow io_uring_setup, io_uring_enter and io_uring_register in its filter of system calls",
        "sysctl kernel.io_uring_disabled shows 0",
    ];
    let lost = || Cost::percent(100.0, "the server does not start", source::NEEDED);
    let disabled = visit.optional_number::<u32>(
        "whether io_uring may be used",
        "proc/sys/kernel/io_uring_disabled",
    );
    if let Some(mode @ (1 | 2)) = disabled {
        visit.found(Finding::of_machine(
            Area::Kernel,
            "io-uring",
            [format!("io_uring is switched off ({mode})"), "on (0)".into()],
            lost(),
            MEND,
        ));
    } else if let Some(why) = visit.evidence.ring_refused.clone() {
        visit.found(Finding::of_machine(
            Area::Kernel,
            "io-uring",
            [format!("the kernel refuses io_uring: {why}"), "a ring".into()],
            lost(),
            MEND,
        ));
    }
}

fn tls(visit: &mut Visit<'_>) {
    // A tree without even the kernel's release says nothing about its modules.
    if visit.machine.kernel_tls || visit.machine.kernel.is_none() {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Kernel,
        "tls",
        [
            "the kernel has no TLS, or its module is not loaded".into(),
            "loaded, if you serve with --route kernel".into(),
        ],
        Cost::unmeasured(
            "nothing on the default route; the server refuses --route kernel over TLS",
        ),
        [
            "modprobe tls; to keep it: echo tls > /etc/modules-load.d/tls.conf",
            "cat /proc/net/tls_stat",
        ],
    ));
}

fn backlog(visit: &mut Visit<'_>) {
    let Some(most) = visit.number::<u64>("waiting connections", "proc/sys/net/core/somaxconn")
    else {
        return;
    };
    if most >= BACKLOG {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Kernel,
        "somaxconn",
        [
            format!("at most {most} connections wait to be accepted"),
            format!("{BACKLOG}, the server's backlog"),
        ],
        Cost::unmeasured("when many viewers connect at once, some have to retry after a second"),
        [
            "sysctl net.core.somaxconn=4096, and the same in /etc/sysctl.d",
            "ss -ltn shows 4096 at Send-Q",
        ],
    ));
}

/// Reads three numbers: least, initial and most.
fn three(visit: &mut Visit<'_>, what: &'static str, path: &str) -> Option<[u64; 3]> {
    let text = visit.needed(what, path)?;
    let numbers: Option<Vec<u64>> =
        text.split_whitespace().map(|number| number.parse().ok()).collect();
    visit.understood(what, path, numbers.and_then(|numbers| numbers.try_into().ok()))
}

fn send_buffer(visit: &mut Visit<'_>) {
    let Some([.., most]) = three(visit, "TCP's buffers", "proc/sys/net/ipv4/tcp_wmem") else {
        return;
    };
    if most >= SEND_BUFFER_BYTES {
        return;
    }
    // Half of it is room for bytes in flight; the rest is the kernel's overhead.
    let megabits = most as f64 / 2.0 * 8.0 / 0.1 / 1e6;
    visit.found(Finding::of_machine(
        Area::Kernel,
        "tcp-wmem",
        [
            format!("at most {most} bytes unacknowledged for each connection"),
            format!("{SEND_BUFFER_BYTES} or more"),
        ],
        Cost::unmeasured(format!("a viewer 100 ms away gets {megabits:.0} Mb/s at most")),
        [
            "sysctl net.ipv4.tcp_wmem=\"4096 16384 4194304\", and the same in /etc/sysctl.d",
            "sysctl net.ipv4.tcp_wmem",
        ],
    ));
}

fn tcp_memory(visit: &mut Visit<'_>) {
    let Some([.., pages]) = three(visit, "TCP's memory", "proc/sys/net/ipv4/tcp_mem") else {
        return;
    };
    let Some(memory) = visit.machine.memory_bytes else { return };
    let bytes = pages.saturating_mul(visit.machine.page_bytes as u64);
    if bytes >= memory / TCP_PART_OF_MEMORY {
        return;
    }
    let mib = |bytes: u64| bytes >> 20;
    visit.found(Finding::of_machine(
        Area::Kernel,
        "tcp-mem",
        [
            format!("TCP may use {} MiB of {}", mib(bytes), mib(memory)),
            format!("{} MiB or more", mib(memory / TCP_PART_OF_MEMORY)),
        ],
        Cost::unmeasured("with many viewers TCP makes all windows small"),
        [
            "take net.ipv4.tcp_mem out of /etc/sysctl.d: the kernel's default follows the memory",
            "cat /proc/net/sockstat: mem stays below the third number of sysctl net.ipv4.tcp_mem",
        ],
    ));
}

fn leases(visit: &mut Visit<'_>) {
    const WHAT: &str = "leases";
    if let Some(0) = visit.optional_number::<u64>(WHAT, "proc/sys/fs/leases-enable") {
        visit.found(Finding::of_machine(
            Area::Kernel,
            "leases",
            ["the kernel gives no leases on files".into(), "fs.leases-enable = 1".into()],
            Cost::percent(
                65.0,
                "of what a core carries over plain HTTP; nothing over TLS on the default route",
                source::LEASES,
            ),
            [
                "sysctl fs.leases-enable=1, and take it out of /etc/sysctl.d",
                "sysctl fs.leases-enable",
            ],
        ));
    }
    let Some(seconds) = visit.optional_number::<u64>(WHAT, "proc/sys/fs/lease-break-time") else {
        return;
    };
    if seconds >= BREAK_SECONDS {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Kernel,
        "lease-break-time",
        [format!("a lease is taken away after {seconds} s"), format!("{BREAK_SECONDS} s or more; the default is 45")],
        Cost::unmeasured("a film that is overwritten while it is served over plain HTTP may be sent mixed, if the server cannot end its connections in that time"),
        ["sysctl fs.lease-break-time=45, and the same in /etc/sysctl.d", "sysctl fs.lease-break-time"],
    ));
}
