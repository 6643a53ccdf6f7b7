//! The contents of a library, in three terms with one meaning everywhere:
//!
//! * A **title** is the thing that a viewer chooses: a folder with a manifest and everything below it, or a single file that players open
//!   directly.
//! * A **version** is one immutable state of a title. Ingest puts each into a folder of its own (`v-0123456789ab`).
//! * An **object** is one file of a version. The title's [`Record`] has its SHA-256, and one for each of its blocks.
//!
//! [`title_of`] is the one rule from a path to its title. All code that names titles uses it: the shelf, the dashboard, quality of
//! experience, signed URLs, the load generator. [`KnownTitles`] applies it to requests alone, [`titles()`] to a folder that can be listed.
//!
//! A library may be several folders, one for each disk. [`Holders`] decides which of them holds which title. A folder may hold [`copies()`]
//! of others' titles on a faster disk.
//!
//! Titles made by ingest have a record. This crate reads it, lists titles by it ([`list()`]), compares it with the files ([`verify()`]),
//! completes it ([`complete()`]) and removes titles ([`remove()`]). The `ingest` crate makes them. [`parts()`] lists the files of one
//! title.
//!
//! Nodes copy titles from each other, with a `User-Agent` of their own ([`NODE_USER_AGENT`]).
//!
//! The crate reads media files only to compute their checksums, and runs no other program. It does not follow symbolic links, because the
//! server refuses those that lead out of the library.
//!
//! Read first: `rule.rs`, then `record.rs`.

mod bucket;
mod complete;
mod copies;
mod error;
mod folders;
mod forms;
mod known;
mod list;
mod name;
mod parts;
mod place;
mod record;
mod remove;
mod rule;
pub mod sha256;
pub mod shelf;
mod titles;
mod url;
mod user_agent;
mod verify;
mod workshop;

pub use bucket::{document_key, object_key};
pub use complete::{Completed, complete};
pub use copies::{MARK, Mark, Promoted, copies, edition, is_copy};
pub use error::CatalogError;
pub use folders::{
    FOLDERS_MAX, FoldersError, Hidden, Holders, NAMES_MAX, check_folders, is_gone, is_held,
    list_held, names, on_one_disk, still_lists,
};
pub use forms::{BROTLI, GZIP};
pub use known::KnownTitles;
pub use list::{LibraryEntry, Listing, UnreadFolder, find, list};
pub use name::{NameError, TitleName, TitlePath};
pub use parts::parts;
pub use place::{REPLACED_KEPT_SECONDS, put_new, put_over, sync};
pub use record::{
    AudioRecord, BLOCK_BYTES, BurntInRecord, FileRecord, RECORD, Record, RecordError,
    ReplacedRecord, SourceRecord, SubtitleRecord, VideoRecord,
};
pub use remove::{remove, remove_replaced, remove_version};
pub use rule::{EXAMPLES, is_manifest, is_playable, is_version, title_of, version_name};
pub use titles::{Form, TITLES_MAX, Title, TitleStream, titles};
pub use url::encode_path;
pub use user_agent::NODE_USER_AGENT;
pub use verify::{Fault, verify};
pub use workshop::Workshop;
