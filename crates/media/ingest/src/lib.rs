//! Makes titles from video files ([`ingest`](mod@ingest)), and a sample library for users without videos at hand.
//!
//! Ingest reads the structure of media files, and leaves decoding to ffmpeg, which it confines. The `catalog` crate defines titles and
//! their records, and manages existing titles.
//!
//! [`watch`](mod@watch) makes a title of each film that appears in a folder.
//!
//! [`promote`] keeps copies of the busiest titles on a faster disk.
//!
//! Read first: [`ingest::ingest`].

mod bitmap_subtitles;
mod captions;
mod colour;
mod confined;
mod ffprobe;
mod film;
mod first_frame;
mod first_frames;
mod formats;
mod frame_rate;
mod hdr_metadata;
pub mod ingest;
mod ladder;
mod language;
mod layout;
mod mp4;
mod probe;
pub mod promote;
mod role;
pub mod sample;
mod shown;
mod source;
mod text_kind;
mod unplayable;
pub mod watch;

pub use ladder::{Ladder, LadderError, Rung};
pub use language::is_language;
pub use shown::{shown, shown_json, shown_lines};
