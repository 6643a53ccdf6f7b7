//! The bypass route against the kernel's own TCP: real clients on the other side of a TAP, in namespaces of the tests' own.
//! They need root and say so where it is missing.
//!
//! [`clients`]: curl, openssl, ffmpeg and `fullbore load` get every byte. [`loss`]: what is lost is read from disk again.
//! [`capture`]: what tshark says of it. [`hostile`]: who means harm. [`goodput`]: beside Linux's CUBIC, as a measurement.
//! [`matrix`]: clients by versions by networks, on both devices. [`xdp`]: from a network card's queues. [`memory`]: what a
//! connection holds. [`bounds`]: what a viewer can make it hold. [`life`]: starting without privileges, ending, being killed.
//! [`farewell`]: ending what viewers are in the middle of. [`workers`]: two on one device.

mod bounds;
mod capture;
mod clients;
mod farewell;
mod goodput;
mod hostile;
mod life;
mod loss;
mod matrix;
mod memory;
mod soak;
mod support;
mod workers;
mod xdp;
