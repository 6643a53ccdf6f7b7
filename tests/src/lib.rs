//! Shared helpers for tests that run the real program, or test it with clients that are not ours.
//!
//! Every test starts `fullbore serve` with [`Launch`], and gets a [`Server`]: a server with its own folders and ports,
//! ended when dropped. [`tls`] is rustls as a viewer who accepts any certificate, over a socket or in memory, and [`shake_hands`]
//! leaves a viewer's records to the test. [`tool`]
//! runs third-party programs; if one is missing, the test reports that loudly and passes, because the missing
//! program is not this project's fault. [`Plain`] is a viewer without TLS, for requests that no such program can make.
//! [`Counters`] are the server's own figures. [`make_title`] makes a title with a record. [`Ran`] has the results of a run of
//! `fullbore load` or `fullbore swarm`; [`Course`] has the states of a swarm's viewers while it runs.
//! [`serve_badly`] is a server that misbehaves as a test wants. [`Etcd`] is a real one, whose members may die.
//! [`free_port`] is one for a process that cannot choose its own.
//!
//! [`Namespace`] is a separate network, for tests that need a bad one, and [`FakeClock`] a wrong clock.
//! [`settle`] waits until the hot set takes files that a test has written.
//!
//! Nothing here sleeps to let something happen: tests wait for the event itself with [`eventually`].

mod badly;
mod by_hand;
mod certificate;
mod counters;
mod course;
pub mod cpus;
mod descriptors;
mod etcd;
mod failing_disk;
mod fake_clock;
mod files;
pub mod film;
mod footprint;
mod free_port;
mod launch;
mod loop_disk;
pub mod namespace;
mod plain;
mod program;
mod ran;
mod random;
mod said;
mod server;
mod settled;
mod slowhttptest;
mod small_disk;
pub mod stopwatch;
mod title;
pub mod tls;
pub mod tool;
mod wait;

pub use badly::{Asked, serve_badly};
pub use by_hand::shake_hands;
pub use certificate::{Certificate, certificate};
pub use counters::Counters;
pub use course::{Course, Moment, nobody_stalled, swarm_until};
pub use descriptors::may_open;
pub use etcd::Etcd;
pub use failing_disk::FailingDisk;
pub use fake_clock::FakeClock;
pub use files::{bytes, file};
pub use free_port::{free_port, free_port_on};
pub use launch::Launch;
pub use loop_disk::LoopDisk;
pub use namespace::Namespace;
pub use plain::{Plain, Response};
pub use program::program;
pub use ran::Ran;
pub use random::{Random, mix};
pub use rustix::process::Signal;
pub use said::Said;
pub use server::Server;
pub use settled::settle;
pub use slowhttptest::SlowAttack;
pub use small_disk::SmallDisk;
pub use title::{FILM, make_title};
pub use wait::{PATIENCE, eventually, until, within};
