//! How often a byte is moved to or from memory before it has left.
//!
//! For every byte served, Netflix counts 8 moved with copies through user space, 4 with `sendfile` and kernel encryption, 2 with `sendfile`
//! and encryption by the card (EuroBSDCon 2021 and 2022). The lists below give the same counts, and `published` checks that.

use crate::cost::CostTable;
use crate::demand::{Demand, PlannedRoute, SealedBy};
use serde::Serialize;

/// The device or memory at one end of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spot {
    /// A disk, which writes to memory.
    Disk,
    /// Memory that holds a file's bytes.
    Pages,
    /// Memory that holds data to send.
    Buffers,
    /// A core.
    Cpu,
    /// A network card, which reads memory.
    Card,
}

/// The kind of access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryAccess {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// One move, per byte served.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByteMove {
    /// A description for people.
    pub what: &'static str,
    /// The device that moves.
    pub by: Spot,
    /// Whether it reads or writes.
    pub access: MemoryAccess,
    /// The memory.
    pub memory: Spot,
    /// Bytes moved per byte served; less than 1 if some bytes are found in a cache or in memory.
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
            // Small buffers that are reused at once hold data just read from the disk, and the records on their way to the socket.
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
        // Without a copy in between, the card reads the file's own pages. If software encrypts, it reads the records.
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
