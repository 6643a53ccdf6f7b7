//! (file, offset, length) -> bytes.
//!
//! [`Files`] opens files of the library and nothing else, and remembers them. [`Reader`] reads a window of a file into a pooled buffer in one of
//! three modes (see [`ReadMode`]) without blocking the thread. [`Readahead`] reads ahead into the page cache, so that the kernel can send from there.
//! The [`hot`] set caches popular parts of films in the server's own memory.
//!
//! Invariants:
//! - Library files are read, never mapped for access: a truncated mapping would raise SIGBUS for every viewer. (A mapping without access rights is
//!   used only to ask what is in the page cache.)
//! - Bytes are handed out only after an `fstat` that follows the read has shown that the file is unchanged since it was opened. So they belong to the
//!   one version whose length and tag are in the response's head. [`stamp`] and `hold` say what makes a version; [`File::hold_still`] protects what
//!   the kernel sends by itself. A file that is still being fetched has rules of its own ([`sparse_file`]).
//! - No path leaves the root of its folder (`openat2`, `RESOLVE_BENEATH`).

pub mod error;
pub mod file;
pub mod files;
mod forms;
pub mod heat;
mod hold;
pub mod hot;
pub mod inode;
pub mod misses;
pub mod populate;
pub mod read;
pub mod read_stats;
pub mod readahead;
mod root;
mod seen;
mod sequential;
pub mod sparse_file;
pub mod stamp;
mod window;

pub use error::{OpenError, ReadError};
pub use file::File;
pub use files::{Files, Names};
pub use heat::Heat;
pub use hot::{HotPart, HotSet, LocalHotSet, Pinning};
pub use inode::Inode;
pub use misses::Misses;
pub use populate::Populator;
pub use read::{DIRECT_ALIGNMENT, Plain, Policy, RWF_DONTCACHE, ReadMode, Reader};
pub use read_stats::ReadStats;
pub use readahead::{Budget, BudgetShare, Readahead, drop_pages};
pub use sparse_file::{ARRIVAL_BYTES, PresentBlocks, SparseFile, Waiters};
pub use stamp::Stamp;
