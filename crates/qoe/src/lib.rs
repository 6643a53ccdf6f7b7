//! What viewers experience, as reported by their players: Common Media Client Data (CMCD, CTA-5004 and its second version CTA-5004-A).
//!
//! [`Cmcd`] reads the report of one request, as leniently as possible. A [`Salt`] turns a session's name into a number that means nothing to
//! anybody else, and nothing tomorrow. The two make a [`Report`]. A [`Collector`] takes the reports of all workers and keeps sessions in
//! progress. Of ended sessions it keeps only figures, for all sessions and by title: how long until playback began, how much it stalled, how
//! long until the picture was good, and at what bit rate. [`expose`] and [`json`] write them down.
//!
//! Invariants:
//! * What players say is bounded in length, number and value, and only figures remain of it.
//! * Memory is bounded: [`SESSIONS_MAX`], [`TITLES_MAX`], and histograms of a fixed range.
//! * No I/O and no clock: the caller supplies the time, in milliseconds since a start of its own.
//!
//! The figures prove nothing: players may say what they like, and anybody who can request a file can invent a session. What a server may say of
//! itself because of them counts addresses, and wants bytes that were really taken ([`Delivery`]; `credible.rs`).
//!
//! Read first: `cmcd.rs`, then `session.rs` for what each figure means.

mod cmcd;
mod collector;
mod credible;
mod distribution;
mod report;
mod salt;
mod scope;
mod session;
mod show;
mod stats;

pub use cmcd::{Cmcd, ObjectType, TEXT_BYTES_MAX};
pub use collector::{Collector, SESSIONS_MAX, TITLES_MAX};
pub use report::{Delivery, Report};
pub use salt::Salt;
pub use show::{expose, json, metrics};
