//! What a library holds, in three words that mean the same everywhere:
//!
//! * A **title** is what a viewer chooses: a folder with a manifest and everything below it, or one file that players open as it is.
//! * A **version** is one state of a title that never changes. Ingest puts each into a folder of its own (`v-0123456789ab`).
//! * An **object** is one file of a version.
//!
//! [`title_of`] is the one rule from a path to its title. Whoever names titles uses it: the shelf, the dashboard, viewers' experience,
//! signed URLs, the load generator. [`KnownTitles`] applies it where only requests are seen, [`titles()`] where the folder can be listed.
//!
//! The crate reads folders, names and records, never what is in media files, and it runs no other program. It follows no symbolic link,
//! because the server would refuse those that lead out of the library.
//!
//! Read first: `rule.rs`.

mod known;
mod rule;
pub mod shelf;
mod titles;
mod url;

pub use known::KnownTitles;
pub use rule::{EXAMPLES, is_manifest, is_playable, is_version, title_of};
pub use titles::{Form, Stream, TITLES_MAX, Title, titles};
pub use url::encode_path;
