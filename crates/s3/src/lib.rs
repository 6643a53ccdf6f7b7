//! A client of S3, as small as a fleet needs: read an object or a part of it, write one at once or in parts, remove one, ask what is known of it.
//!
//! Requests are signed in their address (AWS Signature Version 4, by `rusty-s3`) and sent by `reqwest`, which the fleet has anyway. The bytes
//! are not signed: whoever reads here checks what they read by its digest, and whoever writes may name the SHA-256, which newer stores check.
//!
//! Neither a secret nor a signed address is ever part of an error.

mod address;
mod client;
mod credentials;
mod error;
mod multipart;
mod outbound;
mod probe;
mod put;
mod refusal;
mod signer;
mod xml;

pub use client::{S3Bucket, S3Object};
pub use credentials::CREDENTIALS;
pub use error::{S3Error, with_causes};
pub use multipart::{PARTS_MAX, S3Part};
pub use outbound::{certificate_trouble, outbound};
pub use put::{OnlyIf, PutTerms};
pub use refusal::S3Refusal;
pub use signer::{S3Signer, bucket_url};
