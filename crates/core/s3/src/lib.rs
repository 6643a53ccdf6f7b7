//! An S3 client, as small as a fleet needs: reads an object or a part of it, writes one at once or in parts, removes one, reads its
//! metadata.
//!
//! Requests are signed in their URL (AWS Signature Version 4, by `rusty-s3`) and sent by `reqwest`, which the fleet uses anyway. The bytes
//! are not signed: readers verify them by a digest, and writers may state the SHA-256, which newer stores check.
//!
//! Errors never contain a secret or a signed URL.

mod address;
mod client;
mod credentials;
mod error;
mod multipart;
mod probe;
mod put;
mod refusal;
mod signer;
mod xml;

pub use client::{S3Bucket, S3Object};
pub use credentials::CREDENTIALS;
pub use error::S3Error;
pub use multipart::{PARTS_MAX, S3Part};
pub use put::{OnlyIf, PutTerms};
pub use refusal::S3Refusal;
pub use signer::{S3Signer, TemporaryCredentials, bucket_url};
