//! A player of HLS and DASH, without I/O and without a clock.
//!
//! Callers report what happened and when, and ask what to do next. The same calls give the same results, byte for byte, so thousands of
//! players can run in virtual time as well as over real sockets.
//!
//! Invariants:
//! - Nothing that a server sends can make this panic, loop or grow without limit.
//! - This code never reads a clock, and draws only random numbers that its caller has seeded.
//!
//! Read [`presentation`] for the parts of a title, [`manifest`] for how it is read, [`abr`] for the bit rate of a segment, [`pathways`] for
//! its source, [`player`] for the whole.

#![forbid(unsafe_code)]

pub mod abr;
mod cmcd;
pub mod estimate;
pub mod event;
pub mod failure;
pub mod live;
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
pub use event::{Ending, GiveUp, PlayerEvent, StallReason};
pub use failure::Failure;
pub use live::LiveSeen;
pub use manifest::ManifestError;
pub use options::{Act, Deed, PlayerOptions};
pub use player::{Document, Player};
pub use presentation::{
    Format, Index, Pathway, Presentation, Reference, Rendition, Segment, Segments, Source,
    StartPoint, SteeringServer, Track, TrackKind, WallClock,
};
pub use report::{SessionReport, Stall};
pub use request::{PlayerRequest, RequestId, RequestKind};
pub use steering::{Answer, PathwayClone, SteeringError};
pub use url::{Url, UrlError};

/// Time since the run began.
pub type Time = std::time::Duration;
