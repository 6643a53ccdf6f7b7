//! Processors: instructions for encryption, threads, unused CPUs.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use machine::parse_list;

const CPUS: &str = "sys/devices/system/cpu";

pub(crate) fn check(visit: &mut Visit<'_>) {
    encryption(visit);
    offline(visit);
    allowed(visit);
    quota(visit);
    threads(visit);
}

/// The server's cipher library uses all of these if the processor has them.
fn encryption(visit: &mut Visit<'_>) {
    const CHECK: &str = "lscpu shows aes, vaes, vpclmulqdq and avx512vl among its flags";
    const MEND: &str = "in a virtual machine, pass the host's processor on (cpu model host-passthrough); else a newer processor";
    const WHAT: &str = "instructions of the processor";
    let Some(text) = visit.needed(WHAT, "proc/cpuinfo") else { return };
    let features = visit.machine.cpu_features;
    if !features.aes {
        // A list without even these is not a list of an x86-64 or an aarch64.
        let is_list = ["\nflags", "\nFeatures"].iter().any(|name| text.contains(name));
        if visit
            .understood(WHAT, "proc/cpuinfo", (is_list && has_basics(&text)).then_some(()))
            .is_none()
        {
            return;
        }
        visit.found(Finding::of_machine(
            Area::Cpu,
            "aes",
            ["no AES in hardware".into(), "AES".into()],
            Cost::percent(
                64.0,
                "of what a core carries over TLS, with ChaCha20 instead: 15 Gb/s instead of 43, as the sum of the parts",
                source::PERFORMANCE,
            ),
            [MEND, CHECK],
        ));
    } else if visit.machine.cpu_model.is_some() && !(features.vaes && features.avx512) {
        visit.found(vector_aes(features.vaes, [MEND, CHECK]));
    }
}

/// AES on several blocks at once is missing, or only its 512-bit vectors are.
fn vector_aes(has_vaes: bool, [mend, check]: [&str; 2]) -> Finding {
    let wanted = "VAES, VPCLMULQDQ and AVX-512 (F, BW, VL)".to_owned();
    if has_vaes {
        let cost = Cost::unmeasured("encryption works on half as many blocks at once");
        return Finding::of_machine(
            Area::Cpu,
            "vector-aes",
            ["no AVX-512".into(), wanted],
            cost,
            [mend, check],
        );
    }
    let cost = Cost::percent(
        42.0,
        "of what a core carries over TLS from memory: 0.58 of it without VAES and AVX-512",
        source::PERFORMANCE,
    );
    Finding::of_machine(
        Area::Cpu,
        "vector-aes",
        ["no VAES and VPCLMULQDQ".into(), wanted],
        cost,
        [mend, check],
    )
}

/// Whether the list is complete: `fpu` is in each list of x86-64, `fp` in each of aarch64.
fn has_basics(text: &str) -> bool {
    text.split_whitespace().any(|flag| matches!(flag, "fpu" | "fp"))
}

fn list(visit: &mut Visit<'_>, path: &str) -> Option<Vec<u32>> {
    let text = visit.needed("lists of CPUs", path)?;
    visit.understood("lists of CPUs", path, parse_list(&text))
}

fn offline(visit: &mut Visit<'_>) {
    let present = list(visit, &format!("{CPUS}/present"));
    let online = list(visit, &format!("{CPUS}/online"));
    let (Some(present), Some(online)) = (present, online) else { return };
    // Threads that were switched off together have a row of their own.
    let is_off_on_purpose =
        visit.tree.text(format!("{CPUS}/smt/control")).is_ok_and(|smt| smt.contains("off"));
    if online.len() >= present.len() || is_off_on_purpose {
        return;
    }
    let part = 1.0 - online.len() as f64 / present.len() as f64;
    visit.found(Finding::of_machine(
        Area::Cpu,
        "offline",
        [format!("{} of {} CPUs are online", online.len(), present.len()), "all of them".into()],
        Cost::percent(100.0 * part, "of the processor", source::ARITHMETIC),
        ["echo 1 > /sys/devices/system/cpu/cpuN/online; take maxcpus= and nr_cpus= off the kernel's command line", "cat /sys/devices/system/cpu/online"],
    ));
}

/// The CPUs that `taskset`, systemd's CPUAffinity= or a cpuset allow.
fn allowed(visit: &mut Visit<'_>) {
    const STATUS: &str = "proc/thread-self/status";
    let Some(online) = list(visit, &format!("{CPUS}/online")) else { return };
    let Some(status) = visit.needed("CPUs of this process", STATUS) else { return };
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = line.and_then(parse_list);
    let Some(allowed) = visit.understood("CPUs of this process", STATUS, allowed) else { return };
    if allowed.len() >= online.len() {
        return;
    }
    let part = 1.0 - allowed.len() as f64 / online.len() as f64;
    visit.found(Finding::of_machine(
        Area::Cpu,
        "cpus-allowed",
        [format!("this process may use {} of {} CPUs", allowed.len(), online.len()), "all of them".into()],
        Cost::percent(100.0 * part, "of the processor, if the server runs under the same restriction", source::ARITHMETIC),
        ["look at taskset, at CPUAffinity= and AllowedCPUs= of the unit, or at the container's cpuset", "grep Cpus_allowed_list /proc/PID/status of the server"],
    ));
}

fn quota(visit: &mut Visit<'_>) {
    let cpus = visit.machine.cpus.len() as f64;
    let Some(quota) = visit.machine.cpu_quota.filter(|quota| *quota < cpus) else { return };
    visit.found(Finding::of_machine(
        Area::Cpu,
        "cpu-quota",
        [format!("control groups allow {quota:.1} CPUs' worth of time of {cpus}"), "no limit".into()],
        Cost::percent(
            100.0 * (1.0 - quota / cpus),
            "of the processor, if the server runs in the same group; threads are also stopped in the middle of their work",
            source::ARITHMETIC,
        ),
        ["take CPUQuota= out of the unit or its slice, or the container's limit", "cat cpu.max of the server's control group"],
    ));
}

fn threads(visit: &mut Visit<'_>) {
    let Some(control) = visit.optional("hyper-threads", &format!("{CPUS}/smt/control")) else {
        return;
    };
    match control.as_str() {
        "off" | "forceoff" => visit.found(Finding::of_machine(
            Area::Cpu,
            "smt",
            ["hyper-threads are switched off".into(), "on".into()],
            Cost::unmeasured("two threads fill the waits of one another for memory; little where memory is the limit"),
            ["firmware setup: SMT or Hyper-Threading enabled; take nosmt off the kernel's command line", "cat /sys/devices/system/cpu/smt/control shows on"],
        )),
        "on" | "notsupported" | "notimplemented" => {}
        _ => {
            visit.understood("hyper-threads", &format!("{CPUS}/smt/control"), None::<()>);
        }
    }
}
