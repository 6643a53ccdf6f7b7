//! Making titles of video files ([`ingest`](mod@ingest)) and looking after them ([`catalog`]); and a sample for those who have none at hand.
//!
//! Ingest looks into media files, and leaves their decoding to ffmpeg, which it confines.
//!
//! Read first: [`ingest::ingest`].

pub mod catalog;
mod confined;
mod film;
mod formats;
mod hash;
pub mod ingest;
mod ladder;
mod language;
mod mp4;
mod name;
mod probe;
mod record;
pub mod sample;
mod shown;

pub use ladder::{Ladder, LadderError, Rung};
pub use name::{NameError, TitleName};
pub use record::{
    AudioRecord, FileRecord, Record, ReplacedRecord, SourceRecord, SubtitleRecord, VideoRecord,
};
pub use shown::{shown, shown_json, shown_lines};
