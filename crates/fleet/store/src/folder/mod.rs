//! The store in a folder: SQLite in WAL mode, for the gateways of one machine.
//!
//! A commit is in the write-ahead log, and the log is synced to disk, before it returns (`synchronous = FULL`). Read first: [`place`], which says
//! which folders are accepted, then [`sql`].

mod fault;
mod place;
mod sql;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use self::fault::Fault;
use self::place::Machine;
use self::sql::Moment;
use super::bounds::check_commit;
use super::{Check, Engine, Entry, StoreAnswer, StoreError, Write};

/// The database file in the folder.
const FILE: &str = "store.db";

/// How long a process waits for another one's change. Changes take milliseconds.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// How long polls report a refused change, if no other change is tried. The leading gateway's lease is a change every few seconds.
const REFUSAL_HOLDS: Duration = Duration::from_secs(30);

/// A store in a folder.
#[derive(Clone)]
pub struct FolderStore {
    inner: Arc<Inner>,
}

struct Inner {
    file: PathBuf,
    boot: String,
    connection: Mutex<Connection>,
    /// When and why the last change was refused, if it was.
    refused: Mutex<Option<(Instant, StoreError)>>,
}

impl FolderStore {
    /// Opens the store in `folder`, and creates both if they don't exist. It blocks.
    ///
    /// # Errors
    /// If the folder is not suitable, or its store cannot be used.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let this = Machine::this();
        let before = place::prepare(folder, &this)?;
        let file = folder.join(FILE);
        let failed = |error| {
            StoreError::NotUsable(format!("cannot use the store {}: {error}", file.display()))
        };
        // SQLite would silently turn an empty file into a new store.
        let bytes = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
        if before.is_some() && bytes == 0 {
            return Err(Fault::Damaged("it is empty".to_owned()).told(&file));
        }
        // SQLite copies these permissions to its other files.
        drop(place::private_file(&file).map_err(failed)?);
        let connection = connect(&file, before.is_none()).map_err(|fault| fault.told(&file))?;
        // Only now that the store exists: this note is the evidence that there has been one.
        if before.as_ref() != Some(&this) {
            place::claim(folder, &this).map_err(failed)?;
        }
        let connection = Mutex::new(connection);
        let refused = Mutex::default();
        let boot = this.boot().to_owned();
        Ok(Self { inner: Arc::new(Inner { file, boot, connection, refused }) })
    }

    /// Whether `folder` has a store.
    ///
    /// # Errors
    /// If the folder may not be read.
    pub fn is_in(folder: &Path) -> io::Result<bool> {
        folder.join(FILE).try_exists()
    }

    /// Records whether the disk accepts changes. A full one is still readable, so only a refused change reveals it; the leading gateway renews its
    /// lease every few seconds.
    fn noting<'a, T: Send + 'a>(&'a self, answer: StoreAnswer<'a, T>) -> StoreAnswer<'a, T> {
        Box::pin(async {
            let answer = answer.await;
            let refused = match &answer {
                Err(error @ StoreError::Unavailable(_)) => Some((Instant::now(), error.clone())),
                _ => None,
            };
            *self.inner.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
            answer
        })
    }

    /// Why the last change was refused, if that was recent.
    fn refused(&self) -> Option<StoreError> {
        let refused = self.inner.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = refused.as_ref().filter(|(at, _)| at.elapsed() < REFUSAL_HOLDS);
        recent.map(|(_, error)| error.clone())
    }

    /// Runs `work` on a thread that may block.
    fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&mut Connection, &Moment<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> StoreAnswer<'a, T> {
        let inner = self.inner.clone();
        let work = move || {
            // A panic while the lock was held has rolled back its transaction.
            let mut connection = inner.connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection, &Moment::now(&inner.boot))
                .map_err(|fault| fault.told(&inner.file))
        };
        Box::pin(async {
            let done = tokio::task::spawn_blocking(work).await;
            done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
        })
    }
}

fn connect(file: &Path, may_be_new: bool) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_MAX)?;
    // While two processes switch a new file to WAL mode, SQLite reports one of them as busy immediately, so this retries.
    let started = Instant::now();
    loop {
        let mode = connection.pragma_update(None, "journal_mode", "WAL").map_err(Fault::from);
        match mode {
            Err(fault) if fault.is_busy() && started.elapsed() < BUSY_MAX => {
                std::thread::sleep(Duration::from_millis(10));
            }
            mode => break mode?,
        }
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Deleted data may be a secret.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    sql::prepare(&mut connection, may_be_new)?;
    Ok(connection)
}

impl Engine for FolderStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreAnswer<'a, Option<Entry>> {
        let key = key.to_owned();
        self.run(move |connection, now| sql::get(connection, now, &key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>> {
        let prefix = prefix.to_owned();
        self.run(move |connection, now| sql::list(connection, now, &prefix))
    }

    fn commit<'a>(&'a self, checks: &'a [Check], writes: &'a [Write]) -> StoreAnswer<'a, u64> {
        if let Err(error) = check_commit(checks, writes) {
            return Box::pin(async { Err(error) });
        }
        let (checks, writes) = (checks.to_vec(), writes.to_vec());
        let made = self.run(move |connection, now| sql::commit(connection, now, &checks, &writes));
        let made = self.noting(made);
        Box::pin(async { made.await?.ok_or(StoreError::Conflict) })
    }

    fn revision(&self) -> StoreAnswer<'_, u64> {
        if let Some(refused) = self.refused() {
            return Box::pin(async { Err(refused) });
        }
        self.run(|connection, _| sql::revision(connection))
    }

    fn lease<'a>(
        &'a self,
        key: &'a str,
        owner: &'a str,
        seconds: u32,
    ) -> StoreAnswer<'a, Option<u64>> {
        let (key, owner) = (key.to_owned(), owner.to_owned());
        let leased =
            self.run(move |connection, now| sql::lease(connection, now, &key, &owner, seconds));
        self.noting(leased)
    }
}
