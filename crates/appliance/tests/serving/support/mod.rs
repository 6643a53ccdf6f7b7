//! A server in this process, viewers, files whose every byte is known, a disk that can be made to fail, and a
//! program that writes in secret.

pub(crate) mod content;
pub(crate) mod failing_disk;
pub(crate) mod mapped_writer;
pub(crate) mod random;
pub(crate) mod served;
pub(crate) mod viewer;
