//! Kernel sockets: listening, connecting, sending, and limits on connections.
//!
//! Sending is pulled: a connection asks for bytes only when TCP can take them. For a kernel socket that is when it is
//! writable with `TCP_NOTSENT_LOWAT` set. [`Window`] learns how many bytes TCP takes at such a moment.
//!
//! Whose a connection is decides whether it may come in: [`prefixes`] has sets of addresses, and [`proxy_protocol`] what a proxy says.

pub mod admission;
pub mod connect;
pub mod listener;
pub mod prefixes;
pub mod proxy_protocol;
pub mod socket;
pub mod steering;
pub mod tls;
pub mod window;

pub use admission::{Admission, LimitReached, Pass, network};
pub use connect::{ConnectOptions, connect};
pub use listener::{ListenerOptions, bind};
pub use prefixes::{AddressBlock, PrefixFault, Prefixes};
pub use proxy_protocol::{Introduced, Introduction, ProxyFault};
pub use socket::{Ready, SendProgress, Socket};
pub use steering::Steering;
pub use window::Window;
