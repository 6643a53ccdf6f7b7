//! What the fuzz targets share. Each target (`targets/`) gives arbitrary bytes a meaning and states what must hold; here is
//! how bytes become choices, what a correct answer looks like, what holds of a manifest, a TLS client that can say anything,
//! and a TCP endpoint with an application.
//!
//! Everything here is deterministic but for the key exchanges of TLS, so that an input that fails once fails again.

pub mod answer;
pub mod choices;
pub mod client;
pub mod manifests;
pub mod model;
pub mod records;
pub mod tcp;
