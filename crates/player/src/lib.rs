//! What a player of HLS and DASH does, without I/O and without a clock.
//!
//! Callers hand in what has happened, with the time of it, and ask what to do next. The same calls give the same results
//! to the byte, so thousands of players run in virtual time as well as over real sockets.
//!
//! Invariants:
//! - Nothing that a server sends makes this panic, loop or grow without limit.
//! - Nothing here reads a clock or draws a random number that its caller did not seed.
//!
//! Read [`presentation`] for what a title consists of, [`manifest`] for how it is read, [`abr`] for which bit rate a segment
//! gets, [`pathways`] for where it comes from, [`player`] for what puts them together.

#![forbid(unsafe_code)]

pub mod abr;
mod cmcd;
pub mod estimate;
pub mod event;
pub mod failure;
pub mod manifest;
pub mod options;
pub mod pathways;
mod playback;
pub mod player;
pub mod presentation;
pub mod report;
pub mod request;
pub mod steering;
pub mod url;

pub use abr::Rule;
pub use event::{Ending, Event, GiveUp, StallReason};
pub use failure::Failure;
pub use manifest::ManifestError;
pub use options::{Act, Deed, PlayerOptions};
pub use player::{Document, Player};
pub use presentation::{
    Format, Index, Pathway, Presentation, Reference, Rendition, Segment, Segments, Source,
    SteeringServer, Track, TrackKind,
};
pub use report::{SessionReport, Stall};
pub use request::{Request, RequestId, RequestKind};
pub use steering::{Answer, PathwayClone, SteeringError};
pub use url::{Url, UrlError};

/// Time since the run began.
pub type Time = std::time::Duration;
