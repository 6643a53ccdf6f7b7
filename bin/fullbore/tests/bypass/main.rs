//! The bypass route against the kernel's own TCP: real clients on the other side of a TAP, in namespaces of the tests' own.
//! They need root, and report it if they lack it.
//!
//! [`clients`]: curl, openssl, ffmpeg and `fullbore load` get every byte. [`loss`]: lost bytes are read from disk again.
//! [`capture`]: tshark's checks. [`hostile`]: attackers. [`goodput`]: a measurement next to Linux's CUBIC. [`matrix`]: clients
//! by versions by networks, on both devices. [`xdp`]: a network card's queues. [`memory`]: what a connection holds.
//! [`bounds`]: what a viewer can make it hold. [`life`]: starting without privileges, ending, being killed. [`farewell`]:
//! ending connections while viewers are in the middle of something. [`workers`]: two workers on one device.

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
