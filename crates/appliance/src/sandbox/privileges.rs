//! Capabilities (capabilities(7)): root has all of them and a service may be given some. Once listeners and devices are
//! open, the server keeps three at most, of those that it had:
//!
//! | kept | why | what it is good for to whoever finds a way in |
//! |---|---|---|
//! | `CAP_DAC_READ_SEARCH` | films and renewed certificates are read whoever owns them, as root expects | reading what Landlock grants, and nothing else: the calls that would go round it are filtered |
//! | `CAP_FOWNER` | the kernel tells what is in memory (cachestat(2), mincore(2)) only of one's own files | nothing: each call that changes another's file is filtered, and rings do not know them |
//! | `CAP_LEASE` | read leases on others' films, while the kernel sends them by itself | making those who write to a film wait, at most `/proc/sys/fs/lease-break-time` |
//!
//! A thread's capabilities are its own, and threads that it starts inherit them. So all is given up before any thread
//! starts, but for what rings need while they are made: [`give_up_for_rings`].

use delivery::KernelOffload;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

/// What a device's set-up may need (capabilities(7)); whoever has the last could give itself the others.
const FOR_DEVICES: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN);

/// With it, rings and their buffers do not count against the limit on locked memory (io_uring_setup(2)). Asked when they
/// are made, and never again.
const FOR_RINGS: CapabilitySet = CapabilitySet::IPC_LOCK;

/// What is kept for good, by name.
const KEPT: [(&str, CapabilitySet); 3] = [
    ("dac_read_search", CapabilitySet::DAC_READ_SEARCH),
    ("fowner", CapabilitySet::FOWNER),
    ("lease", CapabilitySet::LEASE),
];

/// Gives up what devices took, for this thread and those that it starts from now on; says so, or why not.
pub fn give_up_network_privileges() -> String {
    limit_programs(FOR_DEVICES.complement());
    match keep_only(FOR_DEVICES.complement()) {
        Ok(_) => "network privileges given up".into(),
        Err(error) => format!("network privileges kept ({error})"),
    }
}

/// Gives up all but what serving takes, for this thread and those that it starts from now on, and what rings take until
/// [`give_up_for_rings`]. Says what is left.
pub(super) fn give_up(offload: KernelOffload) -> String {
    let is_needed = |capability| offload.sends_files || !CapabilitySet::LEASE.contains(capability);
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

/// Gives up what rings took, for this thread and those that it starts from now on. For each thread, as soon as it has
/// its ring and its buffers; at once for one that has none.
pub fn give_up_for_rings() {
    // Without it, or without a say over it, there is nothing to give up.
    let _ = keep_only(FOR_RINGS.complement());
}

/// Takes everything else out of the bounding set: what programs that root executes could have. Only who has a say over it
/// can (`CAP_SETPCAP`); nobody executes anything here.
fn limit_programs(kept: CapabilitySet) {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // EPERM; or EINVAL: the kernel knows no such capability, nor any behind it.
        if !kept.contains(one) && remove_capability_from_bounding_set(one).is_err() {
            return;
        }
    }
}

/// Takes everything else out of the effective and the permitted set, and all out of the inheritable and the ambient one,
/// which are for executed programs. Returns what is permitted now.
fn keep_only(kept: CapabilitySet) -> Result<CapabilitySet, Errno> {
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    // What is not inheritable is not ambient either.
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    Ok(sets.permitted)
}
