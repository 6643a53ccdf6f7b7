//! How often a byte is moved to or from memory until it has left.
//!
//! For every byte served, Netflix counts 8 moved with copies through user space, 4 with `sendfile` and a kernel that seals, 2 with `sendfile` and
//! a card that seals (EuroBSDCon 2021 and 2022). These counts come out of the lists below; `published` holds them to it.

use crate::cost::CostTable;
use crate::demand::{Demand, PlannedRoute, SealedBy};
use serde::Serialize;

/// Who moves, or what is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spot {
    /// A disk, which writes to memory.
    Disk,
    /// Memory that holds a file's bytes.
    Pages,
    /// Memory that holds what is to be sent.
    Buffers,
    /// A core.
    Cpu,
    /// A network card, which reads memory.
    Card,
}

/// What is done to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryAccess {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// One move, for each byte served.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByteMove {
    /// For people.
    pub what: &'static str,
    /// Who moves.
    pub by: Spot,
    /// Whether that reads or writes.
    pub access: MemoryAccess,
    /// The memory.
    pub memory: Spot,
    /// Bytes moved for a byte served; less than 1 if some find their byte in a cache or in memory.
    pub bytes: f64,
}

/// All moves of a byte, in order.
pub fn moves(demand: &Demand, costs: &CostTable) -> Vec<ByteMove> {
    use MemoryAccess::{Read, Write};
    let mut moves = Vec::new();
    let mut add = |what, by, access, memory, bytes: f64| {
        if bytes > 0.0 {
            moves.push(ByteMove { what, by, access, memory, bytes });
        }
    };
    let miss = 1.0 - demand.hit_share;
    add("disk writes memory", Spot::Disk, Write, Spot::Pages, miss);
    match demand.route {
        PlannedRoute::Kernel => {
            let software = demand.sealed_in_software();
            add("CPU reads to seal", Spot::Cpu, Read, Spot::Pages, software);
            seal_writes(&mut add, costs, software);
        }
        PlannedRoute::Userspace => {
            // What has just come from the disk, and the records on their way to the socket, are in small buffers that are reused at once.
            let uncached = 1.0 - costs.buffers_cached;
            let seals = demand.tls == SealedBy::Software;
            let what = if seals { "CPU reads to seal" } else { "CPU copies from the page cache" };
            add(what, Spot::Cpu, Read, Spot::Pages, demand.hit_share + miss * uncached);
            if seals {
                seal_writes(&mut add, costs, uncached);
            } else {
                add("CPU writes the send buffer", Spot::Cpu, Write, Spot::Buffers, uncached);
            }
            add("kernel reads the send buffer", Spot::Cpu, Read, Spot::Buffers, uncached);
            add("kernel writes the socket", Spot::Cpu, Write, Spot::Buffers, 1.0);
        }
        PlannedRoute::Copies => {
            add("copied out: read", Spot::Cpu, Read, Spot::Pages, 1.0);
            add("copied out: written", Spot::Cpu, Write, Spot::Buffers, 1.0);
            add("copied again: read", Spot::Cpu, Read, Spot::Buffers, demand.extra_copies);
            add("copied again: written", Spot::Cpu, Write, Spot::Buffers, demand.extra_copies);
            let software = demand.sealed_in_software();
            add("CPU reads to seal", Spot::Cpu, Read, Spot::Buffers, software);
            seal_writes(&mut add, costs, software);
            add("copied in: read", Spot::Cpu, Read, Spot::Buffers, 1.0);
            add("copied in: written", Spot::Cpu, Write, Spot::Buffers, 1.0);
        }
    }
    let left = match (demand.route, demand.tls) {
        // Without a copy in between, the card reads the file's own pages. Of what software seals, it reads the records.
        (PlannedRoute::Kernel, SealedBy::None | SealedBy::Card) => Spot::Pages,
        _ => Spot::Buffers,
    };
    let records = if left == Spot::Pages { demand.sealed_in_software() } else { 1.0 };
    add("card reads the file's pages", Spot::Card, Read, Spot::Pages, 1.0 - records);
    add("card reads what is sent", Spot::Card, Read, Spot::Buffers, records);
    moves
}

fn seal_writes(
    add: &mut impl FnMut(&'static str, Spot, MemoryAccess, Spot, f64),
    costs: &CostTable,
    bytes: f64,
) {
    use MemoryAccess::{Read, Write};
    if costs.ordinary_stores {
        add("CPU reads lines that it will overwrite", Spot::Cpu, Read, Spot::Buffers, bytes);
    }
    add("CPU writes the records", Spot::Cpu, Write, Spot::Buffers, bytes);
}
