//! Protections against processors' faults that cost something at each system call or change of task (kernel
//! documentation: admin-guide/hw-vuln). They are listed to explain their cost; there is no need to switch them off.

use crate::finding::{Area, Cost, Finding};
use crate::visit::Visit;

const FAULTS: &str = "sys/devices/system/cpu/vulnerabilities";

/// The kernel's names of costly protections, and where each one costs.
const COSTLY: [(&str, &str); 6] = [
    ("Mitigation: PTI", "each system call changes page tables"),
    ("Mitigation: IBRS", "each system call writes a register"),
    ("Mitigation: untrained return thunk", "each return from a function"),
    ("Mitigation: Safe RET", "each return from a function"),
    ("Mitigation: IBPB", "each system call forgets learnt jumps"),
    ("Mitigation: Clear CPU buffers", "each return from the kernel empties buffers"),
];

pub(crate) fn check(visit: &mut Visit<'_>) {
    for fault in visit.tree.names(FAULTS) {
        let path = format!("{FAULTS}/{fault}");
        let Some(state) = visit.optional("protections of the processor", &path) else { continue };
        let Some((_, what)) = COSTLY.iter().find(|(prefix, _)| state.starts_with(prefix)) else {
            continue;
        };
        let protection =
            state.trim_start_matches("Mitigation: ").split(';').next().unwrap_or_default();
        visit.found(Finding {
            area: Area::Cpu,
            name: "mitigation",
            on: vec![fault],
            found: format!("a protection that costs: {protection}"),
            wanted: "a processor that does not need it".into(),
            cost: Cost::unmeasured(*what),
            mend: "leave it on, unless only you run programs on this machine and you accept the risk: mitigations=off on the kernel's command line".into(),
            check: "lscpu, at its end".into(),
        });
    }
}
