//! A server in this process, viewers, files whose every byte is known, and a disk that can be made to fail.

pub(crate) mod content;
pub(crate) mod failing_disk;
pub(crate) mod random;
pub(crate) mod served;
pub(crate) mod viewer;
