//! The health of NVMe disks: their wear and their warnings.

use crate::finding::{Area, Cost, Finding};
use crate::visit::Visit;
use machine::DiskHealth;

/// An assumption: time to order a replacement.
const USED_PERCENT_MAX: u8 = 90;

pub(crate) fn check(visit: &mut Visit<'_>) {
    const WHAT: &str = "health of disks";
    for controller in visit.tree.names("sys/class/nvme") {
        let health = match visit.evidence.disk_logs.health(&controller) {
            Ok(log) => visit.understood(WHAT, &controller, DiskHealth::parse(&log)),
            Err(error) => {
                visit.refused(WHAT, &error, &controller);
                continue;
            }
        };
        let Some(health) = health else { continue };
        if health.used_percent >= USED_PERCENT_MAX {
            visit.found(wear(&controller, health.used_percent));
        }
        if !health.warnings().is_empty() {
            visit.found(warned(&controller, health));
        }
    }
}

fn fault(
    controller: &str,
    name: &'static str,
    [found, wanted]: [String; 2],
    cost: &str,
) -> Finding {
    Finding {
        area: Area::Nvme,
        name,
        on: vec![controller.to_owned()],
        found,
        wanted,
        cost: Cost::unmeasured(cost),
        mend: "copy what is only there, and replace the disk".into(),
        check: "nvme smart-log /dev/DISK (package nvme-cli)".into(),
    }
}

fn wear(controller: &str, used_percent: u8) -> Finding {
    fault(
        controller,
        "wear",
        [
            format!("{used_percent}% of its life is used, by the maker's estimate"),
            format!("less than {USED_PERCENT_MAX}%"),
        ],
        "nothing yet; beyond 100% the disk may take no more writes, and read more slowly",
    )
}

fn warned(controller: &str, health: DiskHealth) -> Finding {
    let mut finding = fault(
        controller,
        "disk-warning",
        [
            format!(
                "the disk warns: {}; {}% of its spare blocks are left",
                health.warnings().join(", "),
                health.spare_percent
            ),
            "no warning".into(),
        ],
        "its films, if it fails",
    );
    if health.warnings_are_of_heat() {
        finding.cost =
            Cost::unmeasured("the disk slows itself down until its temperature is right");
        finding.mend = "give it air".into();
    }
    finding
}
