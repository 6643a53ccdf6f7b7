//! The whole server over real sockets, with clients that are not ours (rustls) or are as bad as can be.
//!
//! [`bytes`]: what arrives is the file. [`bad_input`]: each kind of misbehaviour has its answer and its counter.
//! [`dashboard`]: what is told of the server, once a second.
//! [`faults`]: a file or a disk that fails under a response ends it, and no wrong byte is sent.
//! [`pages`]: what the server has of its own.
//! [`slow_readers`]: what is sent from memory is there once, and bounded.
//! [`switches`]: none of that depends on an optimisation.

mod bad_input;
mod bytes;
mod dashboard;
mod faults;
mod pages;
mod slow_readers;
mod support;
mod switches;
