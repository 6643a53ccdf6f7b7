//! The fleet's durable state: a small key-value store behind the trait [`Engine`].
//!
//! Keys are strings with slashes, values are the JSON of [`records`]. There are two engines, and the same tests run on both: a folder for the
//! gateways of one machine, and etcd for gateways on several machines. Heartbeats are never written here.
//! [`Objects`] are immutable files, such as titles' records and manifests, in a folder or in S3.
//!
//! The promises of every engine:
//! - a [commit](Engine::commit) is atomic, and is on disk when it returns;
//! - revisions rise with every commit, and an [`Entry`] carries the revision of its last change;
//! - if changes are impossible, reads continue as far as they can, and every change fails with one clear error.

pub mod backup;
mod bounds;
mod election;
mod error;
mod etcd;
mod folder;
pub mod forgetting;
mod objects;
pub mod records;

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

pub use election::{Election, LEADER, LEASE_SECONDS};
pub use error::StoreError;
pub use etcd::EtcdStore;
pub use folder::FolderStore;
pub use objects::{OBJECT_BYTES_MAX, Objects};

/// Longest key. The longest names in keys are titles' paths.
pub const KEY_BYTES_MAX: usize = 1024;

/// Largest value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Most checks, and most writes, per commit: etcd refuses more than 128 by default (`--max-txn-ops`).
pub const COMMIT_OPERATIONS_MAX: usize = 100;

/// Most bytes of keys and values per commit: etcd refuses requests over 1.5 MiB by default (`--max-request-bytes`).
pub const COMMIT_BYTES_MAX: usize = 5 << 18;

/// The future that engines return.
pub type StoreAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A value in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which it last changed.
    pub revision: u64,
}

/// A condition of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The key does not exist.
    Absent(String),
    /// The key last changed at this revision.
    At(String, u64),
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets the value of a key.
    Put(String, Vec<u8>),
    /// Removes a key, if it exists.
    Delete(String),
}

/// Opens the store at `place`: a folder, or `etcd://HOST:PORT` in the form that [`EtcdStore::open`] reads. It may block.
///
/// # Errors
/// If `place` is neither, or the store cannot be used.
pub fn open(place: &str) -> Result<Arc<dyn Engine>, StoreError> {
    if place.starts_with("etcd://") {
        return Ok(Arc::new(EtcdStore::open(place)?));
    }
    if place.contains("://") {
        let text = format!("{place}: a store is a folder, or etcd://HOST:PORT");
        return Err(StoreError::NotUsable(text));
    }
    Ok(Arc::new(FolderStore::open(Path::new(place))?))
}

/// Whether [`open`] would find a store at `place` instead of creating one. Always true for etcd, which is not contacted.
///
/// # Errors
/// If the folder may not be read.
pub fn is_there(place: &str) -> io::Result<bool> {
    if place.contains("://") { Ok(true) } else { FolderStore::is_in(Path::new(place)) }
}

/// A store.
pub trait Engine: Send + Sync {
    /// The entry of `key`, if it exists.
    fn get<'a>(&'a self, key: &'a str) -> StoreAnswer<'a, Option<Entry>>;

    /// All entries whose keys begin with `prefix`, sorted by key: a consistent snapshot.
    fn list<'a>(&'a self, prefix: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>>;

    /// Applies all of `writes` if all of `checks` hold, and returns the new revision; otherwise it changes nothing and returns
    /// [`StoreError::Conflict`]. A commit may write each key once.
    fn commit<'a>(&'a self, checks: &'a [Check], writes: &'a [Write]) -> StoreAnswer<'a, u64>;

    /// The revision of the last commit: it changes when anything changes. Gateways poll it once a second. It is an error while etcd has no quorum
    /// or is full, even if reads still work, so the poll also detects a store that can't be changed.
    fn revision(&self) -> StoreAnswer<'_, u64>;

    /// Acquires or renews the lease `key` for `owner`, for `seconds` from now. Returns the term, which is the revision at which this owner acquired
    /// it; or `None` if another owner has it. While the lease lasts, `owner` is the value of `key`, so a commit that checks `key` at the term
    /// succeeds only if no other owner has taken the lease. An owner is one process: its name alone is not enough. Renewing does not change the
    /// revision.
    fn lease<'a>(
        &'a self,
        key: &'a str,
        owner: &'a str,
        seconds: u32,
    ) -> StoreAnswer<'a, Option<u64>>;
}

impl Check {
    /// The key that is checked.
    pub fn key(&self) -> &str {
        match self {
            Self::Absent(key) | Self::At(key, _) => key,
        }
    }
}

impl Write {
    /// The key that is changed.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    /// Bytes of key and value.
    fn bytes(&self) -> usize {
        match self {
            Self::Put(key, value) => key.len() + value.len(),
            Self::Delete(key) => key.len(),
        }
    }
}
