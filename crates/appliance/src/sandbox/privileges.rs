//! The privileges that setting a network device up takes, and that nothing needs afterwards.

use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

/// What a device's set-up may need (capabilities(7)); whoever has the last could give itself the others.
const FOR_DEVICES: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN);

/// Gives them up, for this thread and those that it starts from now on; says so, or why not.
pub fn give_up_network_privileges() -> String {
    for capability in FOR_DEVICES.iter() {
        // Refused to those who have no say over it; they have none of these to give up.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let given_up = capabilities(None).and_then(|mut sets| {
        sets.effective.remove(FOR_DEVICES);
        sets.permitted.remove(FOR_DEVICES);
        sets.inheritable.remove(FOR_DEVICES);
        set_capabilities(None, sets)
    });
    match given_up {
        Ok(()) => "privileges over the network given up".into(),
        Err(error) => format!("privileges over the network kept ({error})"),
    }
}
