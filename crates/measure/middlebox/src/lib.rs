//! A network that misbehaves on purpose.
//!
//! [`SimulatedLink`] is one direction of a path: delay, jitter, loss, reordering, duplication, and a bottleneck with a bounded queue. It has no I/O
//! and no clock, and the same seed gives the same fate to the same packets. Simulations run it in virtual time, and the `middlebox` program
//! runs it between two interfaces. [`frame`] turns what the kernel hands over into frames for a wire: it cuts super-segments and completes
//! checksums, so that one packet of the model is one packet of the wire.
//!
//! It is a tool for tests and measurements, and stays simple: no queue disciplines, no rules by address or port.

mod chance;
pub mod frame;
mod impairment;
mod link;
mod random;

pub use chance::{BadChance, Chance};
pub use impairment::{BadSetting, Impairment};
pub use link::{Counters, Delivered, Fate, SimulatedLink};
pub use random::Random;
