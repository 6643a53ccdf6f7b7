//! How bytes leave: from files and memory to a viewer.
//!
//! A connection is chosen on two axes. Its **carrier** ([`Carrier`]) moves the bytes: a socket of the kernel's, or one of our own TCP
//! ([`own_tcp`]). Its **sealing** ([`sealing`]) protects them: none, ours, the kernel's, or that of the library that shook hands.
//! [`Channel`] is every combination that there is; a session receives, sends an [`Outgoing`] and closes, and need not know which it has.
//!
//! All that a connection uses beside these is in [`Resources`], which its worker shares out: the disk, buffers, budgets, counters, time-outs.
//! Nothing here knows a worker or a session, so that no call goes in a circle.
//!
//! Read first: `outgoing`, `protected` (the receive loop), then `sealing/by_us` and `sendfile`, then `own_tcp`.

mod ahead;
mod carrier;
mod channel;
mod end;
pub mod in_memory;
mod leased;
mod link;
mod offload;
mod outgoing;
pub mod own_tcp;
mod protected;
mod receive_half;
mod records;
mod resources;
pub mod room;
pub mod sealing;
mod sendfile;

pub use carrier::{Carrier, Protection};
pub use channel::Channel;
pub use end::End;
pub use link::Link;
pub use offload::{KernelOffload, TLS_STAT};
pub use outgoing::{Outgoing, Piece};
pub use protected::Protected;
pub use resources::{DeliveryLimits, Patience, Resources, Tactics};
