//! System calls that nobody has wrapped, and memory shared with the kernel: the only home of `unsafe` below
//! [`crate::frames`].

pub(crate) mod bpf;
pub(crate) mod ethtool;
pub(crate) mod mapping;
pub(crate) mod ring;
pub(crate) mod tun;
pub(crate) mod umem;
