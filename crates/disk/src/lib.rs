//! (file, offset, length) -> bytes.
//!
//! [`Files`] opens what lies in the library and nothing else, and remembers what is open. [`Reader`] brings a window of
//! a file into a pooled buffer by one of three ways (see [`Way`]) without ever blocking the thread; [`Bringing`] brings it
//! into the page cache, for the kernel to send from there.
//!
//! Invariants:
//! - Library files are read, never mapped for anybody to look into: a truncated mapping would be a SIGBUS for every
//!   viewer. (What is in the page cache is asked of a mapping that cannot be touched.)
//! - Bytes are handed out only after the file was seen unchanged since it was opened, with `fstat` after the read: what
//!   is handed out belongs to the one version whose length and tag the response's head has promised. What makes a
//!   version is in [`stamp`] and `hold`; what the kernel sends by itself is seen to by [`File::hold_still`].
//! - No path leaves the library's root (`openat2`, `RESOLVE_BENEATH`).

pub mod bring;
pub mod error;
pub mod file;
pub mod files;
pub mod heat;
mod hold;
pub mod inode;
pub mod misses;
pub mod read;
mod seen;
pub mod stamp;

pub use bring::{Bringing, Budget, Share};
pub use error::{OpenError, ReadError};
pub use file::File;
pub use files::Files;
pub use heat::Heat;
pub use inode::Inode;
pub use misses::Misses;
pub use read::{DIRECT_ALIGNMENT, Plain, Policy, ReadStats, Reader, Way};
pub use stamp::Stamp;
