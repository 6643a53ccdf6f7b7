//! Shared parts of the bypass route's tests.

pub(crate) mod crowd;
pub(crate) mod device;
pub(crate) mod far;
pub(crate) mod raw;
pub(crate) mod served;
