//! A bad network on purpose.
//!
//! [`Link`] is one direction of a path: delay, jitter, loss, reordering, duplication, and a bottleneck with a bounded queue. It has
//! no I/O and no clock, and the same seed gives the same fate to the same packets: simulations run it in virtual time, and the
//! `middlebox` program runs it between two interfaces. [`frame`] makes what travels on a wire out of what the kernel hands over:
//! super-segments are cut and checksums are completed, so that one packet of the model is one packet of the wire.
//!
//! It is a tool for tests and measurements. It refuses to be clever: no queue disciplines, no rules by address or port.

mod chance;
pub mod frame;
mod impairment;
mod link;
mod random;

pub use chance::{BadChance, Chance};
pub use impairment::{BadSetting, Impairment};
pub use link::{Counters, Delivered, Fate, Link};
pub use random::Random;
