//! The tables, and operations on them. Everything here blocks, and runs in one transaction each.
//!
//! Each row of `entries` has a checksum, because SQLite does not notice bytes that a disk has changed. `counter` has one row: the revision of the
//! last commit. `leases` has the end of each lease that an owner in `entries` holds, by CLOCK_BOOTTIME, which stops only with the machine: all
//! gateways of a folder run on one machine, so they share it. Entries with an expired lease are hidden.

use fleet_protocol::Digest;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use rustix::time::{ClockId, clock_gettime};

use super::fault::Fault;
use crate::{Check, Entry, Write};

/// The version of the schema: `PRAGMA user_version`.
const VERSION: i64 = 1;

/// Marks the file as a store of ours in its header: `FBst`.
const APPLICATION: i64 = 0x4642_7374;

const TABLES: &str = "
    CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, sum BLOB NOT NULL) STRICT;
    CREATE TABLE counter (revision INTEGER NOT NULL) STRICT;
    INSERT INTO counter VALUES (0);
    CREATE TABLE leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL, boot TEXT NOT NULL, ends_millis INTEGER NOT NULL) STRICT;
";

/// Entries, without those whose lease has expired: ?1 is the boot, ?2 the time in milliseconds.
const SEEN: &str = "
    SELECT entries.key, entries.value, entries.revision, entries.sum FROM entries LEFT JOIN leases USING (key)
    WHERE (leases.key IS NULL OR (leases.boot = ?1 AND leases.ends_millis > ?2))";

/// The time of a request.
pub(super) struct Moment<'m> {
    /// The kernel's boot.
    pub(super) boot: &'m str,
    /// Time since boot.
    pub(super) millis: i64,
}

impl<'m> Moment<'m> {
    pub(super) fn now(boot: &'m str) -> Self {
        let now = clock_gettime(ClockId::Boottime);
        Self { boot, millis: now.tv_sec * 1000 + now.tv_nsec / 1_000_000 }
    }
}

/// Prepares a connection, and creates the tables if `may_be_new`.
pub(super) fn prepare(connection: &mut Connection, may_be_new: bool) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number =
        |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION, VERSION) => {}
        (APPLICATION, _) => return Err(Fault::Newer),
        (0, 0) if may_be_new && is_empty(&transaction)? => {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        (0, 0) if !may_be_new => return Err(Fault::Damaged("it is empty".to_owned())),
        _ => return Err(Fault::Damaged("it is not a store of Fullbore's".to_owned())),
    }
    transaction.commit()?;
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(Fault::Damaged(found)) }
}

fn is_empty(transaction: &Transaction<'_>) -> Result<bool, Fault> {
    Ok(transaction.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?)
}

fn sum(key: &str, value: &[u8], revision: u64) -> [u8; 32] {
    let head = format!("{revision} {key}\n");
    *Digest::of(&[head.as_bytes(), value].concat()).as_bytes()
}

/// A row of [`SEEN`], if its checksum is right.
fn entry(row: &rusqlite::Row<'_>) -> Result<(String, Entry), Fault> {
    let (key, value): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
    let (revision, kept): (u64, Vec<u8>) = (row.get(2)?, row.get(3)?);
    if kept != sum(&key, &value, revision) {
        return Err(Fault::Damaged(format!("the disk has changed {key:?}")));
    }
    Ok((key, Entry { value, revision }))
}

pub(super) fn get(
    connection: &Connection,
    now: &Moment<'_>,
    key: &str,
) -> Result<Option<Entry>, Fault> {
    let mut statement = connection.prepare_cached(&format!("{SEEN} AND entries.key = ?3"))?;
    let mut rows = statement.query(params![now.boot, now.millis, key])?;
    rows.next()?.map(entry).transpose().map(|found| found.map(|(_, entry)| entry))
}

pub(super) fn list(
    connection: &Connection,
    now: &Moment<'_>,
    prefix: &str,
) -> Result<Vec<(String, Entry)>, Fault> {
    let sorted = format!("{SEEN} AND entries.key >= ?3 ORDER BY entries.key");
    let mut statement = connection.prepare_cached(&sorted)?;
    let mut rows = statement.query(params![now.boot, now.millis, prefix])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (key, entry) = entry(row)?;
        if !key.starts_with(prefix) {
            break;
        }
        found.push((key, entry));
    }
    Ok(found)
}

pub(super) fn revision(connection: &Connection) -> Result<u64, Fault> {
    let revision = connection.query_row("SELECT revision FROM counter", [], |row| row.get(0));
    Ok(revision?)
}

/// Makes all changes, or returns `None` if a check fails.
pub(super) fn commit(
    connection: &mut Connection,
    now: &Moment<'_>,
    checks: &[Check],
    writes: &[Write],
) -> Result<Option<u64>, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for check in checks {
        let found = get(&transaction, now, check.key())?.map(|entry| entry.revision);
        let wanted = match check {
            Check::Absent(_) => None,
            Check::At(_, revision) => Some(*revision),
        };
        if found != wanted {
            return Ok(None);
        }
    }
    let revision = next_revision(&transaction)?;
    for write in writes {
        match write {
            Write::Put(key, value) => put(&transaction, key, value, revision)?,
            Write::Delete(key) => {
                transaction.prepare_cached("DELETE FROM entries WHERE key = ?1")?.execute([key])?;
                transaction.prepare_cached("DELETE FROM leases WHERE key = ?1")?.execute([key])?;
            }
        }
    }
    transaction.commit()?;
    Ok(Some(revision))
}

fn next_revision(transaction: &Transaction<'_>) -> Result<u64, Fault> {
    let next = "UPDATE counter SET revision = revision + 1 RETURNING revision";
    Ok(transaction.query_row(next, [], |row| row.get(0))?)
}

fn put(transaction: &Transaction<'_>, key: &str, value: &[u8], revision: u64) -> Result<(), Fault> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO entries VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO UPDATE SET value = ?2, revision = ?3, sum = ?4",
    )?;
    statement.execute(params![key, value, revision, sum(key, value, revision)])?;
    Ok(())
}

/// Acquires or renews a lease. Returns the term, or `None` if another owner has it.
pub(super) fn lease(
    connection: &mut Connection,
    now: &Moment<'_>,
    key: &str,
    owner: &str,
    seconds: u32,
) -> Result<Option<u64>, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let holder = "SELECT owner FROM leases WHERE key = ?1 AND boot = ?2 AND ends_millis > ?3";
    let holder: Option<String> = transaction
        .query_row(holder, params![key, now.boot, now.millis], |row| row.get(0))
        .optional()?;
    let held = get(&transaction, now, key)?;
    let term = match (holder, held) {
        (Some(holder), Some(_)) if holder != owner => return Ok(None),
        (Some(_), Some(held)) if held.value == owner.as_bytes() => held.revision,
        _ => {
            let revision = next_revision(&transaction)?;
            put(&transaction, key, owner.as_bytes(), revision)?;
            revision
        }
    };
    let ends = now.millis + i64::from(seconds) * 1000;
    let mut statement =
        transaction.prepare_cached("INSERT OR REPLACE INTO leases VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute(params![key, owner, now.boot, ends])?;
    drop(statement);
    transaction.commit()?;
    Ok(Some(term))
}
