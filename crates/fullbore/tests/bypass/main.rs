//! The bypass route against the kernel's own TCP: real clients on the other side of a TAP, in namespaces of the tests' own.
//! They need root and say so where it is missing.

mod clients;
mod support;
