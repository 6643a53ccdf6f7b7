//! A client of S3, as small as a fleet needs: read an object or a part of it, write or remove one, ask for its size.
//!
//! Requests are signed in their address (AWS Signature Version 4, by `rusty-s3`) and sent by `reqwest`, which the fleet has anyway. The bytes
//! are not signed: whoever reads here checks what they read by its digest.

mod address;
mod client;
mod error;
mod outbound;

pub use client::S3Bucket;
pub use error::{S3Error, with_causes};
pub use outbound::outbound;
