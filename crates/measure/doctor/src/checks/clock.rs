//! Clock rates, how deep idle CPUs sleep, and the clock source for programs.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;

const CPUS: &str = "sys/devices/system/cpu";

/// Waking from a deeper sleep takes longer than a full packet at 100 Mb/s.
const WAKING_US_MAX: u32 = 200;

/// Clocks that are read without asking the kernel or a device.
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

pub(crate) fn check(visit: &mut Visit<'_>) {
    let is_cpu = |name: &String| {
        name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    for cpu in visit.tree.names(CPUS).into_iter().filter(is_cpu) {
        // Virtual machines have no such folder.
        if visit.tree.has(format!("{CPUS}/{cpu}/cpufreq")) {
            rate(visit, &cpu);
        }
    }
    sleep(visit);
    time(visit);
}

fn rate(visit: &mut Visit<'_>, cpu: &str) {
    const WHAT: &str = "clock rates";
    let file = |name: &str| format!("{CPUS}/{cpu}/cpufreq/{name}");
    let Some(governor) = visit.needed(WHAT, &file("scaling_governor")) else { return };
    let driver = visit.needed(WHAT, &file("scaling_driver")).unwrap_or_default();
    let mut khz = |name: &str| {
        let khz = visit.number::<f64>(WHAT, &file(name))?;
        visit.understood(WHAT, &file(name), (10e3..20e6).contains(&khz).then_some(khz))
    };
    let possible = khz("cpuinfo_max_freq");
    let (most, least) = (khz("scaling_max_freq"), khz("cpuinfo_min_freq"));
    let (Some(possible), Some(most), Some(least)) = (possible, most, least) else { return };
    let fault = |name, [found, wanted]: [String; 2], cost, mend: &str| Finding {
        area: Area::Cpu,
        name,
        on: vec![cpu.to_owned()],
        found,
        wanted,
        cost,
        mend: mend.to_owned(),
        check: "cpupower frequency-info".to_owned(),
    };
    if most < 0.99 * possible {
        visit.found(fault(
            "clock-limit",
            [format!("at most {:.1} GHz", most / 1e6), format!("{:.1} GHz", possible / 1e6)],
            Cost::percent(100.0 * (1.0 - most / possible), "of the processor", source::ARITHMETIC),
            "cpupower frequency-set --max with the wanted rate; look at tuned or other programs that save power",
        ));
    }
    // With these drivers the processor itself chooses; the governor is no more than a hint to it.
    let chooses_itself = driver.contains("pstate");
    match governor.as_str() {
        "performance" | "schedutil" => {}
        "powersave" if !chooses_itself && least < possible => visit.found(fault(
            "governor",
            ["the governor powersave: always the lowest rate".into(), "performance".into()],
            Cost::percent(100.0 * (1.0 - least / possible), "of the processor", source::ARITHMETIC),
            "cpupower frequency-set -g performance",
        )),
        "powersave" | "ondemand" | "conservative" | "userspace" => visit.found(fault(
            "governor",
            [format!("the governor {governor}"), "performance".into()],
            Cost::unmeasured("clocks that rise late when load comes; nothing at full load"),
            "cpupower frequency-set -g performance",
        )),
        _ => {
            visit.understood(WHAT, &file("scaling_governor"), None::<()>);
        }
    }
}

/// The sleep states of the first CPU; they are the same on all.
fn sleep(visit: &mut Visit<'_>) {
    const WHAT: &str = "sleep of idle CPUs";
    let folder = format!("{CPUS}/cpu0/cpuidle");
    for state in visit.tree.names(&folder).into_iter().filter(|name| name.starts_with("state")) {
        let file = |name: &str| format!("{folder}/{state}/{name}");
        let waking_us = visit.number::<u32>(WHAT, &file("latency"));
        let is_off = visit.number::<u32>(WHAT, &file("disable"));
        let (Some(waking_us), Some(0)) = (waking_us, is_off) else { continue };
        if waking_us <= WAKING_US_MAX {
            continue;
        }
        let name = visit.optional(WHAT, &file("name")).unwrap_or(state);
        visit.found(Finding {
            area: Area::Cpu,
            name: "deep-sleep",
            on: vec![name],
            found: format!("idle CPUs sleep so deep that waking takes {waking_us} µs"),
            wanted: format!("at most {WAKING_US_MAX} µs"),
            cost: Cost::unmeasured(
                "late answers while there is little to do; nothing at full load",
            ),
            mend: format!("cpupower idle-set -D {WAKING_US_MAX}"),
            check: "cpupower idle-info".into(),
        });
    }
}

fn time(visit: &mut Visit<'_>) {
    let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Some(clock) = visit.needed("the kernel's clock", path) else { return };
    if FAST_CLOCKS.contains(&clock.as_str()) {
        return;
    }
    if !["hpet", "acpi_pm", "xen", "jiffies", "refined-jiffies", "hyperv_clocksource_msr"]
        .contains(&clock.as_str())
    {
        visit.understood("the kernel's clock", path, None::<()>);
        return;
    }
    visit.found(Finding {
        area: Area::Cpu,
        name: "clock",
        on: Vec::new(),
        found: format!("the time comes from {clock}"),
        wanted: "tsc, or kvm-clock in a virtual machine".into(),
        cost: Cost::unmeasured("asking for the time takes a system call or a slow device, and a server asks for each window"),
        mend: "look in dmesg why the kernel left tsc (\"clocksource\"); newer firmware often helps".into(),
        check: format!("cat /{path}"),
    });
}
