//! What viewers experience, told by their players: Common Media Client Data (CMCD, CTA-5004 and its second version CTA-5004-A).
//!
//! [`Cmcd`] reads what one request brings along, as leniently as it can be read. A [`Salt`] makes of a session's name a number that
//! means nothing to anybody else and nothing tomorrow. The two make a [`Report`]; a [`Collector`] takes the reports of all workers and
//! keeps sessions, and of sessions that are over only figures: how long until playback began, how much it stalled, how long until
//! the picture was good, at what bit rate; for all and by title. [`expose`] and [`json`] write them down.
//!
//! Invariants:
//! * What players say is bounded, in length, in number and in value, and nothing of it can be anything but figures afterwards.
//! * Memory is bounded: [`SESSIONS_MAX`], [`TITLES_MAX`], and histograms of a fixed range.
//! * No I/O and no clock: whoever calls brings the time, in milliseconds from a start of its own.
//!
//! It does not prove anything: players may say what they like, and whoever can ask for a file can invent a session.
//!
//! Read first: `cmcd.rs`, then `session.rs` for what each figure means.

mod cmcd;
mod collector;
mod distribution;
mod report;
mod salt;
mod scope;
mod session;
mod show;
mod stats;

pub use cmcd::{Cmcd, ObjectType, TEXT_BYTES_MAX};
pub use collector::{Collector, SESSIONS_MAX, TITLES_MAX};
pub use report::Report;
pub use salt::Salt;
pub use show::{expose, json, metrics};
