//! Capabilities (capabilities(7)): root has all of them, and a service may be given some. Once listeners and devices are open,
//! the server keeps at most four of those that it had:
//!
//! | kept | why | what an attacker could do with it |
//! |---|---|---|
//! | `CAP_DAC_READ_SEARCH` | the server reads films and renewed certificates of any owner, as root expects | read what Landlock grants, and nothing else: the calls that would go round it are filtered |
//! | `CAP_FOWNER` | the kernel says what is in memory (cachestat(2), mincore(2)) only for one's own files | nothing: each call that changes another user's file is filtered, and rings do not have these calls |
//! | `CAP_LEASE` | read leases on other users' films, so that the kernel may send them by itself | delay programs that write to a film, at most by `/proc/sys/fs/lease-break-time` |
//! | `CAP_NET_RAW` | marks of connections that move between silos (`SO_MARK`), if the operator's map has marks | choose routes and priorities for viewers' packets; nothing raw, because the calls that make such sockets are filtered, and rings do not have them |
//!
//! A thread's capabilities are its own, and threads that it starts inherit them. So everything is given up before any thread
//! starts, except what rings need while they are made: [`give_up_for_rings`].

use delivery::KernelOffload;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

/// Capabilities for setting up a device (capabilities(7)). A process with the last one could give itself the others.
const FOR_DEVICES: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN);

/// With it, rings and their buffers do not count against the limit on locked memory (io_uring_setup(2)). The kernel checks it
/// when they are created, and never again.
const FOR_RINGS: CapabilitySet = CapabilitySet::IPC_LOCK;

/// Capabilities that are kept for good, by name.
const KEPT: [(&str, CapabilitySet); 4] = [
    ("dac_read_search", CapabilitySet::DAC_READ_SEARCH),
    ("fowner", CapabilitySet::FOWNER),
    ("lease", CapabilitySet::LEASE),
    ("net_raw", CapabilitySet::NET_RAW),
];

/// Gives up the capabilities for devices, for this thread and those that it starts from now on. Returns a report.
pub fn give_up_network_privileges() -> String {
    limit_programs(FOR_DEVICES.complement());
    match keep_only(FOR_DEVICES.complement()) {
        Ok(_) => "network privileges given up".into(),
        Err(error) => format!("network privileges kept ({error})"),
    }
}

/// Gives up everything except the capabilities for serving and, until [`give_up_for_rings`], for rings. This covers this thread and
/// those that it starts from now on. Returns a list of the rest.
pub(super) fn give_up(offload: KernelOffload, marks_connections: bool) -> String {
    let is_needed = |capability: CapabilitySet| {
        (offload.sends_files || capability != CapabilitySet::LEASE)
            && (marks_connections || capability != CapabilitySet::NET_RAW)
    };
    let kept = KEPT.into_iter().filter(|(_, capability)| is_needed(*capability));
    let kept: Vec<_> = kept.collect();
    let all = kept.iter().fold(CapabilitySet::empty(), |all, (_, one)| all.union(*one));
    limit_programs(all);
    match keep_only(all.union(FOR_RINGS)) {
        Ok(left) => {
            let left = kept.into_iter().filter(|(_, capability)| left.contains(*capability));
            let names: Vec<_> = left.map(|(name, _)| name).collect();
            let names = if names.is_empty() { "none".into() } else { names.join(" ") };
            format!("capabilities kept: {names}")
        }
        Err(error) => format!("capabilities not given up ({error})"),
    }
}

/// Gives up the capabilities for rings, for this thread and those that it starts from now on. Each thread calls it as soon as it has its
/// ring and its buffers; a thread without a ring calls it at once.
pub fn give_up_for_rings() {
    // An error means that the capability is missing or cannot be changed: there is nothing to give up.
    let _ = keep_only(FOR_RINGS.complement());
}

/// Removes all other capabilities from the bounding set, which limits programs that root executes. This needs `CAP_SETPCAP`; the server
/// executes nothing anyway.
fn limit_programs(kept: CapabilitySet) {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // EPERM; or EINVAL, because the kernel knows neither this capability nor any after it.
        if !kept.contains(one) && remove_capability_from_bounding_set(one).is_err() {
            return;
        }
    }
}

/// Removes all other capabilities from the effective and the permitted set, and all from the inheritable and the ambient set,
/// which are for executed programs. Returns the permitted set.
fn keep_only(kept: CapabilitySet) -> Result<CapabilitySet, Errno> {
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    // A capability that is not inheritable is not ambient either.
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    Ok(sets.permitted)
}
