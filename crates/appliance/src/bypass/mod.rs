//! TCP of our own under the sessions: the disk inside the control loop of TCP (as in Atlas: "Disk|Crypt|Net", SIGCOMM 2017).
//!
//! A worker on this route has a [`Stack`]: a TCP endpoint that holds no payload (the `tcp` crate), one queue of a network
//! device ([`::stack`]), and a task that hands segments from one to the other (`pump`). A session's connection is a
//! [`Socket`]: it receives requests from it and says what it wants to send, by appending to its [`stream::Stream`], which
//! is a list of places in files and not of bytes.
//!
//! When TCP may send, it asks for a range of the stream. Suppliers (`supply`) read the records that cover it, seal them while
//! they are in the cache, hand them to the device at once and give the buffers back, last in, first out. When a range was
//! lost, TCP asks again, and all that happens again, disk and all; a record that comes out different ends the connection.
//!
//! Invariants:
//! - Nothing of a film is kept: from the moment that a buffer was handed to the device, a byte in flight is an offset, and 16
//!   bytes of tag for the whole record.
//! - Reads in flight are bounded per worker, by its suppliers; what is asked for beyond them waits inside TCP.
//! - New bytes of a connection leave in order, whatever the order in which the disk brings them.

pub mod connection;
mod in_hand;
pub mod layout;
#[cfg(test)]
mod memory_tests;
pub mod open;
mod pump;
pub mod socket;
pub mod stack;
pub mod stream;
mod supply;

pub use self::stack::{Parts, Stack};
pub use socket::Socket;
pub use supply::suppliers;
