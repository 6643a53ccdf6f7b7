//! The video library as a viewer sees it: which titles a folder holds and where each is played from; making titles of video files
//! ([`ingest`](mod@ingest)) and looking after them ([`catalog`]); and a sample for those who have none at hand.
//!
//! What serves a library reads folder listings, names and, for the shelf, records of titles, never what is in media files: what a file
//! contains is the player's business. It follows no symbolic link, because the server would refuse those that lead out of the library.
//! Only ingest looks into media files, and leaves their decoding to ffmpeg, which it confines.
//!
//! Read first: [`titles()`], then [`ingest::ingest`].

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
pub mod shelf;
mod shown;
mod titles;
mod url;

pub use ladder::{Ladder, LadderError, Rung};
pub use name::{NameError, TitleName};
pub use record::{
    AudioRecord, FileRecord, Record, ReplacedRecord, SourceRecord, SubtitleRecord, VideoRecord,
};
pub use shown::{shown, shown_json, shown_lines};
pub use titles::{Form, Stream, TITLES_MAX, Title, titles};
pub use url::encode_path;
