//! Frames on real devices, with Linux's own stack at the other end. Each test makes its own network namespaces.
//!
//! Needs root. Without it, or without what a device needs, the tests report that they are skipped.

mod neighbours;
mod stream;
mod survivors;
mod tap;
mod worker;
mod xdp;
