//! HTTP clients for servers outside the fleet: origins, buckets and certificate authorities.

mod client;
mod error;

pub use client::{ClientIdentity, Trusted, client};
pub use error::{certificate_trouble, with_causes};
