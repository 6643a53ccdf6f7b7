//! System calls that nobody has wrapped: the only home of `unsafe` below [`crate::frames`].

pub(crate) mod tun;
