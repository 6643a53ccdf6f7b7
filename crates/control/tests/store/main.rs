//! The store: the same tests on both engines, and what only one of them can suffer.

mod backups;
mod conformance;
mod elections;
mod etcd;
mod folder;
mod forgetting;
mod objects;
mod restored;
#[allow(dead_code, reason = "the client's own tests use the rest")]
#[path = "../../../s3/tests/s3_server/mod.rs"]
mod s3_server;
