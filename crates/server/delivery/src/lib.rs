//! Sends files and memory to viewers.
//!
//! A connection is a choice on two axes. Its **carrier** ([`Carrier`]) moves the bytes: a kernel socket, or a socket of our own TCP ([`own_tcp`]).
//! Its **sealing** ([`sealing`]) protects them: not at all, in user space, in the kernel, or in the library that did the handshake. [`Channel`] lists
//! the combinations. A session receives, sends an [`Outgoing`] and closes, and need not know which one it has.
//!
//! Everything else that a connection uses is in [`Resources`], which its worker provides: the disk, buffers, budgets, counters, timeouts. Nothing
//! here knows a worker or a session, so calls never go in a circle.
//!
//! Read first: `outgoing`, `protected` (the receive loop), then `sealing/user_tls` and `sendfile`, then `own_tcp`.

mod ahead;
mod carrier;
mod channel;
mod deferred;
mod end;
mod handover;
pub mod in_memory;
mod inbound;
mod leased;
mod link;
pub mod memory_budget;
mod moving;
mod nic_shares;
mod offload;
mod offload_history;
mod once;
mod outgoing;
pub mod own_tcp;
mod protected;
mod queue_trial;
mod receive_half;
mod records;
mod resources;
mod retransmissions;
pub mod sealing;
mod sendfile;
mod silos;
mod stall;
mod total_rate;
mod unsent;

pub use carrier::{Carrier, Protection};
pub use channel::Channel;
pub use end::End;
pub use handover::Handover;
pub use link::Link;
pub use moving::{CannotMove, ConnectionState};
pub use nic_shares::{NicCounts, NicShares};
pub use offload::{KernelOffload, NicTls, TLS_STAT};
pub use outgoing::{Outgoing, Piece};
pub use protected::Protected;
pub use queue_trial::QueueTrial;
pub use resources::{DeliveryLimits, Features, Resources, ViewerTimeouts};
pub use retransmissions::{LossLimits, LossyPaths};
pub use silos::{Departure, Silos};
pub use total_rate::TotalRate;
