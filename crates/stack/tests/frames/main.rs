//! Frames on real devices, with Linux's own stack at the other end, in network namespaces that each test makes for itself.
//!
//! Needs root. Without it, or without what a device needs, the tests say so and show nothing.

mod namespace;
mod neighbours;
mod stream;
mod survivors;
mod tap;
mod worker;
mod xdp;
