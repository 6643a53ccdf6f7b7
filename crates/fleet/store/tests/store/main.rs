//! The store: the same tests with both engines, and tests of faults that only one of them can have.

mod backups;
mod conformance;
mod elections;
mod etcd;
mod folder;
mod forgetting;
mod objects;
mod patient;
mod restored;
#[allow(dead_code, reason = "the client's own tests use the rest")]
#[path = "../../../../core/s3/tests/s3_server/mod.rs"]
mod s3_server;
