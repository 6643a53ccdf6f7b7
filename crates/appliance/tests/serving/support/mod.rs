//! A server in this process, viewers, and files whose every byte is known.

pub(crate) mod content;
pub(crate) mod random;
pub(crate) mod served;
pub(crate) mod viewer;
