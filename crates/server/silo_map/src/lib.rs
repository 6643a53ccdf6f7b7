//! Maps each worker, disk and network card to a silo.
//!
//! A silo is the CPUs of a NUMA node, with the disks and network cards that are plugged into that node; or the operator's `[[silos]]`,
//! because virtual machines hide their nodes. A device on a node without workers belongs to the nearest node that has some, unless the map
//! is the operator's. A device with an unknown node belongs to no silo.
//!
//! The map is made at startup, before the sandbox closes `/sys`, and never changes. It is not on the path of a byte: connections and open files
//! remember their results.

#![forbid(unsafe_code)]

mod departure;
mod devices;
mod nearest;
mod network;
mod worker_cpus;

pub use devices::{DiskPlace, NicPlace, Stray};
pub use worker_cpus::{WorkerCpu, cpus};

use config::silos::{SiloError, without_listeners};
use config::{Config, Placement, Switch};
use delivery::Silos;
use machine::{Machine, Topology};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// The silos of this machine, with everything that belongs to them.
#[derive(Debug)]
pub struct SiloMap {
    /// How connections are assigned to silos: not `Auto`.
    placement: Placement,
    silos: Vec<Members>,
    of_worker: Vec<usize>,
    /// For each silo, the one whose connections its workers take.
    hosts: Vec<usize>,
    disks: Vec<DiskPlace>,
    nics: Vec<NicPlace>,
    /// Errors about folders in the operator's map, which are left out of it.
    misfits: Vec<SiloError>,
    /// Why connections are not assigned to silos by network although they should be.
    unsteered: Option<String>,
    /// The mark of each silo's connections; none if the operator's map has no marks.
    marks: Vec<u32>,
    /// Why connections have no marks although they should.
    unmarked: Option<String>,
}

/// A silo's CPUs and workers.
#[derive(Debug)]
pub struct Members {
    /// The node of its CPUs; `None` if they are on several.
    pub node: Option<u32>,
    /// The node of its memory: the nearest one that has memory.
    pub memory_node: Option<u32>,
    /// The CPUs whose interrupts belong to it, ascending, including those that this process may not use.
    pub cpus: Vec<u32>,
    /// The CPUs of its workers; at least one.
    pub worker_cpus: Vec<WorkerCpu>,
    /// Their numbers among all workers.
    workers: Vec<usize>,
}

impl SiloMap {
    /// The map of a server with this number of `workers`, which serves these folders.
    ///
    /// # Errors
    /// If the operator's map does not fit the machine. Folders that do not fit are only left out, and reported in the start lines.
    pub fn new(
        config: &Config,
        machine: &Machine,
        topology: &Topology,
        library: &[&Path],
        workers: usize,
    ) -> Result<Self, SiloError> {
        let silos = worker_cpus::silos(config, machine, topology, workers)?;
        let mut of_worker = vec![0; workers];
        for (silo, members) in silos.iter().enumerate() {
            members.workers.iter().for_each(|worker| of_worker[*worker] = silo);
        }
        let (disks, misfits) = devices::disks(config, topology, library, &silos);
        let nics = devices::nics(config, topology, &silos, net::listener::nic_index)?;
        let placement = match config.silo {
            Placement::Auto if silos.len() > 1 && without_listeners(config).is_none() => {
                Placement::Network
            }
            Placement::Auto => Placement::Off,
            chosen => chosen,
        };
        let hosts = network::hosts(topology, &silos, &nics);
        let marks = config.silos.iter().filter_map(|plan| plan.mark).collect();
        let (unsteered, unmarked) = (None, None);
        Ok(Self {
            placement,
            silos,
            of_worker,
            hosts,
            disks,
            nics,
            misfits,
            unsteered,
            marks,
            unmarked,
        })
    }

    /// Checks the folders of the operator's map, which must all fit.
    ///
    /// # Errors
    /// The fault of the first folder that does not fit.
    pub fn check_folders(self) -> Result<(), SiloError> {
        self.misfits.into_iter().next().map_or(Ok(()), Err)
    }

    /// Lets any silo serve any connection, because the kernel cannot assign them.
    pub fn give_up_network(&mut self, why: String) {
        self.placement = Placement::Off;
        self.unsteered = Some(why);
    }

    /// The name for `status.json`.
    pub fn placement(&self) -> &'static str {
        self.placement.name()
    }

    /// Whether connections move to the silo of the disk that has the requested file.
    pub fn is_by_disk(&self) -> bool {
        self.placement == Placement::Disk && self.silos.len() > 1
    }

    /// Whether the silo of a network card serves the connections that arrive on it.
    fn is_by_network(&self) -> bool {
        matches!(self.placement, Placement::Network | Placement::MemoryAtDisk)
    }

    /// Whether requests use only the hot set at their file's disk, whichever silo they arrive at.
    pub fn serves_from_disks_silo(&self) -> bool {
        let is_at_disk = matches!(self.placement, Placement::Disk | Placement::MemoryAtDisk);
        is_at_disk && self.silos.len() > 1
    }

    /// The silos into whose memory the workers of `silo` read: their own first, and with `--silo memory-at-disk` all others that have disks.
    pub fn reads_into(&self, silo: usize) -> Vec<usize> {
        let is_at_disk = self.placement == Placement::MemoryAtDisk;
        let has_disks = |other: &usize| *other != silo && !self.devices_of(*other).is_empty();
        let others = (0..self.silos.len()).filter(|other| is_at_disk && has_disks(other));
        std::iter::once(silo).chain(others).collect()
    }

    /// The disks of a silo, by the number of their files' device.
    pub fn devices_of(&self, silo: usize) -> Vec<u64> {
        let own = self.disks.iter().filter(|disk| disk.silo == Some(silo));
        own.map(|disk| disk.device).collect()
    }

    /// The silos.
    pub fn silos(&self) -> &[Members] {
        &self.silos
    }

    /// The silo of the disk with this device number (`st_dev` of its files); `None` if unknown.
    pub fn of_device(&self, st_dev: u64) -> Option<usize> {
        self.disks.iter().find(|disk| disk.device == st_dev)?.silo
    }

    /// The silo in which a worker sits.
    pub fn of_worker(&self, worker: usize) -> usize {
        self.of_worker[worker]
    }

    /// The workers of a silo: at least one.
    pub fn workers_of(&self, silo: usize) -> &[usize] {
        &self.silos[silo].workers
    }

    /// The part of the map that a worker needs; none if there is only one silo.
    pub fn for_worker(&self, worker: usize, listener_is_ipv6: bool) -> Option<Silos> {
        let nics = self.nics.iter().filter_map(|nic| Some((nic.index, nic.silo?)));
        let disks = self.disks.iter().filter_map(|disk| Some((disk.device, disk.silo?)));
        (self.silos.len() > 1).then(|| Silos {
            own: self.of_worker(worker),
            nics: nics.collect(),
            disks: disks.collect(),
            connections_move: self.is_by_disk(),
            listener_is_ipv6,
            departure: self.departure(worker),
        })
    }

    /// The start lines: on a machine with one silo only the faults of the operator's map.
    pub fn describe(&self) -> Vec<String> {
        let misfits = self.misfits.iter().map(|why| {
            format!("silos     {why}. The map leaves it out; if a disk is not mounted, mount it and restart the server")
        });
        let misfits = misfits.chain(self.describe_unmarked());
        if self.silos.len() < 2 {
            return misfits.collect();
        }
        let how = match self.placement {
            Placement::Network => {
                "network: the silo of a network card serves the connections that arrive on it"
            }
            Placement::MemoryAtDisk => {
                "memory-at-disk: the silo of a network card serves the connections that arrive on it, from memory of the disk's silo"
            }
            Placement::Disk => "disk: a connection moves to the silo of the disk that has its film",
            Placement::Off | Placement::Auto => "off: any silo serves any connection",
        };
        let stray = self.nics.iter().filter_map(|nic| nic.complaint(&self.silos[nic.silo?]));
        let stray = stray.map(|complaint| format!("silos     {complaint}"));
        let of_each = (0..self.silos.len()).map(|silo| self.describe_silo(silo));
        let homeless = self.nics.iter().filter(|nic| nic.silo.is_none()).map(|nic| {
            format!(
                "silos     {} belongs to none: its node is unknown, or it joins cards of several. The CPU that takes its interrupts decides",
                nic.name
            )
        });
        std::iter::once(format!("silos     {how}"))
            .chain(of_each)
            .chain(homeless)
            .chain(stray)
            .chain(misfits)
            .chain(self.unsteered.iter().map(|why| format!("silos     {why}")))
            .collect()
    }

    fn describe_silo(&self, silo: usize) -> String {
        let members = &self.silos[silo];
        let node = match (members.node, members.memory_node) {
            (None, _) => "several nodes".to_owned(),
            (Some(node), Some(memory)) if memory != node => {
                format!("node {node}, memory of node {memory}")
            }
            (Some(node), _) => format!("node {node}"),
        };
        let cpus: Vec<_> = members.worker_cpus.iter().map(|worker_cpu| worker_cpu.cpu).collect();
        let listed = |names: Vec<String>| match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(" "),
        };
        let nics = listed(self.nics_of(silo).map(|nic| nic.name.clone()).collect());
        let disks = listed(self.disks_of(silo).collect());
        let mark = self.marks.get(silo).map_or(String::new(), |mark| format!("; mark {mark}"));
        format!("silo {silo:<4} {node}; CPUs {}; cards {nics}; disks {disks}{mark}", ranges(&cpus))
    }

    /// The disks that rotate, by the device number of their files; none if they are read like all others.
    pub fn rotating(&self, config: &Config) -> Arc<[u64]> {
        let rotating =
            self.disks.iter().filter(|disk| disk.rotates && config.is_on(Switch::Rotating));
        rotating.map(|disk| disk.device).collect()
    }

    /// The start line about them; none if there are none.
    pub fn describe_rotating(&self, config: &Config) -> Option<String> {
        let names = self.rotating_names();
        let how = match config.is_on(Switch::Rotating) && config.is_on(Switch::Ahead) {
            true => "read in whole buffers, and further ahead",
            false => "read like all others, as configured",
        };
        (!names.is_empty()).then(|| format!("rotating  {}: {how}", names.join(" ")))
    }

    /// The names for `status.json`.
    pub fn rotating_names(&self) -> Vec<String> {
        self.disks.iter().filter(|disk| disk.rotates).map(DiskPlace::to_string).collect()
    }

    fn nics_of(&self, silo: usize) -> impl Iterator<Item = &NicPlace> {
        self.nics.iter().filter(move |nic| nic.silo == Some(silo))
    }

    fn disks_of(&self, silo: usize) -> impl Iterator<Item = String> {
        self.disks.iter().filter(move |disk| disk.silo == Some(silo)).map(DiskPlace::to_string)
    }

    /// The map for `status.json`.
    pub fn json(&self) -> Value {
        let silo = |silo: usize| {
            let members = &self.silos[silo];
            json!({
                "node": members.node,
                "memory_node": members.memory_node,
                "cpus": members.worker_cpus.iter().map(|worker_cpu| worker_cpu.cpu).collect::<Vec<_>>(),
                "workers": self.workers_of(silo),
                "cards": self.nics_of(silo).map(|nic| json!({ "name": nic.name, "index": nic.index })).collect::<Vec<_>>(),
                "disks": self.disks_of(silo).collect::<Vec<_>>(),
                "mark": self.marks.get(silo),
            })
        };
        (0..self.silos.len()).map(silo).collect()
    }
}

/// A list of CPUs in the kernel's notation: `0-3,8`.
pub fn ranges(cpus: &[u32]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
