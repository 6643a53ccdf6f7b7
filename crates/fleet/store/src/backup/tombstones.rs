//! Facts that a restore must never undo: revoked nodes and operators, distrusted keys, and withdrawn versions of titles.
//!
//! A node's name is never reused, so a revoked node needs a record even if the backup does not know it: [`RevokedNameRecord`].
//!
//! Tombstones come from the store that is being restored over, if it is still readable, from the gateway's folder, and later from nodes: each keeps
//! the fleet's signed list of revocations and withdrawals.

use std::collections::BTreeMap;

use fleet_protocol::{Digest, FleetTombstones, HeldTitle, Name};

use crate::records::{
    FleetRecord, NodeRecord, OperatorRecord, Revoked, RevokedNameRecord, StoreRecord, TitleRecord,
    TokenKeyRecord, WITHDRAWN_MAX, WithdrawnVersion, load,
};
use crate::{Check, Engine, Entry, StoreError, Write};

/// Attempts at a change when other requests interfere.
const TRIES: u32 = 5;

/// Facts that a restore must never undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tombstones {
    /// The highest epoch seen.
    pub epoch: u64,
    /// Revoked nodes.
    pub revoked: BTreeMap<Name, Revoked>,
    /// Withdrawn versions, by the titles' paths.
    pub withdrawn: BTreeMap<String, Vec<WithdrawnVersion>>,
    /// Revoked operators, by their names. Nodes do not know them.
    pub operators: BTreeMap<String, OperatorRecord>,
    /// Keys of viewers' tokens, by their identifiers. Nodes do not have the private halves.
    pub token_keys: BTreeMap<String, TokenKeyRecord>,
}

impl Tombstones {
    /// The tombstones among a store's entries. Unreadable records are skipped.
    pub fn of_entries(entries: &[(String, Entry)]) -> Self {
        let mut own = Self::default();
        for (key, entry) in entries {
            if let Ok(fleet) = FleetRecord::read(key, &entry.value) {
                own.epoch = fleet.epoch;
            } else if let Ok(node) = NodeRecord::read(key, &entry.value) {
                let name = key[NodeRecord::FOLDER.len()..].parse().ok();
                own.revoked.extend(name.zip(node.revoked));
            } else if let Ok(gone) = RevokedNameRecord::read(key, &entry.value) {
                let name = key[RevokedNameRecord::FOLDER.len()..].parse().ok();
                own.revoked.extend(name.map(|name| (name, gone.revoked)));
            } else if let Ok(operator) = OperatorRecord::read(key, &entry.value) {
                let id = key[OperatorRecord::FOLDER.len()..].to_owned();
                own.operators.extend(operator.revoked.is_some().then_some((id, operator)));
            } else if let Ok(token_key) = TokenKeyRecord::read(key, &entry.value) {
                own.token_keys.insert(key[TokenKeyRecord::FOLDER.len()..].to_owned(), token_key);
            } else if let Ok(title) = TitleRecord::read(key, &entry.value) {
                let path = &key[TitleRecord::FOLDER.len()..];
                for withdrawn in title.withdrawn {
                    own.withdraw(path, withdrawn);
                }
            }
        }
        own
    }

    /// Adds a list that a node gave back. Its signature has been checked: a forged list could revoke any node.
    pub fn add_gone(&mut self, gone: &FleetTombstones, now_unix_seconds: u64) {
        self.epoch = self.epoch.max(gone.epoch);
        for node in &gone.revoked {
            self.revoked.entry(node.clone()).or_insert_with(|| Revoked {
                reason: "revoked before a backup was restored".to_owned(),
                since_unix_seconds: now_unix_seconds,
            });
        }
        self.add_withdrawn(&gone.withdrawn, now_unix_seconds);
    }

    /// Adds titles that a node was instructed to remove.
    pub fn add_withdrawn(&mut self, held: &[HeldTitle], since_unix_seconds: u64) {
        for held in held {
            self.withdraw(
                &held.path,
                WithdrawnVersion { version: held.version, since_unix_seconds },
            );
        }
    }

    fn withdraw(&mut self, path: &str, withdrawn: WithdrawnVersion) {
        let all = self.withdrawn.entry(path.to_owned()).or_default();
        if all.iter().all(|known| known.version != withdrawn.version) {
            all.push(withdrawn);
        }
    }

    /// Merges the tombstones of another source.
    pub(super) fn extend(&mut self, others: &Self) {
        self.epoch = self.epoch.max(others.epoch);
        for (name, revoked) in &others.revoked {
            self.revoked.entry(name.clone()).or_insert_with(|| revoked.clone());
        }
        for (path, versions) in &others.withdrawn {
            versions.iter().for_each(|withdrawn| self.withdraw(path, *withdrawn));
        }
        let operators = others.operators.iter();
        self.operators.extend(operators.map(|(id, operator)| (id.clone(), operator.clone())));
        let keys = others.token_keys.iter();
        self.token_keys.extend(keys.map(|(id, key)| (id.clone(), key.clone())));
    }

    /// The key to restore, from that of a backup made at `made_unix_seconds` (`None` if the backup lacks it) and the known one. A key that was
    /// replaced or distrusted since the backup stays so.
    pub(super) fn token_key(
        &self,
        id: &str,
        of_backup: Option<TokenKeyRecord>,
        made_unix_seconds: u64,
    ) -> Option<TokenKeyRecord> {
        let known = self.token_keys.get(id);
        match (of_backup, known) {
            (Some(mut key), Some(known)) => {
                let ends = [key.trusted_until_unix_seconds, known.trusted_until_unix_seconds];
                key.trusted_until_unix_seconds = ends.into_iter().flatten().min();
                Some(key)
            }
            // A key older than the backup that is not in it had already ended then.
            (None, Some(known)) => {
                (known.made_unix_seconds >= made_unix_seconds).then(|| known.clone())
            }
            (of_backup, None) => of_backup,
        }
    }

    /// Applies what is known of a node to its record.
    pub(super) fn on_node(&self, name: &str, node: &mut NodeRecord) {
        let known = name.parse().ok().and_then(|name: Name| self.revoked.get(&name));
        if node.revoked.is_none() {
            node.revoked = known.cloned();
        }
    }

    /// Applies what is known of a title to its record.
    pub(super) fn on_title(&self, path: &str, title: &mut TitleRecord) {
        for known in self.withdrawn.get(path).into_iter().flatten() {
            if title.withdrawn.iter().all(|withdrawn| withdrawn.version != known.version) {
                title.withdrawn.push(*known);
            }
        }
        // More are possible only if tombstones of many fleets were merged. The record must be written anyway, so the oldest are dropped.
        let excess = title.withdrawn.len().saturating_sub(WITHDRAWN_MAX);
        title.withdrawn.drain(..excess);
        let is_withdrawn = |version: &Digest| {
            title.withdrawn.iter().any(|withdrawn| withdrawn.version == *version)
        };
        if title.published.as_ref().is_some_and(|published| is_withdrawn(&published.version)) {
            title.published = None;
        }
    }
}

/// Writes revocations and withdrawals that nodes knew and the store did not: after a restore, before a gateway steers. Returns how many records
/// changed.
///
/// # Errors
/// Those of the store.
pub async fn bury(engine: &dyn Engine, tombstones: &Tombstones) -> Result<usize, StoreError> {
    let mut changed = 0;
    for (name, revoked) in &tombstones.revoked {
        let on_node = |node: &mut NodeRecord| tombstones.on_node(name.as_str(), node);
        let is_changed = change(engine, name.as_str(), None, on_node).await?
            || bury_name(engine, name, revoked).await?;
        changed += usize::from(is_changed);
    }
    for (id, gone) in &tombstones.operators {
        let on_operator = |operator: &mut OperatorRecord| {
            if operator.revoked.is_none() {
                operator.revoked.clone_from(&gone.revoked);
            }
        };
        let new = OperatorRecord { revoked: None, ..gone.clone() };
        changed += usize::from(change(engine, id, Some(new), on_operator).await?);
    }
    for path in tombstones.withdrawn.keys() {
        let on_title = |title: &mut TitleRecord| tombstones.on_title(path, title);
        let new = Some(TitleRecord::default());
        changed += usize::from(change(engine, path, new, on_title).await?);
    }
    Ok(changed)
}

/// Reserves the name of a revoked node, if the store has neither the node nor the name. Returns whether it added a record.
async fn bury_name(
    engine: &dyn Engine,
    name: &Name,
    revoked: &Revoked,
) -> Result<bool, StoreError> {
    let record = RevokedNameRecord { revoked: revoked.clone() };
    let (node, own) = (NodeRecord::key(name.as_str()), RevokedNameRecord::key(name.as_str()));
    if engine.get(&node).await?.is_some() || engine.get(&own).await?.is_some() {
        return Ok(false);
    }
    // No machine can have joined under this name in the meantime: joining checks that neither exists.
    let checks = [Check::Absent(node), Check::Absent(own)];
    engine.commit(&checks, &[record.put(name.as_str())?]).await?;
    Ok(true)
}

/// Raises the fleet's epoch to at least `epoch`.
///
/// # Errors
/// Those of the store.
pub async fn raise_epoch(engine: &dyn Engine, epoch: u64) -> Result<(), StoreError> {
    let raise = |fleet: &mut FleetRecord| fleet.epoch = fleet.epoch.max(epoch);
    change(engine, "", None, raise).await.map(drop)
}

/// Changes a record, or `new` if there is none. Returns whether anything changed.
async fn change<R: StoreRecord + Clone + PartialEq>(
    engine: &dyn Engine,
    name: &str,
    new: Option<R>,
    to: impl Fn(&mut R),
) -> Result<bool, StoreError> {
    for _ in 0..TRIES {
        let (before, check) = match load::<R>(engine, name).await? {
            Some(stored) => (stored.record, Check::At(R::key(name), stored.revision)),
            None => match new.clone() {
                Some(new) => (new, Check::Absent(R::key(name))),
                None => return Ok(false),
            },
        };
        let mut after = before.clone();
        to(&mut after);
        if after == before {
            return Ok(false);
        }
        let write: Write = after.put(name)?;
        match engine.commit(&[check], &[write]).await {
            Ok(_) => return Ok(true),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Conflict)
}
