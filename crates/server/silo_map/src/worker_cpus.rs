//! Divides the CPUs into silos, and assigns a CPU to each worker.

use super::{Members, ranges};
use config::Config;
use config::silos::SiloError;
use machine::{Machine, Topology};

/// One worker's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerCpu {
    /// Its number among all workers.
    pub worker: usize,
    /// The number of the CPU.
    pub cpu: u32,
}

/// The CPUs for workers, in the order in which they are assigned. With the operator's map these are the CPUs of its silos in turn, so that each
/// silo has a worker.
pub fn cpus(config: &Config, machine: &Machine) -> Result<Vec<u32>, SiloError> {
    if config.silos.is_empty() {
        return Ok(machine.cpus.clone());
    }
    let mut left = Vec::new();
    for plan in &config.silos {
        let mut own = plan.cpu_numbers()?;
        own.retain(|cpu| machine.cpus.contains(cpu));
        if own.is_empty() {
            return Err(SiloError::NoCpuAllowed { cpus: plan.cpus.clone() });
        }
        left.push(own.into_iter());
    }
    let rounds = left.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let round = |_| left.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>();
    Ok((0..rounds).flat_map(round).collect())
}

/// The silos that have workers. Workers take the CPUs in turn.
pub(crate) fn silos(
    config: &Config,
    machine: &Machine,
    topology: &Topology,
    workers: usize,
) -> Result<Vec<Members>, SiloError> {
    check_cpus(config, topology)?;
    let cpus = cpus(config, machine)?;
    if !config.silos.is_empty() && workers < config.silos.len() {
        return Err(SiloError::FewWorkers { workers, silos: config.silos.len() });
    }
    let worker_cpus: Vec<_> =
        (0..workers).map(|worker| WorkerCpu { worker, cpu: cpus[worker % cpus.len()] }).collect();
    let nodes = topology.nodes();
    let divided = divide(config, machine, &nodes)?;
    let members = |(node, usable, all): (Option<u32>, Vec<u32>, Vec<u32>)| {
        let worker_cpus: Vec<_> = worker_cpus
            .iter()
            .filter(|worker_cpu| usable.contains(&worker_cpu.cpu))
            .copied()
            .collect();
        let workers = worker_cpus.iter().map(|worker_cpu| worker_cpu.worker).collect();
        let memory_node = node.and_then(|node| topology.memory_near(node));
        (!worker_cpus.is_empty()).then_some(Members {
            node,
            memory_node,
            cpus: all,
            worker_cpus,
            workers,
        })
    };
    Ok(divided.into_iter().filter_map(members).collect())
}

/// Rejects CPUs that the machine does not have. CPUs that this process may not use can be in a silo, because they take interrupts.
fn check_cpus(config: &Config, topology: &Topology) -> Result<(), SiloError> {
    let Some(present) = topology.cpus() else { return Ok(()) };
    for plan in &config.silos {
        if let Some(cpu) = plan.cpu_numbers()?.into_iter().find(|cpu| !present.contains(cpu)) {
            let (cpus, present) = (plan.cpus.clone(), ranges(&present));
            return Err(SiloError::NoCpu { cpu, cpus, present });
        }
    }
    Ok(())
}

/// For each silo: its node, the CPUs for its workers, and those whose interrupts belong to it.
type Divided = Vec<(Option<u32>, Vec<u32>, Vec<u32>)>;

fn divide(
    config: &Config,
    machine: &Machine,
    nodes: &[(u32, Vec<u32>)],
) -> Result<Divided, SiloError> {
    if config.silos.is_empty() {
        let all = |number: u32| nodes.iter().find(|(node, _)| *node == number);
        let each = machine.nodes.iter().map(|node| {
            let all = all(node.number).map_or_else(|| node.cpus.clone(), |(_, cpus)| cpus.clone());
            (Some(node.number), node.cpus.clone(), all)
        });
        return Ok(each.collect());
    }
    let mut divided = Vec::new();
    for plan in &config.silos {
        let own = plan.cpu_numbers()?;
        // A kernel without NUMA names no nodes.
        let on = nodes.iter().find(|(_, cpus)| own.iter().all(|cpu| cpus.contains(cpu)));
        divided.push((on.map(|(node, _)| *node), own.clone(), own));
    }
    Ok(divided)
}
