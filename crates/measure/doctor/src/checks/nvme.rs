//! NVMe disks: queues, scheduler, block size, temperature.

use crate::finding::{Area, Cost, Finding};
use crate::visit::Visit;

const CONTROLLERS: &str = "sys/class/nvme";

pub(crate) fn check(visit: &mut Visit<'_>) {
    for disk in visit.tree.names("sys/block").into_iter().filter(|name| is_namespace(name)) {
        scheduler(visit, &disk);
        queues(visit, &disk);
        block_size(visit, &disk);
    }
    for controller in visit.tree.names(CONTROLLERS) {
        temperature(visit, &controller);
    }
}

/// Whether this is a namespace such as `nvme0n1`; `nvme0c0n1` is a path to such a disk, and is not used by itself.
fn is_namespace(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(|rest| !rest.contains('c'))
}

fn scheduler(visit: &mut Visit<'_>, disk: &str) {
    let path = format!("sys/block/{disk}/queue/scheduler");
    let Some(text) = visit.optional("disk schedulers", &path) else { return };
    // Disks with several paths have no scheduler, and report "none" without a mark.
    if text == "none" {
        return;
    }
    let Some(chosen) = visit.chosen("disk schedulers", &path) else { return };
    match chosen.as_str() {
        "none" => return,
        "mq-deadline" | "kyber" | "bfq" => {}
        _ => {
            visit.understood("disk schedulers", &path, None::<()>);
            return;
        }
    }
    visit.found(Finding {
        area: Area::Nvme,
        name: "scheduler",
        on: vec![disk.to_owned()],
        found: format!("the scheduler {chosen}"),
        wanted: "none".into(),
        cost: Cost::unmeasured("a lock and a queue for each read, which an NVMe disk does not need"),
        mend: "echo none > /sys/block/DISK/queue/scheduler; to keep it: ACTION==\"add|change\", KERNEL==\"nvme*n*\", ATTR{queue/scheduler}=\"none\" in /etc/udev/rules.d".into(),
        check: "cat /sys/block/DISK/queue/scheduler shows [none]".into(),
    });
}

/// The kernel gives each CPU a queue, as long as the disk has enough.
fn queues(visit: &mut Visit<'_>, disk: &str) {
    let queues = visit.tree.names(format!("sys/block/{disk}/mq")).len();
    let cpus = visit.machine.cpus.len();
    if queues == 0 || 2 * queues >= cpus {
        return;
    }
    visit.found(Finding {
        area: Area::Nvme,
        name: "queues",
        on: vec![disk.to_owned()],
        found: format!("{queues} queues for {cpus} CPUs"),
        wanted: "a queue for each CPU, or at least for every second one".into(),
        cost: Cost::unmeasured("CPUs that share a queue wait for each other, and take interrupts of other CPUs' reads"),
        mend: "in a virtual machine, give the disk more queues; else look in dmesg for interrupts that the kernel could not get".into(),
        check: "ls /sys/block/DISK/mq | wc -l".into(),
    });
}

fn block_size(visit: &mut Visit<'_>, disk: &str) {
    let file = |name: &str| format!("sys/block/{disk}/queue/{name}");
    let logical = visit.optional_number::<u32>("block sizes", &file("logical_block_size"));
    let physical = visit.optional_number::<u32>("block sizes", &file("physical_block_size"));
    let (Some(logical), Some(physical)) = (logical, physical) else { return };
    let is_size = |bytes: u32| bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes);
    if !is_size(logical) || !is_size(physical) {
        visit.understood("block sizes", &file("logical_block_size"), None::<()>);
        return;
    }
    if logical >= physical.min(4096) {
        return;
    }
    visit.found(Finding {
        area: Area::Nvme,
        name: "block-size",
        on: vec![disk.to_owned()],
        found: format!("blocks of {logical} bytes on a disk that works in {physical}"),
        wanted: "blocks of 4096 bytes".into(),
        cost: Cost::unmeasured("nothing for large reads; small writes of an ingest or an edge cost a read each"),
        mend: "nvme format --lbaf=N DISK, before it has data: this erases the disk (nvme id-ns -H DISK lists N)".into(),
        check: "cat /sys/block/DISK/queue/logical_block_size shows 4096".into(),
    });
}

/// The temperature in thousandths of a degree, in the controller's hwmon folder (kernel documentation: hwmon/sysfs-interface).
fn temperature(visit: &mut Visit<'_>, controller: &str) {
    const WHAT: &str = "temperatures of disks";
    let names = visit.tree.names(format!("{CONTROLLERS}/{controller}"));
    let Some(sensor) = names.into_iter().find(|name| name.starts_with("hwmon")) else { return };
    let file = |name: &str| format!("{CONTROLLERS}/{controller}/{sensor}/{name}");
    let now = visit.optional_number::<i64>(WHAT, &file("temp1_input"));
    let limit = visit.optional_number::<i64>(WHAT, &file("temp1_max"));
    let (Some(now), Some(limit)) = (now, limit) else { return };
    let is_possible = |temperature: &i64| (1_000..200_000).contains(temperature);
    if ![now, limit].iter().all(is_possible) {
        visit.understood(WHAT, &file("temp1_input"), None::<()>);
        return;
    }
    if now < limit {
        return;
    }
    visit.found(Finding {
        area: Area::Nvme,
        name: "temperature",
        on: vec![controller.to_owned()],
        found: format!("{} °C", now / 1000),
        wanted: format!("below {} °C, from where it slows down", limit / 1000),
        cost: Cost::unmeasured("a disk that is too hot may serve a fraction of its speed"),
        mend: "give it air: fans, filters, a heat sink".into(),
        check: format!("cat /{CONTROLLERS}/{controller}/hwmon*/temp1_input"),
    });
}
