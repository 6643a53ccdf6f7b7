//! Kernel sockets: listening, connecting, sending, and limits on connections.
//!
//! Sending is pulled: a connection asks for bytes only when TCP can take them. For a kernel socket that is when it is writable with
//! `TCP_NOTSENT_LOWAT` set. [`Window`] learns how many bytes TCP takes at such a moment.
//!
//! The viewer's address decides whether a connection is admitted: [`prefixes`] has sets of addresses, and [`proxy_protocol`] reads the address that a
//! proxy passes on.

pub mod admission;
pub mod connect;
pub mod listener;
pub mod prefixes;
pub mod proxy_protocol;
pub mod socket;
pub mod steering;
pub mod tls;
pub mod window;

pub use admission::{Admission, LimitReached, Permit, network};
pub use connect::{ConnectOptions, connect};
pub use listener::{ListenerOptions, bind};
pub use prefixes::{AddressBlock, PrefixFault, Prefixes};
pub use proxy_protocol::{Introduced, Introduction, ProxyFault};
pub use socket::{Ready, SendProgress, Socket};
pub use steering::Steering;
pub use window::Window;
