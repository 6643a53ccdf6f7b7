//! Assigns disks and network cards to silos.

use super::Members;
use super::nearest::Nearest;
use config::Config;
use config::silos::SiloError;
use machine::{Mount, Topology};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A disk under the library, and its silo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskPlace {
    /// The `st_dev` of its files, as `stat` reports it.
    pub device: u64,
    /// Its silo, if that is known.
    pub silo: Option<usize>,
    /// It is a disk that rotates.
    pub rotates: bool,
    /// The kernel's name for it, if it is a block device.
    name: Option<String>,
    /// The folder of the library through which it was found.
    folder: PathBuf,
}

impl fmt::Display for DiskPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        match &self.name {
            Some(name) => write!(f, "{folder} ({name})"),
            None => folder.fmt(f),
        }
    }
}

/// A network interface, and its silo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicPlace {
    /// The name of its interface, such as `eth0`.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// Its silo, if that is known.
    pub silo: Option<usize>,
    /// Interrupts of it that go only to CPUs of other silos, if most do.
    pub stray: Option<Stray>,
}

/// Interrupts that go elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Their number.
    count: usize,
    /// The number of all interrupts.
    all: usize,
    /// The first of them.
    number: u32,
    /// A CPU that it goes to.
    cpu: u32,
}

impl NicPlace {
    /// The problem with its interrupts, and how to fix it.
    pub(crate) fn complaint(&self, own: &Members) -> Option<String> {
        let Stray { count, all, number, cpu } = self.stray?;
        let (name, cpus) = (&self.name, super::ranges(&own.cpus));
        Some(format!(
            "{count} of the {all} interrupts of {name} go to CPUs of other silos, such as {number} to CPU {cpu}. To fix it: stop irqbalance, \
             and write {cpus} to /proc/irq/N/smp_affinity_list for each N in /sys/class/net/{name}/device/msi_irqs (docs/numa.md)"
        ))
    }
}

/// The disks of the library, and of filesystems mounted in it; and errors about folders in the operator's map.
pub(crate) fn disks(
    config: &Config,
    topology: &Topology,
    library: &[&Path],
    silos: &[Members],
) -> (Vec<DiskPlace>, Vec<SiloError>) {
    let real = |folder: &&Path| folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let library: Vec<_> = library.iter().map(real).collect();
    let (mut disks, misfits) = planned_disks(config, topology, &library);
    let mut nearest = Nearest::new(topology, silos);
    for (folder, source) in library.iter().flat_map(|folder| mounted(topology, folder)) {
        let Ok(found) = folder.metadata() else { continue };
        let device = found.dev();
        if disks.iter().any(|disk| disk.device == device) {
            continue;
        }
        let block = block_device(device, source.as_deref());
        let node = topology.node_of_disk(block);
        let silo = node.and_then(|node| silo_of(config, node, &mut nearest));
        let (rotates, name) = (topology.rotates(block), topology.name_of_disk(block));
        disks.push(DiskPlace { device, silo, rotates, name, folder });
    }
    (disks, misfits)
}

/// The operator's assignment of disks, and the folders that were left out. Dead disks must not keep the others from being served: their folders are
/// missing, or all on the disk of the mount points.
fn planned_disks(
    config: &Config,
    topology: &Topology,
    library: &[PathBuf],
) -> (Vec<DiskPlace>, Vec<SiloError>) {
    let (mut found, mut misfits) = (Vec::new(), Vec::new());
    for (silo, plan) in config.silos.iter().enumerate() {
        for folder in &plan.folders {
            // A missing folder of the library is reported elsewhere.
            if config.folders().any(|known| known == folder) && !folder.exists() {
                continue;
            }
            match planned_disk(topology, library, silo, folder) {
                Ok(disk) => found.push(disk),
                Err(why) => misfits.push(why),
            }
        }
    }
    found.sort_by_key(|disk| disk.device);
    let mut disks = Vec::new();
    for same in found.chunk_by(|one, other| one.device == other.device) {
        match same.iter().find(|disk| disk.silo != same[0].silo) {
            Some(other) => {
                let (one, other) = (same[0].folder.clone(), other.folder.clone());
                misfits.push(SiloError::DiskShared(one, other));
            }
            None => disks.push(same[0].clone()),
        }
    }
    (disks, misfits)
}

/// The disk of a folder that the operator puts in `silo`.
fn planned_disk(
    topology: &Topology,
    library: &[PathBuf],
    silo: usize,
    folder: &Path,
) -> Result<DiskPlace, SiloError> {
    let none = |_| SiloError::NoFolder(folder.to_owned());
    let real = folder.canonicalize().map_err(none)?;
    let found = real.metadata().map_err(none)?;
    if !found.is_dir() {
        return Err(SiloError::NoFolder(folder.to_owned()));
    }
    if !library.iter().any(|library| real.starts_with(library)) {
        return Err(SiloError::FolderOutside(folder.to_owned()));
    }
    let source = mounted(topology, &real).into_iter().next().and_then(|(_, source)| source);
    let block = block_device(found.dev(), source.as_deref());
    let (rotates, name) = (topology.rotates(block), topology.name_of_disk(block));
    let (device, folder) = (found.dev(), folder.to_owned());
    Ok(DiskPlace { device, silo: Some(silo), rotates, name, folder })
}

/// A folder and the mount points below it, each with its mounted device.
fn mounted(topology: &Topology, folder: &Path) -> Vec<(PathBuf, Option<PathBuf>)> {
    let (around, below): (Vec<_>, Vec<_>) =
        topology.mounts_of(folder).into_iter().partition(|mount| folder.starts_with(&mount.point));
    let own = (folder.to_owned(), around.into_iter().next().map(|mount| mount.source));
    let below = below.into_iter().map(|Mount { point, source, .. }| (point, Some(source)));
    std::iter::once(own).chain(below).collect()
}

/// The block device under a filesystem. Filesystems such as Btrfs number themselves (major number 0); then it is the device that was mounted.
fn block_device(device: u64, source: Option<&Path>) -> u64 {
    if rustix::fs::major(device) != 0 {
        return device;
    }
    let found = source.and_then(|source| source.metadata().ok());
    found.map_or(device, |found| found.rdev())
}

/// The network cards. `index_of` returns the kernel's number for a name in this namespace: `/sys` may show another network namespace.
pub(crate) fn nics(
    config: &Config,
    topology: &Topology,
    silos: &[Members],
    index_of: impl Fn(&str) -> Option<u32>,
) -> Result<Vec<NicPlace>, SiloError> {
    let mut nics = Vec::new();
    for (silo, plan) in config.silos.iter().enumerate() {
        for name in &plan.cards {
            let index = index_of(name).ok_or_else(|| SiloError::NoNic(name.clone()))?;
            let stray = stray(topology, name, &silos[silo]);
            nics.push(NicPlace { name: name.clone(), index, silo: Some(silo), stray });
        }
    }
    let mut nearest = Nearest::new(topology, silos);
    for nic in topology.nics() {
        let is_here = index_of(&nic.name) == Some(nic.index);
        let is_planned = nics.iter().any(|planned| planned.index == nic.index);
        if nic.is_device && is_here && !is_planned {
            let silo = nic.node.and_then(|node| silo_of(config, node, &mut nearest));
            let stray = silo.and_then(|silo| stray(topology, &nic.name, &silos[silo]));
            nics.push(NicPlace { name: nic.name, index: nic.index, silo, stray });
        }
    }
    Ok(nics)
}

/// The interrupts of a card that go only to CPUs of other silos; `None` unless they are the majority. One or two that belong to no queue (for the
/// card's settings) may be anywhere.
fn stray(topology: &Topology, nic: &str, own: &Members) -> Option<Stray> {
    let all = topology.interrupts(nic);
    let is_far = |cpus: &[u32]| !cpus.iter().any(|cpu| own.cpus.contains(cpu));
    let far: Vec<_> = all.iter().filter(|interrupt| is_far(&interrupt.cpus)).collect();
    let first = far.first().filter(|_| far.len() * 2 > all.len())?;
    Some(Stray { count: far.len(), all: all.len(), number: first.number, cpu: first.cpus[0] })
}

/// The silo of a node. For a node without workers it is the nearest one, unless the map is the operator's: that leaves such nodes out on
/// purpose. A node that the operator divided has no single silo.
fn silo_of(config: &Config, node: u32, nearest: &mut Nearest<'_>) -> Option<usize> {
    match nearest.on(node)[..] {
        [silo] => Some(silo),
        [] if config.silos.is_empty() => nearest.to(node, None),
        _ => None,
    }
}
