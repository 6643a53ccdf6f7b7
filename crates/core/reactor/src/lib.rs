//! One core, one io_uring, one executor.
//!
//! This crate is the only home of ring calls and of nearly all `unsafe` of the data plane. A [`Reactor`] belongs to the
//! thread that made it; nothing in it is shared, locked or sent. Futures run on it with [`Reactor::run`] and [`spawn`].
//!
//! Invariants:
//! - An operation owns its buffer and its descriptor until the kernel has completed it. Dropping the future asks the
//!   kernel to cancel; the memory is freed when the completion arrives, never before.
//! - A descriptor is closed only when no operation on it is queued or running ([`Fd`] is counted).
//! - Wakers work on their own thread. Other threads wake the reactor through [`Remote`]; [`Threads`] make the blocking calls
//!   that io_uring does not have.
//!
//! Read [`executor`] first, then [`op`].

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a task's index and generation are packed into a 64-bit pointer");

pub mod blocking;
pub mod blocks;
pub mod disk_ring;
pub mod executor;
pub mod fd;
pub mod lease;
mod mapping;
pub mod memory;
pub mod node;
pub mod op;
pub mod pool;
pub mod remote;
pub mod residency;
pub mod ring;
pub mod streaming;
pub mod timer;

pub use blocking::{CallError, Priority, Progress, Threads};
pub use blocks::{Blocks, Claimed, LocalBlocks, Pinned};
pub use disk_ring::{Asked, DiskRing, DiskRingOptions};
pub use executor::{Reactor, spawn, tasks_live, tasks_panicked, yield_now};
pub use fd::Fd;
pub use memory::MemoryPart;
pub use node::{RefusedNode, prefer_node, take_refused_node};
pub use pool::{Buffer, Pool, PoolOptions};
pub use remote::{Remote, Woken, remote};
pub use ring::{RingFeatures, RingOptions};
pub use streaming::copy_streaming;
pub use timer::{now, sleep, sleep_until, timeout_at};
