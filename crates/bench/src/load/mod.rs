//! Generating load, and counting what comes of it.

pub mod connection;
pub mod failure;
mod head;
mod secured;
pub mod tls;
mod wait;
mod walk;

pub use connection::{Connection, ConnectionOptions, Endpoint};
pub use failure::Failure;
pub use head::Head;
