//! What the server's helper processes have in common.
//!
//! The server may not make outgoing connections, and does not parse what strangers' servers send. A helper, in a process of its own, does both:
//! one for a caching edge, one for certificates. It gives up all privileges that it does not need ([`sandbox`]). If it dies, its keeper
//! ([`keeper`]) starts another one on the same socket. Messages to and from the server are packets with descriptors ([`packets`]); each
//! helper's own crate defines them. Hot restart uses such packets, too.

pub mod keeper;
pub mod packets;
pub mod sandbox;
