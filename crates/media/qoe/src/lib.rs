//! Viewers' quality of experience, as reported by their players: Common Media Client Data (CMCD, CTA-5004 and its second version CTA-5004-B).
//!
//! [`Cmcd`] parses the report of one request, and [`CmcdEvents`] the events that a player posts, as leniently as possible. A [`Salt`] turns a
//! session's name into a number that means nothing outside this process, and nothing tomorrow. With it they become a [`QoeReport`] and a
//! [`QoeEvent`]. A [`Collector`] takes those of all workers and keeps sessions in progress. Of ended sessions it keeps only figures, for all
//! sessions and by title: how long until playback began, how much it stalled, how long until the picture was good, and at what bit rate.
//! [`expose`] and [`json`] write them out.
//!
//! A [`Tally`] counts sessions for a fleet: each session once, in groups of ten sessions at least, as [`SessionSums`] that add up over servers.
//!
//! Invariants:
//! * Players' reports are bounded in length, number and value, and only figures remain of them.
//! * Memory is bounded: [`SESSIONS_MAX`], [`TITLES_MAX`], and histograms of a fixed range.
//! * No I/O and no clock: the caller supplies the time, in milliseconds since a start of its own.
//!
//! The figures prove nothing: a player can report anything, and any client that can request a file can invent a session. So the figures that a
//! server reports about itself count addresses, and require bytes that were really received ([`Delivery`]; `credible.rs`).
//!
//! Read first: `cmcd.rs`, then `session.rs` for what each figure means.

mod beginning;
mod cmcd;
mod collector;
mod credible;
mod distribution;
mod early_events;
mod event;
mod interval;
mod next_object;
mod playback;
mod report;
mod salt;
mod scope;
mod session;
mod show;
mod spread;
mod stats;
mod sums;
mod tally;
mod viewer_group;

pub use cmcd::{Cmcd, ObjectType, TEXT_BYTES_MAX};
pub use collector::{Collector, SESSIONS_MAX, TITLES_MAX};
pub use event::{CmcdEvent, CmcdEvents, EVENTS_MAX, EventKind, PlayerState, QoeEvent};
pub use interval::{Interval, share};
pub use next_object::{NextObject, next_objects};
pub use report::{Delivery, QoeReport};
pub use salt::Salt;
pub use show::{expose, json, metrics};
pub use spread::SparseBuckets;
pub use sums::{COUNTED_MS, SessionSums};
pub use tally::{CELL_SESSIONS_MIN, CELLS_MAX, ClosedTally, Dimension, SumsCell, Tally};
pub use viewer_group::{NETWORK_BITS_V4, NETWORK_BITS_V6, ViewerGroup, is_player};
