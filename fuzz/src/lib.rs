//! Code that the fuzz targets share. Each target in `targets/` gives arbitrary bytes a meaning and says what must hold. Here are the
//! choices made from bytes, the check of an answer, the check of a manifest, a TLS client that can send anything, and a TCP endpoint
//! with an application.
//!
//! Everything here except the key exchanges of TLS is deterministic, so that an input that fails once fails again.

pub mod answer;
pub mod choices;
pub mod client;
pub mod manifests;
pub mod model;
pub mod records;
pub mod tcp;
