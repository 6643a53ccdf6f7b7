//! A silo is everything that shares a memory: the CPUs of a NUMA node, sizes derived from its caches and memory, and its workers.
//!
//! A server consists of silos, and a silo of workers. A machine with one node has one silo. [`silo_map`] assigns workers, disks and
//! cards to silos.

use crate::access_log::AccessLog;
use crate::buffers::{self, pools_bytes};
use crate::control::Control;
use crate::hot_memory::{HotMemory, Keeper, Reserved};
use crate::ingress::Ingress;
use crate::sandbox;
use crate::start_error::{RunError, StartError};
use crate::worker::{Parts, Shared, Worker};
use config::{Config, Switch};
use disk::HotSet;
use frames::BuffersInPlace;
use live_figures::audience::Audience;
use machine::{Machine, MemoryLimit, Node};
use reactor::{
    Reactor, RefusedNode, RingFeatures, RingOptions, prefer_node, remote, take_refused_node,
};
use silo_map::{Members, SiloMap, WorkerCpu};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use telemetry::Numbers;

/// Buffer memory per worker if the sizes of the machine's caches are unknown.
const BUFFER_BYTES_DEFAULT: u64 = 8 << 20;

/// Memory of a machine if it is unknown.
const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// The part of a server that shares one memory.
pub(crate) struct Silo {
    /// The node for its memory; `None` for any node.
    node: Option<u32>,
    worker_cpus: Vec<WorkerCpu>,
    /// The silos whose memory its workers read into: its own first.
    reads_into: Vec<usize>,
    sizes: Sizes,
    hot_memory: HotMemory,
    workers: Vec<RunningWorker>,
}

/// Sizes for each worker, derived from the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes of buffers of each kind, unless the configuration sets them.
    pub(crate) buffer_bytes: usize,
    /// Bytes of reads that heat remembers.
    pub(crate) heat_bytes: u64,
}

/// A worker's share in its silo.
pub(crate) struct Place {
    /// Its number among all workers.
    pub(crate) worker: usize,
    /// The memories that it reads into, its own silo's first.
    pub(crate) banks: Vec<Bank>,
    /// Sizes that follow from the silo's memory.
    pub(crate) sizes: Sizes,
    /// Adjusts the hot set. Only one worker of a silo has it.
    pub(crate) keeper: Option<Keeper>,
}

/// A silo's memory, and the files whose bytes are read into it.
#[derive(Clone)]
pub(crate) struct Bank {
    /// The node for its memory; `None` for any node.
    pub(crate) node: Option<u32>,
    /// The silo's hot set.
    pub(crate) hot_set: Option<Arc<HotSet>>,
    /// The silo's disks, by device number.
    pub(crate) disks: Vec<u64>,
}

/// A worker's thread, and its control.
pub(crate) struct RunningWorker {
    pub(crate) thread: JoinHandle<io::Result<()>>,
    pub(crate) control: Arc<Control>,
}

/// A worker's report when it is ready.
pub(crate) struct Ready {
    pub(crate) ring: RingFeatures,
    /// The node whose memory the kernel refused to it, if it did.
    pub(crate) refused_node: Option<RefusedNode>,
}

/// Everything that is needed to start workers.
pub(crate) struct Start {
    /// The parts that all workers share.
    pub(crate) shared: Shared,
    /// The machine's memory, or the limit of a control group.
    pub(crate) memory_bytes: u64,
    /// The memory of each silo.
    pub(crate) banks: Vec<Bank>,
    /// Their counters, and their figures about viewers, by worker.
    pub(crate) numbers: Vec<Arc<Numbers>>,
    pub(crate) audiences: Vec<Arc<Audience>>,
    /// The access log, if there is one.
    pub(crate) access_log: Option<AccessLog>,
    /// They accept nothing until asked to.
    pub(crate) is_standby: bool,
    /// Gets a message from each worker that accepts connections, or cannot start.
    pub(crate) ready: Sender<Result<Ready, StartError>>,
    /// Gets a message from each worker that has ended.
    pub(crate) end: Sender<()>,
}

/// The silos of a map, with sizes derived from the caches of their CPUs. `bound` is the tightest limit on memory.
pub(crate) fn silos(machine: &Machine, map: &SiloMap, bound: Option<MemoryLimit>) -> Vec<Silo> {
    let workers = map.silos().iter().map(|members| members.worker_cpus.len()).sum();
    let silo = |(number, members): (usize, &Members)| {
        let worker_cpus = members.worker_cpus.clone();
        let has = |node: &&Node| node.cpus.contains(&worker_cpus[0].cpu);
        let node = machine.nodes.iter().find(has).expect("a worker sits on a CPU of a node");
        let sizes = Sizes {
            buffer_bytes: buffer_bytes(node, bound, workers),
            heat_bytes: heat_bytes(machine, workers),
        };
        Silo {
            node: members.memory_node.filter(|_| map.silos().len() > 1),
            worker_cpus,
            reads_into: map.reads_into(number),
            sizes,
            hot_memory: HotMemory::Off,
            workers: Vec::new(),
        }
    };
    map.silos().iter().enumerate().map(silo).collect()
}

/// The memory of each silo. Call it when all hot sets are made.
pub(crate) fn banks(silos: &[Silo], map: &SiloMap) -> Vec<Bank> {
    let bank = |(number, silo): (usize, &Silo)| Bank {
        node: silo.node,
        hot_set: silo.hot_memory.set().cloned(),
        disks: map.devices_of(number),
    };
    silos.iter().enumerate().map(bank).collect()
}

/// Bytes of a worker's buffers of each kind: half of its core's share of the last-level cache. All buffers together get at most an
/// eighth of the remaining memory.
fn buffer_bytes(node: &Node, bound: Option<MemoryLimit>, workers: usize) -> usize {
    let cached = node.last_level_bytes_per_cpu().unwrap_or(BUFFER_BYTES_DEFAULT * 2) / 2;
    let bytes = cached.clamp(4 << 20, 64 << 20);
    bound.map_or(bytes, |bound| bytes.min(bound.left_bytes / 16 / workers as u64)) as usize
}

/// Twice the memory that a worker's share of the page cache may fill. It is the machine's memory, not the node's: any node caches any file.
fn heat_bytes(machine: &Machine, workers: usize) -> u64 {
    let memory_bytes = machine.memory_limit_bytes.or(machine.memory_bytes);
    memory_bytes.unwrap_or(MEMORY_BYTES_DEFAULT) * 2 / workers as u64
}

impl Silo {
    /// Bytes of all buffers of its workers.
    pub(crate) fn pools_bytes(&self, config: &Config) -> usize {
        self.worker_cpus.len() * pools_bytes(config, self.sizes.buffer_bytes, self.reads_into.len())
    }

    /// The buffers of each of its workers from which frames are sent in place.
    pub(crate) fn in_place(&self, config: &Config) -> Option<BuffersInPlace> {
        buffers::in_place(config, self.sizes.buffer_bytes, self.reads_into.len(), self.node)
    }

    /// Makes the silo's hot set. Silos share `bytes` in proportion to their workers, of which there are `workers` in all.
    pub(crate) fn make_hot_set(
        &mut self,
        config: &Config,
        bytes: u64,
        workers: usize,
        reserved: &Reserved<'_>,
    ) {
        let bytes = bytes * self.worker_cpus.len() as u64 / workers as u64;
        self.hot_memory = HotMemory::new(config, bytes, self.node, reserved);
    }

    /// The silo's hot set, or why there is none.
    pub(crate) fn hot_memory(&self) -> &HotMemory {
        &self.hot_memory
    }

    /// Starts its workers, each with its source of connections.
    ///
    /// # Errors
    /// If the kernel provides no thread or no file descriptor.
    pub(crate) fn start(
        &mut self,
        start: &Start,
        ingress: &mut [Option<Ingress>],
    ) -> Result<(), StartError> {
        for worker_cpu in &self.worker_cpus {
            let ingress = ingress[worker_cpu.worker].take().expect("a worker sits in one silo");
            let keeper = self.keeper(start).filter(|_| self.workers.is_empty());
            let banks = self.reads_into.iter().map(|silo| start.banks[*silo].clone()).collect();
            let place = Place { worker: worker_cpu.worker, banks, sizes: self.sizes, keeper };
            self.workers.push(start_worker(worker_cpu, place, ingress, start)?);
        }
        Ok(())
    }

    /// The keeper of its hot set, if there is one.
    fn keeper(&self, start: &Start) -> Option<Keeper> {
        let Shared { headroom, pressure, .. } = &start.shared;
        let set = Arc::clone(self.hot_memory.set()?);
        let (headroom, pressure) = (Arc::clone(headroom), Arc::clone(pressure));
        Some(Keeper::new(set, headroom, pressure, start.memory_bytes, start.banks.len() as u64))
    }

    /// Its running workers.
    pub(crate) fn workers(&self) -> &[RunningWorker] {
        &self.workers
    }

    /// Waits until its workers, which have been asked to end, have done so.
    ///
    /// # Errors
    /// If one of them failed.
    pub(crate) fn join(&mut self) -> Result<(), RunError> {
        self.workers.drain(..).try_for_each(RunningWorker::join)
    }
}

impl RunningWorker {
    fn join(self) -> Result<(), RunError> {
        match self.thread.join() {
            Ok(lived) => lived.map_err(RunError::Worker),
            Err(_) => Err(RunError::WorkerPanicked),
        }
    }
}

fn start_worker(
    worker_cpu: &WorkerCpu,
    place: Place,
    ingress: Ingress,
    start: &Start,
) -> Result<RunningWorker, StartError> {
    let (index, node) = (worker_cpu.worker, place.banks[0].node);
    let (listeners, own_tcp) = match ingress {
        Ingress::Listeners(listeners) => (listeners, None),
        Ingress::Frames(frames) => (Vec::new(), Some(*frames)),
    };
    let parts = Parts {
        shared: start.shared.clone(),
        place,
        numbers: Arc::clone(&start.numbers[index]),
        audience: Arc::clone(&start.audiences[index]),
        access_log: start.access_log.as_ref().map(AccessLog::for_worker),
        own_tcp,
        is_standby: start.is_standby,
    };
    let (ready, end) = (start.ready.clone(), start.end.clone());
    let cpu = start.shared.config.is_on(Switch::Pinning).then_some(worker_cpu.cpu);
    let (remote, woken) = remote().map_err(StartError::NoDescriptors)?;
    let control = Arc::new(Control::new(remote, start.is_standby));
    let controlled = Arc::clone(&control);
    let live = move || {
        if let Some(cpu) = cpu {
            pin_to(cpu);
        }
        if let Some(node) = node {
            // Before the thread uses any memory. A refusal costs little: a thread's memory is where it runs, unless it moves. The start lines report
            // it.
            let _ = prefer_node(node);
        }
        let (reactor, worker) = match make(index, parts) {
            Ok(made) => made,
            Err(error) => {
                let _ = ready.send(Err(error));
                return Ok(());
            }
        };
        let refused_node = take_refused_node();
        let _ = ready.send(Ok(Ready { ring: reactor.features(), refused_node }));
        drop(ready);
        let lived = reactor.run(worker.run(listeners, controlled, woken)).and_then(|run| run);
        drop(reactor);
        let _ = end.send(());
        lived
    };
    let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(live);
    let thread = thread.map_err(|why| StartError::Thread { which: "worker", why })?;
    Ok(RunningWorker { thread, control })
}

/// A worker on this thread, with its ring.
fn make(index: usize, parts: Parts) -> Result<(Reactor, Rc<Worker>), StartError> {
    let reactor = Reactor::new(RingOptions::default()).map_err(StartError::NoRing)?;
    let is_confined = parts.shared.config.sandbox;
    let worker = Worker::new(parts).map_err(|why| StartError::Worker { index, why })?;
    if is_confined {
        sandbox::give_up_for_rings();
    }
    Ok((reactor, worker))
}

/// Pins this thread to its core. If that is forbidden, the kernel's scheduler decides.
fn pin_to(cpu: u32) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu as usize);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Cache, Topology};
    use std::path::Path;

    fn node(number: u32, cpus: &[u32], cache_bytes: u64) -> Node {
        let caches = vec![Cache { level: 3, bytes: cache_bytes, shared_by: cpus.to_vec() }];
        Node { number, cpus: cpus.to_vec(), caches }
    }

    fn silos_of(machine: &Machine, workers: usize, bound: Option<MemoryLimit>) -> Vec<Silo> {
        let nowhere = Topology::open_from(Path::new("/nowhere"));
        let map = SiloMap::new(&Config::default(), machine, &nowhere, &[], workers).unwrap();
        silos(machine, &map, bound)
    }

    #[test]
    fn each_node_makes_a_silo_with_sizes_of_its_own() {
        let machine = Machine {
            cpus: (0..4).collect(),
            nodes: vec![node(0, &[0, 1], 64 << 20), node(1, &[2, 3], 32 << 20)],
            memory_bytes: Some(16 << 30),
            memory_limit_bytes: None,
            ..Machine::probe()
        };
        let seen = |workers| -> Vec<_> {
            let silos = silos_of(&machine, workers, None);
            let worker_cpus = |silo: &Silo| {
                silo.worker_cpus.iter().map(|worker_cpu| worker_cpu.worker).collect::<Vec<_>>()
            };
            silos.iter().map(|silo| (worker_cpus(silo), silo.sizes.buffer_bytes >> 20)).collect()
        };
        assert_eq!(seen(4), [(vec![0, 1], 16), (vec![2, 3], 8)]);
        assert_eq!(seen(2), [(vec![0, 1], 16)], "a node without a worker makes none");
        assert_eq!(seen(5), [(vec![0, 1, 4], 16), (vec![2, 3], 8)]);
        assert_eq!(silos_of(&machine, 4, None)[1].sizes.heat_bytes, 8 << 30);
    }

    #[test]
    fn buffers_of_all_workers_leave_most_of_a_bound_free() {
        let machine = Machine {
            cpus: vec![0, 1],
            nodes: vec![node(0, &[0, 1], 64 << 20)],
            ..Machine::probe()
        };
        let bound = MemoryLimit { name: "a control group", bytes: 128 << 20, left_bytes: 64 << 20 };
        assert_eq!(silos_of(&machine, 2, Some(bound))[0].sizes.buffer_bytes, 2 << 20);
    }
}
