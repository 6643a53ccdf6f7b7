//! System calls that no crate wraps, and memory shared with the kernel: the only place with `unsafe` below
//! [`crate::frames`].

pub(crate) mod bpf;
pub(crate) mod budget;
pub(crate) mod ethtool;
pub(crate) mod mapping;
pub(crate) mod ring;
pub(crate) mod tun;
pub(crate) mod umem;
