//! Reads the gateway's store from outside: what has changed in it, and how often anything was written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::store::{Engine, open};

/// Offset in SQLite's WAL index of the count of transactions that wrote something: `iChange` (<https://sqlite.org/walformat.html>, section
/// 2.1). Renewing a lease counts too, although it changes no revision.
const CHANGES_AT: u64 = 8;

/// A store in a folder.
pub(crate) struct Store {
    engine: Arc<dyn Engine>,
    index: PathBuf,
}

/// Writes to a store so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreWritten {
    /// The store's revision, which rises when a record changes.
    pub(crate) revision: u64,
    /// Transactions that wrote something, including leases.
    pub(crate) transactions: u64,
}

impl Store {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let engine = open(&folder.to_string_lossy()).map_err(io::Error::other)?;
        Ok(Self { engine, index: folder.join("store.db-shm") })
    }

    pub(super) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Reads the writes so far.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn written(&self) -> io::Result<StoreWritten> {
        let revision = self.engine.revision().await.map_err(io::Error::other)?;
        let mut changes = [0; 4];
        File::open(&self.index)?.read_exact_at(&mut changes, CHANGES_AT)?;
        Ok(StoreWritten { revision, transactions: u32::from_ne_bytes(changes).into() })
    }
}

impl StoreWritten {
    /// The writes since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            revision: self.revision - earlier.revision,
            // The counter has 32 bits and may wrap.
            transactions: (self.transactions as u32)
                .wrapping_sub(earlier.transactions as u32)
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::store::Write;

    #[tokio::test]
    async fn every_commit_and_every_lease_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        let put = |key: &str| Write::Put(key.to_owned(), b"{}".to_vec());
        store.engine().commit(&[], &[put("a")]).await.unwrap();
        let before = store.written().await.unwrap();
        store.engine().commit(&[], &[put("b"), put("c")]).await.unwrap();
        store.engine().lease("leader", "somebody", 15).await.unwrap();
        let taken = store.written().await.unwrap().since(before);
        assert_eq!((taken.revision, taken.transactions), (2, 2));
        store.engine().lease("leader", "somebody", 15).await.unwrap();
        store.engine().get("b").await.unwrap();
        let renewed = store.written().await.unwrap().since(before);
        assert_eq!((renewed.revision, renewed.transactions), (2, 3));
    }
}
