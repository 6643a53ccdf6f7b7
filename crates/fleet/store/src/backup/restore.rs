//! Restoring a backup: which data comes from it, which stays, and which never comes back.
//!
//! - Sites, clusters, nodes, titles and the policy come from the backup; those that it lacks are removed.
//! - Revoked nodes and operators stay revoked, and withdrawn versions stay withdrawn ([`Tombstones`]). A node keeps its current certificates.
//! - Secrets, operators and invitations stay as they are, if the store has a fleet: access that was removed since the backup stays removed. Only an
//!   empty store gets them from the backup, except for unused invitations. Keys of viewers' tokens that a gateway's folder records as replaced or
//!   distrusted since then stay so.
//! - The audit logs are merged.
//! - Documents that no title needs afterwards are marked as unused, and removed like others (`store/forgetting`).
//! - The epoch rises above every epoch seen so far, so nodes accept the snapshots that follow, and reject all earlier ones.
//!
//! A restore may be interrupted at any point and run again: until it has completed, gateways refuse to start on the store ([`check_restored`]).

use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;

use super::documents;
use super::file::{self, BackupError, Head, Item};
use super::tombstones::Tombstones;
use crate::records::{
    AuditRecord, FleetRecord, InviteRecord, NodeRecord, OperatorRecord, RestoredBackup,
    RevokedNameRecord, StoreRecord, TitleRecord, TokenKeyRecord, UnusedRecord, check_known_whole,
};
use crate::{
    COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, Check, Engine, Entry, LEADER, Objects, StoreError,
    Write,
};

/// This key is in the store while a restore is under way.
const RESTORING: &str = "restoring";

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The fleet's new epoch.
    pub epoch: u64,
    /// Entries that the store has now.
    pub entries: usize,
    /// Objects that were written.
    pub objects: usize,
    /// When the backup was made, since 1970.
    pub made_unix_seconds: u64,
}

/// Checks that no restore is under way. Gateways call this before they use a store.
///
/// # Errors
/// Those of the store, and an incomplete restore.
pub async fn check_restored(engine: &dyn Engine) -> Result<(), StoreError> {
    match engine.get(RESTORING).await? {
        None => Ok(()),
        Some(_) => Err(StoreError::NotUsable(
            "a backup is being restored into this store, or its restore was cut off: run fullbore control restore again".to_owned(),
        )),
    }
}

/// Checks that `from` is a complete backup.
///
/// # Errors
/// If it is not.
pub fn check(from: &Path) -> Result<(), BackupError> {
    file::read(from, |_| Ok(())).map(drop)
}

/// Restores `from`, which [`back_up`](super::back_up) made. No gateway may be running. `known` has revocations and withdrawals that nodes and
/// others know of, in addition to the store's own.
///
/// # Errors
/// If the file is incomplete (then nothing was changed), or the store or the objects cannot be written (then run it again).
pub async fn restore(
    engine: &dyn Engine,
    objects: &Objects,
    from: &Path,
    known: &Tombstones,
    now_unix_seconds: u64,
) -> Result<Restored, BackupError> {
    let mut entries = BTreeMap::new();
    let mut objects_in_file = 0;
    let head = file::read(from, |item| {
        match item {
            Item::Entry(key, value) => drop(entries.insert(key, value)),
            Item::Object(_) => objects_in_file += 1,
        }
        Ok(())
    })?;
    if engine.get(LEADER).await?.is_some() {
        return Err(StoreError::NotUsable(
            "a gateway runs on this store: stop all gateways, wait 15 seconds, then restore"
                .to_owned(),
        )
        .into());
    }
    let now = engine.list("").await?;
    let plan = Plan {
        head: &head,
        now_unix_seconds,
        known,
        is_empty: now.iter().all(|(key, _)| key != FleetRecord::FOLDER),
    };
    let wanted = plan.wanted(entries, &now)?;
    write_objects(objects, from).await?;
    let epoch = change(engine, &now, &wanted).await?;
    Ok(Restored {
        epoch,
        entries: wanted.len(),
        objects: objects_in_file,
        made_unix_seconds: head.made_unix_seconds,
    })
}

/// Writes the objects, before any title refers to them.
async fn write_objects(objects: &Objects, from: &Path) -> Result<(), BackupError> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(4);
    let from = from.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        file::read(&from, |item| {
            if let Item::Object(bytes) = item {
                // The receiver is gone only after a failed write, which reports its own error.
                let _ = sender.blocking_send(Bytes::from(bytes));
            }
            Ok(())
        })
    });
    while let Some(bytes) = receiver.recv().await {
        objects.put(bytes).await?;
    }
    match reading.await {
        Ok(read) => read.map(|_| ()),
        Err(error) => Err(BackupError::File(error.to_string())),
    }
}

struct Plan<'p> {
    head: &'p Head,
    now_unix_seconds: u64,
    known: &'p Tombstones,
    /// The store has no fleet.
    is_empty: bool,
}

impl Plan<'_> {
    /// The contents that the store should have.
    fn wanted(
        &self,
        backup: BTreeMap<String, Vec<u8>>,
        now: &[(String, Entry)],
    ) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
        let mut tombstones = Tombstones::of_entries(now);
        tombstones.extend(self.known);
        tombstones.epoch = tombstones.epoch.max(self.head.epoch);
        let old: BTreeMap<_, _> =
            now.iter().map(|(key, entry)| (key.as_str(), &entry.value)).collect();
        let mut wanted = BTreeMap::new();
        for (key, value) in backup {
            let value =
                self.out_of_backup(&key, value, old.get(key.as_str()).copied(), &tombstones)?;
            wanted.extend(value.map(|value| (key, value)));
        }
        for (key, entry) in now {
            if let Some(value) = self.out_of_store(key, &entry.value, wanted.contains_key(key))? {
                wanted.insert(key.clone(), value);
            }
        }
        bury_in(&mut wanted, &tombstones)?;
        if self.is_empty {
            self.put_token_keys(&mut wanted, &tombstones)?;
        }
        self.mark_unused(now, &mut wanted)?;
        let who = AuditRecord {
            who: "restore".to_owned(),
            what: "restore".to_owned(),
            subject: FleetRecord::FOLDER.to_owned(),
            detail: format!("a backup made at {} (Unix time)", self.head.made_unix_seconds),
            unix_millis: self.now_unix_seconds * 1000,
        };
        let name = AuditRecord::name(who.unix_millis, fastrand::u64(..));
        wanted.insert(AuditRecord::key(&name), bytes(who.put(&name)?));
        Ok(wanted)
    }

    /// Merges keys of viewers' tokens: a gateway's folder may know newer ones than the backup.
    fn put_token_keys(
        &self,
        wanted: &mut BTreeMap<String, Vec<u8>>,
        tombstones: &Tombstones,
    ) -> Result<(), StoreError> {
        for id in tombstones.token_keys.keys() {
            let key = TokenKeyRecord::key(id);
            let of_backup = wanted.get(&key).map(|value| TokenKeyRecord::read(&key, value));
            let made = self.head.made_unix_seconds;
            let known = tombstones.token_key(id, of_backup.transpose()?, made);
            if let Some(record) = known {
                wanted.insert(key, bytes(record.put(id)?));
            }
        }
        Ok(())
    }

    /// Marks the documents of current titles that no title needs after the restore.
    fn mark_unused(
        &self,
        now: &[(String, Entry)],
        wanted: &mut BTreeMap<String, Vec<u8>>,
    ) -> Result<(), StoreError> {
        let needed: BTreeSet<_> =
            wanted.iter().flat_map(|(key, value)| documents(key, value)).collect();
        let old = now.iter().flat_map(|(key, entry)| documents(key, &entry.value));
        for digest in old.filter(|digest| !needed.contains(digest)) {
            let name = digest.to_string();
            let since_unix_seconds = self.now_unix_seconds;
            let mark = UnusedRecord { since_unix_seconds, is_going: false };
            wanted.entry(UnusedRecord::key(&name)).or_insert(bytes(mark.put(&name)?));
        }
        Ok(())
    }

    /// The new value for an entry of the backup; `None` drops it. `old` is the store's present value of this key.
    fn out_of_backup(
        &self,
        key: &str,
        value: Vec<u8>,
        old: Option<&Vec<u8>>,
        tombstones: &Tombstones,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if is_access(key) {
            let is_open_invite =
                InviteRecord::read(key, &value).is_ok_and(|invite| invite.used.is_none());
            return Ok((self.is_empty && !is_open_invite).then_some(value));
        }
        if key == FleetRecord::FOLDER {
            return self.fleet(key, &value, old, tombstones.epoch + 1).map(Some);
        }
        if let Some(name) = key.strip_prefix(NodeRecord::FOLDER) {
            let mut node: NodeRecord = read_whole(key, &value)?;
            tombstones.on_node(name, &mut node);
            if let Some(old) = old.and_then(|old| NodeRecord::read(key, old).ok()) {
                node.serials = old.serials;
            }
            return Ok(Some(bytes(node.put(name)?)));
        }
        if let Some(path) = key.strip_prefix(TitleRecord::FOLDER) {
            let mut title: TitleRecord = read_whole(key, &value)?;
            tombstones.on_title(path, &mut title);
            return Ok(Some(bytes(title.put(path)?)));
        }
        Ok(Some(value))
    }

    fn fleet(
        &self,
        key: &str,
        value: &[u8],
        old: Option<&Vec<u8>>,
        epoch: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let mut fleet: FleetRecord = read_whole(key, value)?;
        let old = old.map(|old| FleetRecord::read(key, old)).transpose()?;
        if let Some(old) = old.filter(|old| old.name != fleet.name) {
            return Err(StoreError::NotUsable(format!(
                "the backup is of the fleet {}, and the store is of the fleet {}",
                fleet.name, old.name
            )));
        }
        fleet.epoch = epoch;
        fleet.restored = Some(RestoredBackup {
            made_unix_seconds: self.head.made_unix_seconds,
            restored_unix_seconds: self.now_unix_seconds,
            read_back: false,
        });
        Ok(bytes(fleet.put("")?))
    }

    /// The new value for an entry of the store that the backup does not have or does not replace; `None` drops it.
    fn out_of_store(
        &self,
        key: &str,
        value: &[u8],
        is_in_backup: bool,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let is_either = [AuditRecord::FOLDER, UnusedRecord::FOLDER, RevokedNameRecord::FOLDER]
            .iter()
            .any(|folder| key.starts_with(folder));
        let is_kept = is_either || (is_access(key) && !self.is_empty);
        if is_kept {
            return Ok(Some(value.to_vec()));
        }
        let is_revoked = || NodeRecord::read(key, value).is_ok_and(|node| node.revoked.is_some());
        Ok((!is_in_backup && is_revoked()).then(|| value.to_vec()))
    }
}

/// Adds tombstones for nodes, operators and titles that the backup lacks.
fn bury_in(
    wanted: &mut BTreeMap<String, Vec<u8>>,
    tombstones: &Tombstones,
) -> Result<(), StoreError> {
    for path in tombstones.withdrawn.keys() {
        if let Place::Vacant(missing) = wanted.entry(TitleRecord::key(path)) {
            let mut title = TitleRecord::default();
            tombstones.on_title(path, &mut title);
            missing.insert(bytes(title.put(path)?));
        }
    }
    for (name, revoked) in &tombstones.revoked {
        let name = name.as_str();
        if !wanted.contains_key(&NodeRecord::key(name)) {
            let record = RevokedNameRecord { revoked: revoked.clone() };
            wanted.insert(RevokedNameRecord::key(name), bytes(record.put(name)?));
        }
    }
    // They never come back, so their revocation holds whatever the backup says.
    for (id, operator) in &tombstones.operators {
        wanted.insert(OperatorRecord::key(id), bytes(operator.put(id)?));
    }
    Ok(())
}

/// Whether a record grants access.
fn is_access(key: &str) -> bool {
    ["secret/", OperatorRecord::FOLDER, InviteRecord::FOLDER]
        .iter()
        .any(|folder| key.starts_with(folder))
}

/// Decodes a record of the backup in order to change it: no field may be lost.
fn read_whole<R: StoreRecord>(key: &str, value: &[u8]) -> Result<R, StoreError> {
    let record = R::read(key, value)?;
    check_known_whole(key, value, &record)?;
    Ok(record)
}

fn bytes(write: Write) -> Vec<u8> {
    match write {
        Write::Put(_, value) => value,
        Write::Delete(_) => Vec::new(),
    }
}

/// Writes the difference between the present and the wanted contents, in commits of a permitted size. Returns the epoch.
async fn change(
    engine: &dyn Engine,
    now: &[(String, Entry)],
    wanted: &BTreeMap<String, Vec<u8>>,
) -> Result<u64, BackupError> {
    let no_leader = [Check::Absent(LEADER.to_owned())];
    let fleet = wanted.get(FleetRecord::FOLDER).cloned().unwrap_or_default();
    let epoch = FleetRecord::read(FleetRecord::FOLDER, &fleet).map_err(StoreError::from)?.epoch;
    // The epoch comes first: from here on, nodes reject every earlier snapshot.
    let first = [
        Write::Put(FleetRecord::FOLDER.to_owned(), fleet),
        Write::Put(RESTORING.to_owned(), b"{\"version\":1}".to_vec()),
    ];
    engine.commit(&no_leader, &first).await?;
    let old: BTreeMap<_, _> = now.iter().map(|(key, entry)| (key.as_str(), &entry.value)).collect();
    let puts = wanted
        .iter()
        .filter(|(key, value)| old.get(key.as_str()) != Some(value) && *key != FleetRecord::FOLDER)
        .map(|(key, value)| Write::Put(key.clone(), value.clone()));
    let kept: BTreeSet<_> = wanted.keys().map(String::as_str).chain([RESTORING, LEADER]).collect();
    let deletes = old.keys().filter(|key| !kept.contains(**key));
    let deletes = deletes.map(|key| Write::Delete((*key).to_owned()));
    let (mut batch, mut size) = (Vec::new(), 0);
    for write in puts.chain(deletes) {
        let bytes = write.bytes();
        if batch.len() == COMMIT_OPERATIONS_MAX || size + bytes > COMMIT_BYTES_MAX {
            engine.commit(&no_leader, &std::mem::take(&mut batch)).await?;
            size = 0;
        }
        size += bytes;
        batch.push(write);
    }
    engine.commit(&no_leader, &batch).await?;
    engine.commit(&no_leader, &[Write::Delete(RESTORING.to_owned())]).await?;
    Ok(epoch)
}
