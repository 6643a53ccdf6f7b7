//! Kernel sockets: listeners, connections, how much to pull, and who may connect.
//!
//! Net pulls: a connection asks for bytes when TCP can take them and not before. Here that moment is "writable" with
//! `TCP_NOTSENT_LOWAT` set, and [`Window`] learns how many bytes one such moment takes.

pub mod admission;
pub mod connect;
pub mod listener;
pub mod socket;
pub mod tls;
pub mod window;

pub use admission::{Admission, LimitReached, Pass};
pub use connect::{ConnectOptions, connect};
pub use listener::{ListenerOptions, bind};
pub use socket::Socket;
pub use window::Window;
