//! Where a fleet keeps what it must not forget: a small store of keys and values behind the trait [`Engine`].
//!
//! Keys are texts with slashes, values are the JSON of [`records`]. There are two engines, and the same tests run on both: a folder
//! for the gateways of one machine, and etcd for gateways on several machines. Nothing that beats is written here.
//!
//! What every engine promises:
//! - a [commit](Engine::commit) is made whole or not at all, and is on disk when it returns;
//! - revisions rise with every commit, and an [`Entry`] carries the revision of its last change;
//! - reads go on as far as they can when changes cannot be made, and then every change gives one clear error.

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

/// Longest key. Titles' paths are the longest names in keys.
pub const KEY_BYTES_MAX: usize = 1024;

/// Largest value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Most checks, and most writes, in one commit: etcd refuses more than 128 by default (`--max-txn-ops`).
pub const COMMIT_OPERATIONS_MAX: usize = 100;

/// Most bytes of keys and values in one commit: etcd refuses requests of more than 1.5 MiB by default (`--max-request-bytes`).
pub const COMMIT_BYTES_MAX: usize = 5 << 18;

/// What an engine answers with, in the end.
pub type StoreAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A value in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which it last changed.
    pub revision: u64,
}

/// What must hold for a commit to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The key is not there.
    Absent(String),
    /// The key last changed at this revision.
    At(String, u64),
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets the value of a key.
    Put(String, Vec<u8>),
    /// Removes a key, if it is there.
    Delete(String),
}

/// Opens the store at `place`: a folder, or `etcd://HOST:PORT` as [`EtcdStore::open`] reads it. It may block.
///
/// # Errors
/// If it is neither, or cannot be used.
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

/// Whether there is a store at `place` that [`open`] would use, and not make. Of etcd, nobody can tell without asking.
///
/// # Errors
/// If nobody may look.
pub fn is_there(place: &str) -> io::Result<bool> {
    if place.contains("://") { Ok(true) } else { FolderStore::is_in(Path::new(place)) }
}

/// A store.
pub trait Engine: Send + Sync {
    /// The entry of `key`, if it is there.
    fn get<'a>(&'a self, key: &'a str) -> StoreAnswer<'a, Option<Entry>>;

    /// All entries whose keys begin with `prefix`, sorted by key, as they were at one moment.
    fn list<'a>(&'a self, prefix: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>>;

    /// Makes all of `writes` if all of `checks` hold, and says at which revision; else changes nothing, and that is [`StoreError::Conflict`].
    /// A key may be written once in a commit.
    fn commit<'a>(&'a self, checks: &'a [Check], writes: &'a [Write]) -> StoreAnswer<'a, u64>;

    /// The revision of the last commit: it changes when anything changes. Gateways poll it once a second. It is an error while etcd has no
    /// quorum or is full, even if reads still work, so the poll also detects a store that can't be changed.
    fn revision(&self) -> StoreAnswer<'_, u64>;

    /// Takes the lease `key` for `owner`, or renews it, for `seconds` from now. The answer is the term: the revision at which this owner took
    /// it; or `None` if another owner has it. While it lasts, `owner` is the value of `key`, so a commit that checks `key` at the term is
    /// made only if nobody else has taken the lease. An owner is one process: its name alone is not enough. Renewing changes no revision.
    fn lease<'a>(
        &'a self,
        key: &'a str,
        owner: &'a str,
        seconds: u32,
    ) -> StoreAnswer<'a, Option<u64>>;
}

impl Check {
    /// The key that it looks at.
    pub fn key(&self) -> &str {
        match self {
            Self::Absent(key) | Self::At(key, _) => key,
        }
    }
}

impl Write {
    /// The key that it changes.
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
