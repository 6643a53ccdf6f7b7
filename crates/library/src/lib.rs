//! Making titles of video files ([`ingest`](mod@ingest)), and a sample for those who have none at hand.
//!
//! Ingest looks into media files, and leaves their decoding to ffmpeg, which it confines. What a title is, its record, and looking after titles
//! that are made is the `catalog` crate's.
//!
//! Read first: [`ingest::ingest`].

mod confined;
mod film;
mod formats;
pub mod ingest;
mod ladder;
mod language;
mod mp4;
mod probe;
pub mod sample;
mod shown;

pub use ladder::{Ladder, LadderError, Rung};
pub use shown::{shown, shown_json, shown_lines};
