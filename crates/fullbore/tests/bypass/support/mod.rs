//! What the tests of the bypass route share.

pub(crate) mod device;
pub(crate) mod far;
pub(crate) mod raw;
pub(crate) mod served;
